//! `mainspring bench …`, small: that they measure and judge, not how fast anything is.

use serde_json::Value;

use super::{assert_line, fields, no_schema, positive, run, start};
#[cfg(feature = "redis")]
use crate::support::redis::RedisProcess;
use crate::support::{Child, LONG_TIMEOUT, TestDatabase, assert_fields, poll_until};

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

const OF_SIGNALS: &str = "nodes events sent_p50_us sent_p95_us sent_p99_us lost twice duplicates elsewhere wake";

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
    let more = "mode commit journal held_snapshot nodes instances finished took_s wal_bytes flushes engine_cpu_us server_cpu_us lost";
    for (mode, arguments) in [
        ("execute", "--seconds 1 --commit activity"),
        ("dispatch", "--instances 100 --nodes 2"),
        ("dispatch", "--instances 10 --held-snapshot"),
        ("http", "--seconds 1 --journal off"),
        ("endpoint", "--seconds 1"),
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
        positive(&report, "wal_bytes");
    }
}

/// Fields that every report of a lock benchmark has.
const OF_LOCKS: &str = "bench clients seconds ops_per_s p50_us p95_us p99_us errors";

#[tokio::test]
async fn locks_are_measured_on_shared_keys() {
    let bench = run("locks --json --clients 8 --seconds 1 --contention 2 --sessions 2").await;
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
    assert_fields!(report, {"contention": 2, "sessions": 2});
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn locks_in_redis_are_measured() {
    let redis = RedisProcess::start();
    let arguments = format!(
        "locks --json --clients 8 --seconds 1 --provider redis --redis-url {}",
        redis.url()
    );
    let report = super::report(&run(&arguments).await);
    assert_fields!(report, {"provider": "redis", "errors": 0});
    positive(&report, "ops_per_s");
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
