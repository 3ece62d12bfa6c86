//! How a body is read, by its content type.

use std::fmt;
use std::io::Read;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::definition::{JsonLimitError, check_json};

/// How deep a JSON body may nest: as deep as values of a workflow.
const MAX_DEPTH: usize = 100;

/// How a body is read, as in Elsa: its content type decides, and nothing is guessed from the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    /// XML stays text.
    Xml,
    /// Plain text or HTML.
    Text,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// Anything else.
    File,
}

/// A body that is not what its content type says: 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MalformedBody {
    pub(crate) message: String,
    /// From 0, as .NET counts lines, where the body is JSON.
    pub(crate) line_number: Option<u64>,
}

impl fmt::Display for MalformedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl MalformedBody {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            line_number: None,
        }
    }

    fn of_json(error: &serde_json::Error) -> Self {
        Self {
            message: format!("The body is no JSON: {error}"),
            line_number: u64::try_from(error.line()).ok().map(|line| line.saturating_sub(1)),
        }
    }
}

impl BodyKind {
    /// The kind of a content type.
    pub(crate) fn of(content_type: &str) -> Self {
        let media_type = media_type(content_type);
        match media_type.as_str() {
            "application/x-www-form-urlencoded" => Self::Form,
            "multipart/form-data" => Self::Multipart,
            "text/plain" | "text/html" => Self::Text,
            other if other.contains("json") => Self::Json,
            other if other.contains("xml") => Self::Xml,
            _ => Self::File,
        }
    }

    /// Whether a body of this kind is text.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Json | Self::Xml | Self::Text)
    }

    /// Decodes a body of text by the character set of its content type: UTF-8 where none is named. It has no byte order mark then.
    /// Errors: JSON that is broken, or text that the database cannot store.
    pub(crate) fn decode(self, content_type: &str, bytes: Vec<u8>) -> Result<String, MalformedBody> {
        let charset = parameter(content_type, "charset")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let text = match charset.as_str() {
            "iso-8859-1" | "latin1" => bytes.iter().map(|byte| char::from(*byte)).collect(),
            "utf-16" | "utf-16le" | "utf-16be" => utf16(&bytes, charset == "utf-16be"),
            _ => match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(_) if self == Self::Json => return Err(MalformedBody::new("The body is no JSON: it is no UTF-8")),
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            },
        };
        let text = match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        };
        if self == Self::Json {
            read_json(&text)?;
        } else if text.contains('\0') {
            return Err(nul());
        }
        Ok(text)
    }

    /// Checks a body that is not read into memory. Blocks.
    /// Errors: JSON that is broken.
    pub(crate) fn check(self, reader: impl Read) -> Result<(), MalformedBody> {
        if self == Self::Json {
            let read: serde_json::Result<IgnoredAny> = serde_json::from_reader(std::io::BufReader::new(reader));
            read.map_err(|error| MalformedBody::of_json(&error))?;
        }
        Ok(())
    }
}

/// The value of a JSON text, as workflows can keep it.
pub(super) fn read_json(text: &str) -> Result<Value, MalformedBody> {
    let value = serde_json::from_str(text).map_err(|error| MalformedBody::of_json(&error))?;
    match check_json(&value, MAX_DEPTH) {
        Ok(_) => Ok(value),
        Err(JsonLimitError::TooDeep) => Err(MalformedBody::new(format!(
            "The body nests deeper than {MAX_DEPTH} levels"
        ))),
        Err(JsonLimitError::Nul) => Err(nul()),
    }
}

fn nul() -> MalformedBody {
    MalformedBody::new("The body contains the character U+0000, which cannot be stored")
}

fn utf16(bytes: &[u8], is_big_endian: bool) -> String {
    let units = bytes.chunks(2).map(|pair| match pair {
        [first, second] if is_big_endian => u16::from_be_bytes([*first, *second]),
        [first, second] => u16::from_le_bytes([*first, *second]),
        _ => 0xfffd,
    });
    char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

/// A content type without its parameters, in lower case.
pub(crate) fn media_type(content_type: &str) -> String {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// A parameter of a content type, without quotes.
fn parameter<'t>(content_type: &'t str, name: &str) -> Option<&'t str> {
    let parameters = content_type.split(';').skip(1).filter_map(|part| part.split_once('='));
    let mut named = parameters.filter(|(it, _)| it.trim().eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.trim().trim_matches('"'))
}
