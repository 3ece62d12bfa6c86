//! What counts as a hang, and what follows from it. The test makes the steps itself, so no time passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::part::WatchedPart;
use super::state::TOLERATED;
use super::*;
use crate::id::{Incarnation, InstanceId, TenantId};
use crate::testing::metrics::Recorded;

const LONG: Duration = Duration::from_secs(600);

fn watchdog() -> Watchdog {
    Watchdog::new(Duration::from_secs(5), LONG)
}

/// The hangs that are found in so many steps.
fn steps(watchdog: &Watchdog, count: u64) -> Vec<String> {
    (0..count)
        .filter_map(|_| watchdog.step())
        .map(|hang| hang.to_string())
        .collect()
}

/// Lets a part answer that is idle, as often as it is asked, while the steps continue.
async fn answers(watchdog: &Watchdog, part: &WatchedPart, count: u64) -> usize {
    let mut found = 0;
    for _ in 0..count {
        found += steps(watchdog, 1).len();
        let _ = tokio::time::timeout(Duration::from_millis(1), part.idle(std::future::pending::<()>())).await;
    }
    found
}

#[tokio::test]
async fn a_part_that_does_not_answer_is_unresponsive_after_half_the_tolerance_and_hangs_after_all_of_it() {
    let watchdog = watchdog();
    let part = watchdog.watch(Part::Poller, None);
    assert_eq!(answers(&watchdog, &part, TOLERATED * 3).await, 0);
    assert_eq!((watchdog.unresponsive(), watchdog.hang()), (None, None));
    assert_eq!(steps(&watchdog, TOLERATED / 2 - 2), [""; 0]);
    assert_eq!(watchdog.unresponsive(), None);
    steps(&watchdog, 2);
    assert_eq!(
        watchdog.unresponsive().unwrap().to_string(),
        "the poller has not answered for 2.5 s"
    );
    assert_eq!((watchdog.hang(), watchdog.hangs()), (None, 0));
    let found = steps(&watchdog, TOLERATED / 2);
    assert_eq!(found, ["the poller has not answered for 5.0 s"]);
    assert_eq!(watchdog.hang().unwrap().to_string(), found[0]);
    // It is found again after each further tolerance, and over when the part answers.
    assert_eq!(steps(&watchdog, TOLERATED * 2).len(), 2);
    assert_eq!(watchdog.hangs(), 3);
    assert_eq!(answers(&watchdog, &part, 2).await, 0);
    assert_eq!((watchdog.unresponsive(), watchdog.hang()), (None, None));
    assert_eq!(steps(&watchdog, TOLERATED).len(), 1);
}

#[tokio::test]
async fn a_wait_for_the_database_counts_as_heard_while_it_is_polled() {
    let watchdog = watchdog();
    let part = watchdog.watch(Part::CommitWriter, Some(Incarnation(1)));
    let mut waits = Box::pin(part.wait(std::future::pending::<()>()));
    for _ in 0..TOLERATED * 3 {
        assert_eq!(steps(&watchdog, 1), [""; 0]);
        assert!(futures_util::poll!(&mut waits).is_pending());
    }
    // Its task is stuck behind another one.
    assert_eq!(
        steps(&watchdog, TOLERATED),
        ["the commit writer has not answered for 5.0 s"]
    );
    drop(waits);
    // It waits for longer than any statement may take.
    let mut endless = Box::pin(part.answer_during(std::future::pending::<()>(), || false));
    let mut found = 0;
    for _ in 0..TOLERATED {
        found += steps(&watchdog, 1).len();
        assert!(futures_util::poll!(&mut endless).is_pending());
    }
    assert_eq!(found, 1);
}

#[tokio::test]
async fn a_part_is_watched_until_it_is_dropped_or_its_incarnation_is_retired() {
    let watchdog = watchdog();
    let dropped = watchdog.watch(Part::LockSession, Some(Incarnation(1)));
    let clone = dropped.clone();
    drop(dropped);
    assert_eq!(steps(&watchdog, TOLERATED).len(), 1);
    drop(clone);
    assert_eq!(steps(&watchdog, TOLERATED), [""; 0]);
    let _retired = watchdog.watch(Part::Poller, Some(Incarnation(2)));
    let _other = watchdog.watch(Part::Poller, Some(Incarnation(3)));
    watchdog.watch_bursts(Incarnation(2), |_| vec![key("i")]);
    watchdog.retire(Incarnation(2));
    assert_eq!(watchdog.hanging_bursts(), []);
    watchdog.retire(Incarnation(3));
    assert_eq!(steps(&watchdog, TOLERATED * 2), [""; 0]);
}

fn key(instance: &str) -> (TenantId, InstanceId) {
    (TenantId::default(), InstanceId::new(instance))
}

