//! The commit writer of a node: a fast lane that gathers what piled up, and a lane for stragglers.
//!
//! Each lane is one task with one connection and one row in `fence`. A request is never dropped: whoever sent it gets
//! its answer even when the connection dies at commit, and what travels with it (the instance's lock) is held until
//! then. A full channel makes the senders wait: the burst's lock and memory are the back-pressure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::batch::{Broken, Channel, Lane, Winners};
use super::{Answer, CommitRequest, FINISHED, Verdict, resolve};
use crate::db::{Connector, Failure};
use crate::id::Incarnation;
use crate::{Error, Result};

/// How many rows of `fence` a node needs: one per lane.
pub(crate) const WRITERS: [i16; 2] = [0, 1];

/// Bounds of a batch, and of patience.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    /// Bursts in one batch.
    pub(crate) batch: usize,
    /// Bytes in one batch, unless a single burst has more.
    pub(crate) bytes: usize,
    /// Distinct stimulus keys in one batch: the shared lock table of Postgres is small.
    pub(crate) keys: usize,
    /// How long a straggler waits for a locked row before its burst is given up.
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
            patience: Duration::from_secs(10),
            doubt: Duration::from_secs(60),
        }
    }
}

struct Pending {
    request: CommitRequest,
    reply: oneshot::Sender<Answer>,
    /// When it first met a locked row.
    straggling_since: Option<Instant>,
    /// How often the connection died under it; an earlier try may have been committed.
    cuts: u32,
}

/// The handle by which bursts reach the database. Cheap to clone; the lanes end when the last clone is dropped and
/// everything sent has been answered.
#[derive(Clone)]
pub(crate) struct CommitWriter {
    sender: mpsc::Sender<Pending>,
}

/// The tasks of a writer, for the owner who wants to see their end.
pub(crate) struct WriterTasks {
    pub(crate) fast: AbortOnDropHandle<()>,
    pub(crate) straggler: AbortOnDropHandle<()>,
}

impl CommitWriter {
    /// Starts both lanes. Their rows in `fence` must exist.
    pub(crate) async fn start(
        connector: &Connector,
        incarnation: Incarnation,
        options: WriterOptions,
    ) -> Result<(Self, WriterTasks)> {
        let (sender, fast_queue) = mpsc::channel(options.batch * 2);
        let (to_stragglers, straggler_queue) = mpsc::channel(options.batch * 2);
        let [fast_no, straggler_no] = WRITERS;
        let fast = LaneTask::open(connector, incarnation, fast_no, Lane::Fast, options.clone()).await?;
        let straggler = LaneTask::open(connector, incarnation, straggler_no, Lane::Straggler, options).await?;
        let tasks = WriterTasks {
            fast: AbortOnDropHandle::new(tokio::spawn(fast.run(fast_queue, Some(to_stragglers)))),
            straggler: AbortOnDropHandle::new(tokio::spawn(straggler.run(straggler_queue, None))),
        };
        Ok((Self { sender }, tasks))
    }

