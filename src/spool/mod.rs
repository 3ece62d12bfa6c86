//! Files of this process that are too large for memory: bodies of requests, and what workflows download.
//!
//! A file lives as long as anything holds its [`SpoolFile`]; the last holder deletes it. Files of an earlier process are deleted
//! when the spool is opened. All files together have a limit.
#![allow(dead_code, reason = "the next commits use it")]

use std::sync::Arc;

/// A complete file.
#[derive(Clone, Debug)]
pub(crate) struct SpoolFile(Arc<Held>);

#[derive(Debug)]
struct Held {
    length: u64,
}

impl SpoolFile {
    /// Its bytes.
    pub(crate) fn length(&self) -> u64 {
        self.0.length
    }
}
