//! The path of a request, as ASP.NET Core's server and matcher read it.

use std::borrow::Cow;
use std::fmt;

use crate::case::{folded, is_folded};
use crate::segment::{LONGEST_TEMPLATE, MOST_SEGMENTS, push_literal};

/// In bytes: the longest path. Kestrel's longest request line is as long.
pub const LONGEST_PATH: usize = 8 << 10;

/// The segments that are looked at one by one: those of the longest template, and one more.
const SEGMENTS: usize = MOST_SEGMENTS + 1;

/// In bytes: no anchor of a template is longer. Without its case a character may have three times as many bytes.
const LONGEST_ANCHOR: usize = 3 * LONGEST_TEMPLATE + 4;

/// The path of a request, in segments.
///
/// It is split at `/` after each segment has been decoded. `%2F` is not decoded, and so it does not split. An escape that is
/// not complete or not UTF-8 stays as it is. `.` and `..`, escaped or not, are removed as RFC 3986 says. Text keeps its case.
/// One slash at the end is no segment; two in a row have an empty segment between them, which only a catch-all matches.
#[derive(Clone, Debug)]
pub struct RequestPath<'p> {
    text: Cow<'p, str>,
    /// Where the first segments begin and end.
    places: [(u16, u16); SEGMENTS],
    count: usize,
    /// The first segments without their case, if they are not so already.
    folded: Option<Box<[Cow<'static, str>]>>,
}

/// Why a text is no path. Each is for the client to mend: 400, or 414 for one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It is longer than [`LONGEST_PATH`].
    TooLong,
    /// It does not begin with a slash, or it has a query or a fragment.
    NotAPath,
    /// It has a null character.
    Null,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the path has more than {LONGEST_PATH} bytes"),
            Self::NotAPath => f.write_str("a path begins with / and has neither ? nor #; write %3F and %23"),
            Self::Null => f.write_str("the path has a null character"),
        }
    }
}

impl std::error::Error for PathError {}

impl<'p> RequestPath<'p> {
    /// Reads a path as the request has it: encoded, with its first slash, without its query. An empty text is `/`.
    pub fn parse(raw: &'p str) -> Result<Self, PathError> {
        if raw.len() > LONGEST_PATH {
            return Err(PathError::TooLong);
        }
        if !(raw.is_empty() || raw.starts_with('/')) || raw.contains(['?', '#']) {
            return Err(PathError::NotAPath);
        }
        let text = if raw.contains('%') || raw.contains("/.") {
            Cow::Owned(cleaned(raw)?)
        } else {
            Cow::Borrowed(raw)
        };
        if text.contains('\0') {
            return Err(PathError::Null);
        }
        let mut path = Self {
            text,
            places: [(0, 0); SEGMENTS],
            count: 0,
            folded: None,
        };
        path.split();
        Ok(path)
    }

    fn split(&mut self) {
        let mut start = 1;
        let mut rest = self.text.get(1..).unwrap_or_default();
        loop {
            let end = rest.find('/');
            let length = end.unwrap_or(rest.len());
            // Nothing behind the last slash is no segment.
            if end.is_none() && length == 0 {
                break;
            }
            if let Some(place) = self.places.get_mut(self.count) {
                let short = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
                *place = (short(start), short(start + length));
            }
            self.count += 1;
            let Some(end) = end else { break };
            rest = rest.get(end + 1..).unwrap_or_default();
            start += end + 1;
        }
        if !is_folded(&self.text) {
            let segments = (0..self.count.min(SEGMENTS)).map(|at| folded(self.segment(at)).into_owned().into());
            self.folded = Some(segments.collect());
        }
    }

    /// The path without escapes, as the values of catch-alls are taken from it.
    pub fn as_str(&self) -> &str {
        if self.text.is_empty() { "/" } else { &self.text }
    }

    /// The shape of the template that has this path only; `None` if there is none, as the path has an empty segment, or more
    /// segments than a template can have.
    pub fn shape(&self) -> Option<String> {
        if self.count > MOST_SEGMENTS {
            return None;
        }
        let mut shape = String::with_capacity(self.text.len());
        for at in 0..self.count {
            if at > 0 {
                shape.push('/');
            }
            let segment = self.folded(at);
            if segment.is_empty() {
                return None;
            }
            push_literal(segment, &mut shape);
        }
        Some(shape)
    }

    /// The [`Template::anchor`](crate::Template::anchor) of each template that may match the path: at most 407.
    pub fn anchors(&self) -> Vec<String> {
        let count = self.count.min(MOST_SEGMENTS);
        let mut anchors = vec![String::new()];
        for first in 0..count {
            let mut anchor = first.to_string();
            for at in first..count {
                anchor.push('/');
                anchor.push_str(self.folded(at));
                if anchor.len() > LONGEST_ANCHOR {
                    break;
                }
                anchors.push(anchor.clone());
            }
        }
        anchors
    }

    /// The number of segments.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// A segment; empty behind the last one.
    pub(crate) fn segment(&self, at: usize) -> &str {
        let (start, end) = self.places.get(at).copied().unwrap_or_default();
        self.text.get(usize::from(start)..usize::from(end)).unwrap_or_default()
    }

    /// A segment without its case.
    pub(crate) fn folded(&self, at: usize) -> &str {
        match &self.folded {
            Some(folded) => folded.get(at).map(|segment| &**segment).unwrap_or_default(),
            None => self.segment(at),
        }
    }

    /// All from a segment on, with its slashes; empty behind the last segment.
    pub(crate) fn rest(&self, at: usize) -> &str {
        let (start, _) = self
            .places
            .get(at)
            .copied()
            .filter(|_| at < self.count)
            .unwrap_or_default();
        if start == 0 {
            return "";
        }
        self.text.get(usize::from(start)..).unwrap_or_default()
    }
}

/// A path without escapes and dots.
fn cleaned(raw: &str) -> Result<String, PathError> {
    let mut clean = String::with_capacity(raw.len());
    let mut segments = raw.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let decoded = decoded(segment)?;
        if decoded == ".." {
            clean.truncate(clean.rfind('/').unwrap_or(0));
        }
        let is_dots = decoded == "." || decoded == "..";
        if !is_dots {
            clean.push('/');
            clean.push_str(&decoded);
        } else if segments.peek().is_none() {
            clean.push('/');
        }
    }
    Ok(clean)
}

/// A segment without its escapes, except `%2F` and those that are not UTF-8.
pub(crate) fn decoded(segment: &str) -> Result<Cow<'_, str>, PathError> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    let mut decoded = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        let (before, escaped) = rest.split_at(at);
        decoded.push_str(before);
        match escaped_char(escaped) {
            Some(('\0', _)) => return Err(PathError::Null),
            Some((c, length)) if c != '/' => {
                decoded.push(c);
                rest = escaped.get(length..).unwrap_or_default();
            }
            _ => {
                decoded.push('%');
                rest = escaped.get(1..).unwrap_or_default();
            }
        }
    }
    decoded.push_str(rest);
    Ok(Cow::Owned(decoded))
}

/// The character that escapes begin with, and their length.
fn escaped_char(escaped: &str) -> Option<(char, usize)> {
    let byte = |at: usize| {
        let digits = escaped.get(at..at + 3)?.strip_prefix('%')?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let first = byte(0)?;
    let count = match first {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => return None,
    };
    let mut bytes = [0; 4];
    for (at, slot) in bytes.iter_mut().take(count).enumerate() {
        *slot = byte(3 * at)?;
    }
    let text = str::from_utf8(bytes.get(..count)?).ok()?;
    text.chars().next().map(|c| (c, 3 * count))
}
