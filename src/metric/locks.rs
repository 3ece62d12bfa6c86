//! Locks of instances.

use super::Metric;
use super::entry::{SHORT, WAITS, counter, gauge, histogram};

pub(super) const METRICS: [Metric; 9] = [
    histogram(
        "mainspring_lock_acquisition_seconds",
        SHORT,
        "From the request for the lock of an instance to its grant; an instance that begins needs none",
        "The server of the locks is slow or far away; the limit of the checklist is 100 ms at p99",
    ),
    histogram(
        "mainspring_lock_hold_seconds",
        WAITS,
        "From the grant of the lock of an instance to its release",
        "As for `mainspring_burst_seconds`: a burst holds it",
    ),
    counter(
        "mainspring_lock_contended_total",
        "Tries that found the lock of an instance held elsewhere",
        "Many requests are for the same instance, or a session of no node holds the lock: `GET /cluster/locks`",
    ),
    counter(
        "mainspring_lock_tries_failed_total",
        "Polls for which the provider of locks gave no answer",
        "The server of the locks is away, or full",
    ),
    counter(
        "mainspring_foreign_locks_total",
        "Reports of sessions of no node that hold locks of the cluster",
        "The log names the session: end it, and give the role of the nodes to nodes alone",
    ),
    counter(
        "mainspring_lock_leases_lost_total",
        "Locks in Redis whose lease ended before their release",
        "The node, or Redis, stood still for longer than a lease",
    ),
    gauge(
        "mainspring_lock_server_away",
        "1 while the server of the locks is away, else 0",
        "`/health/ready` says why; instances that wait do not go on until it is back",
    ),
    counter(
        "mainspring_lock_server_failures_total",
        "Failures of the server of the locks",
        "The log has the first of each outage",
    ),
    counter(
        "mainspring_contended_refused_total",
        "Bursts that were given back because too many waited for stimulus keys",
        "Very many instances use one event name at once: use names or correlation ids of their own",
    ),
];
