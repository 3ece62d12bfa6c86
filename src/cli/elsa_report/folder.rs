//! Exports in files: a file, or all in a folder, also in zip archives.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::progress::ProgressLine;
use super::read_definition::{ReadDefinition, ReportBudget, too_large};
use crate::api::MAX_BODY;
use crate::api::files::zip::{self, Archive, ZipError};
use crate::harness::failure::Failure;

/// The deepest folder that is read.
const MOST_LEVELS: usize = 64;

/// The most files of one archive, and the most bytes of it, packed and unpacked.
const MOST_ENTRIES: usize = 10_000;
const MOST_PACKED: usize = 64 << 20;
const MOST_UNPACKED: usize = 256 << 20;

/// A file that may have definitions, or what cannot be opened.
struct FoundFile {
    path: PathBuf,
    problem: Option<String>,
}

/// Reads a file, or all `.json` and `.zip` files of a folder in the order of their paths. Folders behind symbolic links are
/// left out. Errors: wrong usage if there is nothing to read.
pub(super) fn read(
    path: &Path,
    budget: &mut ReportBudget,
    progress: &mut ProgressLine,
) -> Result<Vec<ReadDefinition>, Failure> {
    let shown = path.display();
    let kind = fs::metadata(path).map_err(|error| {
        Failure::usage(format!(
            "{shown} cannot be read: {error}; give a folder, a file or a URL such as http://host:5001/elsa/api"
        ))
    })?;
    let mut found = Vec::new();
    if kind.is_dir() {
        walk(path, 0, &mut found).map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
        if found.is_empty() {
            return Err(Failure::usage(format!("{shown} has no .json or .zip file")));
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
    } else {
        found.push(FoundFile {
            path: path.to_owned(),
            problem: None,
        });
    }
    let mut all = Vec::with_capacity(found.len());
    let count = found.len();
    for (at, file) in found.into_iter().enumerate() {
        progress.show("read", at, count);
        read_file(file, budget, &mut all);
    }
    Ok(all)
}

/// Adds the files of a folder. An inner folder that cannot be read is one of them.
fn walk(folder: &Path, level: usize, found: &mut Vec<FoundFile>) -> io::Result<()> {
    if level > MOST_LEVELS {
        return Err(io::Error::other(format!("folders are read {MOST_LEVELS} levels deep")));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // This does not follow links, so no folder is read twice.
        if entry.file_type()?.is_dir() {
            if let Err(error) = walk(&path, level + 1, found) {
                found.push(FoundFile {
                    path,
                    problem: Some(format!("the folder cannot be read: {error}")),
                });
            }
        } else if has_extension(&path, "json") || has_extension(&path, "zip") {
            found.push(FoundFile { path, problem: None });
        }
    }
    Ok(())
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn read_file(file: FoundFile, budget: &mut ReportBudget, all: &mut Vec<ReadDefinition>) {
    let source = file.path.display().to_string();
    if let Some(problem) = file.problem {
        all.push(ReadDefinition::unreadable(source, problem));
        return;
    }
    match bytes_of(&file.path) {
        Err(problem) => all.push(ReadDefinition::unreadable(source, problem)),
        Ok(bytes) if zip::is_zip(&bytes) => read_archive(&source, &bytes, budget, all),
        Ok(bytes) => all.push(ReadDefinition::within(budget, source, &bytes)),
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("it cannot be read: {error}");
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let most = if has_extension(path, "zip") {
        MOST_PACKED
    } else {
        MAX_BODY
    };
    let file = File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() > most {
        true if most == MAX_BODY => Err(too_large()),
        true => Err(format!(
            "the archive has more than {MOST_PACKED} bytes; make several of it"
        )),
        false => Ok(bytes),
    }
}

fn read_archive(source: &str, bytes: &[u8], budget: &mut ReportBudget, all: &mut Vec<ReadDefinition>) {
    let archive = match Archive::read(bytes, MOST_ENTRIES) {
        Ok(archive) => archive,
        Err(error) => {
            all.push(ReadDefinition::unreadable(source.to_owned(), refused(error)));
            return;
        }
    };
    let mut entries: Vec<_> = archive.entries.iter().collect();
    entries.retain(|entry| has_extension(Path::new(&entry.name), "json"));
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    if entries.is_empty() {
        let problem = "the archive has no .json file";
        all.push(ReadDefinition::unreadable(source.to_owned(), problem));
    }
    let mut unpacked = 0;
    for entry in entries {
        let name = format!("{source}/{}", entry.name);
        let room = MOST_UNPACKED.saturating_sub(unpacked).min(MAX_BODY);
        all.push(match archive.unpack(entry, room, &|| false) {
            Ok(content) => {
                unpacked += content.len();
                ReadDefinition::within(budget, name, &content)
            }
            Err(error) => {
                // It may have been unpacked to its end before it was found to be damaged.
                unpacked += room;
                ReadDefinition::unreadable(name, refused(error))
            }
        });
    }
}

fn refused(error: ZipError) -> String {
    match error {
        ZipError::Damaged | ZipError::Stopped => "the zip archive is damaged; pack it again".to_owned(),
        ZipError::Overlapping => "files of the zip archive share bytes of it; pack it again".to_owned(),
        ZipError::Unsupported => {
            "a zip archive must be in one part, without encryption, and stored or deflated; unpack it".to_owned()
        }
        ZipError::TooManyEntries => format!("a zip archive has at most {MOST_ENTRIES} files; make several of it"),
        ZipError::TooLarge => format!(
            "a file has at most {MAX_BODY} bytes, and those of an archive together {MOST_UNPACKED}; make several of it"
        ),
    }
}
