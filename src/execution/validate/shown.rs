//! How a message shows a value of a definition.

use std::io;

use serde_json::Value;

/// A value for a message, cut to [`MAX_SHOWN`] bytes.
pub(super) fn short(value: &Value) -> String {
    let mut writer = BoundedWriter(Vec::new());
    // Serialization stops after enough bytes: the value may be most of a definition, at each level.
    let is_cut = serde_json::to_writer(&mut writer, value).is_err();
    let text = String::from_utf8_lossy(&writer.0);
    let end = (0..=text.len().min(MAX_SHOWN))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let shown = text.get(..end.unwrap_or(0)).unwrap_or_default();
    if is_cut {
        format!("{shown}…")
    } else {
        shown.to_owned()
    }
}

/// How many bytes of a value a message shows.
const MAX_SHOWN: usize = 40;

/// Keeps the beginning of a text, a few bytes more than are shown.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let left = MAX_SHOWN + 4 - self.0.len().min(MAX_SHOWN + 4);
        self.0.extend(piece.iter().take(left));
        if self.0.len() > MAX_SHOWN {
            return Err(io::Error::other("the text is cut"));
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_beginning_of_a_value_is_shown() {
        assert_eq!(short(&json!([1, "a"])), r#"[1,"a"]"#);
        assert_eq!(short(&json!("x".repeat(38))), format!("\"{}\"", "x".repeat(38)));
        assert_eq!(short(&json!("x".repeat(39))), format!("\"{}…", "x".repeat(39)));
        assert_eq!(short(&json!("é".repeat(30))), format!("\"{}…", "é".repeat(19)));
        let mut writer = BoundedWriter(Vec::new());
        assert!(serde_json::to_writer(&mut writer, &vec!["long"; 100_000]).is_err());
        assert!(writer.0.len() <= MAX_SHOWN + 4);
    }
}
