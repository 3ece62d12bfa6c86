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
/// The mode of what users other than the owner can write to.
const OTHERS_WRITE: u32 = 0o022;
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
            None => {
                let all = std::env::temp_dir();
                temporary_directory(&all).map_err(|error| refused(&all, error))?
            }
        };
        Self::make_in(&directory).map_err(|error| refused(&directory, error))
    }

    fn make_in(directory: &Path) -> IoResult<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        check_directory(directory)?;
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

/// Checks that only this user can put files into a directory: what another one has put there would be opened and deleted.
fn check_directory(directory: &Path) -> IoResult<()> {
    let found = std::fs::metadata(directory)?;
    let owner = private_file::owner_in(directory)?;
    if found.uid() == owner && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let message = format!(
        "other users can write to {}, or it is not of the user {owner}; name a folder below it, which is then made",
        directory.display()
    );
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

/// The directory for spools in that of the system for temporary files, to which others can write: it must be a folder of this
/// user. Where another user has taken its name, it has a random one, by which the next process finds it again.
fn temporary_directory(all: &Path) -> IoResult<PathBuf> {
    let owner = private_file::owner_in(all)?;
    let name = format!("mainspring-spool-{owner}");
    let usual = all.join(&name);
    match DirBuilder::new().mode(0o700).create(&usual) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(&usual, owner) {
        return Ok(usual);
    }
    tracing::warn!(path = %usual.display(), "not used for the spool: it is not a private folder of this user");
    let start = format!("{name}-");
    for entry in std::fs::read_dir(all)? {
        let entry = entry?;
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(&start));
        if is_named && is_private(&entry.path(), owner) {
            return Ok(entry.path());
        }
    }
    let own = all.join(format!("{start}{}", uuid::Uuid::new_v4().simple()));
    DirBuilder::new().mode(0o700).create(&own)?;
    Ok(own)
}

fn is_private(path: &Path, owner: u32) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == owner && found.mode() & 0o077 == 0)
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
    // A link leads elsewhere, and a pipe is opened only once another process does.
    if !std::fs::symlink_metadata(lock_path)?.is_file() {
        return Err(Error::other("it is no lock file"));
    }
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("mainspring-folder-test-{}", uuid::Uuid::new_v4().simple()));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let scratch = Scratch::new();
        for mode in [0o777, 0o770, 0o1777] {
            std::fs::set_permissions(&scratch.0, Permissions::from_mode(mode)).unwrap();
            let error = Folder::make(Some(&scratch.0)).unwrap_err();
            assert_eq!(error.code(), "spool-unavailable", "{mode:o}");
        }
        std::fs::set_permissions(&scratch.0, Permissions::from_mode(0o755)).unwrap();
        assert!(Folder::make(Some(&scratch.0)).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_lock_file_is_not_followed() {
        let scratch = Scratch::new();
        let (target, link) = (scratch.0.join("precious"), scratch.0.join("spool-1.lock"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let folder = Folder::make(Some(&scratch.0)).unwrap();
        assert!(folder.path().is_dir());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn a_directory_in_place_of_the_usual_one_is_found_again() {
        let scratch = Scratch::new();
        let owner = private_file::owner_in(&scratch.0).unwrap();
        let usual = temporary_directory(&scratch.0).unwrap();
        assert_eq!(usual, scratch.0.join(format!("mainspring-spool-{owner}")));
        std::fs::set_permissions(&usual, Permissions::from_mode(0o777)).unwrap();
        let other = temporary_directory(&scratch.0).unwrap();
        assert_ne!(other, usual);
        assert_eq!(temporary_directory(&scratch.0).unwrap(), other);
        assert!(is_private(&other, owner));
    }
}
