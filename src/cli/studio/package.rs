//! The npm package of Studio: its digests, and how it is unpacked.
//!
//! The digest of the archive is checked before its contents are read. Unpacking accepts only plain files and folders, below
//! the one folder, and bounds their number and bytes. Afterwards the files are compared with the digest of the whole folder,
//! so a folder installed by npm is as good as the archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha512};
use tar::{Archive, EntryType};

use crate::harness::failure::Failure;

/// The sha512 of the archive, as npm writes it.
const ARCHIVE_DIGEST: &str = "aoyapE8UDCEriuYekGv1CWzLqeNZDUL8nJGmxPXNcvXTkGRT8u4QWBqlRwlm02AZcPpG9PU0FZJx3zSAyQVzGg==";
/// The sha512 over all files of the package, see [`digest_of_folder`].
pub(super) const FOLDER_DIGEST: &str =
    "RWQEzIooJnTe98WrwPNAE6SnWZV6FDjJwdlvp4kwikdECiYS6QjTMnL7pKTzJQR0f+jXU3do6yWN6H0KGTP6Sw==";

/// The limits of a package: it has 1,040 files with 92 MB.
const MAX_FILES: usize = 4096;
const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_ARCHIVE_BYTES: u64 = 128 * 1024 * 1024;
const MAX_DEPTH: usize = 16;

/// The folder of an npm archive that holds everything.
const ROOT: &str = "package";

/// Checks the archive, and unpacks it into a new folder.
pub(super) fn unpack(archive: &Path, target: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot read {}: {error}", archive.display()));
    let mut file = File::open(archive).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_ARCHIVE_BYTES {
        return Err(Failure::failed(format!("{} is too large", archive.display())));
    }
    let mut bytes = Vec::new();
    // What is checked is what is unpacked, whatever happens to the file.
    file.by_ref()
        .take(MAX_ARCHIVE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let digest = STANDARD.encode(Sha512::digest(&bytes));
    if digest != ARCHIVE_DIGEST {
        return Err(Failure::failed(format!(
            "the sha512 of {} is {digest}, which is not that of the package",
            archive.display()
        )));
    }
    unpack_archive(GzDecoder::new(bytes.as_slice()), target)
        .map_err(|error| Failure::failed(format!("cannot unpack into {}: {error}", target.display())))
}

fn unpack_archive(stream: impl Read, target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    let (mut files, mut left) = (0, MAX_BYTES);
    // Bounds also what the headers and the ends of entries take.
    let mut archive = Archive::new(stream.take(MAX_BYTES * 2));
    for entry in archive.entries()? {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            other => {
                return Err(io::Error::other(format!(
                    "the archive has an entry of the type {other:?}"
                )));
            }
        }
        let name = relative(&entry.path()?)?;
        files += 1;
        if files > MAX_FILES || entry.size() > left {
            return Err(io::Error::other("the archive is too large"));
        }
        left -= entry.size();
        let path = target.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A name that comes twice is an error.
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        io::copy(&mut entry, &mut file)?;
    }
    Ok(())
}

/// The path of an entry below the archive's root, of plain names only.
fn relative(path: &Path) -> io::Result<PathBuf> {
    let unsafe_path = || io::Error::other(format!("the archive has an entry {}", path.display()));
    let below = path.strip_prefix(ROOT).map_err(|_| unsafe_path())?;
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || below.as_os_str().is_empty() || below.components().count() > MAX_DEPTH {
        return Err(unsafe_path());
    }
    Ok(below.to_owned())
}

/// Copies the files of an unpacked package into a new folder; links are left out.
pub(super) fn copy(from: &Path, target: &Path) -> Result<(), Failure> {
    let copy = || -> io::Result<()> {
        fs::create_dir(target)?;
        for (name, path) in files(from)? {
            let to = target.join(name);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            io::copy(&mut File::open(path)?, &mut File::create(to)?)?;
        }
        Ok(())
    };
    copy().map_err(|error| Failure::failed(format!("cannot copy {}: {error}", from.display())))
}

