//! The lanes of a commit writer: each gathers requests and brings one batch after the other to its outcomes.
//!
//! The first lane takes what the queue holds; the second helps while the first is busy and the queue is long; the contended
//! lane takes what found a locked row, one request at a time, or a held stimulus key, all requests that miss the same keys
//! together, and waits for the lock. What it has no place for is [`CommitOutcome::Busy`] at once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::breaker::Breaker;
use super::classify::{self, Loss};
use super::holders::ActivationHolders;
use super::pending::{Pending, end_unwritten, fault, refuse, reply};
use super::pipeline::{BatchCommit, BatchError, CommitConnection, LockedRows, SendMode, Winners};
use super::queue::{AbandonOnDrop, Lane, Queue, SECOND_LANE_MIN};
use super::statement::StatementShape;
use super::{CommitGuard, CommitOutcome};
use crate::db::{Connector, ErrorClass};
use crate::id::Incarnation;
use crate::watchdog::WatchedPart;
use crate::{Error, Result};

/// The pause of the second lane after a failed connect.
const SECOND_LANE_PAUSE: Duration = Duration::from_secs(1);

/// The pauses between attempts after a lost connection; they double.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long an idle lane keeps its connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// After so many requests of a batch failed alone and none was committed, the others are not tried one by one.
const MAX_FUTILE: u32 = 3;

/// The pause of the contended lane after a failure: the first, which doubles, and the longest.
const CONTENDED_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Bounds of a batch, and timeouts.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    /// Requests in one batch.
    pub(crate) batch: usize,
    /// Bytes in one batch, unless a single request has more.
    pub(crate) bytes: usize,
    /// Distinct stimulus keys in one batch: the shared lock table of Postgres is small.
    pub(crate) keys: usize,
    /// Requests that wait for the contended lane, beside one batch in it; what exceeds them is [`CommitOutcome::Busy`].
    pub(crate) contended: usize,
    /// How many waiting requests start the second lane. None: there is no second lane.
    pub(crate) second_lane_min: Option<usize>,
    /// How long a request waits for a locked row before its outcome is [`CommitOutcome::Busy`].
    pub(crate) lock_timeout: Duration,
    /// How long an outcome in doubt is resolved before it is [`CommitOutcome::Unknown`].
    pub(crate) doubt_timeout: Duration,
    pub(crate) send: SendMode,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch: 256,
            bytes: 4 << 20,
            keys: 384,
            contended: 2048,
            second_lane_min: Some(SECOND_LANE_MIN),
            lock_timeout: Duration::from_secs(10),
            doubt_timeout: Duration::from_secs(60),
            send: SendMode::default(),
        }
    }
}

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
    /// Skipped by a single-claim batch without a lookup of what they hold: they are sent again.
    again: Vec<Pending<G>>,
    /// They hold something: they are sent again in the multi-claim form.
    holding: Vec<Pending<G>>,
}

impl<G> Default for Remaining<G> {
    fn default() -> Self {
        Self {
            busy: Vec::new(),
            again: Vec::new(),
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
        let batch = self.take_batch(backlog);
        let size = batch.len();
        let began = Instant::now();
        let busy = self.resolve(batch).await;
        let lane = self.mode.lane();
        metrics::histogram!("mainspring_commit_batch_bursts", "lane" => lane).record(size as f64);
        metrics::histogram!("mainspring_commit_seconds", "lane" => lane).record(began.elapsed());
        self.defer(busy, contended, backlog).await;
    }

    /// Takes one batch from the backlog: at most one request per instance, bounded by count, bytes and stimulus keys. A
    /// request that ends an instance which holds something goes into a batch of such. A contended request is alone, or with
    /// those that missed the same stimulus keys.
    fn take_batch<G: CommitGuard>(&self, backlog: &mut VecDeque<Pending<G>>) -> Vec<Pending<G>> {
        let waits_for_row =
            self.mode == LockedRows::Wait && backlog.front().is_some_and(|first| first.missed.is_empty());
        let most = if waits_for_row { 1 } else { self.options.batch };
        let mut instances = HashSet::new();
        let mut keys = HashSet::new();
        let mut bytes = 0;
        let mut batch = Vec::new();
        let mut left = VecDeque::new();
        while let Some(mut pending) = backlog.pop_front() {
            pending.request.holds |= self.holders.contains(&pending.request);
            let apart = batch.first().is_some_and(|first: &Pending<G>| {
                first.request.holds != pending.request.holds
                    || self.mode == LockedRows::Wait && first.missed != pending.missed
            });
            let size = pending.request.size();
            let own = pending.request.keys();
            let more_keys = own.iter().filter(|(key, _)| !keys.contains(key)).count();
            let full = batch.len() >= most
                || (!batch.is_empty()
                    && (bytes + size > self.options.bytes || keys.len() + more_keys > self.options.keys));
            let identity = (pending.request.tenant.clone(), pending.request.instance.clone());
            if full || apart || !instances.insert(identity) {
                left.push_back(pending);
                continue;
            }
            bytes += size;
            keys.extend(own.iter().map(|(key, _)| key));
            batch.push(pending);
        }
        *backlog = left;
        batch
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
            match watched.wait(self.attempt(&mut part)).await {
                Ok(mut left) => {
                    doubt_since = None;
                    busy.append(&mut left.busy);
                    let rest = [left.holding, left.again];
                    rest.into_iter()
                        .filter(|part| !part.is_empty())
                        .for_each(|part| parts.push_front(part));
                }
                Err(broken) if broken.failure == ErrorClass::Connection => {
                    let since = *doubt_since.get_or_insert_with(Instant::now);
                    part.iter_mut().for_each(|pending| pending.lost_connections += 1);
                    if since.elapsed() > self.options.doubt_timeout {
                        part.into_iter()
                            .for_each(|pending| reply(pending, CommitOutcome::Unknown));
                        continue;
                    }
                    tracing::warn!(error = %broken.error, bursts = part.len(), "the outcome of a commit is in doubt; the batch is sent again");
                    metrics::counter!("mainspring_commits_in_doubt_total").increment(part.len() as u64);
                    // A server that takes connections and no commit is not retried at full speed.
                    let lost = part.iter().map(|pending| pending.lost_connections).max().unwrap_or(0);
                    tokio::time::sleep(pause_after(lost).mul_f64(rand::random_range(0.5..1.0))).await;
                    self.reopen(since).await;
                    // The second time something in the batch may be what closes the connection.
                    if part.len() > 1 && part.iter().any(|pending| pending.lost_connections > 1) {
                        let second = part.split_off(part.len() / 2);
                        parts.push_front(second);
                    }
                    parts.push_front(part);
                }
                // A stimulus key stayed locked: they wait for it together again.
                Err(broken) if broken.failure == ErrorClass::Busy && self.mode == LockedRows::Wait => {
                    busy.append(&mut part)
                }
                Err(broken) if part.len() > 1 => {
                    if broken.failure.may_be_a_fault() {
                        let now = Instant::now();
                        for pending in &mut part {
                            pending.failing_since.get_or_insert(now);
                        }
                        if self.futile >= MAX_FUTILE {
                            // Nothing is committed: each is retried alone, later.
                            for pending in &mut part {
                                pending.fault = Some(fault(&broken.error));
                            }
                            busy.append(&mut part);
                            continue;
                        }
                    }
                    // One bad row must fail only its own request.
                    let second = part.split_off(part.len() / 2);
                    parts.push_front(second);
                    parts.push_front(part);
                }
                Err(broken) if broken.failure == ErrorClass::Busy => busy.append(&mut part),
                Err(broken) if broken.failure.may_be_a_fault() => {
                    for pending in part {
                        busy.extend(watched.wait(self.judge_fault(pending, &broken)).await);
                    }
                }
                Err(broken) => part.into_iter().for_each(|pending| refuse(pending, &broken.error)),
            }
        }
        busy
    }

