//! The commit writer of a node: a fast lane that gathers what piled up, a second one that helps when much has, and a lane
//! for requests that met a locked row.
//!
//! Each lane is one task with one connection and one row in `fence`; those but the first connect when they are needed. A
//! request is never dropped: whoever sent it gets its answer even when the connection dies at commit, and what travels with
//! it (the instance's lock) is held until then. A full queue makes the senders wait: the burst's lock and memory are the
//! back-pressure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::breaker::Breaker;
use super::classify::{self, Loss};
use super::holders::ActivationHolders;
use super::lanes::{AbandonOnDrop, CloseOnDrop, Lane, Queue, SECOND_LANE_MIN};
use super::pipeline::{BatchCommit, BatchError, CommitConnection, LockMode, Winners};
use super::statement::StatementShape;
use super::{CommitOutcome, CommitReply, CommitRequest, FINISHED};
use crate::db::{Connector, Failure};
use crate::id::Incarnation;
use crate::{Error, Result};

/// How many rows of `fence` a node needs: one per lane.
pub(crate) const WRITERS: [i16; 3] = [0, 1, 2];

/// How long the second lane waits after it could not connect.
const LATER: Duration = Duration::from_secs(1);

/// The pauses between tries with a connection that dies, or that cannot be had.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a lane keeps a connection that it does not need.
const IDLE: Duration = Duration::from_secs(60);

/// After so many bursts of a batch failed alone, and none was committed, the others are not tried one by one.
const FUTILE: u32 = 3;

/// How long the contended lane rests after a failure, at first and at most.
const RESTS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Bounds of a batch, and of patience.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    /// Bursts in one batch.
    pub(crate) batch: usize,
    /// Bytes in one batch, unless a single burst has more.
    pub(crate) bytes: usize,
    /// Distinct stimulus keys in one batch: the shared lock table of Postgres is small.
    pub(crate) keys: usize,
    /// How many are worth a batch of the second lane. None: there is no second lane.
    pub(crate) many: Option<usize>,
    /// How long a request waits for a locked row before its burst is given up.
    pub(crate) patience: Duration,
    /// How long an outcome in doubt is asked for before it is called unknown.
    pub(crate) doubt: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch: 256,
            bytes: 4 << 20,
            keys: 256,
            many: Some(SECOND_LANE_MIN),
            patience: Duration::from_secs(10),
            doubt: Duration::from_secs(60),
        }
    }
}

struct Pending<G> {
    /// Boxed, as it is moved several times.
    request: Box<CommitRequest>,
    guard: G,
    reply: oneshot::Sender<CommitReply<G>>,
    /// When it first met a locked row.
    contended_since: Option<Instant>,
    /// How often the connection died under it; an earlier try may have been committed.
    cuts: u32,
    /// When it first failed for a reason that need not be its own, perhaps with others.
    failing_since: Option<Instant>,
    /// What the database said when it last failed so, alone.
    fault: Option<Error>,
}

/// The handle by which bursts reach the database. Cheap to clone; the lanes end when the last clone is dropped and
/// everything sent has been answered.
pub(crate) struct CommitWriter<G> {
    queue: Arc<CloseOnDrop<Pending<G>>>,
    breaker: Arc<Breaker>,
}

/// The tasks of a writer, for the owner who wants to see their end.
pub(crate) struct WriterTasks {
    pub(crate) fast: AbortOnDropHandle<()>,
    pub(crate) second: AbortOnDropHandle<()>,
    pub(crate) contended: AbortOnDropHandle<()>,
}

impl<G> Clone for CommitWriter<G> {
    fn clone(&self) -> Self {
        Self {
            queue: Arc::clone(&self.queue),
            breaker: Arc::clone(&self.breaker),
        }
    }
}

