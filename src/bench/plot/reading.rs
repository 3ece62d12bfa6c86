//! Reads runs from files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::panel;
use crate::harness::failure::Failure;

/// The limit of all files together; a run prints a few kilobytes.
const MAX_BYTES: usize = 16 << 20;

/// The prefixes of the lines that describe machine and server.
const ENVIRONMENT: [&str; 2] = ["machine: ", "server: "];

/// One result.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The name of its file, without folder and extension.
    pub(super) name: String,
    /// The lines of machine and server before it in the file.
    pub(super) environment: Vec<String>,
    pub(super) outcome: Map<String, Value>,
}

/// Reads all results in the files, in order.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    let mut left = MAX_BYTES;
    for file in files {
        let failed = |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", file.display()));
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(left as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| failed(&error))?;
        left = left
            .checked_sub(bytes.len())
            .ok_or_else(|| failed(&format!("the files are larger than {} MiB", MAX_BYTES >> 20)))?;
        let found = parse(&name(file), &String::from_utf8_lossy(&bytes));
        if found.is_empty() {
            return Err(failed(
                &"it contains no result of a benchmark; run `mainspring bench … --json > FILE`",
            ));
        }
        runs.extend(found);
    }
    Ok(runs)
}

fn name(file: &Path) -> String {
    file.file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Finds the results in a text, among other lines.
pub(super) fn parse(name: &str, text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut environment: [Option<&str>; 2] = [None, None];
    for line in text.lines() {
        let line = line.trim_start_matches('\u{feff}').trim();
        for (slot, begin) in environment.iter_mut().zip(ENVIRONMENT) {
            if line.starts_with(begin) {
                *slot = Some(line);
            }
        }
        if !line.starts_with('{') {
            continue;
        }
        let Ok(Value::Object(outcome)) = serde_json::from_str(line) else {
            continue;
        };
        if outcome.get("bench").is_some_and(Value::is_string) && panel::has_figures(&outcome) {
            runs.push(Run {
                name: name.to_owned(),
                environment: environment.iter().flatten().map(|line| (*line).to_owned()).collect(),
                outcome,
            });
        }
    }
    runs
}
