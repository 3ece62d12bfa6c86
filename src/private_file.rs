//! Files that only their owner may read. A link or file of another user in their place is refused.
//!
//! A missing file is created with mode 0600, by `O_EXCL`, which follows no symbolic link. An existing one is checked
//! first and compared with the opened file, so a link created in between is also found. Opening neither truncates nor
//! creates, so a refused target is unchanged.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How often an open is repeated when the file appears or disappears meanwhile.
const TRIES: usize = 8;

/// The owner of files that this process creates in `directory`. Read from a probe file: std has no user ids.
pub(crate) fn owner_in(directory: &Path) -> Result<u32> {
    let probe = directory.join(format!(".{}", uuid::Uuid::new_v4().simple()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&probe)?;
    let owner = made.metadata().map(|made| made.uid());
    std::fs::remove_file(&probe)?;
    owner
}

/// Opens or creates a regular file of `owner` for reading and writing.
/// Errors: A symbolic link, a hard link, a file of another user, or no regular file.
pub(crate) fn open(path: &Path, owner: u32) -> Result<File> {
    open_with(path, owner, OpenOptions::new().read(true).write(true))
}

/// Like [`open`], for appending.
#[cfg(feature = "cli")]
pub(crate) fn open_to_append(path: &Path, owner: u32) -> Result<File> {
    open_with(path, owner, OpenOptions::new().append(true))
}

fn open_with(path: &Path, owner: u32, options: &mut OpenOptions) -> Result<File> {
    for _ in 0..TRIES {
        match options.clone().create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other,
        }
        let named = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        check(path, &named, owner)?;
        let file = match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        let opened = file.metadata()?;
        if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
            continue;
        }
        if opened.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        return Ok(file);
    }
    Err(refused(path, "it is replaced repeatedly"))
}

fn check(path: &Path, named: &Metadata, owner: u32) -> Result<()> {
    if named.file_type().is_symlink() {
        Err(refused(path, "it is a symbolic link, which is not followed"))
    } else if !named.is_file() {
        Err(refused(path, "it is not a regular file"))
    } else if named.uid() != owner {
        let why = format!("it belongs to the user {}, not to {owner}", named.uid());
        Err(refused(path, &why))
    } else if named.nlink() > 1 {
        Err(refused(path, "it has a second name (a hard link)"))
    } else {
        Ok(())
    }
}

fn refused(path: &Path, why: &str) -> Error {
    let message = format!("{} is refused: {why}; remove it if it is not needed", path.display());
    Error::new(ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("mainspring-private-file-{}", uuid::Uuid::new_v4().simple()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_or_foreign_file_is_refused_and_unchanged() {
        let scratch = Scratch::new();
        let owner = owner_in(&scratch.0).unwrap();
        let target = scratch.0.join("target");
        std::fs::write(&target, "precious").unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
        let (link, second, dangling, folder) = (
            scratch.0.join("link"),
            scratch.0.join("second"),
            scratch.0.join("dangling"),
            scratch.0.join("folder"),
        );
        std::os::unix::fs::symlink(&target, &link).unwrap();
        std::os::unix::fs::symlink(scratch.0.join("nowhere"), &dangling).unwrap();
        std::fs::create_dir(&folder).unwrap();
        assert!(
            open(&target, owner + 1)
                .unwrap_err()
                .to_string()
                .contains("belongs to the user")
        );
        for (path, why) in [
            (&link, "symbolic link"),
            (&dangling, "symbolic link"),
            (&folder, "not a regular file"),
        ] {
            let error = open(path, owner).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        std::fs::hard_link(&target, &second).unwrap();
        assert!(open(&second, owner).unwrap_err().to_string().contains("second name"));
        assert!(!scratch.0.join("nowhere").exists());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn an_own_file_is_opened_and_made_private() {
        let scratch = Scratch::new();
        let owner = owner_in(&scratch.0).unwrap();
        let path = scratch.0.join("file");
        drop(open(&path, owner).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(open(&path, owner).unwrap());
        assert_eq!(
            std::fs::metadata(&path).unwrap().mode() & 0o777,
            0o600,
            "of an older build"
        );
        assert_eq!(
            std::fs::read_dir(&scratch.0).unwrap().count(),
            1,
            "the probe is removed"
        );
    }
}
