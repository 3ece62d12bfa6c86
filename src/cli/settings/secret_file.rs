//! Secrets from files, because every user of a machine can read the command lines of its processes.

use std::ffi::OsString;
use std::io::Read;

use crate::harness::secret::{Secret, redact};

/// The largest file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// The flags that may contain a secret, with what to use instead. A URL is a secret only if it has a password.
const FLAGS: [(&str, &str); 7] = [
    ("--api-key", "--api-key-file"),
    ("--script-config", "--script-config-file"),
    ("--database-url", "--database-password-file"),
    ("--direct-database-url", "--database-password-file"),
    ("--redis-url", "redis-url-file in the --config file"),
    ("--rabbitmq-url", "rabbitmq-url-file in the --config file"),
    ("--smtp-url", "smtp-url-file in the --config file"),
];

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

/// A warning for each secret among the arguments of this process.
pub(crate) fn readable_arguments(arguments: &[OsString]) -> Vec<String> {
    let warning = |(flag, instead): &(&str, &str)| {
        let variable = flag.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
        format!(
            "every user of this machine can read {flag} in the list of processes; use {instead}, or the environment variable \
             MAINSPRING_{variable}"
        )
    };
    FLAGS
        .iter()
        .filter(|(flag, _)| is_given(flag, arguments))
        .map(warning)
        .collect()
}

fn is_given(flag: &str, arguments: &[OsString]) -> bool {
    let is_secret = |value: &str| !flag.ends_with("-url") || redact(value) != value;
    let mut given = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = given.next() {
        let found = match argument.strip_prefix(flag) {
            Some("") => given.next().is_some_and(|value| is_secret(&value)),
            Some(rest) => rest.strip_prefix('=').is_some_and(is_secret),
            None => false,
        };
        if found {
            return true;
        }
    }
    false
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
        let found = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            readable_arguments(&arguments).join("\n")
        };
        assert!(
            found(&["serve", "--api-key", "k"])
                .contains("use --api-key-file, or the environment variable MAINSPRING_API_KEY")
        );
        assert!(found(&["eval", "--script-config=a=b"]).contains("--script-config "));
        assert_eq!(found(&["serve", "--api-key-file", "f", "--listen", "127.0.0.1:0"]), "");
        for url in ["postgres://u:p@h/d", "Server=h;Password=p", "postgres://h/d?password=p"] {
            assert!(
                found(&["check", "--database-url", url]).contains("--database-password-file"),
                "{url}"
            );
        }
        assert!(found(&["serve", "--redis-url=redis://:p@h"]).contains("redis-url-file"));
        assert!(found(&["serve", "--smtp-url", "smtp://u:p@h"]).contains("smtp-url-file"));
        for url in ["postgres://u@h/d", "Server=h;Database=d", "redis://h"] {
            assert_eq!(
                found(&["serve", "--database-url", url, "--redis-url", url]),
                "",
                "{url}"
            );
        }
    }
}
