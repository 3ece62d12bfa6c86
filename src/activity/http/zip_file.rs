//! Several files as one zip, made piece by piece: no file is whole in memory.
//!
//! The same files in the same order make the same bytes, whenever that is: a download can go on in another request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// 1980-01-01 00:00, the first time that a zip can say.
const NO_TIME: [u8; 4] = [0, 0, 0x21, 0];

/// Names are UTF-8, and sizes stand behind the content.
const FLAGS: u16 = 0x0808;

/// Sizes of 8 bytes are read by this version of the format.
const VERSION: u16 = 45;

/// Deflated.
const METHOD: u16 = 8;

/// The most files of a zip of the form that every program reads.
pub(super) const MOST_FILES: usize = 65_534;

/// A zip in progress. Each call appends bytes of the zip, which [`ZipFile::take`] gives away.
pub(super) struct ZipFile {
    out: Vec<u8>,
    /// What has been given away.
    given: u64,
    /// The list of the files at the end.
    directory: Vec<u8>,
    files: u64,
    /// The names in lower case, and the next number of what would have the same one.
    names: HashMap<String, usize>,
    current: Option<CurrentFile>,
}

struct CurrentFile {
    name: String,
    offset: u64,
    begins: u64,
    length: u64,
    crc: Crc,
    encoder: DeflateEncoder<Vec<u8>>,
    packed: u64,
}

impl ZipFile {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::new(),
            given: 0,
            directory: Vec::new(),
            files: 0,
            names: HashMap::new(),
            current: None,
        }
    }

    fn at(&self) -> u64 {
        self.given + u64::try_from(self.out.len()).unwrap_or(u64::MAX)
    }

    /// The bytes since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.given = self.at();
        std::mem::take(&mut self.out)
    }

    /// Begins a file. A name without a path; one that is there already gets a number.
    pub(super) fn begin(&mut self, name: &str) -> std::io::Result<()> {
        self.end()?;
        let name = self.unused(name);
        let offset = self.at();
        self.out.extend(b"PK\x03\x04");
        put16(&mut self.out, VERSION);
        put16(&mut self.out, FLAGS);
        put16(&mut self.out, METHOD);
        self.out.extend(NO_TIME);
        put32(&mut self.out, 0);
        // The sizes are in the extra field and behind the content, each in 8 bytes.
        put32(&mut self.out, u32::MAX);
        put32(&mut self.out, u32::MAX);
        put16(&mut self.out, length16(&name));
        put16(&mut self.out, 20);
        self.out.extend(name.as_bytes());
        put16(&mut self.out, 1);
        put16(&mut self.out, 16);
        put64(&mut self.out, 0);
        put64(&mut self.out, 0);
        self.current = Some(CurrentFile {
            name,
            offset,
            begins: self.at(),
            length: 0,
            crc: Crc::new(),
            encoder: DeflateEncoder::new(Vec::new(), Compression::default()),
            packed: 0,
        });
        Ok(())
    }

    /// More of the content of the file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(entry) = &mut self.current else {
            return Ok(());
        };
        entry.crc.update(bytes);
        entry.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        entry.encoder.write_all(bytes)?;
        let packed = std::mem::take(entry.encoder.get_mut());
        self.out.extend(packed);
        Ok(())
    }

    fn end(&mut self) -> std::io::Result<()> {
        let Some(mut entry) = self.current.take() else {
            return Ok(());
        };
        self.out.extend(entry.encoder.finish()?);
        entry.packed = self.at() - entry.begins;
        self.out.extend(b"PK\x07\x08");
        put32(&mut self.out, entry.crc.sum());
        put64(&mut self.out, entry.packed);
        put64(&mut self.out, entry.length);
        let list = &mut self.directory;
        list.extend(b"PK\x01\x02");
        put16(list, VERSION);
        put16(list, VERSION);
        put16(list, FLAGS);
        put16(list, METHOD);
        list.extend(NO_TIME);
        put32(list, entry.crc.sum());
        put32(list, u32::MAX);
        put32(list, u32::MAX);
        put16(list, length16(&entry.name));
        put16(list, 28);
        list.extend([0; 10]);
        put32(list, u32::MAX);
        list.extend(entry.name.as_bytes());
        put16(list, 1);
        put16(list, 24);
        put64(list, entry.length);
        put64(list, entry.packed);
        put64(list, entry.offset);
        self.files += 1;
        Ok(())
    }

    /// Ends the zip.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.end()?;
        let (begins, length) = (self.at(), u64::try_from(self.directory.len()).unwrap_or(u64::MAX));
        let directory = std::mem::take(&mut self.directory);
        self.out.extend(directory);
        let end = self.at();
        self.out.extend(b"PK\x06\x06");
        put64(&mut self.out, 44);
        put16(&mut self.out, VERSION);
        put16(&mut self.out, VERSION);
        self.out.extend([0; 8]);
        put64(&mut self.out, self.files);
        put64(&mut self.out, self.files);
        put64(&mut self.out, length);
        put64(&mut self.out, begins);
        self.out.extend(b"PK\x06\x07\0\0\0\0");
        put64(&mut self.out, end);
        put32(&mut self.out, 1);
        self.out.extend(b"PK\x05\x06\0\0\0\0");
        put16(&mut self.out, u16::MAX);
        put16(&mut self.out, u16::MAX);
        put32(&mut self.out, u32::MAX);
        put32(&mut self.out, u32::MAX);
        put16(&mut self.out, 0);
        Ok(())
    }

    /// A name that no other file has. The search goes on behind the last number of this name, so that many equal names cost no more
    /// than many different ones.
    fn unused(&mut self, name: &str) -> String {
        let name: String = name.chars().take(200).collect();
        let key = name.to_lowercase();
        let Some(next) = self.names.get(&key).copied() else {
            self.names.insert(key, 2);
            return name;
        };
        let mut number = next;
        let unused = loop {
            let unused = match name.rsplit_once('.') {
                Some((begin, end)) => format!("{begin} ({number}).{end}"),
                None => format!("{name} ({number})"),
            };
            number += 1;
            if let Entry::Vacant(vacant) = self.names.entry(unused.to_lowercase()) {
                vacant.insert(2);
                break unused;
            }
        };
        self.names.insert(key, number);
        unused
    }
}

