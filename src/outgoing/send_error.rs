//! Why a request has no complete answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::resolver::TargetRefused;

/// Why a request has no complete answer. No text quotes the URL, which may have a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The rules of this server deny the target, or it is none.
    Refused(String),
    /// No connection, or one that broke before the answer was complete.
    Failed(String),
    /// The time ran out.
    TimedOut(Duration),
    /// The answer has more bytes than this.
    TooLarge(u64),
}

impl SendError {
    /// The error of the client below; a refusal of the resolver is inside it.
    pub(super) fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            if let Some(refused) = inner.downcast_ref::<TargetRefused>() {
                return Self::Refused(refused.0.clone());
            }
            let text = inner.to_string();
            // Some repeat the message of their cause.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = inner.source();
        }
        Self::Failed(message)
    }

    /// The word of the metric.
    pub(crate) fn result(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timeout",
            Self::TooLarge(_) => "too-large",
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) | Self::Failed(reason) => f.write_str(reason),
            Self::TimedOut(limit) => write!(f, "no complete answer came within {limit:?}"),
            Self::TooLarge(limit) => write!(f, "the answer is larger than {limit} bytes"),
        }
    }
}
