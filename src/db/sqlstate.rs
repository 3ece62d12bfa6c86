//! What an error of the database means to us.

use std::future::Future;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::{Error, Result};

/// The classes of failure that code decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection is gone or of no use, or no answer came: what was under way is in doubt, and wants a new one.
    Connection,
    /// The server could not just now: deadlock, lock or statement timeout, out of a resource. Nothing was done.
    Busy,
    /// A unique key is taken.
    Duplicate,
    /// The statement itself, or a value in it.
    Statement,
}

impl Failure {
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            return Self::Connection;
        };
        if *code == SqlState::UNIQUE_VIOLATION {
            return Self::Duplicate;
        }
        // A standby: the primary is elsewhere, and a new connection looks for it.
        if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            return Self::Connection;
        }
        match code.code().get(..2) {
            // 57P0x: the session was ended, by an operator, a crash or a shutdown.
            Some("57") if *code != SqlState::QUERY_CANCELED => Self::Connection,
            // 25P03: the session idled in a transaction and was ended.
            Some("25") if code.code() == "25P03" => Self::Connection,
            Some("08") | Some("28") | Some("3D") => Self::Connection,
            Some("40") | Some("53") | Some("55") | Some("57") => Self::Busy,
            _ => Self::Statement,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        if error.code().is_some_and(|code| code.code().starts_with("28")) {
            let message = "the database refuses this user or its password; check the database URL and pg_hba.conf";
            return Error::unavailable("database-refused", message).caused_by(error);
        }
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            let message = "the database that answers is a standby, or takes no writes just now; try again, and if it stays \
                           so give the address of the primary, or all hosts";
            return Error::unavailable("database-read-only", message).caused_by(error);
        }
        match Failure::of(&error) {
            Failure::Connection => Error::unavailable(
                "database-unavailable",
                "the database cannot be reached just now; try again",
            )
            .caused_by(error),
            Failure::Busy => Error::unavailable("database-busy", "the database could not do this just now; try again")
                .caused_by(error),
            Failure::Duplicate => Error::conflict("duplicate", "this exists already").caused_by(error),
            Failure::Statement => {
                Error::internal("the database refused a statement; this is a defect, or the schema is damaged")
                    .caused_by(error)
            }
        }
    }
}

/// Bounds a database await: past the deadline the answer is in doubt, as if the connection had died.
pub(crate) async fn within<T, E>(deadline: Duration, work: impl Future<Output = Result<T, E>>) -> Result<T>
where
    Error: From<E>,
{
    match tokio::time::timeout(deadline, work).await {
        Ok(result) => result.map_err(Error::from),
        Err(_) => Err(Error::unavailable(
            "database-timeout",
            format!("the database did not answer within {} s; try again", deadline.as_secs()),
        )),
    }
}
