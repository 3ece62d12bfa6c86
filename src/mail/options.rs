//! The settings of mails.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a node sends the mails of workflows.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailOptions {
    /// The SMTP server: `smtp://user:password@host:587`, which must offer STARTTLS (without encryption:
    /// `smtp://host:25?tls=none`), or `smtps://user:password@host:465`, which is encrypted from its begin.
    pub url: String,
    /// The sender of mails that name none: `Shop <shop@example.org>`. Default: none.
    pub from: Option<String>,
    /// A PEM file of certificates of authorities that are trusted besides those of the system.
    pub root_certificates: Option<PathBuf>,
    /// How long a mail may wait for one of the connections of the node and for memory, and then how long it may take to send it.
    /// Default: 60 s.
    pub timeout: Duration,
    /// The most bytes of all attachments of one mail, at most 100 MiB. Default: 25 MiB.
    pub attachment_bytes: u64,
}

impl MailOptions {
    /// The defaults, with the URL of a server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            from: None,
            root_certificates: None,
            timeout: Duration::from_secs(60),
            attachment_bytes: 25 << 20,
        }
    }
}

/// The URL may have a password.
impl fmt::Debug for MailOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailOptions")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
