//! The servers beside the database, and the process.

use super::Metric;
use super::entry::{counter, gauge};

/// What RabbitMQ can be used for.
const RABBITMQ: &[&str] = &["signal", "wake"];

/// The parts that the watchdog asks.
const PARTS: &[&str] = &[
    "runtime",
    "poller",
    "commit_writer",
    "lock_session",
    "supervisor",
    "scheduler",
    "acceptor",
    "burst",
];

pub(super) const METRICS: [Metric; 14] = [
    gauge(
        "mainspring_signal_server_away",
        "1 while the Redis of cache notifications is away, else 0",
        "`/health/ready` says why; caches are up to a check-in old meanwhile",
    ),
    counter(
        "mainspring_signal_server_failures_total",
        "Failures of the Redis of cache notifications",
        "The log has the first of each outage",
    ),
    gauge(
        "mainspring_rabbitmq_away",
        "1 while RabbitMQ is away, else 0",
        "`/health/ready` says why; nodes poll meanwhile",
    )
    .by("service", RABBITMQ),
    gauge(
        "mainspring_rabbitmq_blocked",
        "1 while the broker has an alarm and takes no messages, else 0",
        "The broker lacks memory or disk",
    )
    .by("service", RABBITMQ),
    counter(
        "mainspring_rabbitmq_failures_total",
        "Failures of the connection to RabbitMQ",
        "The log has the first of each outage",
    )
    .by("service", RABBITMQ),
    counter(
        "mainspring_rabbitmq_unreadable_total",
        "Messages of RabbitMQ that are none of this engine",
        "Another program uses the exchange",
    )
    .by("service", RABBITMQ),
    gauge(
        "mainspring_mail_server_away",
        "1 while the mail server is away, else 0",
        "`/health/ready` says why",
    ),
    gauge(
        "mainspring_openid_issuer_away",
        "1 while the keys of an issuer cannot be read, else 0",
        "`/health/ready` says why; tokens of known keys are still taken",
    )
    .by_settings("issuer", "the issuers of OpenID Connect in the settings"),
    gauge(
        "mainspring_identity_settings_differ",
        "Live nodes whose settings of identity differ from those of this one",
        "Start all nodes with the same settings; the log names those that differ",
    ),
    counter(
        "mainspring_hangs_total",
        "Parts of this node that the watchdog found hung; the process ends then",
        "The log of the node that ended says which part: report it",
    )
    .by("part", PARTS),
    counter(
        "mainspring_process_cpu_seconds_total",
        "Time of processors that this process used, in whole seconds; on Linux",
        "Near the number of processors: add nodes",
    ),
    gauge(
        "mainspring_process_resident_memory_bytes",
        "Memory of this process that is not paged out; on Linux",
        "Lower `cache-mib` and `claim-mib`, or give the process more",
    ),
    counter(
        "mainspring_log_lines_omitted_total",
        "Lines of the log beyond a hundred a second, of those that are written for each lock, timer and invalidation",
        "Nothing is wrong; at the level debug all of them are there",
    ),
    counter(
        "mainspring_trace_spans_dropped_total",
        "Spans that no collector has taken",
        "The collector is slow or away: look at its log, or lower `--otlp-ratio`",
    ),
];
