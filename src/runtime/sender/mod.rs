//! Sends the deliveries of webhooks: claims sinks, reads what is due for them, sends it, and marks what became of it.
//!
//! Every node with workers sends. A sink belongs to one node at a time, so a delivery is not claimed: it is read, sent and marked,
//! under the claim of its sink. A node that crashes loses its claims, and what it had sent and not marked is sent again.
//!
//! # Invariants
//!
//! - What is in memory is bounded: of a sink at most [`round::MOST_OF_SINK`] deliveries and [`round::BYTES_OF_SINK`] of payloads, and of
//!   all together [`round::MOST`] and [`round::MOST_BYTES`], beside one delivery for each sink.
//! - A sink that is slow, hangs or fails holds no more than that, and delays no other.
//! - The loop waits for the database only with a deadline, and never for a receiver.
//!
//! # Layout
//!
//! `round`: which sinks this node has claimed, and how much each may be sent · `attempt`: one request to a sink · `verdict`: what a
//! round of attempts says of a sink.

mod attempt;
mod round;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use attempt::{Sending, Sent};
use round::ClaimedSinks;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Result;
use crate::cluster::CheckInReport;
use crate::failpoint;
use crate::id::Incarnation;
use crate::outgoing::OutgoingClient;
use crate::runtime::context::node_context::NodeContext;
use crate::store::clock::DatabaseClock;
use crate::store::webhook::delivery::{self, Retention};

/// How long the first result of a round waits for others, so that they are marked together: to mark one costs the database about as
/// much as to mark thirty.
const GATHER: Duration = Duration::from_millis(10);

/// So many results are marked without waiting for others.
const ENOUGH: usize = 64;

/// The pause after an error of the database.
const RETRY: Duration = Duration::from_millis(500);

/// How long a node that drains waits for what it is sending.
const LEAVE: Duration = Duration::from_secs(2);

/// How often the database is asked for what is due, at most, unless a read has found as much as there was room for: what bursts cause one
/// by one is read together.
const POLL_PAUSE: Duration = Duration::from_millis(20);

/// How long claims that find nothing are apart, at most: what is written for a sink that is down lets every node try one.
const CLAIM_PAUSE: Duration = Duration::from_millis(250);

/// Sends until the incarnation drains or stops; returns when it closes or stops.
pub(crate) async fn run(node: Arc<NodeContext>, has_workers: bool) {
    let mut sender = Sender::new(&node);
    let mut reports = node.lifecycle.reports.clone();
    let mut taken_over = node.lifecycle.taken_over.clone();
    let mut pause: Option<Instant> = None;
    loop {
        let wakes = pause.or_else(|| sender.wakes_at());
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.lifecycle.draining.cancelled() => break,
            // One hint is as good as many until the next read.
            () = node.webhooks.due.notified(), if !sender.waits() => sender.polls = true,
            changed = taken_over.changed() => {
                if changed.is_err() {
                    break;
                }
                taken_over.borrow_and_update();
                sender.look();
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    break;
                }
                node.webhooks.verify(reports.borrow_and_update().check_in.webhooks);
                sender.look();
            }
            Some(sent) = sender.sends.join_next() => sender.ended(sent),
            () = sleep_until(wakes), if wakes.is_some() => pause = None,
        }
        if pause.is_some() {
            continue;
        }
        let step = async {
            node.webhooks.refresh(&node.database.pool).await?;
            if has_workers { sender.step(&node).await } else { Ok(()) }
        };
        // A step that is dropped leaves what was sent unmarked.
        let stepped = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            stepped = step => stepped,
        };
        if let Err(error) = stepped {
            tracing::warn!(%error, "webhooks cannot be sent now; they are tried again soon");
            sender.look();
            pause = Some(Instant::now() + RETRY);
        }
    }
    if let Err(error) = sender.leave(&node).await {
        tracing::debug!(%error, "the webhook sinks of this node could not be released; other nodes take them over");
    }
    refresh_until_closed(&node, reports).await;
}

