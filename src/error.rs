//! The public error type of the crate.
//!
//! An [`Error`] is opaque. Predicates show what a caller can do ([`Error::is_transient`], [`Error::is_conflict`], …); the
//! stable kebab-case [`Error::code`] is for programs, and the message is for operators. So new kinds break no caller. A
//! provider in another crate creates its errors with [`Error::invalid`], [`Error::unavailable`] and [`Error::lost_lock`].

use std::error::Error as StdError;
use std::fmt;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do about it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    code: &'static str,
    message: String,
    fields: Vec<(String, String)>,
    instance: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    TooLarge,
    OverBudget,
    NotFound,
    Gone,
    Forbidden,
    Conflict,
    Unprocessable,
    Unavailable,
    UnknownOutcome,
    DeadLettered,
    LostLock,
    Fenced,
    Stopped,
    Internal,
}

impl Error {
    fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            code,
            message: message.into(),
            fields: Vec::new(),
            instance: None,
            source: None,
        }))
    }

    /// The caller's input is wrong; nothing was changed. The code is kebab-case and stable, for programs.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, code, message)
    }

    /// The input is larger than its bound; nothing was changed.
    pub(crate) fn too_large(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, code, message)
    }

    /// What is stored already has used up the budget of its kind; nothing was changed.
    pub(crate) fn over_budget(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::OverBudget, code, message)
    }

    /// The named item does not exist.
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, code, message)
    }

    /// The named item was of use once and is not any more, for ever; nothing was changed.
    pub(crate) fn gone(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Gone, code, message)
    }

    /// The named item may not be changed in this way; nothing was changed.
    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, code, message)
    }

    /// The request conflicts with the current state; nothing was changed.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, code, message)
    }

    /// The request is well formed but differs from an earlier one with the same idempotency key.
    pub(crate) fn unprocessable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Unprocessable, code, message)
    }

    /// The database, a server or this node is unavailable at the moment; the same call may succeed later.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, code, message)
    }

    /// It is unknown whether the call took effect.
    pub(crate) fn unknown_outcome(message: impl Into<String>) -> Self {
        Self::new(Kind::UnknownOutcome, "outcome-unknown", message)
    }

    /// The accepted work became a dead letter: it failed, or terminated its process, too often.
    pub(crate) fn dead_lettered(message: impl Into<String>) -> Self {
        Self::new(Kind::DeadLettered, "given-up", message)
    }

    /// The lock that protected the work was lost.
    pub fn lost_lock(message: impl Into<String>) -> Self {
        Self::new(Kind::LostLock, "lost-lock", message)
    }

    /// This incarnation was removed: it may not write any more.
    pub(crate) fn fenced(message: impl Into<String>) -> Self {
        Self::new(Kind::Fenced, "fenced", message)
    }

    /// The engine was shut down: no call to it succeeds any more.
    pub(crate) fn stopped(message: impl Into<String>) -> Self {
        Self::new(Kind::Stopped, "engine-stopped", message)
    }

    /// A defect of this crate or of its environment.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, "internal-error", message)
    }

    /// Adds a wrong field of the input.
    pub(crate) fn field(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.fields.push((field.into(), message.into()));
        self
    }

    /// Sets the workflow instance that the error is about.
    pub(crate) fn instance(mut self, instance: impl Into<String>) -> Self {
        self.0.instance = Some(instance.into());
        self
    }

    /// Sets the cause.
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The stable kebab-case code; all codes are listed in `docs/reference/rest.md`.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The message for an operator, without causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The wrong fields of the input, each with a message.
    pub fn fields(&self) -> &[(String, String)] {
        &self.0.fields
    }

    /// The workflow instance that an unknown outcome or a dead letter is about.
    pub fn instance_id(&self) -> Option<&str> {
        self.0.instance.as_deref()
    }

    /// The same call may succeed later without any change: the database was unavailable, or another request interfered.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable | Kind::LostLock | Kind::Fenced)
    }

    /// The engine was shut down, so no retry of the call can succeed. Another node may answer it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.0.kind, Kind::Stopped)
    }

    /// The input is wrong, and repeating the call will not help.
    pub fn is_invalid(&self) -> bool {
        matches!(self.0.kind, Kind::Invalid)
    }

    /// The input is larger than its documented bound.
    pub fn is_too_large(&self) -> bool {
        matches!(self.0.kind, Kind::TooLarge)
    }

    /// Stored data has used up the budget of its kind: the same call succeeds once there is room.
    pub fn is_over_budget(&self) -> bool {
        matches!(self.0.kind, Kind::OverBudget)
    }

    /// The named item does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.0.kind, Kind::NotFound)
    }

    /// The named item, such as a resume link, was of use once and is not any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.0.kind, Kind::Gone)
    }

    /// The named item may not be changed in this way.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.0.kind, Kind::Forbidden)
    }

    /// The request conflicts with the current state.
    pub fn is_conflict(&self) -> bool {
        matches!(self.0.kind, Kind::Conflict)
    }

    /// The same idempotency key was used with another request.
    pub fn is_unprocessable(&self) -> bool {
        matches!(self.0.kind, Kind::Unprocessable)
    }

    /// The database or this node is unavailable at the moment.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable)
    }

    /// A statement took longer than it may, or got no answer in time.
    pub(crate) fn has_timed_out(&self) -> bool {
        matches!(self.0.code, "database-timeout" | "database-busy")
    }

    /// The database refuses for a reason of its own: a revoked right, a full disk, a missing partition.
    pub(crate) fn is_database_fault(&self) -> bool {
        self.0.code == "database-fault"
    }

    /// The cluster is paused: nothing was accepted.
    pub fn is_paused(&self) -> bool {
        self.0.code == "runtime-paused"
    }

    /// It is unknown whether the call took effect; [`Error::instance_id`] names the instance to check.
    pub fn is_unknown_outcome(&self) -> bool {
        matches!(self.0.kind, Kind::UnknownOutcome)
    }

    /// The accepted work became a dead letter, which an operator may replay; [`Error::instance_id`] names its instance.
    pub fn is_dead_lettered(&self) -> bool {
        matches!(self.0.kind, Kind::DeadLettered)
    }

    /// The lock that protected the work was lost.
    pub fn is_lost_lock(&self) -> bool {
        matches!(self.0.kind, Kind::LostLock)
    }

    /// This incarnation of the node was removed.
    pub fn is_fenced(&self) -> bool {
        matches!(self.0.kind, Kind::Fenced)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (field, message) in &self.0.fields {
            write!(f, "; {field}: {message}")?;
        }
        let mut cause = self.source();
        while let Some(inner) = cause {
            write!(f, ": {inner}")?;
            cause = inner.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.code)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}
