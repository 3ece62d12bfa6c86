//! Zip archives of small files, in memory.
//!
//! Entries are stored or deflated; encryption, zip64 and archives in parts are refused. The directory at the end of an
//! archive is read within a limit of entries, and an entry is unpacked within a limit of bytes, whatever sizes the archive
//! declares. Names are texts: nothing here opens a file.

use std::io::{self, BufReader, Read, Write};
use std::ops::Range;

use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DIRECTORY_HEADER: u32 = 0x0201_4b50;
const END_OF_DIRECTORY: u32 = 0x0605_4b50;
/// The bytes of the end of the directory, and of the longest comment after it.
const END_BYTES: usize = 22;
const LONGEST_COMMENT: usize = 65_535;

/// How many packed bytes are read at once.
const BYTES_OF_TURN: usize = 4 << 10;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Bit 0: encrypted. Bit 11: the name is UTF-8.
const IS_ENCRYPTED: u16 = 1;
const IS_UTF8: u16 = 1 << 11;
/// The version that deflated entries need: 2.0.
const VERSION: u16 = 20;
/// 1 January 1980, the first day of the format: equal files make equal archives.
const FIRST_DAY: u16 = 1 << 5 | 1;

/// Why an archive cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZipError {
    /// It is no zip archive, or is cut off.
    Damaged,
    /// It is encrypted, in parts, of the form zip64, or compressed by a method other than deflate.
    Unsupported,
    /// It has more entries than may be.
    TooManyEntries,
    /// An entry has more bytes than may be.
    TooLarge,
    /// Entries share bytes of the archive.
    Overlapping,
    /// No request waits for the content any more, or it takes too long.
    Stopped,
}

/// One file of an archive.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name, with folders.
    pub(crate) name: String,
    flags: u16,
    method: u16,
    checksum: u32,
    packed_bytes: usize,
    bytes: usize,
    /// Where its local header begins.
    at: usize,
}

/// The directory of an archive.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    bytes: &'a [u8],
    /// The files, in their order; folders are left out.
    pub(crate) entries: Vec<Entry>,
}

/// Whether these bytes begin as an archive does.
pub(crate) fn is_zip(bytes: &[u8]) -> bool {
    matches!(u32_at(bytes, 0), Ok(LOCAL_HEADER | END_OF_DIRECTORY))
}

impl<'a> Archive<'a> {
    /// Reads the directory.
    pub(crate) fn read(bytes: &'a [u8], most_entries: usize) -> Result<Self, ZipError> {
        let end = end_of_directory(bytes).ok_or(ZipError::Damaged)?;
        let [disk, directory_disk, on_disk, count] = [4, 6, 8, 10].map(|field| u16_at(bytes, end + field));
        let (count, size, offset) = (count?, u32_at(bytes, end + 12)?, u32_at(bytes, end + 16)?);
        if disk? != 0 || directory_disk? != 0 || on_disk? != count || count == u16::MAX || offset == u32::MAX {
            return Err(ZipError::Unsupported);
        }
        if usize::from(count) > most_entries {
            return Err(ZipError::TooManyEntries);
        }
        // What is in front of an archive, as in one that unpacks itself, shifts all offsets.
        let before = end
            .checked_sub(size as usize)
            .and_then(|start| start.checked_sub(offset as usize));
        let before = before.ok_or(ZipError::Damaged)?;
        let mut at = before + offset as usize;
        let mut entries = Vec::new();
        for _ in 0..count {
            if u32_at(bytes, at)? != DIRECTORY_HEADER {
                return Err(ZipError::Damaged);
            }
            let [name, extra, comment] = [28, 30, 32].map(|field| u16_at(bytes, at + field).map(usize::from));
            let (name_bytes, rest) = (name?, extra? + comment?);
            let name = bytes.get(at + 46..at + 46 + name_bytes).ok_or(ZipError::Damaged)?;
            let entry = Entry {
                name: String::from_utf8_lossy(name).into_owned(),
                flags: u16_at(bytes, at + 8)?,
                method: u16_at(bytes, at + 10)?,
                checksum: u32_at(bytes, at + 16)?,
                packed_bytes: u32_at(bytes, at + 20)? as usize,
                bytes: u32_at(bytes, at + 24)? as usize,
                at: before.saturating_add(u32_at(bytes, at + 42)? as usize),
            };
            at += 46 + name_bytes + rest;
            if !entry.name.ends_with(['/', '\\']) {
                entries.push(entry);
            }
        }
        let archive = Self { bytes, entries };
        archive.refuse_overlaps(before + offset as usize)?;
        Ok(archive)
    }

