//! The header `Content-Disposition`: the name of a file.

use super::form::percent_decoded;

/// The name of a file in the header, with whatever folders it has. The form of RFC 5987, `filename*=utf-8''…`, goes before the
/// plain one.
pub(crate) fn filename_of(disposition: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(disposition);
    let mut plain = None;
    for parameter in parameters(&text) {
        let Some((name, value)) = parameter.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("filename*") {
            // UTF-8'language'escaped
            let mut parts = value.splitn(3, '\'');
            let is_utf8 = parts
                .next()
                .is_some_and(|charset| charset.eq_ignore_ascii_case("utf-8"));
            if let (true, Some(escaped)) = (is_utf8, parts.nth(1)) {
                return Some(percent_decoded(escaped));
            }
        } else if name.eq_ignore_ascii_case("filename") {
            plain.get_or_insert_with(|| unquoted(value));
        }
    }
    plain
}

/// The parameters, which quoted texts with a semicolon do not split.
fn parameters(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                found.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(text.get(start..));
    found
}

/// A quoted text without its quotes. A backslash is only an escape before a quote: browsers on Windows once sent paths.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    inner.strip_suffix('"').unwrap_or(inner).replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_is_found_in_any_form() {
        for (disposition, name) in [
            ("form-data; name=\"f\"; filename=\"a;b \\\"c\\\".txt\"", "a;b \"c\".txt"),
            ("attachment; filename=plain.txt; filename=other", "plain.txt"),
            (
                "attachment; filename=\"x\"; filename*=UTF-8''%E2%82%AC+1%26.txt",
                "€+1&.txt",
            ),
            ("attachment; filename*=utf-8'en'50%=%zz&", "50%=%zz&"),
            ("form-data; filename=\"C:\\a\\b\"", "C:\\a\\b"),
            ("attachment; filename=\"", ""),
        ] {
            assert_eq!(
                filename_of(disposition.as_bytes()).as_deref(),
                Some(name),
                "{disposition}"
            );
        }
        assert_eq!(filename_of(b"form-data; name=\"filename=x\""), None);
        assert_eq!(filename_of(b"attachment; filename*=iso-8859-1''x"), None);
        assert_eq!(filename_of(b";;=;filename"), None);
    }
}
