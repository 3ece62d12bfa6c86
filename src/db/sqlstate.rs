//! Classes of database errors.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_postgres::error::SqlState;

use crate::{Error, Result};

/// The SQLSTATE of the function raise_paused of the schema.
const PAUSED: &str = "MSP01";

/// The SQLSTATE of the function raise_link_refused of the schema.
const LINK_REFUSED: &str = "MSP02";

/// The code of the error of a transaction that a resume link does not permit; its message is the number of the outcome.
pub(crate) const LINK_REFUSED_CODE: &str = "link-refused";

/// The error of a request that comes while the cluster is paused, for this reason.
fn runtime_paused(reason: &str) -> Error {
    let why = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    Error::unavailable(
        "runtime-paused",
        format!("the cluster is paused and accepts nothing{why}; try again when it has been resumed"),
    )
}

/// The classes of errors that code decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The connection is lost or useless, or no answer came: the statement is in doubt, and a new connection is needed.
    Connection,
    /// A deadlock, a lock timeout or a serialization failure. Nothing was done.
    Busy,
    /// The statement took longer than it may. Nothing was done.
    Timeout,
    /// A unique key is taken.
    Duplicate,
    /// The data to write: a value, its size, a constraint.
    Statement,
    /// Anything else: a revoked right, a full disk, a damaged file, a missing partition. It is a failure of the row only if the
    /// row fails alone while others like it are written. Nothing was done.
    Fault,
}

impl ErrorClass {
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            return Self::Connection;
        };
        if *code == SqlState::UNIQUE_VIOLATION {
            return Self::Duplicate;
        }
        // A standby: a new connection finds the primary.
        if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            return Self::Connection;
        }
        if *code == SqlState::QUERY_CANCELED {
            return Self::Timeout;
        }
        match code.code().get(..2) {
            // 57P0x: the session was ended, by an operator, a crash or a shutdown.
            Some("57") => Self::Connection,
            // 25P03: the session idled in a transaction and was ended.
            Some("25") if code.code() == "25P03" => Self::Connection,
            Some("08") | Some("28") | Some("3D") => Self::Connection,
            Some("40") | Some("55") => Self::Busy,
            // A missing partition has the same code as a violated check, but no constraint name.
            Some("23") if *code == SqlState::CHECK_VIOLATION && !names_constraint(error) => Self::Fault,
            // The limit that a commit meets is that of the server's queue of notifications.
            Some("54") if meets_full_queue(error) => Self::Fault,
            Some("22") | Some("23") | Some("54") => Self::Statement,
            _ => Self::Fault,
        }
    }

    /// Whether the cause may be independent of the data to write.
    pub(crate) fn may_be_a_fault(self) -> bool {
        matches!(self, Self::Fault | Self::Timeout)
    }
}

/// Whether the server's queue of notifications is full. Its message is in the server's language, the name of its function is not.
fn meets_full_queue(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| error.routine() == Some("PreCommit_Notify"))
}

fn names_constraint(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| error.constraint().is_some())
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        if error.code().is_some_and(|code| code.code().starts_with("28")) {
            let message = "the database refuses this user or its password; check the database URL and pg_hba.conf";
            return Error::unavailable("database-refused", message).caused_by(error);
        }
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            let message = "the database that answers is a standby or does not take writes; try again, and if this \
                           persists give the address of the primary, or all hosts";
            return Error::unavailable("database-read-only", message).caused_by(error);
        }
        if let Some(paused) = error.as_db_error().filter(|error| error.code().code() == PAUSED) {
            return runtime_paused(paused.message());
        }
        if let Some(refused) = error.as_db_error().filter(|error| error.code().code() == LINK_REFUSED) {
            return Error::gone(LINK_REFUSED_CODE, refused.message());
        }
        match ErrorClass::of(&error) {
            ErrorClass::Connection => {
                Error::unavailable("database-unavailable", "the database cannot be reached; try again").caused_by(error)
            }
            ErrorClass::Busy | ErrorClass::Timeout => {
                Error::unavailable("database-busy", "the database was busy; try again").caused_by(error)
            }
            ErrorClass::Fault => {
                let code = error.code().map_or("", SqlState::code);
                let what = match code.get(..2) {
                    Some("25") => "it is read-only or in a wrong state",
                    Some("42") => "a right is missing, or the schema was changed",
                    Some("53") if code == "53200" => "its lock table is full, or its memory: out of shared memory",
                    Some("53") => "it has run out of memory, connections or disk",
                    Some("54") => {
                        "its queue of notifications is full: a listening session has an open transaction or does not \
                         read; a warning in the server's log names its process, which pg_terminate_backend ends"
                    }
                    Some("58") => "its operating system reports an error",
                    Some("23") => "a partition is missing",
                    _ => "it reports an error of its own",
                };
                let message = format!(
                    "the database refuses this for a reason unrelated to the request: {what} (SQLSTATE {code}); try \
                     again after the repair"
                );
                Error::unavailable("database-fault", message).caused_by(error)
            }
            ErrorClass::Duplicate => Error::conflict("duplicate", "this exists already").caused_by(error),
            ErrorClass::Statement => {
                Error::internal("the database refused a statement; this is a defect, or the schema is damaged")
                    .caused_by(error)
            }
        }
    }
}

/// Whether the database refused a statement because of this constraint or unique index.
pub(crate) fn violates(error: &Error, constraint: &str) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    let refused = source.and_then(tokio_postgres::Error::as_db_error);
    refused.is_some_and(|refused| refused.constraint() == Some(constraint))
}

/// Whether an error leaves open if the statement was executed.
pub(crate) fn is_in_doubt(error: &Error) -> bool {
    matches!(error.code(), "database-unavailable" | "database-timeout" | "failpoint")
}

/// Bounds a database call: after the deadline its outcome is in doubt, as after a lost connection.
pub(crate) fn within<T, E>(
    deadline: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T>>
where
    Error: From<E>,
{
    // An async function would keep its argument beside the future that it is moved into, and be twice as large.
    tokio::time::timeout(deadline, work).map(move |answer| match answer {
        Ok(result) => result.map_err(Error::from),
        Err(_) => Err(Error::unavailable(
            "database-timeout",
            format!("the database did not answer within {} s; try again", deadline.as_secs()),
        )),
    })
}