    /// Refuses entries that share bytes: so what is read of all entries is no more than the archive has.
    fn refuse_overlaps(&self, directory: usize) -> Result<(), ZipError> {
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            ranges.push(self.range(entry)?);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let ends = ranges.iter().map(|range| range.end);
        let next = ranges.iter().skip(1).map(|range| range.start).chain([directory]);
        if ends.zip(next).any(|(end, next)| end > next) {
            return Err(ZipError::Overlapping);
        }
        Ok(())
    }

    /// Where an entry is, from its local header to the end of its content.
    fn range(&self, entry: &Entry) -> Result<Range<usize>, ZipError> {
        let start = self.content_start(entry)?;
        let end = start.checked_add(entry.packed_bytes).ok_or(ZipError::Damaged)?;
        Ok(entry.at..end)
    }

    /// Where the content of an entry begins.
    fn content_start(&self, entry: &Entry) -> Result<usize, ZipError> {
        if u32_at(self.bytes, entry.at)? != LOCAL_HEADER {
            return Err(ZipError::Damaged);
        }
        let [name, extra] = [26, 28].map(|field| u16_at(self.bytes, entry.at + field).map(usize::from));
        Ok(entry.at + 30 + name? + extra?)
    }

    /// The content of a file, unless `is_stopped` becomes true.
    pub(crate) fn unpack(
        &self,
        entry: &Entry,
        most_bytes: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, ZipError> {
        if entry.flags & IS_ENCRYPTED != 0 {
            return Err(ZipError::Unsupported);
        }
        if entry.bytes > most_bytes {
            return Err(ZipError::TooLarge);
        }
        let start = self.content_start(entry)?;
        let packed = start
            .checked_add(entry.packed_bytes)
            .and_then(|end| self.bytes.get(start..end));
        let packed = packed.ok_or(ZipError::Damaged)?;
        let mut content = Vec::new();
        // One byte more than declared shows that the declaration is wrong.
        let most = entry.bytes as u64 + 1;
        let read = match entry.method {
            STORED => packed.take(most).read_to_end(&mut content),
            DEFLATED => {
                let packed = Asking { packed, is_stopped };
                // A small buffer, so that what does not grow into content is asked about, too.
                let packed = BufReader::with_capacity(BYTES_OF_TURN, packed);
                DeflateDecoder::new(packed).take(most).read_to_end(&mut content)
            }
            _ => return Err(ZipError::Unsupported),
        };
        if is_stopped() {
            return Err(ZipError::Stopped);
        }
        let mut crc = Crc::new();
        crc.update(&content);
        if read.is_err() || content.len() != entry.bytes || crc.sum() != entry.checksum {
            return Err(ZipError::Damaged);
        }
        Ok(content)
    }
}

/// Asks before each part of the packed bytes whether to continue.
struct Asking<'a> {
    packed: &'a [u8],
    is_stopped: &'a dyn Fn() -> bool,
}

impl Read for Asking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_stopped)() {
            return Err(io::Error::other("the archive is not read any further"));
        }
        self.packed.read(buffer)
    }
}

