//! Sends the deliveries of webhooks: claims sinks, reads what is due for them, sends it, and marks what became of it.
//!
//! Every node with workers sends. A sink belongs to one node at a time, so a delivery is not claimed: it is read, sent and marked,
//! under the claim of its sink. A node that crashes loses its claims, and what it had sent and not marked is sent again.
//!
//! # Invariants
//!
//! - What is in memory is bounded: of a sink at most [`round::MOST_OF_SINK`] deliveries and [`BYTES_OF_SINK`] of payloads, of a sink
//!   that fails one delivery, and of all together [`round::MOST`] and one for each sink.
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
use tokio::task::JoinSet;

use crate::failpoint;
use crate::id::Incarnation;
use crate::outgoing::OutgoingClient;
use crate::runtime::context::node_context::NodeContext;
use crate::store::clock::DatabaseClock;
use crate::store::webhook::delivery::{self, Retention};
use crate::{Error, Result};

/// The bytes of the payloads that are read for a sink at once.
const BYTES_OF_SINK: i64 = 4 << 20;

/// How long the first result of a round waits for others, so that they are marked together.
const GATHER: Duration = Duration::from_millis(2);

/// So many results are marked without waiting for others.
const ENOUGH: usize = 64;

/// The pause after an error of the database.
const RETRY: Duration = Duration::from_millis(500);

/// How long a node that drains waits for what it is sending.
const LEAVE: Duration = Duration::from_secs(2);

/// How often a hint has the database asked for other sinks, at most.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Sends until the incarnation drains or stops; returns when it closes or stops.
pub(crate) async fn run(node: Arc<NodeContext>, has_workers: bool) {
    let mut sender = Sender::new(&node);
    let mut reports = node.lifecycle.reports.clone();
    let mut pause: Option<Instant> = None;
    loop {
        let wakes = pause.or_else(|| sender.gathered_at());
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.lifecycle.draining.cancelled() => break,
            () = node.webhooks.due.notified() => sender.polls = true,
            changed = reports.changed() => {
                if changed.is_err() {
                    break;
                }
                node.webhooks.verify(reports.borrow_and_update().check_in.webhooks);
                sender.polls = true;
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
            sender.polls = true;
            pause = Some(Instant::now() + RETRY);
        }
    }
    if let Err(error) = sender.leave(&node).await {
        tracing::debug!(%error, "the webhook sinks of this node could not be released; other nodes take them over");
    }
    node.lifecycle.drained().await;
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
        }
    }

    /// When the results are to be marked, at the latest, or the database is to be asked again.
    fn gathered_at(&self) -> Option<Instant> {
        let marks = self.since.map(|since| since + GATHER);
        let polls = self.polled.filter(|_| self.polls).map(|polled| polled + POLL_PAUSE);
        marks.into_iter().chain(polls).min()
    }

    fn ended(&mut self, sent: std::result::Result<Sent, tokio::task::JoinError>) {
        match sent {
            Ok(sent) => {
                self.ended.push(sent);
                self.since.get_or_insert_with(Instant::now);
            }
            // Its delivery stays in flight here, and is sent by the next node that has the sink.
            Err(error) => tracing::error!(%error, "the sending of a webhook failed"),
        }
    }

    /// Marks what has ended, and sends what there is room for.
    async fn step(&mut self, node: &NodeContext) -> Result<()> {
        while let Some(sent) = self.sends.try_join_next() {
            self.ended(sent);
        }
        let is_due = self.since.is_some_and(|since| since.elapsed() >= GATHER);
        if is_due || self.ended.len() >= ENOUGH || (!self.ended.is_empty() && self.sends.is_empty()) {
            self.mark(node).await?;
        }
        if !self.ended.is_empty() && !self.polls {
            return Ok(());
        }
        self.send(node).await?;
        self.release(node, self.sinks.releasable(Instant::now())).await
    }

    async fn mark(&mut self, node: &NodeContext) -> Result<()> {
        let verdicts = verdict::of(&self.ended, |number| self.sinks.find(number));
        let marked: Vec<_> = self.ended.iter().map(Sent::marked).collect();
        let dead = delivery::complete(&node.database.pool, self.incarnation, &verdicts, &marked, self.kept).await?;
        failpoint::hit("webhook.marked").await?;
        if dead > 0 {
            tracing::error!(
                dead,
                "webhook deliveries were given up, and are dead letters; the notes of their sinks say why"
            );
        }
        for (claim, outcome) in &verdicts {
            self.sinks.judge(claim.number, outcome);
        }
        for sent in self.ended.drain(..) {
            self.sinks.landed(sent.sink, sent.id);
        }
        self.since = None;
        Ok(())
    }

    async fn send(&mut self, node: &NodeContext) -> Result<()> {
        let pool = &node.database.pool;
        let may_poll = self.polled.is_none_or(|polled| polled.elapsed() >= POLL_PAUSE);
        if self.polls && may_poll && node.webhooks.has_sinks() {
            self.polls = false;
            self.polled = Some(Instant::now());
            if node.webhooks.has_unclaimed() {
                let claims = delivery::claim(pool, self.incarnation).await?;
                failpoint::hit("webhook.claimed").await?;
                self.sinks.claimed(&claims);
                node.webhooks.set_claimed(self.sinks.numbers());
            }
            self.sinks.ask_all();
        } else if self.polls && !node.webhooks.has_sinks() {
            self.polls = false;
        }
        let rooms = self.sinks.rooms();
        if rooms.is_empty() {
            return Ok(());
        }
        let due = delivery::due(pool, self.incarnation, &rooms, BYTES_OF_SINK).await?;
        failpoint::hit("webhook.read").await?;
        if let Some(revision) = due.revision {
            node.webhooks.verify(revision);
            node.webhooks.refresh(pool).await?;
        }
        let clock = due.now.map(DatabaseClock::read);
        self.sinks.answered(&rooms, &due.sinks);
        for of_sink in due.sinks {
            let Some((sink, clock)) = node.webhooks.sink(of_sink.number).zip(clock) else {
                continue;
            };
            for due in of_sink.deliveries {
                self.sinks.took_off(of_sink.number, due.id);
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
        if !self.ended.is_empty() {
            self.mark(node).await?;
        }
        self.release(node, self.sinks.all()).await?;
        Ok::<(), Error>(())
    }
}
