//! The one public error of the crate.
//!
//! An [`Error`] is opaque: what a caller can do about it is asked with questions ([`Error::is_transient`],
//! [`Error::is_conflict`], …), what a program can switch on is the stable kebab-case [`Error::code`], and what a
//! person can act on is the message. New kinds can so be added without breaking anybody.

use std::error::Error as StdError;
use std::fmt;

/// The result of nearly everything in this crate.
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
    NotFound,
    Conflict,
    Unprocessable,
    Unavailable,
    Unknown,
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

    /// The caller's input is wrong; nothing was changed.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, code, message)
    }

    /// The input is larger than its bound; nothing was changed.
    pub(crate) fn too_large(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, code, message)
    }

    /// What was named does not exist.
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, code, message)
    }

    /// The request contradicts what is already there; nothing was changed.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, code, message)
    }

    /// The request is well formed but contradicts an earlier one under the same idempotency key.
    pub(crate) fn unprocessable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Unprocessable, code, message)
    }

    /// The database (or this node) cannot be used just now; the same call may succeed later.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, code, message)
    }

    /// Nobody can say whether the call took effect.
    pub(crate) fn unknown_outcome(message: impl Into<String>) -> Self {
        Self::new(Kind::Unknown, "outcome-unknown", message)
    }

    /// What was accepted failed so often, or killed so many processes, that it became a dead letter.
    pub(crate) fn dead_lettered(message: impl Into<String>) -> Self {
        Self::new(Kind::DeadLettered, "given-up", message)
    }

    /// The lock that protected the work is no longer ours.
    pub(crate) fn lost_lock(message: impl Into<String>) -> Self {
        Self::new(Kind::LostLock, "lost-lock", message)
    }

    /// This incarnation was declared dead: nothing of it may be written any more.
    pub(crate) fn fenced(message: impl Into<String>) -> Self {
        Self::new(Kind::Fenced, "fenced", message)
    }

    /// The engine was shut down, and no call to it succeeds any more.
    pub(crate) fn stopped(message: impl Into<String>) -> Self {
        Self::new(Kind::Stopped, "engine-stopped", message)
    }

    /// A defect of this crate or of its environment.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, "internal-error", message)
    }

    /// Names the field of the input that is wrong.
    pub(crate) fn field(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.fields.push((field.into(), message.into()));
        self
    }

    /// Names the workflow instance whose fate is concerned.
    pub(crate) fn instance(mut self, instance: impl Into<String>) -> Self {
        self.0.instance = Some(instance.into());
        self
    }

    /// Keeps what caused this error.
    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The stable kebab-case code; all codes are listed in `docs/api.md`.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The message for a person, without causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The fields of the input that are wrong, each with what is wrong about it.
    pub fn fields(&self) -> &[(String, String)] {
        &self.0.fields
    }

    /// The workflow instance that an unknown outcome, or one that was given up, is about.
    pub fn instance_id(&self) -> Option<&str> {
        self.0.instance.as_deref()
    }

    /// The same call may succeed later without any change: the database was away, or somebody else was in the way.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable | Kind::LostLock | Kind::Fenced)
    }

    /// The engine was shut down: no call to it succeeds any more, however often it is tried. Another node may answer.
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

    /// What was named does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.0.kind, Kind::NotFound)
    }

    /// The request contradicts what is already there.
    pub fn is_conflict(&self) -> bool {
        matches!(self.0.kind, Kind::Conflict)
    }

    /// The same idempotency key was used with another request.
    pub fn is_unprocessable(&self) -> bool {
        matches!(self.0.kind, Kind::Unprocessable)
    }

    /// The database or this node cannot be used just now.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable)
    }

    /// The database refuses for reasons of its own: a right that was revoked, a full disk, a missing partition.
    pub(crate) fn is_database_fault(&self) -> bool {
        self.0.code == "database-fault"
    }

    /// Nobody can say whether the call took effect; [`Error::instance_id`] tells what to look at.
    pub fn is_unknown_outcome(&self) -> bool {
        matches!(self.0.kind, Kind::Unknown)
    }

    /// What was accepted became a dead letter, which an operator may replay; [`Error::instance_id`] tells of which
    /// instance.
    pub fn is_dead_lettered(&self) -> bool {
        matches!(self.0.kind, Kind::DeadLettered)
    }

    /// The lock that protected the work was lost.
    pub fn is_lost_lock(&self) -> bool {
        matches!(self.0.kind, Kind::LostLock)
    }

    /// This incarnation of the node was declared dead.
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
