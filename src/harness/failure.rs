//! Why a command fails: the message, and the exit code.

use std::process::ExitCode;

use super::secret::redact;
use crate::Error;
use crate::activity::printable;

/// The exit code of a node that hangs, after which other nodes have taken over or do so.
pub(crate) const HUNG: u8 = 4;

/// The exit code of a node that has left the cluster, as its threads for scripts hang.
pub(crate) const SCRIPTS_HANG: u8 = 5;

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty if the output of the command has said it.
    message: String,
}

impl Failure {
    /// Exit code 1: an operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            code: 1,
            message: message.into(),
        }
    }

    /// Exit code 2: wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            message: message.into(),
        }
    }

    /// The exit code of a failed child process; 1 if it has none.
    pub(crate) fn with_code(code: Option<i32>, message: impl Into<String>) -> Self {
        Self {
            code: code
                .and_then(|code| u8::try_from(code).ok())
                .filter(|code| *code > 0)
                .unwrap_or(1),
            message: message.into(),
        }
    }

    /// Exit code 5: the threads for scripts hang.
    pub(crate) fn scripts_hang() -> Self {
        Self {
            code: SCRIPTS_HANG,
            message: "this node left the cluster and ends because its threads for scripts hang; the log names their \
                 workflows"
                .to_owned(),
        }
    }

    /// Exit code 1 without a message: the output of the command says what was found.
    pub fn reported() -> Self {
        Self::failed("")
    }

    /// The message without secrets.
    pub fn redacted(&self) -> String {
        redact(&self.message)
    }

    /// Prints the message on standard error, and returns the exit code.
    pub fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            // Each line is escaped by itself: a message may have several.
            let safe = redact(&self.message);
            let lines: Vec<_> = safe.lines().map(printable).collect();
            eprintln!("mainspring: {}", lines.join("\n"));
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = if error.is_unavailable() {
            3
        } else if error.is_invalid() {
            2
        } else {
            1
        };
        let hint = if error.code() == "database-unavailable" {
            " (is PostgreSQL running there, and may this machine and user connect?)"
        } else {
            ""
        };
        // The display of an error includes its causes.
        Self {
            code,
            message: format!("{error}{hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_exit_code() {
        let code = |error: Error| Failure::from(error).code;
        assert_eq!(code(Error::unavailable("database-unavailable", "m")), 3);
        assert_eq!(code(Error::invalid("invalid-schema", "m")), 2);
        assert_eq!(code(Error::conflict("node-id-in-use", "m")), 1);
        assert_eq!(code(Error::internal("m")), 1);
    }
}
