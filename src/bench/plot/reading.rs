//! Runs out of files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::panel;
use crate::harness::failure::Failure;

/// Of all files together: what a run prints is a few kilobytes.
const MOST_BYTES: usize = 16 << 20;

/// The lines that a benchmark prints before its outcome, of where it was measured.
const SURROUNDINGS: [&str; 2] = ["machine: ", "server: "];

/// One outcome.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// What its file is called, without folder and ending.
    pub(super) name: String,
    /// The machine and the server, as far as the file tells.
    pub(super) surroundings: Vec<String>,
    pub(super) outcome: Map<String, Value>,
}

/// All outcomes in the files, in their order.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    let mut left = MOST_BYTES;
    for file in files {
        let told = |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", file.display()));
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(left as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| told(&error))?;
        left = left
            .checked_sub(bytes.len())
            .ok_or_else(|| told(&format!("the files hold more than {} MiB", MOST_BYTES >> 20)))?;
        let found = parse(&name(file), &String::from_utf8_lossy(&bytes));
        if found.is_empty() {
            return Err(told(
                &"there is no outcome of a benchmark in it; run `mainspring bench … --json > FILE`",
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

/// The outcomes in a text, whatever stands around them.
pub(super) fn parse(name: &str, text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut surroundings: [Option<&str>; 2] = [None, None];
    for line in text.lines() {
        let line = line.trim_start_matches('\u{feff}').trim();
        for (slot, begin) in surroundings.iter_mut().zip(SURROUNDINGS) {
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
                surroundings: surroundings.iter().flatten().map(|line| (*line).to_owned()).collect(),
                outcome,
            });
        }
    }
    runs
}
