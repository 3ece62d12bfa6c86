//! The supported servers, and warnings about a server.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

use crate::{Error, Result};

/// The oldest supported major version.
const OLDEST: u32 = 14;

/// Refuses a server that is too old by its `server_version_num`; `shown` is its version as text.
pub(super) fn refuse_older(version_num: u32, shown: &str) -> Result<()> {
    if version_num / 10_000 >= OLDEST {
        return Ok(());
    }
    Err(too_old(&format!("it is PostgreSQL {shown}")))
}

/// The error for a server so old that it refuses a connection for an unknown option.
pub(super) fn named(error: Error) -> Error {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    if cause.and_then(tokio_postgres::Error::code) != Some(&SqlState::UNDEFINED_OBJECT) {
        return error;
    }
    too_old("it does not know a setting that every supported version has").caused_by(error)
}

fn too_old(why: &str) -> Error {
    Error::invalid(
        "unsupported-server",
        format!("the server of the database is too old ({why}): use PostgreSQL {OLDEST} to 18"),
    )
}

/// Warns of a server that loses commits when its machine crashes.
pub(super) fn warn_of(fsync: &str) {
    if fsync == "off" {
        tracing::warn!(
            "the server of the database runs with fsync = off: a crash of its machine loses what was accepted, or \
             damages all of it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_named() {
        for (num, shown) in [(130_022, "13.22"), (139_999, "13.99"), (90_624, "9.6.24"), (0, "?")] {
            let error = refuse_older(num, shown).unwrap_err();
            assert_eq!((error.code(), error.is_invalid()), ("unsupported-server", true));
            let message = error.to_string();
            assert!(message.contains(shown) && message.contains("14 to 18"), "{message}");
        }
        for num in [140_000, 150_018, 180_004, 190_000] {
            refuse_older(num, "").unwrap();
        }
    }
}
