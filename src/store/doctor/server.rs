//! Probes of the server.

use super::FindingLevel::{Problem, Warning};
use super::Given::{OlderThan, SessionPrefix};
use super::{Probe, ProbeFix};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "server-version",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/server_version.sql"),
        given: &[],
        means: "The server gets no corrections any more, also none of security.",
        remedy: "upgrade PostgreSQL; 18 is the newest that is supported",
        fix: ProbeFix::None,
    },
    Probe {
        name: "server-settings",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/server_settings.sql"),
        given: &[],
        means: "With fsync or full_page_writes off, a crash of the machine loses what was accepted. Without \
                autovacuum and what it counts by, tables only grow.",
        remedy: "ALTER SYSTEM",
        fix: ProbeFix::None,
    },
    Probe {
        name: "keep-alives",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/keep_alives.sql"),
        given: &[],
        means: "A session whose machine is gone may keep its locks for two hours.",
        remedy: "set net.ipv4.tcp_keepalive_time and tcp_keepalives_idle on the machine of the server",
        fix: ProbeFix::None,
    },
    Probe {
        name: "connections",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/connections.sql"),
        given: &[SessionPrefix],
        means: "A node that gets no connection answers 503, and its bursts wait.",
        remedy: "lower --pool-size and read-pool-size, raise max_connections (a restart of the server), or end \
                 other programs",
        fix: ProbeFix::None,
    },
    Probe {
        name: "lock-table",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/lock_table.sql"),
        given: &[],
        means: "When the lock table is full, statements of all sessions fail (53200).",
        remedy: "psql \"$MAINSPRING_DATABASE_URL\" -c \"ALTER SYSTEM SET max_locks_per_transaction = 256\", then \
                 restart the server; or lower --workers",
        fix: ProbeFix::None,
    },
    Probe {
        name: "old-snapshots",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/old_snapshots.sql"),
        given: &[OlderThan],
        means: "No vacuum removes rows that ended later, so that each claim takes longer; an inactive slot also \
                keeps WAL until the disk is full.",
        remedy: "end the session, the slot or the prepared transaction",
        fix: ProbeFix::None,
    },
    Probe {
        name: "notify-queue",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/notify_queue.sql"),
        given: &[],
        means: "Notifications get lost when the queue is full: caches are stale, and work waits, for up to a check-in.",
        remedy: "end the session that listens in an open transaction",
        fix: ProbeFix::None,
    },
    Probe {
        name: "wraparound",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/wraparound.sql"),
        given: &[],
        means: "At two thousand million the server takes no more writes.",
        remedy: "psql \"$MAINSPRING_DATABASE_URL\" -c \"VACUUM (FREEZE)\", in that database; first end what \
                 old-snapshots lists",
        fix: ProbeFix::None,
    },
];