fn put16(out: &mut Vec<u8>, number: u16) {
    out.extend(number.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn length16(name: &str) -> u16 {
    u16::try_from(name.len()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;

    use super::*;

    fn number(bytes: &[u8], at: usize, count: usize) -> usize {
        let digits = bytes[at..at + count].iter().rev();
        digits.fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    /// The names and contents of a zip, found from its end as other programs find them.
    fn read(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
        let end = zip.len() - 22;
        assert_eq!(zip[end..end + 4], *b"PK\x05\x06");
        assert_eq!(zip[end - 20..end - 16], *b"PK\x06\x07");
        let record = number(zip, end - 12, 8);
        assert_eq!(zip[record..record + 4], *b"PK\x06\x06");
        let (files, length) = (number(zip, record + 32, 8), number(zip, record + 40, 8));
        let mut at = number(zip, record + 48, 8);
        assert_eq!(at + length, record);
        let mut found = Vec::new();
        for _ in 0..files {
            assert_eq!(zip[at..at + 4], *b"PK\x01\x02");
            let (crc, name, extra) = (
                number(zip, at + 16, 4),
                number(zip, at + 28, 2),
                number(zip, at + 30, 2),
            );
            let text = String::from_utf8(zip[at + 46..at + 46 + name].to_vec()).unwrap();
            let sizes = at + 46 + name + 4;
            let (size, packed) = (number(zip, sizes, 8), number(zip, sizes + 8, 8));
            let local = number(zip, sizes + 16, 8);
            assert_eq!(zip[local..local + 4], *b"PK\x03\x04");
            let begins = local + 30 + number(zip, local + 26, 2) + number(zip, local + 28, 2);
            let mut content = Vec::new();
            DeflateDecoder::new(&zip[begins..begins + packed])
                .read_to_end(&mut content)
                .unwrap();
            let mut sum = Crc::new();
            sum.update(&content);
            assert_eq!((content.len(), usize::try_from(sum.sum()).unwrap()), (size, crc));
            found.push((text, content));
            at += 46 + name + extra;
        }
        assert_eq!(at, record);
        found
    }

    #[test]
    fn what_is_zipped_is_read_again() {
        let large = vec![7; 300_000];
        let files = [
            ("a.txt", b"hello".as_slice()),
            ("\u{e4}.bin", large.as_slice()),
            ("A.TXT", b""),
        ];
        let zipped = |piece: usize| {
            let mut zip = ZipFile::new();
            let mut bytes = Vec::new();
            for (name, content) in &files {
                zip.begin(name).unwrap();
                for part in content.chunks(piece) {
                    zip.write(part).unwrap();
                    bytes.extend(zip.take());
                }
            }
            zip.finish().unwrap();
            bytes.extend(zip.take());
            bytes
        };
        let once = zipped(100_000);
        let found = read(&once);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a.txt", "\u{e4}.bin", "A (2).TXT"]);
        assert_eq!(found[1].1, large);
        assert_eq!(zipped(100_000), once);
        assert!(once.len() < 2_000, "{}", once.len());
        assert!(read(&ZipFile::new().finished()).is_empty());
    }

    #[test]
    fn many_equal_names_are_numbered_at_once() {
        const COUNT: usize = 3_000;
        let mut zip = ZipFile::new();
        zip.begin("a (3).txt").unwrap();
        for _ in 1..COUNT {
            zip.begin("a.txt").unwrap();
        }
        assert_eq!(zip.names.len(), COUNT);
        assert_eq!(zip.names["a.txt"], COUNT + 1);
        for name in ["a.txt", "a (2).txt", "a (3).txt", "a (4).txt", "a (3000).txt"] {
            assert!(zip.names.contains_key(name), "{name}");
        }
        // A search begins where the last one of its name has ended.
        assert_eq!(zip.names.values().sum::<usize>(), 2 * (COUNT - 1) + COUNT + 1);
    }

    impl ZipFile {
        fn finished(mut self) -> Vec<u8> {
            self.finish().unwrap();
            self.take()
        }
    }
}
