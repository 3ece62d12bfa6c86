//! The variables of Elsa's mail module.

use super::encoded;
use crate::harness::secret::Secret;

/// The port that Elsa connects to where none is given.
const PORT: &str = "25";

/// Where the mail server is, and who sends.
#[derive(Debug, Default)]
pub(super) struct SmtpVariables {
    host: Option<String>,
    port: Option<String>,
    /// A value of MailKit's `SecureSocketOptions`, in lower case.
    encryption: String,
    /// Whether to log in; without it, user and password have no effect.
    requires_credentials: bool,
    user: Option<String>,
    password: Option<Secret>,
    /// The sender of mails that name none.
    pub(super) from: Option<String>,
}

impl SmtpVariables {
    /// Reads a variable, whose name is `plain` in capitals, if it is one of these.
    pub(super) fn read(&mut self, plain: &str, value: &str) {
        let text = || Some(value.to_owned());
        match plain {
            "SMTP__HOST" => self.host = text(),
            "SMTP__PORT" => self.port = text(),
            "SMTP__SECURESOCKETOPTIONS" => self.encryption = value.to_ascii_lowercase(),
            "SMTP__REQUIRECREDENTIALS" => self.requires_credentials = value.eq_ignore_ascii_case("true"),
            "SMTP__USERNAME" => self.user = text(),
            "SMTP__PASSWORD" => self.password = text().map(Secret::from),
            "SMTP__DEFAULTSENDER" => self.from = text(),
            _ => {}
        }
    }

    /// The URL that the variables make together. What Elsa encrypts if the server offers it is encrypted here.
    pub(super) fn url(&self) -> Option<Secret> {
        let host = self.host.as_ref()?;
        let port = self.port.as_deref().unwrap_or(PORT);
        let (scheme, query) = match self.encryption.as_str() {
            "none" | "0" => ("smtp", "?tls=none"),
            "sslonconnect" | "2" => ("smtps", ""),
            _ if port == "465" => ("smtps", ""),
            _ => ("smtp", ""),
        };
        let user = match (&self.user, &self.password) {
            (Some(user), Some(password)) if self.requires_credentials => {
                format!("{}:{}@", encoded(user), encoded(password.reveal()))
            }
            _ => String::new(),
        };
        Some(Secret::from(format!("{scheme}://{user}{host}:{port}{query}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<String> {
        let mut found = SmtpVariables::default();
        for (name, value) in variables {
            found.read(name, value);
        }
        assert!(!format!("{found:?}").contains("geheim"), "{found:?}");
        found.url().map(|url| url.reveal().to_owned())
    }

    #[test]
    fn a_url_is_made_of_the_parts() {
        let host = ("SMTP__HOST", "mail.example");
        let user = [("SMTP__USERNAME", "u@x"), ("SMTP__PASSWORD", "geheim/#")];
        let requires = |value| ("SMTP__REQUIRECREDENTIALS", value);
        for (variables, url) in [
            (vec![("SMTP__PORT", "1")], None),
            (vec![host], Some("smtp://mail.example:25")),
            (vec![host, ("SMTP__PORT", "465")], Some("smtps://mail.example:465")),
            (
                vec![host, ("SMTP__SECURESOCKETOPTIONS", "None")],
                Some("smtp://mail.example:25?tls=none"),
            ),
            (
                vec![
                    host,
                    ("SMTP__PORT", "1465"),
                    ("SMTP__SECURESOCKETOPTIONS", "SslOnConnect"),
                ],
                Some("smtps://mail.example:1465"),
            ),
            (
                vec![host, user[0], user[1], requires("True")],
                Some("smtp://u%40x:geheim%2F%23@mail.example:25"),
            ),
            // As in Elsa, whose default this is.
            (vec![host, user[0], user[1]], Some("smtp://mail.example:25")),
            (
                vec![host, user[0], user[1], requires("false")],
                Some("smtp://mail.example:25"),
            ),
        ] {
            assert_eq!(of(&variables).as_deref(), url, "{variables:?}");
        }
    }
}
