//! `mainspring bench …`, small: that they measure and judge, not how fast anything is.

use serde_json::Value;

use super::{assert_line, fields, no_schema, positive, run, start};
#[cfg(feature = "redis")]
use crate::support::redis::RedisProcess;
use crate::support::{Child, LONG_TIMEOUT, TestDatabase, assert_fields, long, poll_until};

/// The fields that every benchmark of this kind has, in their order.
const COMMON: &str = "bench clients seconds ops_per_s p50_us p95_us p99_us max_us errors";

/// Runs it to success: its report, which has these further fields, and its progress.
async fn report(what: &str, arguments: &str, more: &str) -> (Value, Vec<String>) {
    let bench = run(&format!("{what} --json {arguments}")).await;
    let report = super::report(&bench);
    assert_eq!(fields(&report), format!("{COMMON} {more}"));
    assert_eq!(report["bench"], what);
    for nothing in ["lost", "twice", "errors"] {
        assert_eq!(*report.get(nothing).unwrap_or(&0.into()), 0, "{report}");
    }
    positive(&report, "ops_per_s");
    let rank = |name: &str| report[name].as_f64().unwrap();
    assert!(
        rank("p50_us") <= rank("p95_us") && rank("p99_us") <= rank("max_us"),
        "{report}"
    );
    assert_line(&bench.stdout(), "server: server_version");
    (report, bench.stderr())
}

const OF_TIMERS: &str = "timers nodes at_once all_ms total_ms lost twice duplicates early";

#[tokio::test]
async fn delayed_instances_continue_when_they_are_due() {
    let (report, progress) = report("timers", "--timers 20 --seconds 2", OF_TIMERS).await;
    assert_fields!(report, {"clients": 20, "seconds": 2, "early": 0});
    positive(&report, "p50_us");
    // The last of twenty is due 1.9 s after the first.
    assert!(report["all_ms"].as_f64().unwrap() > 1_900.0, "{report}");
    assert!(
        progress.iter().any(|line| line.ends_with(" of 20 have run")),
        "{progress:?}"
    );
}

#[tokio::test]
async fn all_due_at_one_instant_run_on_two_nodes() {
    let (report, _) = report("timers", "--timers 50 --at-once --nodes 2", OF_TIMERS).await;
    assert_fields!(report, {"at_once": true, "seconds": 0, "nodes": 2});
    // `all_ms` is rounded to a tenth of a millisecond, so it may be half of one below the latest.
    assert!(
        report["all_ms"].as_f64().unwrap() * 1e3 + 50.0 >= report["max_us"].as_f64().unwrap(),
        "{report}"
    );
}

#[tokio::test]
async fn observers_receive_the_commits_of_another_node() {
    let (report, progress) = report("hub", "--observers 3 --events 6 --seconds 1", "dispatch_ratio").await;
    assert_fields!(report, {"clients": 3, "seconds": 1});
    positive(&report, "p50_us");
    positive(&report, "dispatch_ratio");
    assert_line(&progress, "without observers ");
}

const OF_SIGNALS: &str = "nodes events sent_p50_us sent_p95_us sent_p99_us lost twice duplicates names correlated \
                          waiting publishers elsewhere wake";

#[tokio::test]
async fn every_event_is_matched_once() {
    let small = "--clients 4 --seconds 2 --nodes 2";
    let (report, progress) = report("signals", small, OF_SIGNALS).await;
    assert_fields!(report, {"clients": 4, "nodes": 2});
    assert!(report["events"].as_u64().unwrap() > 4, "{report}");
    assert!(
        report["sent_p50_us"].as_f64().unwrap() > report["p50_us"].as_f64().unwrap(),
        "{report}"
    );
    assert_line(&progress, "2 s: ");
}

#[tokio::test]
async fn correlated_events_of_one_name_are_measured_beside_starts_and_executes() {
    let more = "starters waiters_per_s no_events_waiters_per_s execute_p50_us execute_p99_us no_events_execute_p50_us \
                no_events_execute_p99_us alone_execute_p50_us alone_execute_p99_us execute_p99_ratio";
    let clients = "--clients 4 --publishers 2 --starters 2";
    let small = format!("{clients} --seconds 1 --names 1 --correlated --waiting 20");
    let (report, progress) = report("signals", &small, &format!("{OF_SIGNALS} {more}")).await;
    assert_fields!(report, {"names": 1, "waiting": 20, "publishers": 2, "starters": 2});
    for above in [
        "events",
        "waiters_per_s",
        "no_events_waiters_per_s",
        "execute_p99_ratio",
    ] {
        positive(&report, above);
    }
    for phase in ["executes alone, 1 s: ", "beside starters, 1 s: ", "1 s: "] {
        assert_line(&progress, phase);
    }
}

/// What the report of one event for many instances holds.
const OF_FAN_OUT: &str = "nodes fan_out waiting started started_s copied copied_s answered_us median_per_s \
                          reference_per_s rate_ratio begins_p50_us begins_max_us execute_p50_us execute_max_us lost \
                          twice duplicates";

