//! What a node asks of the database.

use super::Metric;
use super::entry::{SHORT, SIZES, counter, gauge, histogram};

/// The lanes of the writer of commits.
const LANES: &[&str] = &["skipping", "contended"];

/// The connections of a node: for the engine, for reads by key, and for lists.
const POOLS: &[&str] = &["work", "reads", "lists"];

pub(super) const METRICS: [Metric; 14] = [
    histogram(
        "mainspring_commit_seconds",
        SHORT,
        "How long a transaction with commits of bursts took",
        "The disk of the database is slow, or its processors are busy",
    )
    .by("lane", LANES),
    histogram(
        "mainspring_commit_batch_bursts",
        SIZES,
        "Bursts that one transaction committed",
        "Large batches show that the database is the limit; each burst in them is cheap",
    )
    .by("lane", LANES),
    counter(
        "mainspring_commits_in_doubt_total",
        "Commits whose answer was lost, and that were sent again",
        "Connections to the database break: look at the network and at its restarts",
    ),
    counter(
        "mainspring_breaker_opened_total",
        "Times at which this node stopped to claim, as the database refused commits",
        "The log says why: a full disk, a missing right, a database that is read-only",
    ),
    histogram(
        "mainspring_accept_batch_starts",
        SIZES,
        "Starts that one statement accepted",
        "It is the load",
    ),
    counter(
        "mainspring_accepts_in_doubt_total",
        "Starts whose answer was lost, and that were looked up",
        "As for commits in doubt",
    ),
    gauge(
        "mainspring_pool_connections",
        "Open connections",
        "It is bounded by `mainspring_pool_connections_limit`",
    )
    .by("pool", POOLS),
    gauge(
        "mainspring_pool_connections_used",
        "Connections with a statement",
        "Near the limit, while callers wait: raise `--pool-size` or `read-pool-size`",
    )
    .by("pool", POOLS),
    gauge(
        "mainspring_pool_connections_limit",
        "The most connections (`--pool-size`, `read-pool-size`)",
        "It is a setting",
    )
    .by("pool", POOLS),
    gauge(
        "mainspring_pool_waiting",
        "Callers that wait for a connection",
        "Statements are slow (`mainspring_query_seconds`), or the pool is too small",
    )
    .by("pool", POOLS),
    histogram(
        "mainspring_query_seconds",
        SHORT,
        "How long a statement took, without the wait for a connection; claims and commits are not among them",
        "The database is busy, a plan left its index, or a lock is held: `mainspring doctor`",
    )
    .by("pool", POOLS),
    gauge(
        "mainspring_check_in_age_seconds",
        "Time since the database answered the last check-in of this node",
        "At the tolerance other nodes take over: the database is away or hangs",
    ),
    counter(
        "mainspring_notify_failures_total",
        "Messages over PostgreSQL that were lost; the next check-in makes up for them",
        "The queue of NOTIFY is full: find a session that listens and never reads",
    ),
    counter(
        "mainspring_audit_omitted_total",
        "Refused requests and attempts at links that the audit does not have, as there were too many",
        "A client guesses: look at `mainspring_credentials_refused_total`",
    ),
];