/// Where the end of the directory begins: the last place with its signature whose comment fits.
fn end_of_directory(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END_BYTES)?;
    let first = last.saturating_sub(LONGEST_COMMENT);
    let fits = |at: &usize| {
        let comment = u16_at(bytes, at + 20).map_or(usize::MAX, usize::from);
        u32_at(bytes, *at) == Ok(END_OF_DIRECTORY) && comment <= last - at
    };
    (first..=last).rev().find(fits)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ZipError> {
    let end = at.checked_add(2).ok_or(ZipError::Damaged)?;
    let field = bytes.get(at..end).and_then(|field| field.try_into().ok());
    field.map(u16::from_le_bytes).ok_or(ZipError::Damaged)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ZipError> {
    let end = at.checked_add(4).ok_or(ZipError::Damaged)?;
    let field = bytes.get(at..end).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(ZipError::Damaged)
}

/// An archive of these files, deflated, in their order. The names are to be unique.
///
/// # Errors
/// For more files or bytes than the format has numbers for.
pub(crate) fn pack(files: &[(String, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content)?;
        let packed = encoder.finish()?;
        let mut crc = Crc::new();
        crc.update(content);
        let at = narrow::<u32>(archive.len())?;
        let mut common = Vec::new();
        for field in [VERSION, IS_UTF8, DEFLATED, 0, FIRST_DAY] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), narrow(packed.len())?, narrow(content.len())?] {
            common.extend(field.to_le_bytes());
        }
        common.extend(narrow::<u16>(name.len())?.to_le_bytes());
        common.extend([0; 2]);
        archive.extend(LOCAL_HEADER.to_le_bytes());
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(&packed);
        directory.extend(DIRECTORY_HEADER.to_le_bytes());
        directory.extend(VERSION.to_le_bytes());
        directory.extend(&common);
        // No comment, the first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (count, size, at) = (
        narrow::<u16>(files.len())?,
        narrow::<u32>(directory.len())?,
        narrow::<u32>(archive.len())?,
    );
    archive.extend(&directory);
    archive.extend(END_OF_DIRECTORY.to_le_bytes());
    archive.extend([0; 4]);
    archive.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    archive.extend([size.to_le_bytes(), at.to_le_bytes()].concat());
    archive.extend([0; 2]);
    Ok(archive)
}

fn narrow<T: TryFrom<usize>>(number: usize) -> io::Result<T> {
    T::try_from(number).map_err(|_| io::Error::other("too large for a zip archive"))
}

