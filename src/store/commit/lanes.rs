//! The lanes of a commit writer: each gathers requests and brings one batch after another to its outcomes.
//!
//! The first lane takes what the queue holds; the second helps while the first is busy and the queue is long; the contended
//! lane takes what found a locked row, one request at a time, or a held stimulus key, all requests that miss the same keys
//! together, and waits for the lock. Requests for which it has no place are [`CommitOutcome::Busy`] at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::breaker::Breaker;
use super::classify::{self, Loss};
use super::gathering;
use super::holders::ActivationHolders;
use super::options::WriterOptions;
use super::pending::{Pending, end_unwritten, fault, refuse, reply};
use super::pipeline::{BatchCommit, BatchError, CommitConnection, LockedRows, Winners};
use super::queue::{AbandonOnDrop, Lane, Queue};
use super::retry::{self, BatchDecision, Decision, FailedBatch, LONGEST_PAUSE, Leaving, SHORTEST_PAUSE};
use super::statement::StatementShape;
use super::{CommitGuard, CommitOutcome};
use crate::db::{Connector, ErrorClass};
use crate::id::Incarnation;
use crate::watchdog::WatchedPart;
use crate::{Error, Result};

/// The pause of the second lane after a failed connect.
const SECOND_LANE_PAUSE: Duration = Duration::from_secs(1);

/// How long an idle lane keeps its connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause of the contended lane after a failure: the first, which doubles, and the longest.
const CONTENDED_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// One lane with its connection.
pub(super) struct LaneTask {
    mode: LockedRows,
    connector: Connector,
    incarnation: Incarnation,
    writer: i16,
    /// None while the lane is idle.
    pub(super) connection: Option<CommitConnection>,
    options: WriterOptions,
    breaker: Arc<Breaker>,
    watched: WatchedPart,
    holders: ActivationHolders,
    /// How many requests in a row failed alone for reasons that need not be theirs.
    futile: u32,
}

/// The requests of a batch that an attempt left without an outcome.
struct Remaining<G> {
    /// They found a locked row.
    busy: Vec<Pending<G>>,
    /// They hold something: they are sent again in the multi-claim form.
    holding: Vec<Pending<G>>,
}

impl<G> Default for Remaining<G> {
    fn default() -> Self {
        Self {
            busy: Vec::new(),
            holding: Vec::new(),
        }
    }
}

impl LaneTask {
    pub(super) fn new(
        connector: &Connector,
        incarnation: Incarnation,
        writer: i16,
        mode: LockedRows,
        options: &WriterOptions,
        breaker: &Arc<Breaker>,
        watched: WatchedPart,
    ) -> Self {
        Self {
            mode,
            connector: connector.clone(),
            incarnation,
            writer,
            connection: None,
            options: options.clone(),
            breaker: Arc::clone(breaker),
            watched,
            holders: ActivationHolders::default(),
            futile: 0,
        }
    }

    /// The first lane: takes what the queue holds.
    pub(super) async fn run_first<G: CommitGuard>(
        mut self,
        queue: Arc<Queue<Pending<G>>>,
        contended: mpsc::Sender<Pending<G>>,
    ) {
        let _abandon = AbandonOnDrop(Arc::clone(&queue));
        let mut backlog = VecDeque::new();
        let room = self.options.batch;
        loop {
            if backlog.is_empty() {
                queue.finish(Lane::First);
                let is_open = self.watched.idle(queue.wait_for_turn(Lane::First)).await;
                backlog.extend(queue.take_ready(Lane::First, room));
                if backlog.is_empty() && !is_open {
                    return;
                }
                // The last replies woke other tasks: what they send at once joins this batch. Only this thread ends the yield,
                // and one of them may keep it.
                self.watched.idle(tokio::task::yield_now()).await;
            }
            // What arrived while the last batch was in flight.
            backlog.extend(queue.take_ready(Lane::First, room.saturating_sub(backlog.len())));
            if !backlog.is_empty() {
                queue.begin(Lane::First);
                self.write_one(&mut backlog, Some(&contended)).await;
            }
        }
    }