/// Whether a folder has exactly the files of the package.
pub(super) fn is_unchanged(folder: &Path) -> bool {
    folder.is_dir() && digest_of_folder(folder).is_ok_and(|digest| digest == FOLDER_DIGEST)
}

/// The sha512 over the sorted names of all files, each with the sha512 of its contents.
pub(super) fn digest_of_folder(folder: &Path) -> io::Result<String> {
    let mut all = Sha512::new();
    for (name, path) in files(folder)? {
        let mut one = Sha512::new();
        let mut file = BufReader::new(File::open(path)?);
        let mut piece = vec![0; 64 * 1024];
        loop {
            let length = file.read(&mut piece)?;
            let Some(read) = piece.get(..length).filter(|read| !read.is_empty()) else {
                break;
            };
            one.update(read);
        }
        all.update(name.as_bytes());
        all.update([0]);
        all.update(one.finalize());
    }
    Ok(STANDARD.encode(all.finalize()))
}

/// All plain files by their names, with `/`, in order.
fn files(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    let mut folders = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let metadata = entry.path().symlink_metadata()?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if metadata.is_dir() && depth < MAX_DEPTH {
                folders.push((entry.path(), format!("{name}/"), depth + 1));
            } else if metadata.is_file() {
                bytes += metadata.len();
                found.insert(name, entry.path());
            }
            if found.len() > MAX_FILES || bytes > MAX_BYTES {
                return Err(io::Error::other("the folder is too large"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("mainspring-package-{}", uuid::Uuid::new_v4()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// An archive with one entry; `tar` itself refuses to write most bad names.
    fn archive(name: &str, kind: EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(3);
        header.set_mode(0o644);
        if kind == EntryType::Symlink {
            header.set_size(0);
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder
            .append(&header, &b"abc"[..header.size().unwrap() as usize])
            .unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn only_plain_files_below_the_root_are_unpacked() {
        let scratch = Scratch::new();
        let unpack = |name: &str, kind| {
            let target = scratch.0.join(uuid::Uuid::new_v4().to_string());
            unpack_archive(archive(name, kind).as_slice(), &target).map(|()| digest_of_folder(&target).unwrap())
        };
        assert!(unpack("package/a/b.js", EntryType::Regular).is_ok());
        for bad in [
            "package/../../evil",
            "/package/evil",
            "/etc/evil",
            "evil",
            "package",
            "other/evil",
            "package/a/../../evil",
        ] {
            assert!(unpack(bad, EntryType::Regular).is_err(), "{bad}");
        }
        for bad in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char] {
            assert!(unpack("package/a", bad).is_err(), "{bad:?}");
        }
        let names: Vec<_> = scratch
            .0
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(names.iter().all(|path| path.is_dir()), "{names:?}");
        assert!(!scratch.0.parent().unwrap().join("evil").exists());
    }

    #[test]
    fn a_digest_differs_by_names_and_contents() {
        let scratch = Scratch::new();
        let digest = || digest_of_folder(&scratch.0).unwrap();
        fs::create_dir(scratch.0.join("a")).unwrap();
        fs::write(scratch.0.join("a/b"), "1").unwrap();
        let first = digest();
        fs::write(scratch.0.join("a/b"), "2").unwrap();
        assert_ne!(digest(), first);
        fs::write(scratch.0.join("a/b"), "1").unwrap();
        assert_eq!(digest(), first);
        fs::rename(scratch.0.join("a/b"), scratch.0.join("a/c")).unwrap();
        assert_ne!(digest(), first);
        assert!(!is_unchanged(&scratch.0));
    }

    #[test]
    fn another_archive_is_refused_before_it_is_unpacked() {
        let scratch = Scratch::new();
        let file = scratch.0.join("a.tgz");
        fs::write(&file, archive("package/a", EntryType::Regular)).unwrap();
        assert!(unpack(&file, &scratch.0.join("target")).is_err());
        assert!(!scratch.0.join("target").exists());
    }
}