/// An archive whose directory names one entry so many times; its content is of empty blocks, which unpack to nothing.
#[cfg(test)]
pub(crate) fn empty_blocks(bytes: usize, times: usize) -> Vec<u8> {
    // Ten bits are an empty block of fixed codes, so five bytes are four of them.
    let block = [0x02, 0x08, 0x20, 0x80, 0x00];
    let packed: Vec<u8> = block
        .iter()
        .copied()
        .cycle()
        .take(bytes / 5 * 5)
        .chain([0x03, 0x00])
        .collect();
    let size = u32::try_from(packed.len()).unwrap().to_le_bytes();
    let mut common = Vec::new();
    for field in [VERSION, IS_UTF8, DEFLATED, 0, FIRST_DAY] {
        common.extend(field.to_le_bytes());
    }
    common.extend([[0; 4], size, [0; 4]].concat());
    common.extend(6u16.to_le_bytes());
    common.extend([0; 2]);
    let mut archive = [&LOCAL_HEADER.to_le_bytes()[..], &common, b"a.json", &packed].concat();
    let at = archive.len();
    for _ in 0..times {
        archive.extend(DIRECTORY_HEADER.to_le_bytes());
        archive.extend(VERSION.to_le_bytes());
        archive.extend(&common);
        archive.extend([0; 14]);
        archive.extend(b"a.json");
    }
    let size = archive.len() - at;
    archive.extend(END_OF_DIRECTORY.to_le_bytes());
    archive.extend([0; 4]);
    archive.extend(u16::try_from(times).unwrap().to_le_bytes().repeat(2));
    archive.extend(u32::try_from(size).unwrap().to_le_bytes());
    archive.extend(u32::try_from(at).unwrap().to_le_bytes());
    archive.extend([0; 2]);
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Vec<u8> {
        let files = [
            ("a.json".to_owned(), b"{\"a\": 1}".to_vec()),
            ("ü/b.json".to_owned(), vec![b' '; 100_000]),
        ];
        pack(&files).unwrap()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let bytes = packed();
        assert!(is_zip(&bytes) && bytes.len() < 1_000);
        for prefix in [&b""[..], b"#!/bin/sh\n"] {
            let shifted = [prefix, &bytes].concat();
            let archive = Archive::read(&shifted, 2).unwrap();
            let names: Vec<&str> = archive.entries.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(names, ["a.json", "ü/b.json"]);
            assert_eq!(
                archive.unpack(&archive.entries[0], 8, &|| false).unwrap(),
                b"{\"a\": 1}"
            );
            assert_eq!(
                archive.unpack(&archive.entries[1], 100_000, &|| false).unwrap().len(),
                100_000
            );
        }
        assert_eq!(packed(), bytes);
    }

    #[test]
    fn limits_hold_whatever_the_archive_declares() {
        let mut bytes = packed();
        assert_eq!(Archive::read(&bytes, 1).unwrap_err(), ZipError::TooManyEntries);
        let archive = Archive::read(&bytes, 2).unwrap();
        assert_eq!(
            archive.unpack(&archive.entries[1], 99_999, &|| false),
            Err(ZipError::TooLarge)
        );
        // The second entry declares ten bytes.
        let signature = DIRECTORY_HEADER.to_le_bytes();
        let at = bytes.windows(4).rposition(|four| four == signature).unwrap();
        bytes[at + 24..at + 28].copy_from_slice(&10u32.to_le_bytes());
        let archive = Archive::read(&bytes, 2).unwrap();
        assert_eq!(
            archive.unpack(&archive.entries[1], 10, &|| false),
            Err(ZipError::Damaged)
        );
    }

    #[test]
    fn a_damaged_archive_is_an_error_and_never_a_panic() {
        let bytes = packed();
        assert_eq!(Archive::read(b"", 9).unwrap_err(), ZipError::Damaged);
        assert_eq!(Archive::read(&[0xff; 100], 9).unwrap_err(), ZipError::Damaged);
        for cut in 0..bytes.len() {
            assert!(Archive::read(&bytes[..cut], 9).is_err());
        }
        let (mut differ, mut unreadable) = (0, 0);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                match Archive::read(&bad, 9) {
                    Err(_) => unreadable += 1,
                    Ok(archive) => {
                        let contents = archive
                            .entries
                            .iter()
                            .map(|entry| archive.unpack(entry, 100_000, &|| false));
                        differ += usize::from(contents.into_iter().any(|content| content.is_err()));
                    }
                }
            }
        }
        assert!(differ > 100 && unreadable > 50, "{differ} {unreadable}");
    }

    #[test]
    fn entries_that_share_bytes_are_refused() {
        let shared = empty_blocks(1 << 20, 1_000);
        assert_eq!(Archive::read(&shared, 1_000).unwrap_err(), ZipError::Overlapping);
        let single = empty_blocks(1 << 10, 1);
        let archive = Archive::read(&single, 1).unwrap();
        assert_eq!(archive.unpack(&archive.entries[0], 100, &|| false).unwrap(), b"");
    }

    #[test]
    fn unpacking_ends_with_its_request() {
        let long = empty_blocks(4 << 20, 1);
        let archive = Archive::read(&long, 1).unwrap();
        let asked = std::cell::Cell::new(0);
        let is_stopped = || {
            asked.set(asked.get() + 1);
            asked.get() > 10
        };
        assert_eq!(
            archive.unpack(&archive.entries[0], 100, &is_stopped),
            Err(ZipError::Stopped)
        );
        assert!(asked.get() < 20, "{}", asked.get());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let bytes = packed();
        let directory = bytes.windows(4).position(|four| four == DIRECTORY_HEADER.to_le_bytes());
        let directory = directory.unwrap();
        let with = |at: usize, value: u8| {
            let mut changed = bytes.clone();
            changed[at] = value;
            let archive = Archive::read(&changed, 9).unwrap();
            archive.unpack(&archive.entries[0], 100, &|| false).unwrap_err()
        };
        assert_eq!(with(directory + 8, 1), ZipError::Unsupported);
        assert_eq!(with(directory + 10, 12), ZipError::Unsupported);
    }
}