/// What the last bursts cause is written by what this node knows of the sinks.
async fn refresh_until_closed(node: &NodeContext, mut reports: watch::Receiver<CheckInReport>) {
    let closed = node.lifecycle.drained();
    tokio::pin!(closed);
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = &mut closed => return,
            () = node.webhooks.due.notified() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    return closed.await;
                }
                node.webhooks.verify(reports.borrow_and_update().check_in.webhooks);
            }
        }
        if let Err(error) = node.webhooks.refresh(&node.database.pool).await {
            tracing::debug!(%error, "the webhook sinks are read again later");
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

struct Sender {
    incarnation: Incarnation,
    client: OutgoingClient,
    timeout: Duration,
    kept: Retention,
    sinks: ClaimedSinks,
    sends: JoinSet<Sent>,
    /// What has ended and is not marked yet, and since when.
    ended: Vec<Sent>,
    since: Option<Instant>,
    /// Something may be due that this node has not read.
    polls: bool,
    polled: Option<Instant>,
    claims: Claims,
    /// That of the sinks when they were looked at last.
    revision: i64,
}

/// When sinks are claimed.
struct Claims {
    /// Something may be due for one that this node has not claimed.
    wanted: bool,
    last: Option<Instant>,
    /// After the last one.
    pause: Duration,
}

impl Claims {
    fn next(&self) -> Option<Instant> {
        self.last.filter(|_| self.wanted).map(|last| last + self.pause)
    }

    fn is_due(&self) -> bool {
        self.wanted && self.last.is_none_or(|last| last.elapsed() >= self.pause)
    }

    /// So many were found.
    fn found(&mut self, count: usize) {
        self.wanted |= count == delivery::MOST_CLAIMED;
        self.pause = if count == 0 {
            (self.pause * 2).min(CLAIM_PAUSE)
        } else {
            POLL_PAUSE
        };
    }
}

impl Sender {
    fn new(node: &NodeContext) -> Self {
        Self {
            incarnation: node.database.incarnation,
            client: node.interpreter.catalogue().http_services().outgoing.clone(),
            timeout: node.webhook_options.timeout,
            kept: node.webhook_options.kept,
            sinks: ClaimedSinks::default(),
            sends: JoinSet::new(),
            ended: Vec::new(),
            since: None,
            polls: true,
            polled: None,
            claims: Claims {
                wanted: true,
                last: None,
                pause: POLL_PAUSE,
            },
            revision: 0,
        }
    }

    /// Anything may have changed.
    fn look(&mut self) {
        self.polls = true;
        self.claims.wanted = true;
        self.claims.pause = POLL_PAUSE;
    }

    /// A read is to come, after the pause.
    fn waits(&self) -> bool {
        self.polls && self.polled.is_some()
    }

    /// A read is to come, and the pause is over.
    fn is_to_poll(&self) -> bool {
        self.polls && self.polled.is_none_or(|polled| polled.elapsed() >= POLL_PAUSE)
    }

    /// When the results are to be marked, at the latest, or the database is to be asked again.
    fn wakes_at(&self) -> Option<Instant> {
        let marks = self.since.map(|since| since + GATHER);
        let polls = self.polled.filter(|_| self.polls).map(|polled| polled + POLL_PAUSE);
        [marks, polls, self.claims.next()].into_iter().flatten().min()
    }

    fn ended(&mut self, sent: std::result::Result<Sent, tokio::task::JoinError>) {
        match sent {
            Ok(sent) => {
                self.ended.push(sent);
                self.since.get_or_insert_with(Instant::now);
            }
            // A panic is a result; this one was aborted, and the next node that has the sink sends it.
            Err(error) => tracing::debug!(%error, "the sending of a webhook ended"),
        }
    }

    /// Marks what has ended, and sends what there is room for.
    async fn step(&mut self, node: &NodeContext) -> Result<()> {
        while let Some(sent) = self.sends.try_join_next() {
            self.ended(sent);
        }
        let revision = node.webhooks.revision();
        if revision != std::mem::replace(&mut self.revision, revision) {
            self.look();
        }
        let is_due = self.since.is_some_and(|since| since.elapsed() >= GATHER);
        if is_due || self.ended.len() >= ENOUGH || (!self.ended.is_empty() && self.sends.is_empty()) {
            self.mark(node).await?;
        }
        self.claims.wanted |= node.webhooks.take_unclaimed();
        if !self.ended.is_empty() && !self.is_to_poll() && !self.claims.is_due() {
            return Ok(());
        }
        self.claim(node).await?;
        self.send(node).await?;
        self.release(node, self.sinks.releasable(Instant::now())).await
    }

    async fn mark(&mut self, node: &NodeContext) -> Result<()> {
        let verdicts = verdict::of(&self.ended, |number| self.sinks.find(number));
        let marked = self.ended.iter().map(|sent| &sent.marked);
        let dead = delivery::complete(&node.database.pool, self.incarnation, &verdicts, marked, self.kept).await?;
        failpoint::hit("webhook.marked").await?;
        if dead > 0 {
            tracing::error!(
                dead,
                "webhook deliveries were given up, and are dead letters; the notes of their sinks say why"
            );
        }
        for (claim, outcome) in &verdicts {
            self.sinks.judge(claim.number, outcome, Instant::now());
        }
        for Sent { marked, .. } in self.ended.drain(..) {
            self.sinks.landed(marked.sink, marked.id);
        }
        self.since = None;
        Ok(())
    }

    /// Claims sinks, if any may have something due. A claim whose answer is lost here is claimed again.
    async fn claim(&mut self, node: &NodeContext) -> Result<()> {
        if !self.claims.is_due() {
            return Ok(());
        }
        self.claims.wanted = false;
        self.claims.last = Some(Instant::now());
        if node.webhooks.has_unclaimed() {
            let held: Vec<_> = self.sinks.numbers().collect();
            let claims = delivery::claim(&node.database.pool, self.incarnation, &held).await?;
            failpoint::hit("webhook.claimed").await?;
            self.claims.found(claims.len());
            self.sinks.claimed(&claims);
            node.webhooks.set_claimed(self.sinks.numbers());
        }
        Ok(())
    }

    async fn send(&mut self, node: &NodeContext) -> Result<()> {
        let pool = &node.database.pool;
        if self.is_to_poll() {
            self.polls = false;
            self.polled = Some(Instant::now());
            self.sinks.ask_all();
        }
        let rooms = self.sinks.rooms(Instant::now());
        if rooms.is_empty() {
            return Ok(());
        }
        let due = delivery::due(pool, self.incarnation, &rooms).await?;
        failpoint::hit("webhook.read").await?;
        if let Some(revision) = due.revision {
            node.webhooks.verify(revision);
            node.webhooks.refresh(pool).await?;
        }
        let clock = due.now.map(DatabaseClock::read);
        self.polls |= self.sinks.answered(&rooms, &due);
        for of_sink in due.sinks {
            let Some((sink, clock)) = node.webhooks.sink(of_sink.number).zip(clock) else {
                continue;
            };
            for due in of_sink.deliveries {
                self.sinks.took_off(of_sink.number, due.id, due.payload.len());
                let sending = Sending {
                    client: self.client.clone(),
                    sink: Arc::clone(&sink),
                    due,
                    clock,
                    timeout: self.timeout,
                };
                self.sends.spawn(sending.send());
            }
        }
        Ok(())
    }

    async fn release(&mut self, node: &NodeContext, claims: Vec<delivery::SinkClaim>) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        delivery::release(&node.database.pool, self.incarnation, &claims).await?;
        for claim in claims {
            self.sinks.released(claim.number);
        }
        node.webhooks.set_claimed(self.sinks.numbers());
        Ok(())
    }

    /// Waits a moment for what is being sent, marks it, and releases all sinks.
    async fn leave(&mut self, node: &NodeContext) -> Result<()> {
        let landed = async {
            while let Some(sent) = self.sends.join_next().await {
                self.ended(sent);
            }
        };
        // What has not landed is sent again by another node.
        let _ = tokio::time::timeout(LEAVE, landed).await;
        self.sends.abort_all();
        let marked = if self.ended.is_empty() {
            Ok(())
        } else {
            self.mark(node).await
        };
        self.release(node, self.sinks.all()).await?;
        marked
    }
}
