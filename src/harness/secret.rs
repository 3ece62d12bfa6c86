//! Keeps passwords and keys out of all output.

use std::fmt;
use std::io::{self, Write};

use serde_json::Value;

use crate::activity::printable;

/// A text that `Debug` does not show.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// The text itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The replacement of a secret.
const HIDDEN: &str = "***";

/// Hides the passwords of URLs (`scheme://user:password@host`) and of connection strings (`password=…`).
pub(crate) fn redact(text: &str) -> String {
    hide_assigned(&hide_in_urls(text))
}

fn hide_in_urls(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        safe.push_str(before);
        safe.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>'));
        let (url, following) = after.split_at(end.unwrap_or(after.len()));
        // A password may contain an unescaped `@` or `/`: the last `@` ends it.
        match url
            .rsplit_once('@')
            .and_then(|(user, host)| Some((user.split_once(':')?.0, host)))
        {
            Some((user, host)) => {
                safe.push_str(user);
                safe.push(':');
                safe.push_str(HIDDEN);
                safe.push('@');
                safe.push_str(host);
            }
            None => safe.push_str(url),
        }
        rest = following;
    }
    safe.push_str(rest);
    safe
}

fn hide_assigned(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let lower = rest.to_ascii_lowercase();
        let found = ["password=", "pwd="]
            .iter()
            .filter_map(|name| Some(lower.find(name)? + name.len()))
            .min();
        let Some((before, after)) = found.and_then(|at| rest.split_at_checked(at)) else {
            safe.push_str(rest);
            return safe;
        };
        safe.push_str(before);
        safe.push_str(HIDDEN);
        let end = match after.strip_prefix('\'') {
            Some(quoted) => quoted.find('\'').map(|at| at + 2),
            None => after.find(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '"' | '\'')),
        };
        rest = after
            .split_at_checked(end.unwrap_or(after.len()))
            .map_or("", |(_, rest)| rest);
    }
}

/// A writer of whole log lines that hides secrets and escapes line breaks and terminal controls: log lines contain ids and
/// messages of clients. A write error is ignored, so that a node whose log pipe is closed still shuts down.
pub(crate) struct Redacting<W>(pub(crate) W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = redact(&String::from_utf8_lossy(bytes));
        let (line, end) = text.strip_suffix('\n').map_or((text.as_str(), ""), |line| (line, "\n"));
        let _ = self.0.write_all(format!("{}{end}", printable(line)).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// The same for lines that are JSON objects, which stay that: secrets are hidden in each of their texts. JSON escapes controls
/// itself.
pub(crate) struct RedactingJson<W>(pub(crate) W);

impl<W: Write> Write for RedactingJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What is no JSON after all is written as text.
        let Ok(mut line) = serde_json::from_slice::<Value>(bytes) else {
            return Redacting(&mut self.0).write(bytes);
        };
        redact_texts(&mut line);
        let _ = self.0.write_all(format!("{line}\n").as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

fn redact_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact(text),
        Value::Array(items) => items.iter_mut().for_each(redact_texts),
        Value::Object(fields) => fields.values_mut().for_each(redact_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_urls_and_connection_strings() {
        for (text, safe) in [
            ("postgres://u:p@h/d", "postgres://u:***@h/d"),
            (
                "'postgres://u:p@/w@h:5432/d' and more",
                "'postgres://u:***@h:5432/d' and more",
            ),
            (
                "a postgres://u:p@h, b mysql://v:q@i",
                "a postgres://u:***@h, b mysql://v:***@i",
            ),
            (
                "postgres://u@h/d?password=x&sslmode=require",
                "postgres://u@h/d?password=***&sslmode=require",
            ),
            ("host=h password=p user=u", "host=h password=*** user=u"),
            ("host=h password='p q' user=u", "host=h password=*** user=u"),
            ("Server=s;Password=p;Database=d", "Server=s;Password=***;Database=d"),
            ("http://127.0.0.1:5001/a", "http://127.0.0.1:5001/a"),
            ("nothing to hide", "nothing to hide"),
        ] {
            assert_eq!(redact(text), safe);
        }
        assert_eq!(format!("{:?}", Secret::from("x".to_owned())), "Secret(…)");
    }

    #[test]
    fn a_log_line_is_redacted_and_escaped() {
        let mut out = Vec::new();
        Redacting(&mut out)
            .write_all("at postgres://u:p@h\n".as_bytes())
            .unwrap();
        assert_eq!(out, b"at postgres://u:***@h\n");
        out.clear();
        let forged = "of i\n2026-11-23T00:00:00Z  INFO all is well\u{1b}[2J\n";
        Redacting(&mut out).write_all(forged.as_bytes()).unwrap();
        assert_eq!(out, b"of i\\n2026-11-23T00:00:00Z  INFO all is well\\u{1b}[2J\n");
    }

    #[test]
    fn a_line_of_json_is_redacted_and_stays_json() {
        let mut out = Vec::new();
        let line = r#"{"message":"at \"postgres://u:p@h\", password=\"q","span":{"n":1,"url":"postgres://u:p@h/d"}}"#;
        RedactingJson(&mut out)
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        let text = String::from_utf8(out.clone()).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["span"]["url"], "postgres://u:***@h/d");
        assert!(!text.contains(":p@") && text.ends_with("}\n"), "{text}");
        out.clear();
        RedactingJson(&mut out)
            .write_all(b"no json at postgres://u:p@h\n")
            .unwrap();
        assert_eq!(out, b"no json at postgres://u:***@h\n");
    }
}
