//! How a command fails: what it says, and with which code it exits.

use std::process::ExitCode;

use super::secret::redact;
use crate::Error;
use crate::activity::printable;

/// Why a command ends without having done what it should.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// Empty if everything is said already.
    message: String,
}

impl Failure {
    /// It failed, or found something.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            code: 1,
            message: message.into(),
        }
    }

    /// It was called wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            message: message.into(),
        }
    }

    /// It failed, as a child of ours did that exited with `code`.
    pub(crate) fn with_code(code: Option<i32>, message: impl Into<String>) -> Self {
        Self {
            code: code
                .and_then(|code| u8::try_from(code).ok())
                .filter(|code| *code > 0)
                .unwrap_or(1),
            message: message.into(),
        }
    }

    /// It found something, and its output says what.
    pub(crate) fn found() -> Self {
        Self::failed("")
    }

    /// What it says, without secrets.
    pub(crate) fn told(&self) -> String {
        redact(&self.message)
    }

    /// Says it on standard error.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            // Some messages have several lines; none of them moves the cursor.
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
        // The causes are for whoever runs this, and that is who reads it.
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
