//! Settings of a session that promises stand on, whatever the server, the database or the role has for others.
//!
//! What a connection asks for as it begins wins over `ALTER SYSTEM`, `ALTER DATABASE` and `ALTER ROLE`, is what `RESET`
//! comes back to, and costs nothing. An option that the server does not know ends the connection, so what came with
//! PostgreSQL 12 or later is settled by [`SETTLE`], as is what is only raised.

use super::{STATEMENT_TIMEOUT, SchemaName};

/// The first statement of each connection. A standby refuses it as read-only.
pub(super) const SETTLE: &str = include_str!("../../sql/queries/session/settle.sql");

/// The longest that a statement waits for a lock, unless it says otherwise.
const LOCK_TIMEOUT_MS: u32 = 5_000;

/// As the startup message has them: a backslash stands before a space.
const PINNED: [&str; 22] = [
    // A statement that follows a lock sees what was committed before the lock.
    r"default_transaction_isolation=read\ committed",
    "default_transaction_read_only=off",
    "default_transaction_deferrable=off",
    // A policy that hides rows is an error that names itself, not work that is never seen.
    "row_security=off",
    // What is written as text and read as text.
    "datestyle=ISO,MDY",
    "intervalstyle=postgres",
    "bytea_output=hex",
    "timezone=UTC",
    "extra_float_digits=1",
    // What a statement of ours means.
    "standard_conforming_strings=on",
    "transform_null_equals=off",
    "array_nulls=on",
    "quote_all_identifiers=off",
    "check_function_bodies=on",
    // A statement that fails ends itself, not the locks of its session.
    "exit_on_error=off",
    "plan_cache_mode=auto",
    "jit=off",
    "enable_indexscan=on",
    "enable_nestloop=on",
    // A peer that vanished without a word is noticed within about 10 s.
    "tcp_keepalives_idle=3",
    "tcp_keepalives_interval=2",
    "tcp_keepalives_count=3",
];

/// The options with which a session of ours begins, behind those of the URL, so that ours count.
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
