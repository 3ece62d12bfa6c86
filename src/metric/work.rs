//! Instances, bursts, events and schedules.

use super::Metric;
use super::entry::{LIVES, WAITS, counter, gauge, histogram};

/// How a burst can end.
const BURST_OUTCOMES: &[&str] = &[
    "committed",
    "claim_lost",
    "version_conflict",
    "busy",
    "fenced",
    "refused",
    "fault",
    "unknown",
];

const CACHES: &[&str] = &["definitions", "programs", "payloads", "route templates"];

pub(super) const METRICS: [Metric; 43] = [
    counter(
        "mainspring_instances_started_total",
        "Instances whose first burst this node committed",
        "It is the load. Compare with the instances that finish: what only starts piles up",
    ),
    counter(
        "mainspring_instances_resumed_total",
        "Bursts with which instances that waited went on",
        "It is the load",
    ),
    counter(
        "mainspring_instances_suspended_total",
        "Bursts after which an instance waits",
        "It is the load",
    ),
    counter(
        "mainspring_instances_finished_total",
        "Instances that ended; completed ones have the outcome finished",
        "It is the load; faulted ones are for `GET /workflow-instances?subStatus=Faulted`",
    )
    .by("outcome", &["finished", "cancelled", "faulted"]),
    counter(
        "mainspring_instances_faulted_total",
        "Instances that ended with a fault that no activity took over",
        "Read `incidents` of the instances, correct the cause, then retry them (`POST /alterations/workflows/retry`)",
    ),
    histogram(
        "mainspring_instance_duration_seconds",
        LIVES,
        "From the start of an instance to its end, waits included",
        "Compare with `mainspring_burst_seconds`: what is not in bursts are waits",
    ),
    counter(
        "mainspring_bursts_total",
        "Bursts that came to the writer of commits",
        "Others than committed ran in vain: `claim_lost` and `fenced` after a take-over, `version_conflict` beside an API that \
         changes the instance, `fault` when the database refuses commits",
    )
    .by("outcome", BURST_OUTCOMES),
    histogram(
        "mainspring_burst_seconds",
        WAITS,
        "How long a burst ran, calls of its activities included and its commit not; the sum is the time of busy workers",
        "Calls to other servers take long: add workers, or move the calls into tasks",
    ),
    counter(
        "mainspring_burst_panics_total",
        "Bursts that panicked; they are repeated with a backoff",
        "A defect of an activity or of the engine: the log has it, report it",
    ),
    counter(
        "mainspring_activities_executed_total",
        "Activities that committed bursts executed",
        "It is the load",
    ),
    counter(
        "mainspring_incidents_total",
        "Executions of activities that faulted",
        "The log names the first of each second; read `incidents` of the instances",
    ),
    counter(
        "mainspring_retried_activities_total",
        "Faulted activities that were executed again on request",
        "It is the load",
    ),
    counter(
        "mainspring_activity_timeouts_total",
        "Activities that exceeded `activity-timeout`",
        "A server that they call hangs: give the call a timeout of its own",
    ),
    histogram(
        "mainspring_dispatch_latency_seconds",
        WAITS,
        "From the time at which a row of work or a timer was due until its burst began",
        "The workers are busy, or the database is slow: compare `mainspring_workers_busy` and `mainspring_query_seconds`",
    ),
    gauge(
        "mainspring_workers",
        "Places for bursts of this node (`--workers`)",
        "It is a setting",
    ),
    gauge(
        "mainspring_workers_busy",
        "Places in which a burst runs",
        "Near `mainspring_workers` for long: add nodes, or workers if the bursts wait for other servers",
    ),
    counter(
        "mainspring_work_recovered_total",
        "Claims of crashed, expired or hung nodes that this node released",
        "Nodes crash: read the log of the node that is gone",
    ),
    counter(
        "mainspring_work_drained_total",
        "Claims that this node returned when it stopped, as their bursts had not ended",
        "Give `--drain-timeout` more time than the longest call of an activity",
    ),
    counter(
        "mainspring_cancelled_work_deleted_total",
        "Rows of work deleted because their instance was cancelled",
        "It is the load",
    ),
    counter(
        "mainspring_bulk_processed_total",
        "Instances that bulk actions of this node cancelled or deleted",
        "A bulk action runs: `GET /cluster/bulk-actions`",
    ),
    gauge(
        "mainspring_claimed_bytes",
        "Bytes of claimed rows and loaded states of this node, at most `claim-mib`",
        "Near the limit bursts wait for room: raise `claim-mib`, or keep less in variables",
    ),
    gauge(
        "mainspring_cache_bytes",
        "Bytes that a cache of this node uses",
        "It is bounded by `cache-mib`",
    )
    .by("cache", CACHES),
    counter(
        "mainspring_cache_evictions_total",
        "Entries that left a full cache",
        "Raise `cache-mib`: definitions are read and compiled again",
    )
    .by("cache", CACHES),
    counter(
        "mainspring_events_total",
        "Events that were published",
        "It is the load",
    ),
    counter(
        "mainspring_events_refused_total",
        "Events refused with `inbox-full`",
        "Nothing waits for them and the inbox is full: find their sender, or raise `inbox-mib`",
    ),
    gauge(
        "mainspring_inbox_bytes",
        "Bytes of the events that the inbox of the cluster keeps, as this node last weighed it",
        "Events come that nothing waits for: `GET /cluster/queue`",
    ),
    gauge(
        "mainspring_fan_outs_unfinished",
        "Events of the cluster that are being given to their bookmarks",
        "Many instances wait for one event: `GET /cluster/fan-outs`",
    ),
    gauge(
        "mainspring_fan_out_numbers_left",
        "Bookmarks of the cluster that unfinished fan-outs may still have before them",
        "It falls by itself; else no worker runs",
    ),
    counter(
        "mainspring_fan_out_resumed_total",
        "Bookmarks that fan-outs of this node met",
        "It is the load",
    ),
    counter(
        "mainspring_fan_outs_finished_total",
        "Fan-outs that this node finished",
        "It is the load",
    ),
    counter(
        "mainspring_schedules_due_total",
        "Occurrences of schedules that this node decided",
        "It is the load",
    ),
    counter(
        "mainspring_schedules_fired_total",
        "Occurrences that started an instance",
        "It is the load",
    ),
    counter(
        "mainspring_schedules_late_total",
        "Occurrences decided a second or more after their time",
        "No node with the role scheduler ran, or the database was away",
    ),
    counter(
        "mainspring_schedules_misfired_total",
        "Occurrences to which the misfire policy applied",
        "No node with the role scheduler ran for a minute or more: look for the time at which all were down",
    ),
    counter(
        "mainspring_schedules_skipped_total",
        "Occurrences that started nothing, by their policies of misfires, overlaps or activation",
        "A run takes longer than the interval of its schedule",
    ),
    histogram(
        "mainspring_schedule_lateness_seconds",
        WAITS,
        "From the time of an occurrence until it was decided",
        "As for late occurrences",
    ),
    counter(
        "mainspring_script_realms_total",
        "Realms of JavaScript, one for each burst with a script",
        "Many on demand: scripts come faster than realms are made ahead",
    )
    .by("made", &["reused", "on_demand"]),
    counter(
        "mainspring_slow_scripts_total",
        "Scripts that ran for 50 ms and shared time slices from then on",
        "The log names the definition: move the computation into an activity of your own",
    ),
    counter(
        "mainspring_scripts_deferred_total",
        "Bursts deferred because no place for their script was free",
        "Slow scripts keep the places: as above",
    ),
    counter(
        "mainspring_script_timeouts_total",
        "Scripts that exceeded their time",
        "The log names the definition: an endless loop, or too much data",
    ),
    counter(
        "mainspring_script_breakers_opened_total",
        "Definitions whose scripts rest, as they timed out again and again",
        "As for timeouts",
    ),
    counter(
        "mainspring_console_lines_dropped_total",
        "Lines of workflows that standard output did not take in time",
        "What reads the output of the node is slow",
    ),
    counter(
        "mainspring_spool_refused_total",
        "Files of requests for which the spool had no room",
        "Raise the limit of the spool, or send smaller files",
    ),
];
