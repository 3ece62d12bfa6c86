//! Files of this process that are too large for memory: bodies of requests, and what workflows download.
//!
//! A file lives as long as anything holds its [`SpoolFile`]; the last holder deletes it. All files together have a limit, and those
//! of strangers, clients without the key of this server, a smaller one.
//! Each process has a folder of its own under the directory, and a locked file that says that it lives: what a dead process
//! has left is deleted when another one opens the directory.
//!
//! # Layout
//! `folder`: the folder of this process, and those of dead ones · `room`: what all files may take · `writer`: a file that is
//! being written · `content`: bytes in memory, or in a file · `file`: a complete one; `request_files`: those of one request.
#![cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP makes files"))]

#[cfg(feature = "http")]
mod content;
mod file;
mod folder;
mod request_files;
mod room;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OnceCell;

#[cfg(feature = "http")]
pub(crate) use content::{SpoolContent, SpoolPlace};
pub(crate) use file::SpoolFile;
use file::Stored;
use folder::Folder;
pub(crate) use request_files::RequestFiles;
use room::{Owner, SpoolRoom};
use writer::SpoolWriter;

use crate::{Error, Result};

/// What all files may take together, in bytes, where nothing else is set (1 GiB).
pub(crate) const DEFAULT_LIMIT: u64 = 1 << 30;

/// The files of this process. Clones are the same spool.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    shared: Arc<Shared>,
    /// Of the files that are made by this clone.
    owner: Owner,
}

#[derive(Debug)]
struct Shared {
    /// Where the folder of this process is made; a folder in that of the system for temporary files if there is none.
    directory: Option<PathBuf>,
    limit: u64,
    opened: OnceCell<Arc<Opened>>,
}

/// A spool that has its folder. Its files hold it, so that the folder is deleted after the last of them.
#[derive(Debug)]
struct Opened {
    folder: Folder,
    room: Arc<SpoolRoom>,
    files: Mutex<HashMap<String, Weak<Stored>>>,
}

impl Opened {
    fn files(&self) -> MutexGuard<'_, HashMap<String, Weak<Stored>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Spool {
    fn default() -> Self {
        Self::lazy(None, DEFAULT_LIMIT)
    }
}

impl Spool {
    /// A spool whose folder is made for its first file. `limit`: what all files may take, in bytes.
    pub(crate) fn lazy(directory: Option<PathBuf>, limit: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                directory,
                limit,
                opened: OnceCell::new(),
            }),
            owner: Owner::default(),
        }
    }

    /// The same spool for requests without the key of this server: their files leave a part of it to the others.
    pub(crate) fn of_strangers(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            owner: Owner::Stranger,
        }
    }

    /// Makes the folder now, and the directory if that is missing, if it was chosen. What dead processes have left there is deleted.
    /// Errors: `spool-unavailable` if nothing can be written there.
    pub(crate) async fn prepare(&self) -> Result<()> {
        if self.shared.directory.is_some() {
            self.opened().await?;
        }
        Ok(())
    }

    async fn opened(&self) -> Result<&Arc<Opened>> {
        let open = async {
            let directory = self.shared.directory.clone();
            let folder = tokio::task::spawn_blocking(move || Folder::make(directory.as_deref())).await;
            let folder = folder.map_err(|error| Error::internal("opening the spool panicked").caused_by(error))?;
            Ok(Arc::new(Opened {
                folder: folder?,
                room: Arc::new(SpoolRoom::new(self.shared.limit)),
                files: Mutex::default(),
            }))
        };
        self.shared.opened.get_or_try_init(|| open).await
    }

    /// Begins a file. Errors: `spool-full`, `spool-unavailable`.
    pub(crate) async fn create(&self) -> Result<SpoolWriter> {
        SpoolWriter::create(Arc::clone(self.opened().await?), self.owner).await
    }

    /// A complete file of this process that something holds.
    pub(crate) fn find(&self, id: &str) -> Option<SpoolFile> {
        let stored = self.shared.opened.get()?.files().get(id)?.upgrade()?;
        Some(SpoolFile(stored))
    }

    /// What all files take now, in bytes.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.shared.opened.get().map_or(0, |opened| opened.room.used())
    }
}

/// The error of a disk that refuses. A full one is a full spool.
fn refused(path: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded) {
        return Error::unavailable("spool-full", "The disk of the spool is full; try again later.").caused_by(error);
    }
    tracing::error!(path = %path.display(), %error, "the spool cannot be used");
    let message = "The spool of this node cannot be used; its log has the details.";
    Error::unavailable("spool-unavailable", message).caused_by(error)
}
