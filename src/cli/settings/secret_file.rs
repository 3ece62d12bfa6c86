//! Secrets from files: every user of a machine can read the command lines of its processes.

use std::ffi::OsString;
use std::io::Read;

use crate::harness::secret::Secret;

/// The largest file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// The flags whose values are secrets, each of which has a form `…-file`.
const FLAGS: [&str; 3] = ["--api-key", "--token-secret", "--script-config"];

/// The text of a file, without the line break at its end.
pub(crate) fn secret_file(path: &str) -> Result<Secret, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("the file has more than {LARGEST} bytes"));
    }
    let text = text
        .strip_suffix('\n')
        .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    Ok(text.to_owned().into())
}

/// Warns of each secret among the arguments of this process.
pub(crate) fn warn_of_readable_arguments(arguments: impl Iterator<Item = OsString>) {
    for flag in readable(arguments) {
        tracing::warn!(
            "every user of this machine can read {flag} in the list of processes; use {flag}-file, or the environment variable \
             MAINSPRING_{}",
            flag.trim_start_matches('-').replace('-', "_").to_ascii_uppercase()
        );
    }
}

fn readable(arguments: impl Iterator<Item = OsString>) -> Vec<&'static str> {
    let given: Vec<OsString> = arguments.collect();
    let is_given = |flag: &&str| {
        given.iter().filter_map(|argument| argument.to_str()).any(|argument| {
            argument
                .strip_prefix(*flag)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    FLAGS.into_iter().filter(is_given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_without_its_last_line_break() {
        let path = std::env::temp_dir().join(format!("mainspring-secret-{}", uuid::Uuid::new_v4()));
        for (text, secret) in [
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            ("a\nb", "a\nb"),
            ("", ""),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(secret_file(path.to_str().unwrap()).unwrap().reveal(), secret);
        }
        std::fs::write(&path, "x".repeat(65_537)).unwrap();
        assert!(secret_file(path.to_str().unwrap()).unwrap_err().contains("65536 bytes"));
        std::fs::remove_file(&path).unwrap();
        assert!(secret_file(path.to_str().unwrap()).is_err());
    }

    #[test]
    fn secrets_among_the_arguments_are_found_in_both_forms() {
        let found = |arguments: &[&str]| readable(arguments.iter().map(OsString::from));
        assert_eq!(found(&["serve", "--api-key", "k"]), ["--api-key"]);
        assert_eq!(
            found(&["--token-secret=s", "--script-config", "a=b"]),
            ["--token-secret", "--script-config"]
        );
        assert!(found(&["serve", "--api-key-file", "f", "--listen", "127.0.0.1:0"]).is_empty());
    }
}
