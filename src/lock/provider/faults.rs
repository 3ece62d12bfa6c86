//! Why the files of locks cannot be opened: for requests, readiness, the log and the metric.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lock::key::LockKey;
use crate::lock::request::LockMode;
use crate::{Error, Result};

/// Why a file could not be opened.
pub(super) struct FileFault {
    message: String,
    /// The lock whose file it is; `None` if no file can be opened.
    key: Option<LockKey>,
}

impl FileFault {
    pub(super) fn of_directory(message: String) -> Self {
        Self { message, key: None }
    }

    pub(super) fn of_file(key: LockKey, message: String) -> Self {
        Self {
            message,
            key: Some(key),
        }
    }

    fn error(&self) -> Error {
        Error::unavailable("lock-directory", self.message.clone())
    }
}

/// What cannot be opened now.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<FileFault>>);

impl Faults {
    fn all(&self) -> MutexGuard<'_, Vec<FileFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_any(&self) -> bool {
        !self.all().is_empty()
    }

    /// The first of them, one of the directory before those of single files.
    pub(super) fn error(&self) -> Option<Error> {
        let all = self.all();
        of_directory(&all).or(all.first()).map(FileFault::error)
    }

    /// Why one of these locks cannot be taken.
    pub(super) fn error_of(&self, keys: &[(LockKey, LockMode)]) -> Option<Error> {
        let all = self.all();
        let of_key = |fault: &&FileFault| fault.key.is_some_and(|key| keys.iter().any(|(asked, _)| *asked == key));
        of_directory(&all).or(all.iter().find(of_key)).map(FileFault::error)
    }

    /// An error while no file can be opened.
    pub(super) fn check(&self) -> Result<()> {
        of_directory(&self.all()).map_or(Ok(()), |fault| Err(fault.error()))
    }

    /// These came up.
    pub(super) fn note(&self, faults: Vec<FileFault>) {
        let Some(first) = faults.first() else { return };
        metrics::counter!("mainspring_lock_server_failures_total").increment(faults.len() as u64);
        let mut all = self.all();
        if all.is_empty() {
            tracing::warn!(error = %first.message, "locks of files cannot be taken; they are retried, and whatever \
                                                    needs one waits");
            metrics::gauge!("mainspring_lock_server_away").set(1.0);
        }
        all.retain(|fault| fault.key.is_some() || first.key.is_some());
        all.extend(faults);
    }

    /// These are left.
    pub(super) fn replace(&self, faults: Vec<FileFault>) {
        let mut all = self.all();
        if faults.is_empty() && !all.is_empty() {
            tracing::info!("locks of files can be taken again");
            metrics::gauge!("mainspring_lock_server_away").set(0.0);
        }
        *all = faults;
    }
}

fn of_directory(all: &[FileFault]) -> Option<&FileFault> {
    all.iter().find(|fault| fault.key.is_none())
}
