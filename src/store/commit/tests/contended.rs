//! The contended lane: requests that wait for the same stimulus keys are written together, and hold no worker while they
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::assert_outcome;
use crate::db::Session;
use crate::id::StimulusHash;
use crate::store::commit::{CommitGuard, CommitOutcome, CommitRequest, CommitWriter, WriterOptions, WriterTasks};
use crate::testing::store::{Fixture, Writer, burst, waiting};
use crate::watchdog::Watchdog;

const MANY: usize = 100;

/// Counts the requests that were sent to the contended lane.
struct Counted(Arc<AtomicUsize>);

impl CommitGuard for Counted {
    fn contended(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Lanes {
    fixture: Fixture,
    commit: CommitWriter<Counted>,
    contended: Arc<AtomicUsize>,
    _tasks: WriterTasks,
    _writer: Writer,
}

impl Lanes {
    async fn new() -> Self {
        Self::with(WriterOptions::default()).await
    }

    async fn with(options: WriterOptions) -> Self {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        let started = CommitWriter::start(&writer.connector, writer.incarnation, options, &Watchdog::default()).await;
        let (commit, tasks) = started.unwrap();
        Self {
            fixture,
            commit,
            contended: Arc::default(),
            _tasks: tasks,
            _writer: writer,
        }
    }

    fn sends(&self, request: CommitRequest) -> JoinHandle<CommitOutcome> {
        let (commit, guard) = (self.commit.clone(), Counted(Arc::clone(&self.contended)));
        tokio::spawn(async move { commit.commit(Box::new(request), guard).await.unwrap().outcome })
    }

    /// A publisher for all that has matched nothing yet.
    async fn publisher(&self, hash: u8) -> Session {
        let (class, key) = (
            self.fixture.base.schema().lock_class(),
            StimulusHash([hash; 32]).lock_key(),
        );
        let lock = format!("SELECT pg_advisory_xact_lock({class}, {key})");
        self.fixture.begin(&lock).await
    }

    async fn until_contended(&self, count: usize) {
        let until = async {
            while self.contended.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), until).await.unwrap();
    }

    async fn transactions(&self, prefix: &str) -> i64 {
        let sql = format!("SELECT count(DISTINCT xmin::text) FROM instance WHERE id LIKE '{prefix}%'");
        self.fixture.count(&sql).await
    }
}

async fn committed(requests: impl IntoIterator<Item = JoinHandle<CommitOutcome>>) {
    for request in requests {
        assert_outcome!(request.await.unwrap(), CommitOutcome::Committed(_));
    }
}

#[tokio::test]
async fn requests_that_miss_one_key_are_written_together_and_others_apart() {
    let lanes = Lanes::new().await;
    let (first, second) = (lanes.publisher(9).await, lanes.publisher(8).await);
    let send = |prefix: &str, hash: u8, count: usize| -> Vec<_> {
        let requests = (0..count).map(|n| waiting(burst(&format!("{prefix}{n}"), None), "b", hash));
        requests.map(|request| lanes.sends(request)).collect()
    };
    let nines = send("nine", 9, MANY);
    let eights = send("eight", 8, MANY);
    lanes.until_contended(2 * MANY).await;
    // What needs no such key is not delayed.
    committed([lanes.sends(waiting(burst("other", None), "b", 7))]).await;
    first.client.batch_execute("ROLLBACK").await.unwrap();
    committed(nines).await;
    assert!(eights.iter().all(|request| !request.is_finished()));
    second.client.batch_execute("ROLLBACK").await.unwrap();
    committed(eights).await;
    // The lane had begun to wait for a part of them before the others came.
    for prefix in ["nine", "eight"] {
        let transactions = lanes.transactions(prefix).await;
        assert!(transactions <= 10, "{transactions} transactions of {prefix}");
    }
    assert_eq!(lanes.contended.load(Ordering::SeqCst), 2 * MANY);
    lanes.fixture.is_sound().await;
}

#[tokio::test]
async fn requests_that_miss_a_key_are_not_delayed_by_their_number() {
    const VERY_MANY: usize = 250;
    let lanes = Lanes::new().await;
    let publisher = lanes.publisher(9).await;
    let requests: Vec<_> = (0..VERY_MANY)
        .map(|n| lanes.sends(waiting(burst(&format!("i{n}"), None), "b", 9)))
        .collect();
    lanes.until_contended(VERY_MANY).await;
    // The lock_timeout of the lane ends a wait, and the next one begins soon, however many requests wait.
    let begun = "SELECT coalesce(max(extract(epoch FROM xact_start) * 1000000), 0)::bigint FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event = 'advisory'";
    let began = Instant::now();
    for _ in 0..3 {
        let last = lanes.fixture.count(begun).await;
        let again = format!("SELECT (({begun}) > {last})::integer::bigint");
        lanes.fixture.until(1, &again).await;
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    publisher.client.batch_execute("ROLLBACK").await.unwrap();
    committed(requests).await;
    lanes.fixture.is_sound().await;
}

#[tokio::test]
async fn a_request_with_a_locked_row_is_written_alone() {
    let lanes = Lanes::new().await;
    for instance in ["row0", "row1", "row2"] {
        committed([lanes.sends(waiting(burst(instance, None), "b", 7))]).await;
    }
    let row = lanes.fixture.begin("SELECT 1 FROM instance FOR UPDATE").await;
    let requests: Vec<_> = (0..3)
        .map(|n| lanes.sends(waiting(burst(&format!("row{n}"), Some(1)), "b2", 9)))
        .collect();
    lanes.until_contended(3).await;
    row.client.batch_execute("ROLLBACK").await.unwrap();
    committed(requests).await;
    assert_eq!(lanes.transactions("row").await, 3);
    lanes.fixture.is_sound().await;
}

#[tokio::test]
async fn without_a_place_in_the_contended_lane_a_request_is_busy_and_delays_no_other() {
    let options = WriterOptions {
        batch: 4,
        contended: 8,
        second_lane_min: None,
        ..WriterOptions::default()
    };
    let lanes = Lanes::with(options).await;
    let publisher = lanes.publisher(9).await;
    let requests: Vec<_> = (0..MANY)
        .map(|n| lanes.sends(waiting(burst(&format!("i{n}"), None), "b", 9)))
        .collect();
    // Beside them what needs no such key is written.
    committed([lanes.sends(waiting(burst("first", None), "b", 7))]).await;
    let until = async {
        while requests.iter().filter(|request| request.is_finished()).count() < MANY - 12 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), until).await.unwrap();
    committed([lanes.sends(waiting(burst("last", None), "b", 7))]).await;
    publisher.client.batch_execute("ROLLBACK").await.unwrap();
    let mut written = 0;
    for request in requests {
        match request.await.unwrap() {
            CommitOutcome::Committed(_) => written += 1,
            outcome => assert_outcome!(outcome, CommitOutcome::Busy),
        }
    }
    // Those in the channel, and at most a batch in the lane.
    assert!((8..=12).contains(&written), "{written}");
    assert_eq!(lanes.contended.load(Ordering::SeqCst), written);
    lanes.fixture.is_sound().await;
}
