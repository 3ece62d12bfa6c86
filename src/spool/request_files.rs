//! Files that several hold until one gives them up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::SpoolFile;

/// Files that all clones hold, until one releases them: a request waits on when the burst that has read its files is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFiles(Arc<Mutex<Vec<SpoolFile>>>);

impl RequestFiles {
    /// Holds these files.
    pub(crate) fn new(files: Vec<SpoolFile>) -> Self {
        Self(Arc::new(Mutex::new(files)))
    }

    /// The files that are still held.
    pub(crate) fn all(&self) -> Vec<SpoolFile> {
        self.files().clone()
    }

    /// Whether none is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    /// Gives the files up, for all clones. Each is deleted unless something else has it.
    pub(crate) fn release(&self) {
        // Dropped without the lock.
        let released = std::mem::take(&mut *self.files());
        drop(released);
    }

    fn files(&self) -> MutexGuard<'_, Vec<SpoolFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
