//! A password file, read for each connection, so that the password can change while nodes run.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The parameter of a database URL that names the file; it is not sent to the server.
const PARAMETER: &str = "password_file";

/// The longest password, in bytes.
const LONGEST: u64 = 4096;

/// A file that contains the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PasswordFile(PathBuf);

impl PasswordFile {
    /// Removes the parameter from a database URL: among the parameters of a `postgres://…?…`, or the last of `key=value`
    /// pairs. The driver parses the rest.
    pub(super) fn taken_from(text: &str) -> (String, Option<Self>) {
        let assigned = format!("{PARAMETER}=");
        if text.contains("://") {
            let Some((base, query)) = text.split_once('?') else {
                return (text.to_owned(), None);
            };
            let mut file = None;
            let mut kept = Vec::new();
            for parameter in query.split('&') {
                match parameter.strip_prefix(&assigned) {
                    Some(path) => file = Some(Self(decoded(path).into())),
                    None => kept.push(parameter),
                }
            }
            let query = kept.join("&");
            let separator = if query.is_empty() { "" } else { "?" };
            return (format!("{base}{separator}{query}"), file);
        }
        match text.rsplit_once(&assigned) {
            Some((before, path)) if before.is_empty() || before.ends_with(char::is_whitespace) => {
                (before.trim_end().to_owned(), Some(Self(path.trim().into())))
            }
            _ => (text.to_owned(), None),
        }
    }

    /// Reads the password, without a line end at the end of the file.
    /// Errors: An error of the file system, or an empty or too long file.
    pub(super) async fn read(&self) -> std::io::Result<Vec<u8>> {
        let path = self.0.clone();
        tokio::task::spawn_blocking(move || read(&path))
            .await
            .map_err(std::io::Error::other)?
    }

    /// A warning if another user can read it.
    pub(super) async fn exposure(&self) -> Option<String> {
        let path = self.0.clone();
        let readers = tokio::task::spawn_blocking(move || readers(&path)).await.ok()??;
        Some(format!(
            "the password file {} can be read by {readers}: chmod 600 it",
            self.path()
        ))
    }

    /// The path, for messages; it is no secret.
    pub(super) fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut password = Vec::new();
    std::fs::File::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut password)?;
    if password.last() == Some(&b'\n') {
        password.pop();
        if password.last() == Some(&b'\r') {
            password.pop();
        }
    }
    match password.len() as u64 {
        0 => Err(std::io::Error::other("it is empty")),
        length if length > LONGEST => Err(std::io::Error::other("it is too long for a password")),
        _ => Ok(password),
    }
}

/// Who can read a file beside its owner. As for libpq, a group may if the file belongs to root.
pub(crate) fn readers(path: &Path) -> Option<&'static str> {
    let of = std::fs::metadata(path).ok()?;
    if of.mode() & 0o004 != 0 {
        return Some("every user of this machine");
    }
    (of.mode() & 0o040 != 0 && of.uid() != 0).then_some("its group")
}

/// A database URL with the parameter.
#[cfg(any(feature = "cli", test))]
pub(crate) fn with_file(url: &str, file: &Path) -> String {
    let file = file.to_string_lossy();
    if !url.contains("://") {
        return format!("{url} {PARAMETER}={file}");
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{PARAMETER}={}", encoded(&file))
}

#[cfg(any(feature = "cli", test))]
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.split_at_checked(2).and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, following) = match hex {
            Some(decoded) if *first == b'%' => decoded,
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = following;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_named_in_the_url_and_the_driver_does_not_see_it() {
        let path = Path::new("/run/secrets/a b&c%d");
        for (url, same) in [
            ("postgres://u@h:1/d", "postgres://u@h:1/d"),
            ("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require"),
            ("host=h user=u", "host=h user=u"),
        ] {
            assert_eq!(PasswordFile::taken_from(url), (url.to_owned(), None));
            let (rest, file) = PasswordFile::taken_from(&with_file(url, path));
            assert_eq!((rest.as_str(), file), (same, Some(PasswordFile(path.into()))));
        }
    }

    #[tokio::test]
    async fn a_file_that_others_can_read_is_reported() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("mainspring-password-{}", uuid::Uuid::new_v4().simple()));
        let file = PasswordFile(path.clone());
        assert_eq!(file.exposure().await, None, "it is not there");
        std::fs::write(&path, "s3cr3t").unwrap();
        let root = std::fs::metadata(&path).unwrap().uid() == 0;
        for (mode, expected) in [
            (0o644, Some("every user")),
            (0o604, Some("every user")),
            (0o640, if root { None } else { Some("its group") }),
            (0o600, None),
            (0o400, None),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let exposure = file.exposure().await;
            assert_eq!(exposure.is_some(), expected.is_some(), "{mode:o}: {exposure:?}");
            let message = exposure.unwrap_or_default();
            assert!(
                message.contains(expected.unwrap_or_default()) && !message.contains("s3cr3t"),
                "{mode:o}: {message}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn a_password_is_read_without_its_line_end_and_only_if_it_is_one() {
        let path = std::env::temp_dir().join(format!("mainspring-password-{}", uuid::Uuid::new_v4().simple()));
        let file = PasswordFile(path.clone());
        assert!(file.read().await.is_err());
        for (text, password) in [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(file.read().await.unwrap(), password.as_bytes());
        }
        for bad in ["".to_owned(), "\n".to_owned(), "a".repeat(5000)] {
            std::fs::write(&path, bad).unwrap();
            assert!(file.read().await.is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