impl<G: Send + Sync + 'static> CommitWriter<G> {
    /// Starts the lanes. Their rows in `fence` must exist.
    pub(crate) async fn start(
        connector: &Connector,
        incarnation: Incarnation,
        options: WriterOptions,
    ) -> Result<(Self, WriterTasks)> {
        let queue = Arc::new(Queue::new(options.batch * 2, options.many));
        let (to_contended, contended_queue) = mpsc::channel(options.batch * 2);
        let breaker = Arc::<Breaker>::default();
        let lane = |writer, mode| LaneTask {
            mode,
            connector: connector.clone(),
            incarnation,
            writer,
            channel: None,
            options: options.clone(),
            breaker: Arc::clone(&breaker),
            holders: ActivationHolders::default(),
            futile: 0,
        };
        let [fast, contended, second] = WRITERS;
        let mut first = lane(fast, LockMode::SkipLocked);
        first.channel = Some(CommitConnection::open(connector, incarnation, fast, LockMode::SkipLocked).await?);
        let (second, last) = (lane(second, LockMode::SkipLocked), lane(contended, LockMode::Wait));
        let from_second = to_contended.clone();
        let tasks = WriterTasks {
            fast: AbortOnDropHandle::new(tokio::spawn(first.run(Arc::clone(&queue), to_contended))),
            second: AbortOnDropHandle::new(tokio::spawn(second.help(Arc::clone(&queue), from_second))),
            contended: AbortOnDropHandle::new(tokio::spawn(last.run_contended(contended_queue))),
        };
        let queue = Arc::new(CloseOnDrop(queue));
        Ok((Self { queue, breaker }, tasks))
    }

    /// Whether the database takes what is written.
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Sends the request and waits for its outcome. `guard` lives until the outcome is known and comes back with it. Dropped
    /// half-way, the commit goes on by itself and then drops the guard.
    pub(crate) async fn commit(&self, request: Box<CommitRequest>, guard: G) -> Result<CommitReply<G>> {
        let instance = request.instance.clone();
        let (reply, answer) = oneshot::channel();
        let pending = Pending {
            request,
            guard,
            reply,
            contended_since: None,
            cuts: 0,
            failing_since: None,
            fault: None,
        };
        let gone = || Error::unknown_outcome("the commit writer ended").instance(instance.as_str());
        if !self.queue.0.push(pending).await {
            return Err(gone());
        }
        answer.await.map_err(|_| gone())
    }
}

struct LaneTask {
    mode: LockMode,
    connector: Connector,
    incarnation: Incarnation,
    writer: i16,
    /// None: not needed yet, or not any more.
    channel: Option<CommitConnection>,
    options: WriterOptions,
    breaker: Arc<Breaker>,
    holders: ActivationHolders,
    /// How many bursts in a row failed alone for reasons that need not be theirs.
    futile: u32,
}

/// What an attempt leaves to do.
struct Remaining<G> {
    /// Those that met a locked row.
    busy: Vec<Pending<G>>,
    /// Those that a plain batch stepped over without a lookup: they are sent again.
    again: Vec<Pending<G>>,
    /// Those that hold something: they are sent again in the other form.
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
    /// The first lane: takes what there is.
    async fn run<G: Send + Sync>(mut self, queue: Arc<Queue<Pending<G>>>, contended: mpsc::Sender<Pending<G>>) {
        let _abandons = AbandonOnDrop(Arc::clone(&queue));
        let mut backlog = VecDeque::new();
        let room = self.options.batch;
        loop {
            if backlog.is_empty() {
                queue.written(Lane::First);
                let is_open = queue.is_due(Lane::First).await;
                backlog.extend(queue.take_ready(Lane::First, room));
                if backlog.is_empty() && !is_open {
                    return;
                }
                // The last answers woke others, too: what they have ready comes along.
                tokio::task::yield_now().await;
            }
            // What piled up while the last batch was in flight.
            backlog.extend(queue.take_ready(Lane::First, room.saturating_sub(backlog.len())));
            if !backlog.is_empty() {
                queue.begins(Lane::First);
                self.write_one(&mut backlog, Some(&contended)).await;
            }
        }
    }