#[tokio::test]
async fn a_burst_hangs_that_keeps_its_thread_for_longer_than_any_activity_may() {
    let watchdog = Watchdog::new(Duration::from_secs(5), Duration::from_secs(20));
    let (mark, other) = (PollMark::new(watchdog.steps()), PollMark::new(watchdog.steps()));
    let marks = [("long", mark.clone()), ("short", other.clone())];
    watchdog.watch_bursts(Incarnation(1), move |step| {
        let hanging = marks.iter().filter(|(_, mark)| mark.is_in_poll_since(step));
        hanging.map(|(name, _)| key(name)).collect()
    });
    steps(&watchdog, 100);
    assert_eq!(watchdog.hanging_bursts(), []);
    // Two bursts, whose polls last for so many steps.
    let inner = watchdog.clone();
    let short = other.around(Box::pin(async {
        assert_eq!(steps(&inner, TOLERATED - 2), [""; 0]);
        assert_eq!(inner.hanging_bursts(), [key("long")]);
    }));
    let mut short = Box::pin(short);
    let long = mark.around(Box::pin(async {
        assert_eq!(steps(&watchdog, 31), [""; 0]);
        assert!(futures_util::poll!(&mut short).is_ready());
        let found = steps(&watchdog, 1);
        assert_eq!(
            found,
            ["a burst that keeps a thread of the runtime has not answered for 20.0 s"]
        );
        assert_eq!(watchdog.hanging_bursts(), [key("long")]);
        assert_eq!(steps(&watchdog, TOLERATED).len(), 1, "again after a tolerance");
    }));
    long.await;
    assert_eq!(steps(&watchdog, 1), [""; 0]);
    assert_eq!((watchdog.hanging_bursts(), watchdog.hang()), (vec![], None));
}

#[test]
fn the_tolerance_has_ten_steps_and_is_not_shorter_than_three_seconds() {
    for (tolerance, step) in [(1, 300), (3, 300), (5, 500), (60, 6_000)] {
        let watchdog = Watchdog::new(Duration::from_secs(tolerance), LONG);
        assert_eq!(watchdog.step_length(), Duration::from_millis(step));
    }
}

#[tokio::test]
async fn the_end_of_a_hung_node_waits_for_its_report_and_not_for_long() {
    let watchdog = watchdog();
    let _part = watchdog.watch(Part::Supervisor, None);
    let reporter = watchdog.reporter();
    let reports = tokio::spawn({
        let watchdog = watchdog.clone();
        async move {
            watchdog.hung(0).await;
            drop(reporter);
        }
    });
    steps(&watchdog, TOLERATED);
    let waits = watchdog.clone();
    let waited = tokio::task::spawn_blocking(move || waits.wait_for_reports(Duration::from_secs(60)));
    waited.await.unwrap();
    reports.await.unwrap();
    watchdog.set_reported();
    watchdog.reported(0).await;
    // One that never comes.
    let _stuck = watchdog.reporter();
    let began = Instant::now();
    watchdog.wait_for_reports(Duration::from_millis(20));
    assert!(began.elapsed() < Duration::from_secs(30));
}

/// Two threads of a runtime are kept by tasks; the watchdog's own continues, and says so.
#[test]
fn a_runtime_whose_threads_are_all_kept_hangs_and_recovers() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let called = Arc::new(AtomicUsize::new(0));
    // The log and the count have a thread of their own.
    let recorded = Arc::<Recorded>::default();
    metrics::set_global_recorder(Arc::clone(&recorded)).ok().unwrap();
    let options = WatchdogOptions {
        tolerance: Duration::ZERO,
        longest_burst: LONG,
        on_hang: HangReport::new({
            let called = Arc::clone(&called);
            move |hang| {
                let reason = "the threads of the runtime have not answered for 3.0 s";
                if called.fetch_add(1, Ordering::SeqCst) == 0 {
                    assert_eq!(hang.to_string(), reason);
                }
            }
        }),
    };
    let (watchdog, _thread) = runtime.block_on(async { start(options).unwrap() });
    let until = |condition: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let release = Arc::new(std::sync::Barrier::new(3));
    let keep = || {
        let release = Arc::clone(&release);
        runtime.spawn(async move {
            release.wait();
        })
    };
    let kept = [keep(), keep()];
    until(&|| called.load(Ordering::SeqCst) > 0);
    assert!(watchdog.hang().is_some() && watchdog.unresponsive().is_some());
    let is_counted = |(name, count): &(String, u64)| name == "mainspring_hangs_total" && *count > 0;
    until(&|| recorded.counters().iter().any(is_counted));
    release.wait();
    until(&|| watchdog.unresponsive().is_none());
    runtime.block_on(async {
        for task in kept {
            task.await.unwrap();
        }
    });
    assert_eq!(watchdog.hang(), None);
}