    /// The second lane: helps while the first one is busy and the queue is long.
    pub(super) async fn run_second<G: CommitGuard>(
        mut self,
        queue: Arc<Queue<Pending<G>>>,
        contended: mpsc::Sender<Pending<G>>,
    ) {
        loop {
            let turn = tokio::time::timeout(IDLE_TIMEOUT, queue.wait_for_turn(Lane::Second));
            match self.watched.idle(turn).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.connection = None;
                    continue;
                }
            }
            if self.connection.is_none() {
                match self.watched.wait(self.connect()).await {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => {
                        // The first lane takes all of it.
                        tracing::debug!(%error, "the second lane of the commit writer cannot connect; it retries");
                        tokio::time::sleep(SECOND_LANE_PAUSE).await;
                        continue;
                    }
                }
            }
            let mut backlog = VecDeque::from(queue.take_ready(Lane::Second, self.options.batch));
            while !backlog.is_empty() {
                queue.begin(Lane::Second);
                self.write_one(&mut backlog, Some(&contended)).await;
            }
            queue.finish(Lane::Second);
        }
    }

    /// The contended lane: takes what found a locked row.
    pub(super) async fn run_contended<G: CommitGuard>(mut self, mut queue: mpsc::Receiver<Pending<G>>) {
        let mut backlog = VecDeque::new();
        let room = self.options.batch;
        loop {
            if backlog.is_empty() {
                let mut arrived = Vec::new();
                let received = tokio::time::timeout(IDLE_TIMEOUT, queue.recv_many(&mut arrived, room));
                match self.watched.idle(received).await {
                    Ok(0) => return,
                    Ok(_) => backlog.extend(arrived),
                    Err(_) => {
                        self.connection = None;
                        continue;
                    }
                }
            }
            while backlog.len() < room
                && let Ok(pending) = queue.try_recv()
            {
                backlog.push_back(pending);
            }
            if self.connection.is_none() {
                self.reopen(Instant::now()).await;
            }
            self.write_one(&mut backlog, None).await;
        }
    }

    /// Brings one batch of the backlog to its outcomes.
    async fn write_one<G: CommitGuard>(
        &mut self,
        backlog: &mut VecDeque<Pending<G>>,
        contended: Option<&mpsc::Sender<Pending<G>>>,
    ) {
        let batch = gathering::take_batch(backlog, self.mode, &self.options, &self.holders);
        let size = batch.len();
        let began = Instant::now();
        let busy = self.resolve(batch).await;
        let lane = self.mode.lane();
        metrics::histogram!("mainspring_commit_batch_bursts", "lane" => lane).record(size as f64);
        metrics::histogram!("mainspring_commit_seconds", "lane" => lane).record(began.elapsed());
        self.defer(busy, contended, backlog).await;
    }

    /// Sends what found a locked row to the contended lane, unless that is full, or, within that lane, to the end of its
    /// backlog until the lock timeout is over.
    async fn defer<G: CommitGuard>(
        &self,
        busy: Vec<Pending<G>>,
        contended: Option<&mpsc::Sender<Pending<G>>>,
        backlog: &mut VecDeque<Pending<G>>,
    ) {
        let mut stays = false;
        for mut pending in busy {
            let since = *pending.contended_since.get_or_insert_with(Instant::now);
            if since.elapsed() > self.options.lock_timeout {
                if pending.fault.is_some() {
                    self.end_faulty(backlog);
                }
                end_unwritten(pending);
                continue;
            }
            match contended {
                // While it is full the claims are released without a failure: if this lane waited, one publisher that holds a
                // key for long would stop the commits of all that need no such key.
                Some(lane) => match lane.try_reserve() {
                    Ok(place) => {
                        pending.guard.contended();
                        place.send(pending);
                    }
                    Err(_) => {
                        metrics::counter!("mainspring_contended_refused_total").increment(1);
                        end_unwritten(pending);
                    }
                },
                None => {
                    backlog.push_back(pending);
                    stays = true;
                }
            }
        }
        if stays {
            // The server waits for the lock; this pause is for failures that come back at once.
            let pause = CONTENDED_PAUSES.0 * 2u32.saturating_pow(self.futile.min(16));
            tokio::time::sleep(pause.min(CONTENDED_PAUSES.1)).await;
        }
    }

    /// Ends all requests that the database has refused for too long, without another attempt for each.
    fn end_faulty<G: CommitGuard>(&self, backlog: &mut VecDeque<Pending<G>>) {
        let is_over = |pending: &Pending<G>| {
            let since = pending.contended_since;
            pending.fault.is_some() && since.is_some_and(|since| since.elapsed() > self.options.lock_timeout)
        };
        let (over, others): (Vec<_>, Vec<_>) = backlog.drain(..).partition(is_over);
        backlog.extend(others);
        over.into_iter().for_each(end_unwritten);
    }

    /// Brings every request of a batch to its outcome, except those that found a locked row, which are returned.
    async fn resolve<G: CommitGuard>(&mut self, batch: Vec<Pending<G>>) -> Vec<Pending<G>> {
        let mut parts = VecDeque::from([batch]);
        let mut busy = Vec::new();
        let mut doubt_since = None;
        if self.mode == LockedRows::Skip {
            self.futile = 0;
        }
        let watched = self.watched.clone();
        while let Some(mut part) = parts.pop_front() {
            let broken = match watched.wait(self.attempt(&mut part)).await {
                Ok(mut left) => {
                    doubt_since = None;
                    busy.append(&mut left.busy);
                    if !left.holding.is_empty() {
                        parts.push_front(left.holding);
                    }
                    continue;
                }
                Err(broken) => broken,
            };
            let now = Instant::now();
            part.iter_mut()
                .for_each(|pending| pending.has_failed(broken.failure, now));
            let in_doubt_since = doubt_since.unwrap_or(now);
            match retry::after_failure(self.failed_batch(broken.failure, &part, in_doubt_since)) {
                BatchDecision::GiveUp => part
                    .into_iter()
                    .for_each(|pending| reply(pending, CommitOutcome::Unknown)),
                BatchDecision::Resend { pause, halve } => {
                    tracing::warn!(error = %broken.error, bursts = part.len(), "the outcome of a commit is in doubt; the batch is sent again");
                    metrics::counter!("mainspring_commits_in_doubt_total").increment(part.len() as u64);
                    // A server that takes connections and no commit is not retried at full speed.
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    doubt_since = Some(in_doubt_since);
                    self.reopen(in_doubt_since).await;
                    if halve {
                        push_halves(&mut parts, part);
                    } else {
                        parts.push_front(part);
                    }
                }
                BatchDecision::Halve => push_halves(&mut parts, part),
                BatchDecision::AwaitLock => busy.append(&mut part),
                BatchDecision::RetryAlone => {
                    for pending in &mut part {
                        pending.fault = Some(fault(&broken.error));
                    }
                    busy.append(&mut part);
                }
                BatchDecision::JudgeFault => {
                    for pending in part {
                        busy.extend(watched.wait(self.judge_fault(pending, &broken)).await);
                    }
                }
                BatchDecision::Refuse => part.into_iter().for_each(|pending| refuse(pending, &broken.error)),
            }
        }
        busy
    }

    /// What the decision about a batch that failed depends on.
    fn failed_batch<G>(&self, failure: ErrorClass, part: &[Pending<G>], in_doubt_since: Instant) -> FailedBatch {
        FailedBatch {
            failure,
            size: part.len(),
            mode: self.mode,
            lost_connections: part.iter().map(|pending| pending.lost_connections).max().unwrap_or(0),
            doubt_is_over: in_doubt_since.elapsed() > self.options.doubt_timeout,
            futile: self.futile,
        }
    }

    /// A request failed alone for a reason that need not be its own. It is its own if others of its shape were committed
    /// since, or if a timed-out statement is fast without its rows. Otherwise the request comes back.
    async fn judge_fault<G: CommitGuard>(
        &mut self,
        mut pending: Pending<G>,
        broken: &BatchError,
    ) -> Option<Pending<G>> {
        let shape = StatementShape::of_one(&pending.request);
        let since = pending.failing_since.unwrap_or_else(Instant::now);
        let again = pending.fault.is_some();
        let is_own = self.breaker.has_committed(shape, since)
            || broken.failure == ErrorClass::Timeout
                && again
                && match &mut self.connection {
                    Some(connection) => connection.probe(shape).await,
                    None => false,
                };
        if is_own {
            refuse(pending, &broken.error);
            return None;
        }
        self.futile = self.futile.saturating_add(1);
        let key = (pending.request.tenant.clone(), pending.request.instance.clone());
        self.breaker.record_commit_fault(&key, shape, &broken.error);
        pending.fault = Some(fault(&broken.error));
        Some(pending)
    }

    /// Sends one batch, replies to each request whose outcome is known and returns the others. On an error `part` is
    /// unchanged.
    async fn attempt<G: CommitGuard>(&mut self, part: &mut Vec<Pending<G>>) -> Result<Remaining<G>, BatchError> {
        let in_doubt = part.iter().any(|pending| pending.lost_connections > 0);
        let Some(connection) = &mut self.connection else {
            return Err(Error::unavailable(
                "database-unavailable",
                "the commit writer has no connection; the commit is retried",
            )
            .into());
        };
        let waits =
            self.mode == LockedRows::Wait && part.len() == 1 && part.iter().all(|pending| pending.missed.is_empty());
        let requests = part.iter_mut().map(|pending| &mut *pending.request);
        let (winners, missed_keys, left_as) = match connection.write(requests, waits).await {
            Ok(BatchCommit { winners, shape, missed }) => {
                if !winners.is_empty() {
                    self.futile = 0;
                    self.breaker.committed(shape);
                }
                (winners, missed, Leaving::Committed)
            }
            Err(broken) => {
                let Some(left_as) = retry::after_refusal(&broken, part.len(), in_doubt) else {
                    return Err(broken);
                };
                if broken.failure == ErrorClass::Fault {
                    self.breaker.record_fault(&broken.error);
                }
                (Winners::new(), Vec::new(), left_as)
            }
        };
        let mut judged = HashMap::new();
        if winners.len() < part.len() {
            let losers = part.iter().enumerate().filter(|(no, _)| !winners.contains_key(no));
            let losers = losers.map(|(no, pending)| (no, &*pending.request));
            // If this fails, the winners are committed and the rest is unknown: the whole batch is sent again.
            judged = classify::classify(connection, losers, in_doubt).await?;
        }
        let mut left = Remaining::default();
        for (no, mut pending) in part.drain(..).enumerate() {
            if let Some(commit) = winners.get(&no) {
                reply(pending, CommitOutcome::Committed(*commit));
                continue;
            }
            let own = pending.request.keys();
            let missed = own.iter().map(|(key, _)| key).filter(|key| missed_keys.contains(key));
            pending.missed = missed.collect();
            let loss = judged.remove(&no).unwrap_or(Loss::Outcome(CommitOutcome::Unknown));
            match retry::after_loss(loss, left_as) {
                Decision::Reply(outcome) => reply(pending, outcome),
                Decision::SendHolding => {
                    pending.request.holds = true;
                    self.holders.insert(&pending.request);
                    left.holding.push(pending);
                }
                Decision::AwaitLock => left.busy.push(pending),
            }
        }
        Ok(left)
    }

    async fn connect(&self) -> Result<CommitConnection> {
        let (mode, send) = (self.mode, self.options.send);
        CommitConnection::open(&self.connector, self.incarnation, self.writer, mode, send).await
    }

    /// Replaces a lost connection. Gives up when the doubt timeout is over.
    async fn reopen(&mut self, since: Instant) {
        let mut pause = SHORTEST_PAUSE;
        while since.elapsed() <= self.options.doubt_timeout {
            match self.watched.wait(self.connect()).await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    return;
                }
                Err(error) => tracing::debug!(%error, "the commit writer cannot connect; it retries"),
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// The halves of a batch are the next ones that are sent.
fn push_halves<G>(parts: &mut VecDeque<Vec<Pending<G>>>, mut part: Vec<Pending<G>>) {
    let second = part.split_off(part.len() / 2);
    parts.push_front(second);
    parts.push_front(part);
}
