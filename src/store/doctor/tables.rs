//! Probes of the tables of the schema: rights, locks, vacuum, partitions. Indexes have their own.

use super::FindingLevel::{Problem, Warning};
use super::Given::{OlderThan, SessionPrefix};
use super::{Probe, ProbeFix};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "rights",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/rights.sql"),
        given: &[SessionPrefix],
        means: "A statement that needs the right fails, and what it belongs to is tried again until it succeeds.",
        remedy: "GRANT",
        fix: ProbeFix::None,
    },
    Probe {
        name: "session-rights",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/session_rights.sql"),
        given: &[SessionPrefix],
        means: "A crashed node is taken over only after its tolerance, and the sessions of a hung one are not \
                ended; the fence still protects.",
        remedy: "GRANT",
        fix: ProbeFix::None,
    },
    Probe {
        name: "table-locks",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/table_locks.sql"),
        given: &[SessionPrefix, OlderThan],
        means: "All bursts wait for the lock.",
        remedy: "end that session if it is no work in progress",
        fix: ProbeFix::None,
    },
    Probe {
        name: "dead-rows",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/dead_rows.sql"),
        given: &[],
        means: "Claims and commits read over the dead rows.",
        remedy: "mainspring doctor --fix",
        fix: ProbeFix::Vacuum,
    },
    Probe {
        name: "table-vacuum",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/table_vacuum.sql"),
        given: &[],
        means: "The table grows with each change of a row, until the server stops at its transaction ids.",
        remedy: "ALTER TABLE",
        fix: ProbeFix::None,
    },
    Probe {
        name: "partitions",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/partitions.sql"),
        given: &[],
        means: "No burst commits on a day without a partition.",
        remedy: "mainspring doctor --fix",
        fix: ProbeFix::CreatePartitions,
    },
];
