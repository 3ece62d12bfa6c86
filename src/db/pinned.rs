//! The session settings that promises depend on, whatever the server, the database or the role sets.
//!
//! Startup options override `ALTER SYSTEM`, `ALTER DATABASE` and `ALTER ROLE`, survive `RESET`, and cost nothing. An unknown
//! option ends the connection, so settings of PostgreSQL 12 and later are set by [`SETTLE`], as are those that are only
//! raised.

use super::{STATEMENT_TIMEOUT, SchemaName};

/// The first statement of each connection. A standby refuses it as read-only.
pub(super) const SETTLE: &str = include_str!("../../sql/queries/session/settle.sql");

/// `lock_timeout` of a statement that sets no other.
const LOCK_TIMEOUT_MS: u32 = 5_000;

/// In the form of the startup message, in which a backslash precedes a space.
const PINNED: [&str; 22] = [
    // A statement that follows a lock sees what was committed before the lock.
    r"default_transaction_isolation=read\ committed",
    "default_transaction_read_only=off",
    "default_transaction_deferrable=off",
    // A policy that hides rows causes an error instead of work that is never found.
    "row_security=off",
    // The text form of values.
    "datestyle=ISO,MDY",
    "intervalstyle=postgres",
    "bytea_output=hex",
    "timezone=UTC",
    "extra_float_digits=1",
    // The meaning of statements.
    "standard_conforming_strings=on",
    "transform_null_equals=off",
    "array_nulls=on",
    "quote_all_identifiers=off",
    "check_function_bodies=on",
    // A failed statement does not end the session with its locks.
    "exit_on_error=off",
    "plan_cache_mode=auto",
    "jit=off",
    "enable_indexscan=on",
    "enable_nestloop=on",
    // A lost peer is detected within about 10 s.
    "tcp_keepalives_idle=3",
    "tcp_keepalives_interval=2",
    "tcp_keepalives_count=3",
];

/// The startup options of a session: after those of the URL, so that these take effect.
pub(super) fn options(given: &str, schema: &SchemaName) -> String {
    let timeout = STATEMENT_TIMEOUT.as_millis();
    let mut options = format!(
        "{given} -c search_path={schema},pg_temp -c statement_timeout={timeout} -c lock_timeout={LOCK_TIMEOUT_MS} \
         -c idle_in_transaction_session_timeout={timeout}"
    );
    for pinned in PINNED {
        options.push_str(" -c ");
        options.push_str(pinned);
    }
    options
}
