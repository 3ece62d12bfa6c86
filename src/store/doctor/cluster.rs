//! Probes of the nodes.

use super::FindingLevel::{Problem, Warning};
use super::Given::OlderThan;
use super::{Probe, ProbeFix};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "missing-roles",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/missing_roles.sql"),
        given: &[],
        means: "Work, requests or schedules wait for such a node.",
        remedy: "mainspring serve",
        fix: ProbeFix::None,
    },
    Probe {
        name: "lost-nodes",
        level: Problem,
        sql: include_str!("../../../sql/queries/doctor/lost_nodes.sql"),
        given: &[],
        means: "Its claims wait until a live node has removed it, which takes a second.",
        remedy: "start a node (mainspring serve); if there are live ones, their logs say why they do not remove it",
        fix: ProbeFix::None,
    },
    Probe {
        name: "clocks",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/clocks.sql"),
        given: &[],
        means: "Timers go by the database's clock and are right; tokens, certificates and the times of log lines on \
                that machine are not.",
        remedy: "set the clock of that machine by NTP (timedatectl set-ntp true)",
        fix: ProbeFix::None,
    },
    Probe {
        name: "versions",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/versions.sql"),
        given: &[],
        means: "As in a rolling deployment: definitions with new activities wait for the new nodes.",
        remedy: "finish the deployment",
        fix: ProbeFix::None,
    },
    Probe {
        name: "settings",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/settings.sql"),
        given: &[],
        means: "What an instance may do, or who is admitted, depends on the node that it meets.",
        remedy: "give all nodes the same value, and restart those that have another one",
        fix: ProbeFix::None,
    },
    Probe {
        name: "pause",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/pause.sql"),
        given: &[],
        means: "Nothing is accepted or claimed; what was accepted waits.",
        remedy: "mainspring resume",
        fix: ProbeFix::None,
    },
    Probe {
        name: "jobs",
        level: Warning,
        sql: include_str!("../../../sql/queries/doctor/jobs.sql"),
        given: &[OlderThan],
        means: "Expired rows, orphaned claims or partitions are not seen to.",
        remedy: "the logs of the nodes say why the job fails (grep `job`)",
        fix: ProbeFix::None,
    },
];