    /// The second lane: helps while the first one is busy and much waits.
    async fn help<G: Send + Sync>(mut self, queue: Arc<Queue<Pending<G>>>, contended: mpsc::Sender<Pending<G>>) {
        loop {
            match tokio::time::timeout(IDLE, queue.is_due(Lane::Second)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.channel = None;
                    continue;
                }
            }
            if self.channel.is_none() {
                match CommitConnection::open(&self.connector, self.incarnation, self.writer, self.mode).await {
                    Ok(channel) => self.channel = Some(channel),
                    Err(error) => {
                        // All of it is the first lane's.
                        tracing::debug!(%error, "no second connection for the commit writer yet");
                        tokio::time::sleep(LATER).await;
                        continue;
                    }
                }
            }
            let mut backlog = VecDeque::from(queue.take_ready(Lane::Second, self.options.batch));
            while !backlog.is_empty() {
                queue.begins(Lane::Second);
                self.write_one(&mut backlog, Some(&contended)).await;
            }
            queue.written(Lane::Second);
        }
    }

    /// The lane of what met a locked row.
    async fn run_contended<G: Send + Sync>(mut self, mut queue: mpsc::Receiver<Pending<G>>) {
        let mut backlog = VecDeque::new();
        let room = self.options.batch;
        loop {
            if backlog.is_empty() {
                let mut arrived = Vec::new();
                match tokio::time::timeout(IDLE, queue.recv_many(&mut arrived, room)).await {
                    Ok(0) => return,
                    Ok(_) => backlog.extend(arrived),
                    Err(_) => {
                        self.channel = None;
                        continue;
                    }
                }
            }
            while backlog.len() < room
                && let Ok(pending) = queue.try_recv()
            {
                backlog.push_back(pending);
            }
            if self.channel.is_none() {
                self.reopen(Instant::now()).await;
            }
            self.write_one(&mut backlog, None).await;
        }
    }

    /// Brings one batch of the backlog to its outcomes.
    async fn write_one<G: Send + Sync>(
        &mut self,
        backlog: &mut VecDeque<Pending<G>>,
        contended: Option<&mpsc::Sender<Pending<G>>>,
    ) {
        let batch = self.take_batch(backlog);
        let size = batch.len();
        let began = Instant::now();
        let busy = self.settle(batch).await;
        let lane = self.mode.lane();
        metrics::histogram!("mainspring_commit_batch_bursts", "lane" => lane).record(size as f64);
        metrics::histogram!("mainspring_commit_seconds", "lane" => lane).record(began.elapsed());
        self.defer(busy, contended, backlog).await;
    }

    /// Takes from the backlog what may travel together: at most one burst per instance, bounded by count, bytes and
    /// stimulus keys. What ends an instance that holds something travels apart. A contended request travels alone.
    fn take_batch<G: Send + Sync>(&self, backlog: &mut VecDeque<Pending<G>>) -> Vec<Pending<G>> {
        let most = if self.mode == LockMode::SkipLocked {
            self.options.batch
        } else {
            1
        };
        let mut instances = HashSet::new();
        let mut keys = HashSet::new();
        let mut bytes = 0;
        let mut batch = Vec::new();
        let mut left = VecDeque::new();
        while let Some(mut pending) = backlog.pop_front() {
            pending.request.holds |= self.holders.knows(&pending.request);
            let holds = pending.request.holds;
            let apart = batch
                .first()
                .is_some_and(|first: &Pending<G>| first.request.holds != holds);
            let size = pending.request.size();
            let more_keys = pending.request.keys().filter(|(key, _)| !keys.contains(key)).count();
            let full = batch.len() >= most
                || (!batch.is_empty()
                    && (bytes + size > self.options.bytes || keys.len() + more_keys > self.options.keys));
            let identity = (pending.request.tenant.clone(), pending.request.instance.clone());
            if full || apart || !instances.insert(identity) {
                left.push_back(pending);
                continue;
            }
            bytes += size;
            keys.extend(pending.request.keys().map(|(key, _)| key));
            batch.push(pending);
        }
        *backlog = left;
        batch
    }

    /// Sends what met a locked row to the contended lane, or, in that lane, to the end of the queue until its patience
    /// is over.
    async fn defer<G: Send + Sync>(
        &self,
        busy: Vec<Pending<G>>,
        contended: Option<&mpsc::Sender<Pending<G>>>,
        backlog: &mut VecDeque<Pending<G>>,
    ) {
        for mut pending in busy {
            let since = *pending.contended_since.get_or_insert_with(Instant::now);
            if since.elapsed() > self.options.patience {
                if pending.fault.is_some() {
                    self.give_up_faulty(backlog);
                }
                give_up(pending);
                continue;
            }
            match contended {
                // Full: the fast lane waits for it, as do those who send to us.
                Some(lane) => {
                    if let Err(refused) = lane.send(pending).await {
                        give_up(refused.0);
                    }
                }
                None => {
                    backlog.push_back(pending);
                    // The wait for the lock itself is the server's; this is for failures that come back at once.
                    let rest = RESTS.0 * 2u32.saturating_pow(self.futile.min(16));
                    tokio::time::sleep(rest.min(RESTS.1)).await;
                }
            }
        }
    }

    /// Gives up all that the database refuses for too long, without trying each once more.
    fn give_up_faulty<G: Send + Sync>(&self, backlog: &mut VecDeque<Pending<G>>) {
        let is_over = |pending: &Pending<G>| {
            let since = pending.contended_since;
            pending.fault.is_some() && since.is_some_and(|since| since.elapsed() > self.options.patience)
        };
        let (over, others): (Vec<_>, Vec<_>) = backlog.drain(..).partition(is_over);
        backlog.extend(others);
        over.into_iter().for_each(give_up);
    }

    /// Brings every request of a batch to its outcome, save those that met a locked row, which are returned.
    async fn settle<G: Send + Sync>(&mut self, batch: Vec<Pending<G>>) -> Vec<Pending<G>> {
        let mut parts = VecDeque::from([batch]);
        let mut busy = Vec::new();
        let mut doubt_since = None;
        if self.mode == LockMode::SkipLocked {
            self.futile = 0;
        }
        while let Some(mut part) = parts.pop_front() {
            match self.attempt(&mut part).await {
                Ok(mut left) => {
                    doubt_since = None;
                    busy.append(&mut left.busy);
                    let rest = [left.holding, left.again];
                    rest.into_iter()
                        .filter(|part| !part.is_empty())
                        .for_each(|part| parts.push_front(part));
                }
                Err(broken) if broken.failure == Failure::Connection => {
                    let since = *doubt_since.get_or_insert_with(Instant::now);
                    part.iter_mut().for_each(|pending| pending.cuts += 1);
                    if since.elapsed() > self.options.doubt {
                        part.into_iter()
                            .for_each(|pending| answer(pending, CommitOutcome::Unknown));
                        continue;
                    }
                    tracing::warn!(error = %broken.error, bursts = part.len(), "a commit is in doubt; it is sent again");
                    metrics::counter!("mainspring_commits_in_doubt_total").increment(part.len() as u64);
                    // A server that takes connections and no commit is not asked for one as fast as it can say no.
                    let cuts = part.iter().map(|pending| pending.cuts).max().unwrap_or(0);
                    tokio::time::sleep(pause_after(cuts).mul_f64(rand::random_range(0.5..1.0))).await;
                    self.reopen(since).await;
                    // Twice is no accident: something in it may be what kills the connection.
                    if part.len() > 1 && part.iter().any(|pending| pending.cuts > 1) {
                        let second = part.split_off(part.len() / 2);
                        parts.push_front(second);
                    }
                    parts.push_front(part);
                }
                Err(broken) if part.len() > 1 => {
                    if broken.failure.may_be_a_fault() {
                        let now = Instant::now();
                        for pending in &mut part {
                            pending.failing_since.get_or_insert(now);
                        }
                        if self.futile >= FUTILE {
                            // Nothing is committed: each is tried again by itself, later.
                            for pending in &mut part {
                                pending.fault = Some(fault(&broken.error));
                            }
                            busy.append(&mut part);
                            continue;
                        }
                    }
                    // One bad row must hurt only its own burst.
                    let second = part.split_off(part.len() / 2);
                    parts.push_front(second);
                    parts.push_front(part);
                }
                Err(broken) if broken.failure == Failure::Busy => busy.append(&mut part),
                Err(broken) if broken.failure.may_be_a_fault() => {
                    for pending in part {
                        busy.extend(self.judge_fault(pending, &broken).await);
                    }
                }
                Err(broken) => part.into_iter().for_each(|pending| refuse(pending, &broken.error)),
            }
        }
        busy
    }

    /// A burst failed alone for a reason that need not be its own. It is, if others of its shape were committed since it
    /// failed first; and a statement takes too long for its rows, if it does not without them. Else the burst comes back.
    async fn judge_fault<G: Send + Sync>(
        &mut self,
        mut pending: Pending<G>,
        broken: &BatchError,
    ) -> Option<Pending<G>> {
        let shape = StatementShape::of_one(&pending.request);
        let since = *pending.failing_since.get_or_insert_with(Instant::now);
        let again = pending.fault.is_some();
        let is_own = self.breaker.has_committed(shape, since)
            || broken.failure == Failure::Timeout
                && again
                && match &mut self.channel {
                    Some(channel) => channel.answers(shape).await,
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

    /// Writes once and answers everybody whose outcome is known; the others are returned. On an error `part` is left as it
    /// was.
    async fn attempt<G: Send + Sync>(&mut self, part: &mut Vec<Pending<G>>) -> Result<Remaining<G>, BatchError> {
        let in_doubt = part.iter().any(|pending| pending.cuts > 0);
        let Some(channel) = &mut self.channel else {
            return Err(Error::unavailable("database-unavailable", "there is no connection to commit on").into());
        };
        let mut steps_over = false;
        let winners = match channel
            .write(part.iter_mut().map(|pending| &mut *pending.request))
            .await
        {
            Ok(BatchCommit { winners, shape }) => {
                steps_over = !shape.several && !shape.strict;
                if !winners.is_empty() {
                    self.futile = 0;
                    self.breaker.committed(shape);
                }
                winners
            }
            // The server refused a repeated batch as a whole: an earlier try may have won all the same.
            Err(broken) if broken.failure != Failure::Connection && in_doubt => {
                if broken.failure == Failure::Fault {
                    self.breaker.record_fault(&broken.error);
                }
                Winners::new()
            }
            // Alone in its batch, it is the one that came too late.
            Err(broken) if broken.taken && part.len() == 1 => Winners::new(),
            Err(broken) => return Err(broken),
        };
        let mut judged = HashMap::new();
        if winners.len() < part.len() {
            let losers = part.iter().enumerate().filter(|(no, _)| !winners.contains_key(no));
            let losers = losers.map(|(no, pending)| (no, &*pending.request));
            // If this fails, the winners are committed but nobody could ask about the rest: all is sent again.
            judged = classify::classify(channel, losers, in_doubt).await?;
        }
        if steps_over && judged.values().any(|loss| matches!(loss, Loss::Holds | Loss::Strict)) {
            channel.is_strict_now();
        }
        let mut left = Remaining::default();
        for (no, mut pending) in part.drain(..).enumerate() {
            if let Some(commit) = winners.get(&no) {
                answer(pending, CommitOutcome::Committed(*commit));
                continue;
            }
            match judged.remove(&no).unwrap_or(Loss::Outcome(CommitOutcome::Unknown)) {
                Loss::Holds => {
                    pending.request.holds = true;
                    self.holders.learn(&pending.request);
                    left.holding.push(pending);
                }
                Loss::Strict if steps_over => left.again.push(pending),
                Loss::Strict | Loss::Outcome(CommitOutcome::Busy) => left.busy.push(pending),
                Loss::Outcome(outcome) => answer(pending, outcome),
            }
        }
        Ok(left)
    }

    /// A new connection in place of a dead one. Comes back without one when the time for doubt is over.
    async fn reopen(&mut self, since: Instant) {
        let mut pause = SHORTEST_PAUSE;
        while since.elapsed() <= self.options.doubt {
            match CommitConnection::open(&self.connector, self.incarnation, self.writer, self.mode).await {
                Ok(channel) => {
                    self.channel = Some(channel);
                    return;
                }
                Err(error) => tracing::debug!(%error, "no connection for the commit writer yet"),
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// None after the first time that the connection died: a new one nearly always helps.
fn pause_after(cuts: u32) -> Duration {
    match cuts {
        0 | 1 => Duration::ZERO,
        more => (SHORTEST_PAUSE * 2_u32.saturating_pow(more - 2)).min(LONGEST_PAUSE),
    }
}

/// A row stays locked for too long, or the database refuses all. An earlier try of the same request may be what holds the
/// row, and may yet win.
fn give_up<G: Send + Sync>(mut pending: Pending<G>) {
    let outcome = match pending.fault.take() {
        _ if pending.cuts > 0 => CommitOutcome::Unknown,
        Some(error) => CommitOutcome::DatabaseFault(error),
        None => CommitOutcome::Busy,
    };
    answer(pending, outcome);
}

/// Not the burst's: the text of what the database said is kept, as one error may be that of many bursts.
fn fault(error: &Error) -> Error {
    Error::unavailable("database-fault", error.message()).caused_by(error.to_string())
}

/// The burst's own.
fn refuse<G: Send + Sync>(pending: Pending<G>, error: &Error) {
    let refused = Error::internal("the database refuses what this burst would write")
        .instance(pending.request.instance.as_str())
        .caused_by(error.to_string());
    answer(pending, CommitOutcome::Refused(refused));
}

fn answer<G: Send + Sync>(pending: Pending<G>, outcome: CommitOutcome) {
    metrics::counter!("mainspring_bursts_total", "outcome" => outcome.name()).increment(1);
    if matches!(outcome, CommitOutcome::Committed(_)) && pending.request.effects.status == FINISHED {
        metrics::counter!("mainspring_instances_finished_total").increment(1);
    }
    // Nobody listens: a door that went away. What travelled along is dropped, which releases it.
    let _ = pending.reply.send(CommitReply {
        outcome,
        guard: pending.guard,
    });
}