    /// A request failed alone for a reason that need not be its own. It is its own if others of its shape were committed
    /// since, or if a timed-out statement is fast without its rows. Otherwise the request comes back.
    async fn judge_fault<G: CommitGuard>(
        &mut self,
        mut pending: Pending<G>,
        broken: &BatchError,
    ) -> Option<Pending<G>> {
        let shape = StatementShape::of_one(&pending.request);
        let since = *pending.failing_since.get_or_insert_with(Instant::now);
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
        let mut skips_holders = false;
        let waits =
            self.mode == LockedRows::Wait && part.len() == 1 && part.iter().all(|pending| pending.missed.is_empty());
        let (mut missed_keys, mut is_id_taken) = (Vec::new(), false);
        let winners = match connection
            .write(part.iter_mut().map(|pending| &mut *pending.request), waits)
            .await
        {
            Ok(BatchCommit { winners, shape, missed }) => {
                missed_keys = missed;
                skips_holders = !shape.multi && !shape.lookup;
                if !winners.is_empty() {
                    self.futile = 0;
                    self.breaker.committed(shape);
                }
                winners
            }
            // The server refused a repeated batch as a whole: an earlier attempt may have been committed all the same.
            Err(broken) if broken.failure != ErrorClass::Connection && in_doubt => {
                if broken.failure == ErrorClass::Fault {
                    self.breaker.record_fault(&broken.error);
                }
                Winners::new()
            }
            // Alone in its batch, it is the start that came second.
            Err(broken) if broken.is_id_taken && part.len() == 1 => {
                is_id_taken = true;
                Winners::new()
            }
            Err(broken) => return Err(broken),
        };
        let mut judged = HashMap::new();
        if winners.len() < part.len() {
            let losers = part.iter().enumerate().filter(|(no, _)| !winners.contains_key(no));
            let losers = losers.map(|(no, pending)| (no, &*pending.request));
            // If this fails, the winners are committed and the rest is unknown: the whole batch is sent again.
            judged = classify::classify(connection, losers, in_doubt).await?;
        }
        if skips_holders
            && judged
                .values()
                .any(|loss| matches!(loss, Loss::IsHolder | Loss::Skipped))
        {
            connection.look_up_holders();
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
            match judged.remove(&no).unwrap_or(Loss::Outcome(CommitOutcome::Unknown)) {
                Loss::IsHolder => {
                    pending.request.holds = true;
                    self.holders.insert(&pending.request);
                    left.holding.push(pending);
                }
                Loss::Skipped if skips_holders => left.again.push(pending),
                // By a start that did not run yet: there is no instance.
                Loss::Outcome(CommitOutcome::Busy) if is_id_taken => reply(pending, CommitOutcome::VersionConflict),
                Loss::Skipped | Loss::Outcome(CommitOutcome::Busy) => left.busy.push(pending),
                Loss::Outcome(outcome) => reply(pending, outcome),
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

/// Zero after the first lost connection: a new one nearly always helps.
fn pause_after(lost_connections: u32) -> Duration {
    match lost_connections {
        0 | 1 => Duration::ZERO,
        more => (SHORTEST_PAUSE * 2_u32.saturating_pow(more - 2)).min(LONGEST_PAUSE),
    }
}
