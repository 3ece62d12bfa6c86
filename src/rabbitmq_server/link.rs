//! Keeps one topic open, and heals it: a broker that restarts, a queue that is deleted, a channel that the broker closes.
//!
//! # Invariants
//!
//! - Each outage is logged once at its beginning and once at its end, and so is each alarm of the broker. A repeated refusal
//!   is logged every 30 s.
//! - At most one round of messages is on its way. While the broker does not confirm them because it has an alarm, later
//!   messages wait in the service, which bounds them.
//! - After each gap, on either side, the service is notified and tells its subscribers and the other members.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::pending;
use lapin::options::BasicAckOptions;
use lapin::{Event, PublisherConfirm};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{ANSWER_TIMEOUT, RabbitServer};
use super::topic::{OpenTopic, Topic};
use super::traffic::{Ends, IncomingEnd, OutgoingEnd, Traffic};
use crate::{Error, Result};

/// The pauses between two tries to connect, and how long a connection lasts that counts as sound.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const SOUND: Duration = Duration::from_secs(10);
/// The code of an error that needs a setting.
const REFUSED: &str = "rabbitmq-refused";
/// How long a connection after a refusal lasts before it counts as over: longer than the refusal of a first message takes.
const SETTLED: Duration = Duration::from_secs(1);

/// The least time between two warnings of one refusal.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// What became of the first try to connect.
type FirstTry = Option<Option<Arc<Error>>>;

/// Keeps a topic open as long as it lives.
pub(super) struct RabbitLink {
    first: watch::Receiver<FirstTry>,
    away: Arc<Mutex<Option<String>>>,
    _closing: DropGuard,
}

impl RabbitLink {
    /// Begins to connect.
    pub(super) fn start(server: RabbitServer, topic: Topic, mut ends: Ends<impl Traffic>) -> Self {
        let closing = CancellationToken::new();
        let (tried, first) = watch::channel(None);
        let ended = closing.clone();
        let away = Arc::<Mutex<Option<String>>>::default();
        let cause = Arc::clone(&away);
        tokio::spawn(async move { keep(&server, &topic, &mut ends, &tried, &cause, &ended).await });
        Self {
            first,
            away,
            _closing: closing.drop_guard(),
        }
    }

    /// Why the last try to connect failed, or the connection has ended since. `None` if it is open.
    pub(super) fn away_cause(&self) -> Option<String> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the end of the first try to connect.
    ///
    /// # Errors
    /// Why it failed: `rabbitmq-refused`, `rabbitmq-unavailable`.
    pub(super) async fn first_try(&self) -> Result<()> {
        let mut first = self.first.clone();
        let tried = first.wait_for(Option::is_some).await;
        match tried.as_deref() {
            Ok(Some(Some(error))) if error.is_invalid() => {
                Err(Error::invalid(error.code(), error.message().to_owned()))
            }
            Ok(Some(Some(error))) => Err(Error::unavailable(error.code(), error.message().to_owned())),
            Ok(_) => Ok(()),
            Err(_) => Err(Error::internal("the task that keeps the connection has ended")),
        }
    }
}

