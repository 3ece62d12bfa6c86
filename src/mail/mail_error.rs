//! Why a mail is not sent.

use std::fmt;
use std::time::Duration;

use lettre::transport::smtp::Error;

/// In characters: what of the answer of a server is shown.
const SHOWN: usize = 500;

/// Why a mail is not sent. No text has a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MailError {
    pub(crate) kind: MailErrorKind,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailErrorKind {
    /// No connection that a mail can be given to.
    Unreachable,
    /// The server refuses the mail for now, for one recipient or all: it answered 4xx.
    Deferred,
    /// The server refuses the mail: it answered 5xx, or cannot carry it.
    Rejected,
    /// The server has the whole mail, and its answer is lost.
    InDoubt,
    /// The time ran out before the server had the whole mail.
    TimedOut,
}

impl MailErrorKind {
    /// The word of the metric, and of the code of the fault behind `mail-`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Deferred => "deferred",
            Self::Rejected => "rejected",
            Self::InDoubt => "in-doubt",
            Self::TimedOut => "timeout",
        }
    }
}

/// How far a mail has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Other mails have all connections of this node.
    Waiting,
    Connecting,
    Encrypting,
    LoggingIn,
    Sender,
    /// The address.
    Recipient(String),
    Content,
}

impl Stage {
    /// Whether the server itself is what fails, and not the mail.
    pub(super) fn is_of_server(&self) -> bool {
        matches!(self, Self::Connecting | Self::Encrypting | Self::LoggingIn)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting for one of the connections of this node, and for memory"),
            Self::Connecting => f.write_str("connecting to the mail server"),
            Self::Encrypting => f.write_str("encrypting the connection to the mail server"),
            Self::LoggingIn => f.write_str("logging in to the mail server with the user of smtp-url"),
            Self::Sender => f.write_str("naming the sender to the mail server"),
            Self::Recipient(address) => write!(f, "naming the recipient {address} to the mail server"),
            Self::Content => f.write_str("sending the content to the mail server"),
        }
    }
}

impl MailError {
    /// What the client below says. An answer of the server is quoted.
    pub(super) fn of(stage: &Stage, error: &Error) -> Self {
        let answered = error.status().map(|code| u16::from(code) / 100);
        let kind = match answered {
            Some(4) => MailErrorKind::Deferred,
            Some(_) if stage.is_of_server() => MailErrorKind::Unreachable,
            Some(_) => MailErrorKind::Rejected,
            None if *stage == Stage::Content => MailErrorKind::InDoubt,
            None if error.is_client() => MailErrorKind::Rejected,
            None => MailErrorKind::Unreachable,
        };
        // A server may repeat in its answer what it was sent: the password.
        let said = match error.status() {
            Some(code) if *stage == Stage::LoggingIn => format!("the server answers {code}"),
            _ => error.to_string(),
        };
        let plain: String = said
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(SHOWN)
            .collect();
        Self::at(kind, stage, &plain)
    }

    pub(super) fn unreachable(stage: &Stage, reason: &str) -> Self {
        Self::at(MailErrorKind::Unreachable, stage, reason)
    }

    pub(super) fn rejected(stage: &Stage, reason: &str) -> Self {
        Self::at(MailErrorKind::Rejected, stage, reason)
    }

    pub(super) fn timed_out(stage: &Stage, limit: Duration) -> Self {
        let kind = match stage {
            Stage::Content => MailErrorKind::InDoubt,
            _ => MailErrorKind::TimedOut,
        };
        Self::at(
            kind,
            stage,
            &format!("no answer came within {limit:?} (the setting smtp-timeout)"),
        )
    }

    /// The same for a mail that was not given to the server, because of this.
    pub(super) fn of_away(&self) -> Self {
        Self {
            kind: self.kind,
            message: format!(
                "the mail server is away, and tried again by itself (see /health/ready): {}",
                self.message
            ),
        }
    }

    fn at(kind: MailErrorKind, stage: &Stage, reason: &str) -> Self {
        let remedy = match kind {
            MailErrorKind::Deferred => "; the server may take it later",
            MailErrorKind::InDoubt => "; the server may have accepted the mail",
            _ => "",
        };
        Self {
            kind,
            message: format!("{stage} failed: {reason}{remedy}"),
        }
    }
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
