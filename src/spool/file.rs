//! A complete file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Opened;
use super::room::SpoolPlace;

/// A complete file. Its last holder deletes it.
#[derive(Clone)]
pub(crate) struct SpoolFile(pub(super) Arc<Stored>);

impl fmt::Debug for SpoolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolFile")
            .field("id", &self.0.name.id)
            .field("length", &self.0.length)
            .finish()
    }
}

/// A file in the folder, and its deletion.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: FileName,
    pub(super) length: u64,
}

impl SpoolFile {
    /// Its name in this process, by which the spool finds it.
    pub(crate) fn id(&self) -> &str {
        &self.0.name.id
    }

    /// Its bytes.
    pub(crate) fn length(&self) -> u64 {
        self.0.length
    }

    /// Where it is, as long as it is held.
    pub(crate) fn path(&self) -> &Path {
        &self.0.name.path
    }

    /// Reads all of its bytes.
    pub(crate) async fn read(&self) -> std::io::Result<Vec<u8>> {
        tokio::fs::read(self.path()).await
    }

    /// Opens it for reading, from its begin. What has been opened can be read to its end, also after the deletion.
    pub(crate) async fn open(&self) -> std::io::Result<tokio::fs::File> {
        tokio::fs::File::open(self.path()).await
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if let Some(opened) = &self.name.opened {
            opened.files().remove(&self.name.id);
        }
    }
}

/// The name of a file that exists; dropping it deletes the file and gives its place back.
#[derive(Debug)]
pub(super) struct FileName {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// Taken by the deletion, as is the place: they outlive the file.
    pub(super) opened: Option<Arc<Opened>>,
    pub(super) place: Option<SpoolPlace>,
}

impl Drop for FileName {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        let held = (self.opened.take(), self.place.take());
        let delete = move || {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot delete a file of the spool");
            }
            drop(held);
        };
        // The deletion of a large file takes longer than other tasks of this thread should wait.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }
}