async fn keep(
    server: &RabbitServer,
    topic: &Topic,
    ends: &mut Ends<impl Traffic>,
    tried: &watch::Sender<FirstTry>,
    cause: &Mutex<Option<String>>,
    closing: &CancellationToken,
) {
    let service = topic.service;
    let away = metrics::gauge!("mainspring_rabbitmq_away", "service" => service);
    let failures = metrics::counter!("mainspring_rabbitmq_failures_total", "service" => service);
    // The code of the last error; none while all is well.
    let mut reported: Option<&'static str> = None;
    // The refusal that was logged last, and when.
    let mut refused: Option<(String, Instant)> = None;
    let mut pause = SHORTEST_PAUSE;
    loop {
        let opened = tokio::select! {
            opened = OpenTopic::open(server, topic) => opened,
            () = closing.cancelled() => return,
        };
        let error = match opened {
            Ok(open) => {
                // A broker that refuses a message, as its user lacks rights, has not come back by connecting.
                let settled = if reported == Some(REFUSED) {
                    SETTLED
                } else {
                    Duration::ZERO
                };
                let mut back = || {
                    away.set(0.0);
                    set(cause, None);
                    if reported.take().is_some() {
                        tracing::info!(service, "RabbitMQ {} is connected again", server.place());
                    }
                };
                if settled.is_zero() {
                    back();
                }
                ends.incoming.opened();
                tried.send_if_modified(|tried| tried.replace(None).is_none());
                let began = Instant::now();
                let sound = async {
                    if !settled.is_zero() {
                        tokio::time::sleep(settled).await;
                        back();
                    }
                    pending::<Error>().await
                };
                let error = tokio::select! {
                    error = carry(&open, topic, ends) => error,
                    error = sound => error,
                    () = closing.cancelled() => {
                        open.leave().await;
                        return;
                    }
                };
                ends.outgoing.lost();
                failures.increment(1);
                if began.elapsed() > SOUND {
                    pause = SHORTEST_PAUSE;
                }
                error
            }
            Err(error) => error,
        };
        away.set(1.0);
        set(cause, Some(error.message().to_owned()));
        // A refusal that returns soon is no new one: a user that may connect and not send is refused with each message.
        let is_known = |(message, at): &(String, Instant)| message == error.message() && at.elapsed() < LOG_INTERVAL;
        if reported.replace(error.code()) != Some(error.code()) && !refused.as_ref().is_some_and(is_known) {
            if error.code() == REFUSED {
                refused = Some((error.message().to_owned(), Instant::now()));
            }
            tracing::warn!(service, %error, "notifications do not go over RabbitMQ; it is retried, and check-ins \
                                             find work and changes in the meantime");
        }
        tried.send_if_modified(|tried| {
            let is_first = tried.is_none();
            if is_first {
                *tried = Some(Some(Arc::new(error)));
            }
            is_first
        });
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
            () = closing.cancelled() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn set(cause: &Mutex<Option<String>>, to: Option<String>) {
    *cause.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Sends and receives until the connection ends; returns why.
async fn carry(open: &OpenTopic, topic: &Topic, ends: &mut Ends<impl Traffic>) -> Error {
    let is_blocked = AtomicBool::new(false);
    tokio::select! {
        error = receive(open, topic, &mut ends.incoming) => error,
        error = send(open, &mut ends.outgoing, &is_blocked) => error,
        error = watch_alarms(open, topic, &is_blocked) => error,
    }
}

async fn receive(open: &OpenTopic, topic: &Topic, incoming: &mut IncomingEnd<impl Traffic>) -> Error {
    let unreadable = metrics::counter!("mainspring_rabbitmq_unreadable_total", "service" => topic.service);
    let mut consumer = open.consumer.clone();
    loop {
        let delivery = match consumer.next().await {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return open.failed(&error),
            None => return open.unavailable("its queue was deleted"),
        };
        let is_read = open.text(&delivery).is_some_and(|text| incoming.take(text));
        if !is_read {
            unreadable.increment(1);
            tracing::debug!(
                service = topic.service,
                "a message of RabbitMQ cannot be read; it is dropped"
            );
        }
        if let Err(error) = delivery.ack(BasicAckOptions::default()).await {
            return open.failed(&error);
        }
    }
}

async fn send(open: &OpenTopic, outgoing: &mut OutgoingEnd<impl Traffic>, is_blocked: &AtomicBool) -> Error {
    loop {
        let mut confirms = Vec::new();
        for message in outgoing.next().await {
            match open.publish(&message).await {
                Ok(confirm) => confirms.push(confirm),
                Err(error) => return error,
            }
        }
        for confirm in confirms {
            if let Err(error) = confirmed(open, confirm, is_blocked).await {
                return error;
            }
        }
    }
}

/// Waits for a confirmation; while the broker has an alarm, as long as it takes.
async fn confirmed(open: &OpenTopic, mut confirm: PublisherConfirm, is_blocked: &AtomicBool) -> Result<()> {
    loop {
        match tokio::time::timeout(ANSWER_TIMEOUT, &mut confirm).await {
            Ok(Ok(confirmation)) if confirmation.is_nack() => return Err(open.unavailable("it did not take a message")),
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => return Err(open.failed(&error)),
            Err(_) if is_blocked.load(Ordering::Relaxed) => {}
            Err(_) => return Err(open.unavailable("it does not confirm messages")),
        }
    }
}

async fn watch_alarms(open: &OpenTopic, topic: &Topic, is_blocked: &AtomicBool) -> Error {
    let service = topic.service;
    let blocked = metrics::gauge!("mainspring_rabbitmq_blocked", "service" => service);
    blocked.set(0.0);
    let mut events = std::pin::pin!(open.broker.connection.events_listener());
    while let Some(event) = events.next().await {
        match event {
            Event::ConnectionBlocked(_) => {
                blocked.set(1.0);
                if !is_blocked.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        service,
                        "RabbitMQ has an alarm and takes no messages; check-ins find work and changes meanwhile"
                    );
                }
            }
            Event::ConnectionUnblocked => {
                blocked.set(0.0);
                if is_blocked.swap(false, Ordering::Relaxed) {
                    tracing::info!(service, "RabbitMQ takes messages again");
                }
            }
            Event::Error(error) => return open.failed(&error),
            _ => {}
        }
    }
    pending().await
}
