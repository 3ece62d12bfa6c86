//! How a body is read, by its content type.

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

    /// Decodes and checks a body of text.
    /// Errors: what is wrong with it.
    pub(crate) fn decode(self, content_type: &str, bytes: Vec<u8>) -> Result<String, String> {
        let text = self.text(content_type, bytes)?;
        self.check(&text)?;
        Ok(text)
    }

    /// The text of a body by the character set of its content type: UTF-8 where none is named. It has no byte order mark.
    /// Errors: JSON is no UTF-8.
    pub(crate) fn text(self, content_type: &str, bytes: Vec<u8>) -> Result<String, String> {
        let charset = parameter(content_type, "charset")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let text = match charset.as_str() {
            "iso-8859-1" | "latin1" => bytes.iter().map(|byte| char::from(*byte)).collect(),
            "utf-16" | "utf-16le" | "utf-16be" => utf16(&bytes, charset == "utf-16be"),
            _ => match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(_) if self == Self::Json => return Err("The body is no JSON: it is no UTF-8".to_owned()),
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            },
        };
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    }

    /// Checks a text before anything starts with it.
    /// Errors: JSON is broken, or the database cannot store the text.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        if self == Self::Json {
            read_json(text).map(drop)
        } else if text.contains('\0') {
            Err(nul())
        } else {
            Ok(())
        }
    }
}

/// The value of a JSON text, as workflows can keep it.
/// Errors: what is wrong with it.
pub(super) fn read_json(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("The body is no JSON: {error}"))?;
    match check_json(&value, MAX_DEPTH) {
        Ok(_) => Ok(value),
        Err(JsonLimitError::TooDeep) => Err(format!("The body nests deeper than {MAX_DEPTH} levels")),
        Err(JsonLimitError::Nul) => Err(nul()),
    }
}

fn nul() -> String {
    "The body contains the character U+0000, which cannot be stored".to_owned()
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