    /// Hands in the outcome of a burst and waits for its verdict. Dropped half-way, the commit goes on by itself.
    pub(crate) async fn commit(&self, request: CommitRequest) -> Result<Answer> {
        let instance = request.instance.clone();
        let (reply, answer) = oneshot::channel();
        let pending = Pending {
            request,
            reply,
            straggling_since: None,
            cuts: 0,
        };
        let gone = || Error::unknown_outcome("the commit writer ended").instance(instance.as_str());
        self.sender.send(pending).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

struct LaneTask {
    lane: Lane,
    connector: Connector,
    incarnation: Incarnation,
    writer: i16,
    channel: Channel,
    options: WriterOptions,
}

impl LaneTask {
    async fn open(
        connector: &Connector,
        incarnation: Incarnation,
        writer: i16,
        lane: Lane,
        options: WriterOptions,
    ) -> Result<Self> {
        let channel = Channel::open(connector, incarnation, writer, lane).await?;
        Ok(Self {
            lane,
            connector: connector.clone(),
            incarnation,
            writer,
            channel,
            options,
        })
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Pending>, stragglers: Option<mpsc::Sender<Pending>>) {
        let mut backlog = VecDeque::new();
        let room = self.options.batch;
        loop {
            if backlog.is_empty() {
                let mut arrived = Vec::new();
                if queue.recv_many(&mut arrived, room).await == 0 {
                    return;
                }
                backlog.extend(arrived);
                // The last answers woke others, too: what they have ready comes along.
                tokio::task::yield_now().await;
            }
            // What piled up while the last batch was in flight.
            while backlog.len() < room
                && let Ok(pending) = queue.try_recv()
            {
                backlog.push_back(pending);
            }
            let batch = self.take_batch(&mut backlog);
            let size = batch.len();
            let began = Instant::now();
            let busy = self.settle(batch).await;
            let lane = self.lane.name();
            metrics::histogram!("mainspring_commit_batch_bursts", "lane" => lane).record(size as f64);
            metrics::histogram!("mainspring_commit_seconds", "lane" => lane).record(began.elapsed());
            self.defer(busy, &stragglers, &mut backlog).await;
        }
    }

    /// Takes from the backlog what may travel together: at most one burst per instance, bounded by count, bytes and
    /// stimulus keys. A straggler travels alone.
    fn take_batch(&self, backlog: &mut VecDeque<Pending>) -> Vec<Pending> {
        let most = if self.lane == Lane::Fast { self.options.batch } else { 1 };
        let mut instances = HashSet::new();
        let mut keys = HashSet::new();
        let mut bytes = 0;
        let mut batch = Vec::new();
        let mut left = VecDeque::new();
        while let Some(pending) = backlog.pop_front() {
            let size = pending.request.size();
            let more_keys = pending.request.keys().filter(|(key, _)| !keys.contains(key)).count();
            let full = batch.len() >= most
                || (!batch.is_empty()
                    && (bytes + size > self.options.bytes || keys.len() + more_keys > self.options.keys));
            let identity = (pending.request.tenant.clone(), pending.request.instance.clone());
            if full || !instances.insert(identity) {
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

    /// Sends what met a locked row to the straggler lane, or, in that lane, to the end of the queue until its patience
    /// is over.
    async fn defer(
        &self,
        busy: Vec<Pending>,
        stragglers: &Option<mpsc::Sender<Pending>>,
        backlog: &mut VecDeque<Pending>,
    ) {
        for mut pending in busy {
            let since = *pending.straggling_since.get_or_insert_with(Instant::now);
            if since.elapsed() > self.options.patience {
                give_up(pending);
                continue;
            }
            match stragglers {
                // Full: the fast lane waits for it, as do those who send to us.
                Some(lane) => {
                    if let Err(refused) = lane.send(pending).await {
                        give_up(refused.0);
                    }
                }
                None => {
                    backlog.push_back(pending);
                    // The wait for the lock itself is the server's; this is for failures that come back at once.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Brings every request of a batch to its verdict, save those that met a locked row, which are returned.
    async fn settle(&mut self, batch: Vec<Pending>) -> Vec<Pending> {
        let mut parts = VecDeque::from([batch]);
        let mut busy = Vec::new();
        let mut doubt_since = None;
        while let Some(mut part) = parts.pop_front() {
            match self.attempt(&mut part).await {
                Ok(mut deferred) => {
                    doubt_since = None;
                    busy.append(&mut deferred);
                }
                Err(broken) if broken.failure == Failure::Connection => {
                    let since = *doubt_since.get_or_insert_with(Instant::now);
                    part.iter_mut().for_each(|pending| pending.cuts += 1);
                    if since.elapsed() > self.options.doubt {
                        part.into_iter().for_each(|pending| answer(pending, Verdict::Unknown));
                        continue;
                    }
                    tracing::warn!(error = %broken.error, bursts = part.len(), "a commit is in doubt; it is sent again");
                    metrics::counter!("mainspring_commits_in_doubt_total").increment(part.len() as u64);
                    self.reopen(since).await;
                    // Twice is no accident: something in it may be what kills the connection.
                    if part.len() > 1 && part.iter().any(|pending| pending.cuts > 1) {
                        let second = part.split_off(part.len() / 2);
                        parts.push_front(second);
                    }
                    parts.push_front(part);
                }
                Err(_) if part.len() > 1 => {
                    // One bad row must hurt only its own burst.
                    let second = part.split_off(part.len() / 2);
                    parts.push_front(second);
                    parts.push_front(part);
                }
                Err(broken) if broken.failure == Failure::Busy => busy.append(&mut part),
                Err(broken) => {
                    for pending in part {
                        let error = Error::internal("the database refuses what this burst would write")
                            .instance(pending.request.instance.as_str())
                            .caused_by(format!("{}", broken.error));
                        answer(pending, Verdict::Refused(error));
                    }
                }
            }
        }
        busy
    }

    /// Writes once and answers everybody whose verdict is known; those that met a locked row are returned. On an error
    /// `part` is left as it was.
    async fn attempt(&mut self, part: &mut Vec<Pending>) -> Result<Vec<Pending>, Broken> {
        let in_doubt = part.iter().any(|pending| pending.cuts > 0);
        let winners = match self
            .channel
            .write(part.iter_mut().map(|pending| &mut pending.request))
            .await
        {
            Ok(winners) => winners,
            // The server refused a repeated batch as a whole: an earlier try may have won all the same.
            Err(broken) if broken.failure != Failure::Connection && in_doubt => Winners::new(),
            // Alone in its batch, it is the one that came too late.
            Err(broken) if broken.taken && part.len() == 1 => Winners::new(),
            Err(broken) => return Err(broken),
        };
        let mut judged = HashMap::new();
        if winners.len() < part.len() {
            let losers = part.iter().enumerate().filter(|(no, _)| !winners.contains_key(no));
            let losers = losers.map(|(no, pending)| (no, &pending.request));
            // If this fails, the winners are committed but nobody could ask about the rest: all is sent again.
            judged = resolve::classify(&self.channel, losers, in_doubt).await?;
        }
        let mut busy = Vec::new();
        for (no, pending) in part.drain(..).enumerate() {
            let won = winners.get(&no).copied().map(Verdict::Won);
            match won.or_else(|| judged.remove(&no)).unwrap_or(Verdict::Unknown) {
                Verdict::Busy => busy.push(pending),
                verdict => answer(pending, verdict),
            }
        }
        Ok(busy)
    }

    /// A new connection in place of a dead one. Comes back without one when the time for doubt is over.
    async fn reopen(&mut self, since: Instant) {
        let mut pause = Duration::from_millis(20);
        while since.elapsed() <= self.options.doubt {
            match Channel::open(&self.connector, self.incarnation, self.writer, self.lane).await {
                Ok(channel) => {
                    self.channel = channel;
                    return;
                }
                Err(error) => tracing::debug!(%error, "no connection for the commit writer yet"),
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// A row stays locked past all patience. An earlier try of the same request may be what holds it, and may yet win.
fn give_up(pending: Pending) {
    let verdict = if pending.cuts > 0 {
        Verdict::Unknown
    } else {
        Verdict::Busy
    };
    answer(pending, verdict);
}

fn answer(pending: Pending, verdict: Verdict) {
    metrics::counter!("mainspring_bursts_total", "verdict" => verdict.name()).increment(1);
    if matches!(verdict, Verdict::Won(_)) && pending.request.effects.status == FINISHED {
        metrics::counter!("mainspring_instances_finished_total").increment(1);
    }
    // Nobody listens: a door that went away. What travelled along is dropped, which releases it.
    let _ = pending.reply.send(Answer {
        verdict,
        keep: pending.request.keep,
    });
}
