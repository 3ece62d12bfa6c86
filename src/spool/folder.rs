//! The folder of a process, and those of dead ones.
//!
//! Beside the folder `ID` is the file `ID.lock`, which its process keeps locked: the lock ends with the process, however that
//! ends. The lock file is made and locked before the folder, and deleted after it, so that a folder without a lock file
//! exists only where a deletion was interrupted.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::refused;
use crate::Result;
use crate::private_file;

/// The end of the name of a lock file.
const LOCK: &str = "lock";
/// The start of the names of folders and lock files: nothing else in the directory is touched.
const PREFIX: &str = "spool-";
/// How often a name is tried: another process may take a lock file for that of a dead one before it is locked.
const TRIES: usize = 8;

/// The folder of this process; dropping it deletes it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked.
    _lock: File,
}

impl Folder {
    /// Makes the folder of this process in `directory`, and deletes those of dead ones. Blocks.
    pub(super) fn make(directory: Option<&Path>) -> Result<Self> {
        let directory = match directory {
            Some(directory) => directory.to_owned(),
            None => temporary_directory().map_err(|error| refused(&std::env::temp_dir(), error))?,
        };
        Self::make_in(&directory).map_err(|error| refused(&directory, error))
    }

    fn make_in(directory: &Path) -> IoResult<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        delete_dead(directory)?;
        for _ in 0..TRIES {
            let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
            let path = directory.join(&name);
            let lock_path = path.with_extension(LOCK);
            let mut options = OpenOptions::new();
            let lock = options.write(true).create_new(true).mode(0o600).open(&lock_path)?;
            if lock.try_lock().is_err() || !is_at(&lock, &lock_path) {
                continue;
            }
            DirBuilder::new().mode(0o700).create(&path)?;
            return Ok(Self {
                path,
                lock_path,
                _lock: lock,
            });
        }
        Err(Error::other("other processes delete each new lock file"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let deleted = std::fs::remove_dir_all(&self.path).and_then(|()| std::fs::remove_file(&self.lock_path));
        if let Err(error) = deleted
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot delete the folder of the spool");
        }
    }
}

/// The directory for spools in that of the system for temporary files, to which others can write: it must be a folder of this
/// user, else each process gets one of its own.
fn temporary_directory() -> IoResult<PathBuf> {
    let all = std::env::temp_dir();
    let owner = private_file::owner_in(&all)?;
    let usual = all.join(format!("mainspring-spool-{owner}"));
    match DirBuilder::new().mode(0o700).create(&usual) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&usual)?;
    if found.is_dir() && found.uid() == owner && found.mode() & 0o077 == 0 {
        return Ok(usual);
    }
    tracing::warn!(path = %usual.display(), "not used for the spool: it is not a private folder of this user");
    let own = all.join(format!("mainspring-spool-{owner}-{}", uuid::Uuid::new_v4().simple()));
    DirBuilder::new().mode(0o700).create(&own)?;
    Ok(own)
}

/// Deletes the folders whose processes are dead. One that cannot be deleted is reported and left.
fn delete_dead(directory: &Path) -> IoResult<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(PREFIX) {
            continue;
        }
        let deleted = if path.extension().is_some_and(|end| end == LOCK) {
            delete_locked(&path)
        } else {
            delete_without_lock(&path)
        };
        if let Err(error) = deleted
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "cannot delete what a dead process has left in the spool");
        }
    }
    Ok(())
}

/// Deletes a folder and its lock file, if no process holds the lock.
fn delete_locked(lock_path: &Path) -> IoResult<()> {
    let lock = OpenOptions::new().write(true).open(lock_path)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    match std::fs::remove_dir_all(lock_path.with_extension("")) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::remove_file(lock_path)
}

/// Deletes a folder whose lock file is gone: its deletion was interrupted. The lock file is older than the folder, so
/// none appears.
fn delete_without_lock(path: &Path) -> IoResult<()> {
    if path.with_extension(LOCK).try_exists()? {
        return Ok(());
    }
    if std::fs::symlink_metadata(path)?.is_dir() {
        std::fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// Whether the path still names the opened file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (opened.dev(), opened.ino()) == (named.dev(), named.ino())
}
