//! The JSON files that a client sends, directly or in zip archives.
//!
//! Unpacked data is bounded whatever an archive declares, and parsed data shares the memory of all bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::Value;

use super::files::zip::{self, Archive, ZipError};
use crate::compute;
use crate::http::{ApiError, BodyLimits, MAX_BODY, ParsedJson, UploadedFile, UploadedFiles, last_segment};

/// The most files in one archive.
const MOST_FILES: usize = 1_000;

/// The most bytes that are unpacked for one request.
const MOST_UNPACKED: usize = 64 << 20;

/// How long the files of one request are read: a hundred times as long as the largest that may be sent take.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Files that were sent.
pub(super) struct ReadFiles {
    /// Those that are wanted, each under its name.
    pub(super) wanted: Vec<(String, ParsedJson)>,
    /// The names of the others.
    pub(super) dropped: Vec<String>,
}

/// Reads the files that `is_wanted` by their content, at most `most`, each under its name. A dropped future stops the reading.
pub(super) async fn read(
    limits: &Arc<BodyLimits>,
    uploaded: UploadedFiles,
    most: usize,
    is_wanted: fn(&Value) -> bool,
) -> Result<ReadFiles, ApiError> {
    let stop = StopOnDrop(Arc::default());
    let (limits, is_stopped) = (Arc::clone(limits), Arc::clone(&stop.0));
    let reading = compute::run(true, move || {
        let mut reading = Reading {
            limits: &limits,
            most,
            is_wanted,
            read: ReadFiles {
                wanted: Vec::new(),
                dropped: Vec::new(),
            },
            unpacked: 0,
            is_stopped: &is_stopped,
            ends: Instant::now() + MOST_TIME,
        };
        uploaded.files.iter().try_for_each(|file| reading.file(file))?;
        Ok(reading.read)
    });
    reading.await?
}

/// Stops the reading of files whose request has ended, as when its client disconnects or the server does not wait for it.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Reading<'a> {
    limits: &'a BodyLimits,
    most: usize,
    is_wanted: fn(&Value) -> bool,
    read: ReadFiles,
    unpacked: usize,
    is_stopped: &'a AtomicBool,
    ends: Instant,
}

impl Reading<'_> {
    fn file(&mut self, file: &UploadedFile) -> Result<(), ApiError> {
        if zip::is_zip(&file.content) {
            return self.archive(file);
        }
        if file.is_json || has_json_name(&file.name) {
            return self.json(file.name.clone(), &file.content);
        }
        Err(invalid_file("A file must be JSON or a zip archive of JSON.").of_file(&file.name))
    }

    fn archive(&mut self, file: &UploadedFile) -> Result<(), ApiError> {
        let archive = Archive::read(&file.content, MOST_FILES).map_err(|error| refused(error).of_file(&file.name))?;
        for entry in archive.entries.iter().filter(|entry| has_json_name(&entry.name)) {
            let name = format!("{}/{}", file.name, last_segment(&entry.name));
            let room = MOST_UNPACKED.saturating_sub(self.unpacked).min(MAX_BODY);
            let is_stopped = || self.is_stopped.load(Ordering::Relaxed) || Instant::now() > self.ends;
            let content = archive.unpack(entry, room, &is_stopped);
            let content = content.map_err(|error| refused(error).of_file(&name))?;
            self.unpacked += content.len();
            self.json(name, &content)?;
        }
        Ok(())
    }

    fn json(&mut self, name: String, text: &[u8]) -> Result<(), ApiError> {
        if self.is_stopped.load(Ordering::Relaxed) || Instant::now() > self.ends {
            return Err(refused(ZipError::Stopped).of_file(&name));
        }
        let parsed = self.limits.parse("The file", text);
        let parsed = parsed.map_err(|error| error.of_file(&name))?;
        if !parsed.value.as_ref().is_some_and(self.is_wanted) {
            if self.read.dropped.len() == MOST_FILES {
                return Err(too_large(format!(
                    "An import has at most {MOST_FILES} files that are no workflow definitions."
                )));
            }
            self.read.dropped.push(name);
            return Ok(());
        }
        if self.read.wanted.len() == self.most {
            return Err(too_large(format!("An import has at most {} files.", self.most)));
        }
        self.read.wanted.push((name, parsed));
        Ok(())
    }
}

fn has_json_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn refused(error: ZipError) -> ApiError {
    match error {
        ZipError::Damaged => invalid_file("The zip archive is damaged."),
        ZipError::Overlapping => invalid_file("Files of the zip archive share bytes of it; pack it again."),
        ZipError::Stopped => too_large(format!(
            "The files take longer than {} s to read; send fewer at once.",
            MOST_TIME.as_secs()
        )),
        ZipError::Unsupported => {
            invalid_file("A zip archive must be in one part, without encryption, and stored or deflated.")
        }
        ZipError::TooManyEntries => too_large(format!("A zip archive has at most {MOST_FILES} files.")),
        ZipError::TooLarge => too_large(format!(
            "A file has at most {MAX_BODY} bytes, and those of all archives together {MOST_UNPACKED}."
        )),
    }
}

fn invalid_file(message: &str) -> ApiError {
    ApiError::bad_request("invalid-file", message)
}

fn too_large(message: String) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::files::zip::empty_blocks;

    /// Each of the places for long work is free again soon after no request waits for the files.
    #[tokio::test]
    async fn a_request_that_ends_stops_the_reading_of_its_files() {
        let limits = Arc::new(BodyLimits::new(Duration::from_secs(60), 64));
        for _ in 0..compute::half_of_processors() {
            let uploaded = UploadedFiles::of("long.zip", empty_blocks(10 << 20, 1));
            let reading = read(&limits, uploaded, 10, |_| true);
            assert!(tokio::time::timeout(Duration::from_millis(100), reading).await.is_err());
        }
        let after = compute::run(true, || 7);
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(10), after)
                .await
                .unwrap()
                .unwrap(),
            7
        );
    }
}
