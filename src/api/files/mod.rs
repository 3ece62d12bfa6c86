//! Sent and received files: their names, and zip archives.

pub(crate) mod zip;

use std::collections::HashSet;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// The media types of what is sent.
pub(super) const JSON: &str = "application/json";
pub(super) const ZIP: &str = "application/zip";

/// The longest part of a name that is made from one text, in characters.
const LONGEST_PART: usize = 80;

/// The response with a file that a browser saves under this name, which is a safe one.
pub(super) fn download(name: &str, kind: &'static str, content: Vec<u8>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, kind)], content).into_response();
    if let Ok(value) = HeaderValue::try_from(disposition(name)) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// A header has ASCII: a name with other characters stands there twice, as in RFC 6266.
fn disposition(name: &str) -> String {
    let ascii: String = name.chars().map(|c| if c.is_ascii() { c } else { '-' }).collect();
    let mut value = format!("attachment; filename={ascii}");
    if ascii != name {
        value.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                value.push(char::from(byte));
            } else {
                value.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    value
}

/// A text as part of the name of a file, on every system: letters, digits, `-`, `_` and `.`; at most 80 characters.
pub(super) fn safe(text: &str) -> String {
    let safe = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    text.chars().take(LONGEST_PART).map(safe).collect()
}

/// A name in words as part of the name of a file, as Elsa writes it: `OrderShipped v2` becomes `order-shipped-v2`.
pub(super) fn slug(name: &str) -> String {
    let characters: Vec<char> = name.trim().chars().take(LONGEST_PART).collect();
    let mut slug = String::new();
    for (at, &c) in characters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| characters.get(at));
        let follows_word = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        let ends_capitals = before.is_some_and(|before| before.is_uppercase())
            && characters.get(at + 1).is_some_and(|c| c.is_lowercase());
        if c.is_uppercase() && (follows_word || ends_capitals) {
            slug.push('-');
        }
        match c {
            '_' => slug.push('-'),
            c => slug.extend(c.to_lowercase()),
        }
    }
    safe(&slug)
}

/// The names of the files of one archive, none of which occurs twice on any system.
#[derive(Default)]
pub(super) struct UniqueNames(HashSet<String>);

impl UniqueNames {
    /// `stem.extension`, with a number if there is such a name.
    pub(super) fn take(&mut self, stem: &str, extension: &str) -> String {
        let mut name = format!("{stem}.{extension}");
        let mut number = 1;
        while !self.0.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{stem}-{number}.{extension}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_words_becomes_a_slug() {
        for (name, expected) in [
            ("OrderShipped v2", "order-shipped-v2"),
            (" Workflow 1 ", "workflow-1"),
            ("HTTPServer_main", "http-server-main"),
            ("../../etc/passwd", "..-..-etc-passwd"),
            ("a\"b;c\r\nd", "a-b-c--d"),
            ("Größe", "größe"),
            ("", ""),
        ] {
            assert_eq!(slug(name), expected, "{name:?}");
        }
        assert_eq!(slug(&"x".repeat(1000)).len(), LONGEST_PART);
    }

    #[test]
    fn a_name_is_text_of_a_header() {
        assert_eq!(disposition("a-1.json"), "attachment; filename=a-1.json");
        assert_eq!(
            disposition("größe.json"),
            "attachment; filename=gr--e.json; filename*=UTF-8''gr%C3%B6%C3%9Fe.json"
        );
    }

    #[test]
    fn names_of_one_archive_are_unique() {
        let mut names = UniqueNames::default();
        let taken: Vec<String> = ["a", "A", "a", "b"].map(|stem| names.take(stem, "json")).into();
        assert_eq!(taken, ["a.json", "A-2.json", "a-3.json", "b.json"]);
    }
}
