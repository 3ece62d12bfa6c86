//! What counts the whole database: one node samples it (`store::cluster_sample`), and all serve it.

use super::Metric;
use super::entry::{counter, gauge};

/// The tables that grow, `burst_record` with all its partitions.
pub(crate) const TABLES: &[&str] = &[
    "activation",
    "audit",
    "bookmark",
    "burst_record",
    "dead_letter",
    "fan_out",
    "idempotency_key",
    "inbox",
    "instance",
    "schedule",
    "timer",
    "webhook_delivery",
    "work",
];

pub(super) const METRICS: [Metric; 35] = [
    gauge(
        "mainspring_cluster_sample_age_seconds",
        "Time since the cluster was sampled; all of these are of then",
        "Above a minute no node samples: the database is away, or busy beyond its limits",
    ),
    gauge(
        "mainspring_cluster_sample_duration_seconds",
        "How long the sample took",
        "Above a second: the tables that it reads by their index are bloated; vacuum them",
    ),
    gauge(
        "mainspring_cluster_nodes",
        "Registered nodes",
        "expired: no other node runs that would remove one that is gone",
    )
    .by("state", &["live", "draining", "expired"]),
    gauge(
        "mainspring_cluster_nodes_with_missing_types",
        "Live nodes that lack an activity type of a version",
        "A deployment is under way, or a node was built without an activity: `GET /cluster/nodes`",
    ),
    gauge(
        "mainspring_cluster_oldest_check_in_seconds",
        "Time since the check-in of the live node that is the most silent",
        "It hangs, or is cut off; at its tolerance it is removed",
    ),
    gauge(
        "mainspring_cluster_paused",
        "1 while the cluster is paused or drains, else 0",
        "`mainspring status` says why; `mainspring resume` ends it",
    ),
    gauge(
        "mainspring_cluster_instances",
        "Instances, estimated where there are many",
        "It is the history: bulk actions delete what is not needed",
    ),
    gauge(
        "mainspring_cluster_instances_active",
        "Instances that have not ended, estimated where there are many",
        "Compare with the instances that finish",
    ),
    gauge(
        "mainspring_cluster_bookmarks",
        "Places at which instances wait, estimated where there are many",
        "As for active instances",
    ),
    gauge(
        "mainspring_cluster_work_ready",
        "Rows of work that are due and unclaimed, estimated above 10,000",
        "The queue: add nodes or workers, or look why none claims (`GET /cluster/queue`)",
    ),
    gauge(
        "mainspring_cluster_work_claimed",
        "Rows of work that a node has claimed, at most 10,000",
        "It is bounded by the workers of all nodes",
    ),
    gauge(
        "mainspring_cluster_oldest_work_seconds",
        "How long the oldest ready row of work has been due",
        "Work waits: no worker is free, the cluster is paused, or no node knows its activities",
    ),
    gauge(
        "mainspring_cluster_timers",
        "Timers of instances, estimated where there are many",
        "As for active instances",
    ),
    gauge(
        "mainspring_cluster_timers_due",
        "Timers that are due and unclaimed, at most 10,000",
        "As for ready work",
    ),
    gauge(
        "mainspring_cluster_oldest_timer_seconds",
        "How long the oldest of these has been due",
        "Timers are late: as for the oldest work",
    ),
    gauge(
        "mainspring_cluster_schedules",
        "Schedules of published definitions, estimated where there are many",
        "It is the load",
    ),
    gauge(
        "mainspring_cluster_schedules_due",
        "Schedules whose next occurrence is due, at most 10,000",
        "No node with the role scheduler runs, or the cluster is paused",
    ),
    gauge(
        "mainspring_cluster_inbox_events",
        "Events that the inbox keeps, estimated where there are many",
        "Events come that nothing waits for",
    ),
    gauge(
        "mainspring_cluster_dead_letters",
        "Dead letters, estimated where there are many",
        "Work was given up: `GET /cluster/dead-letters` has the causes; correct them, then replay",
    ),
    gauge(
        "mainspring_cluster_webhook_deliveries",
        "Deliveries that wait for their sink, or were given up, at most 10,000 of each",
        "pending: a sink is slow or away; dead: it was away for too long, replay them",
    )
    .by("state", &["pending", "dead"]),
    gauge(
        "mainspring_cluster_partitions_ahead",
        "Days after today for which the partitions of the history exist",
        "Low, not high: below 2 the job that makes them fails; the log says why",
    ),
    gauge(
        "mainspring_cluster_table_bytes",
        "Size of a table with its indexes",
        "The disk fills: delete old instances, lower the retentions",
    )
    .by("table", TABLES),
    gauge(
        "mainspring_cluster_table_rows",
        "Live rows of a table, estimated by the server",
        "It is the load",
    )
    .by("table", TABLES),
    gauge(
        "mainspring_cluster_table_dead_rows",
        "Rows of a table that a vacuum has to remove, estimated by the server",
        "More than live ones for long: something pins xmin, or no vacuum runs",
    )
    .by("table", TABLES),
    gauge(
        "mainspring_cluster_database_bytes",
        "Size of the database",
        "As for tables",
    ),
    gauge(
        "mainspring_cluster_connections",
        "Sessions of the whole server",
        "Near the limit of the server: raise `max_connections`, or lower `--pool-size`",
    ),
    gauge(
        "mainspring_cluster_connections_limit",
        "`max_connections` of the server",
        "It is a setting",
    ),
    gauge(
        "mainspring_cluster_lock_waiters",
        "Sessions of this database that wait for a lock, without those of liveness and elections",
        "Find its holder: `SELECT * FROM pg_locks WHERE NOT granted`, `pg_blocking_pids(pid)`",
    ),
    gauge(
        "mainspring_cluster_longest_lock_wait_seconds",
        "How long the first of these waits",
        "As above",
    ),
    gauge(
        "mainspring_cluster_oldest_transaction_seconds",
        "Age of the oldest transaction of this database",
        "It keeps dead rows: find it in `pg_stat_activity` by `xact_start`, and end it",
    ),
    gauge(
        "mainspring_cluster_xmin_age_transactions",
        "How many transactions ago the oldest snapshot began that a session, a replication slot or a prepared transaction keeps",
        "No vacuum removes what died since: drop the slot, or end the transaction",
    ),
    gauge(
        "mainspring_cluster_wraparound_age_transactions",
        "Age of the oldest row that is not frozen",
        "Above 500 million: the server's vacuum against wraparound does not keep up",
    ),
    counter(
        "mainspring_cluster_deadlocks_total",
        "Deadlocks of this database since its statistics were reset",
        "The engine sorts its locks: look for statements of another program",
    ),
    counter(
        "mainspring_cluster_transactions_total",
        "Transactions of this database since its statistics were reset",
        "It is the load",
    ),
    gauge(
        "mainspring_cluster_notify_queue_ratio",
        "How full the queue of NOTIFY is, from 0 to 1",
        "A session listens and never reads: find it in `pg_stat_activity`, and end it",
    ),
];
