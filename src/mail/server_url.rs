//! The URL of an SMTP server.

use lettre::transport::smtp::authentication::Credentials;
use percent_encoding::percent_decode_str;
use reqwest::Url;

/// Where the server is, and how it is reached.
#[derive(Debug)]
pub(super) struct ServerUrl {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    pub(super) credentials: Option<Credentials>,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// After STARTTLS, before anything else is sent.
    StartTls,
    /// From its begin.
    Implicit,
    /// Never.
    None,
}

const FORMS: &str =
    "give smtp://user:password@host:587 (STARTTLS), smtps://user:password@host:465, or smtp://host:25?tls=none";

impl ServerUrl {
    /// Reads the setting. Errors: What is wrong with it, without quoting it: it may have a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| format!("it is no URL ({error}); {FORMS}"))?;
        let mut encryption = match url.scheme() {
            "smtp" => Encryption::StartTls,
            "smtps" => Encryption::Implicit,
            _ => return Err(format!("its scheme is neither smtp nor smtps; {FORMS}")),
        };
        for (name, value) in url.query_pairs() {
            encryption = match (&*name, &*value, encryption) {
                ("tls", "none", Encryption::StartTls) => Encryption::None,
                ("tls", "none", _) => {
                    return Err("smtps is encrypted: leave tls=none out, or begin with smtp://".to_owned());
                }
                ("tls", ..) => return Err("tls is `none`, or left out: the connection is encrypted then".to_owned()),
                _ => return Err(format!("its query has something else than tls=none; {FORMS}")),
            };
        }
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(format!(
                "it has a path; percent-encode a / or # in the password; {FORMS}"
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("it names no host; {FORMS}"));
        }
        let credentials = credentials(&url)?;
        if encryption == Encryption::None && credentials.is_some() {
            return Err(
                "a password is sent over encrypted connections only: leave tls=none out, or the password".to_owned(),
            );
        }
        let port = url.port().unwrap_or(match encryption {
            Encryption::StartTls => 587,
            Encryption::Implicit => 465,
            Encryption::None => 25,
        });
        Ok(Self {
            host: host.to_owned(),
            port,
            encryption,
            credentials,
        })
    }
}

fn credentials(url: &Url) -> Result<Option<Credentials>, String> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(String::from)
            .map_err(|_| "its user or password is no UTF-8".to_owned())
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, Some(password)) if !user.is_empty() => Ok(Some(Credentials::new(decoded(user)?, decoded(password)?))),
        _ => Err(format!("it has a user or a password without the other; {FORMS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_a_server_is_reached() {
        use Encryption::{Implicit, None, StartTls};
        for (text, host, port, encryption, has_user) in [
            ("smtp://u:p@mail.example", "mail.example", 587, StartTls, true),
            ("smtp://mail.example:25", "mail.example", 25, StartTls, false),
            ("smtp://mail.example/", "mail.example", 587, StartTls, false),
            (
                "smtps://u%40x:p%2f%23@mail.example",
                "mail.example",
                465,
                Implicit,
                true,
            ),
            ("smtp://localhost?tls=none", "localhost", 25, None, false),
            ("smtp://[::1]:1025?tls=none", "::1", 1025, None, false),
        ] {
            let url = ServerUrl::parse(text).unwrap();
            let read = (&*url.host, url.port, url.encryption, url.credentials.is_some());
            assert_eq!(read, (host, port, encryption, has_user), "{text}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why_and_quotes_nothing() {
        for (text, part) in [
            ("mail.example", "no URL"),
            ("http://u:hunter2@mail.example", "neither smtp nor smtps"),
            ("smtp://u:hunter2@mail.example?tls=none", "encrypted connections only"),
            ("smtps://mail.example?tls=none", "smtps is encrypted"),
            ("smtp://mail.example?tls=required", "tls is `none`"),
            ("smtp://mail.example?hunter2=1", "something else"),
            ("smtp://u:hunter2/x@mail.example", "no URL"),
            ("smtp://u@mail.example", "without the other"),
            ("smtp://:hunter2@mail.example", "without the other"),
            ("smtp://mail.example/hunter2", "path"),
            ("smtp:", "no host"),
        ] {
            let problem = ServerUrl::parse(text).unwrap_err();
            assert!(
                problem.contains(part) && !problem.contains("hunter2"),
                "{text}: {problem}"
            );
        }
        let url = ServerUrl::parse("smtp://u:hunter2@mail.example").unwrap();
        assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
    }
}