#[tokio::test]
async fn one_event_resumes_all_that_wait_once() {
    let (report, _) = report("signals", "--waiting 300 --fan-out --nodes 2", OF_FAN_OUT).await;
    assert_fields!(report, {"fan_out": true, "clients": 300, "started": 300, "copied": 0});
    assert!(report["rate_ratio"].is_null(), "{report}");
    for above in ["answered_us", "median_per_s", "execute_p50_us"] {
        positive(&report, above);
    }
}

/// More instances than the nodes start: most of a second event's are copies.
#[tokio::test]
async fn copies_of_waiting_instances_resume_once() {
    if !long() {
        return;
    }
    let (report, _) = report("signals", "--waiting 25000 --fan-out", OF_FAN_OUT).await;
    assert_fields!(report, {"started": 20_000, "copied": 5_000});
    positive(&report, "rate_ratio");
}

#[tokio::test]
async fn options_of_signals_that_exclude_each_other_are_wrong_usage() {
    let database = TestDatabase::empty().await;
    for wrong in ["--names 1", "--fan-out", "--fan-out --waiting 9 --clients 2"] {
        let mut bench = start(&database, &format!("signals {wrong}"));
        assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn an_instance_that_runs_early_is_reported() {
    let database = TestDatabase::empty().await;
    let mut bench = start(&database, "timers --json --timers 3 --seconds 1");
    let client = database.connect().await;
    poll_until(LONG_TIMEOUT, "the due times to be set", async || {
        let schema = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mainspring_bench%'";
        let schema: String = client.query_opt(schema, &[]).await.ok()??.get(0);
        let soon = format!(
            "UPDATE {schema}.timer SET available_at = now() - interval '1 second'
             WHERE instance_id = (SELECT max(instance_id) FROM {schema}.timer WHERE due < now() + interval '1 minute')"
        );
        (client.execute(&soon, &[]).await.ok()? > 0).then_some(())
    })
    .await;
    assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(1), "{:?}", bench.stdout());
    assert_fields!(super::report(&bench), {"early": 1, "lost": 0});
    no_schema(&database).await;
}

#[tokio::test]
async fn workflows_of_each_start_mode_finish_and_are_counted() {
    let more = "mode commit journal nodes instances finished took_s statements round_trips wal_bytes flushes \
                engine_cpu_us server_cpu_us lost";
    for (mode, arguments) in [
        ("execute", "--seconds 1 --commit activity"),
        ("dispatch", "--instances 100 --nodes 2"),
        ("http", "--seconds 1 --journal off"),
        ("event", "--instances 60 --nodes 1"),
    ] {
        let small = format!("--mode {mode} --clients 4 {arguments}");
        let (report, _) = report("workflows", &small, more).await;
        assert_fields!(report, {"mode": mode, "lost": 0});
        let [finished, instances] = ["finished", "instances"].map(|name| report[name].as_u64().unwrap());
        assert!(finished > 0 && finished <= instances, "{report}");
        if matches!(mode, "dispatch" | "event") {
            assert_eq!(finished, instances, "{report}");
        }
        for name in ["statements", "round_trips", "wal_bytes"] {
            positive(&report, name);
        }
    }
}

#[tokio::test]
async fn children_nested_workflows_and_tokens_are_measured() {
    let fields = "bench mode commit journal nodes instances took_s ops_per_s baseline_ops_per_s ratio p99_ms baseline_p99_ms \
                  p99_ratio lost errors";
    for (mode, arguments, has_baseline) in [
        ("bulk", "--instances 1200 --nodes 2", false),
        ("bulk-ports", "--instances 40 --journal off", false),
        ("loop", "--instances 8", true),
        ("nested", "--instances 6", true),
        ("tokens", "--instances 2", true),
        ("script-loop", "--instances 30", true),
        ("hostile", "--seconds 1 --clients 4", true),
    ] {
        let bench = run(&format!("workflows --json --mode {mode} {arguments}")).await;
        let report = super::report(&bench);
        assert_eq!(super::fields(&report), fields);
        assert_fields!(report, {"bench": "workflows", "mode": mode, "lost": 0, "errors": 0});
        positive(&report, "ops_per_s");
        for name in ["baseline_ops_per_s", "ratio"] {
            assert_eq!(
                report[name].as_f64().is_some_and(|figure| figure > 0.0),
                has_baseline,
                "{report}"
            );
        }
        for name in ["p99_ms", "baseline_p99_ms", "p99_ratio"] {
            assert_eq!(report[name].is_number(), mode == "hostile", "{report}");
        }
        assert_line(&bench.stdout(), "server: server_version");
    }
}

/// Fields that every report of a lock benchmark has.
const OF_LOCKS: &str = "bench clients seconds ops_per_s p50_us p95_us p99_us errors";

/// Runs it on two shared keys and two sessions: what it reported.
async fn locks(more: &str) -> Value {
    let small = "locks --json --clients 8 --seconds 1 --contention 2 --sessions 2";
    let bench = run(&format!("{small}{more}")).await;
    for line in ["machine: ", "server: server_version"] {
        assert_line(&bench.stdout(), line);
    }
    assert_line(&bench.stderr(), "1 s: ");
    let report = super::report(&bench);
    for field in OF_LOCKS.split(' ') {
        assert!(!report[field].is_null(), "{field}: {report}");
    }
    assert_fields!(report, {"bench": "locks", "clients": 8, "seconds": 1, "errors": 0});
    for above in "ops_per_s p50_us handoffs hand_overs handoff_p50_us longest_to_mean".split(' ') {
        positive(&report, above);
    }
    report
}

#[tokio::test]
async fn locks_are_measured_on_shared_keys() {
    let report = locks("").await;
    assert_fields!(report, {"contention": 2, "sessions": 2});
    assert!(report["ratio"].is_null(), "{report}");
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn locks_in_redis_are_measured_beside_a_plain_use_of_it() {
    let redis = RedisProcess::start();
    let arguments = format!(
        "locks --json --clients 8 --seconds 1 --provider redis --plain-redis --redis-url {}",
        redis.url()
    );
    let report = super::report(&run(&arguments).await);
    assert_fields!(report, {"provider": "redis", "errors": 0});
    for above in ["ops_per_s", "plain_redis_ops_per_s", "plain_redis_ratio"] {
        positive(&report, above);
    }
}

#[tokio::test]
async fn a_thousand_tasks_of_three_processes_share_twenty_keys() {
    let database = TestDatabase::empty().await;
    let client = database.connect().await;
    let mut three: [Child; 3] = [334, 333, 333].map(|clients| {
        let shared = "locks --json --contention 20 --names shared --seconds 3";
        start(&database, &format!("{shared} --clients {clients}"))
    });
    // What they hold and wait for in the database while they run.
    let seen = "SELECT count(*), count(*) FILTER (WHERE NOT granted), count(DISTINCT pid) FROM pg_locks
                WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let (mut most, mut sessions) = (0, 0);
    poll_until(LONG_TIMEOUT, "the end of all three", async || {
        let row = client.query_one(seen, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(1), 0, "a session waits for a lock in the database");
        most = most.max(row.get::<_, i64>(0));
        sessions = sessions.max(row.get::<_, i64>(2));
        three.iter_mut().all(Child::has_ended).then_some(())
    })
    .await;
    // Twenty keys, and what says of each session that it lives. Keys change their owner, so that on a busy machine no query
    // may find all of them held.
    assert!((10..=20 + 3 * 2).contains(&most), "{most} locks");
    assert_eq!(sessions, 3);
    for child in &mut three {
        let code = child.wait(LONG_TIMEOUT).code();
        assert_eq!(code, Some(0), "{}", child.stderr().join("\n"));
        let report = super::report(child);
        positive(&report, "ops_per_s");
        assert_eq!(report["errors"], 0, "{report}");
    }
}

/// Sixteen seconds of as much as the server can take: not beside other tests.
#[tokio::test]
async fn the_unbatched_lock_is_measured_beside_it() {
    if !long() {
        return;
    }
    let report = locks(" --baseline").await;
    let (ours, plain) = (&report["ops_per_s"], &report["baseline_ops_per_s"]);
    let ratio = ours.as_f64().unwrap() / plain.as_f64().unwrap();
    assert!((report["ratio"].as_f64().unwrap() - ratio).abs() < 0.02, "{report}");
    for beside in ["pipelined_ops_per_s", "one_statement_ops_per_s", "lone_ratio"] {
        positive(&report, beside);
    }
}

#[tokio::test]
async fn poll_and_claim_are_measured_among_future_timers_and_dead_rows() {
    let lines = run("poll --rows 11000").await.stdout();
    for line in [
        "10000 future timers, poll: first ",
        "10000 future timers, claim: first ",
        "11000 future timers, poll: first ",
        "11000 future timers, claim: first ",
    ] {
        assert_line(&lines, line);
    }
    let lines = run("dead-rows --rows 3000 --seconds 1").await.stdout();
    for line in ["before the snapshot, poll: ", "with the snapshot, claim: "] {
        let found = lines.iter().find(|found| found.starts_with(line));
        assert!(
            found.is_some_and(|found| !found.ends_with(", of 0")),
            "{line}: {lines:?}"
        );
    }
}

#[tokio::test]
async fn instances_that_are_due_at_once_finish() {
    let lines = run("due-at-once --rows 40 --seconds 5").await.stdout();
    let line = "40 instances due at once: 40 finished in 5 s";
    assert_line(&lines, line);
}

#[tokio::test]
async fn finished_workflows_leave_no_work() {
    let lines = run("churn --workflows 300 --seconds 1").await.stdout();
    assert!(
        lines.iter().any(|line| line.ends_with(" s, 0 rows of work left")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn executes_are_measured_without_and_with_a_snapshot() {
    let lines = run("snapshot --seconds 1 --rate 40").await.stdout();
    for line in ["without an old snapshot: ", "with an old snapshot: "] {
        let found = lines.iter().find(|found| found.starts_with(line));
        assert!(
            found.is_some_and(|found| found.ends_with(", of 40")),
            "{line}: {lines:?}"
        );
    }
}
