//! A pub/sub channel, followed over connections that are replaced when they fail or fall silent.
//!
//! # Invariants
//!
//! - After each new subscription [`ChannelEvent::Subscribed`] comes first, because anything may have been missed before it.
//! - A published message passes through the server to the subscription of the same process: a heartbeat shows that both
//!   connections lead to one server and that it answers. A subscriber of a server that was replaced would never receive
//!   anything again. In a cluster the connections lead to random nodes, and the heartbeat passes between them.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use super::availability::Availability;
use super::connection::{Subscriber, unavailable};
use super::server::RedisServer;
use crate::{Error, Result};

/// Between two tries to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// After so long without a message the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(8);
/// The longest message in bytes.
const LONGEST: usize = 16 << 10;
/// The most messages that are sent in one round trip.
const BATCH: usize = 64;

/// What a follower receives.
pub(crate) enum ChannelEvent {
    /// There is a new subscription.
    Subscribed,
    Received(String),
}

/// Follows a channel, and publishes there what `outgoing` has. With an availability, which a service of its own has, it reads the
/// nonce of the server, too. Never returns.
pub(crate) async fn follow(
    server: &RedisServer,
    channel: &str,
    mut outgoing: mpsc::Receiver<String>,
    availability: Option<&Availability>,
    mut on: impl FnMut(ChannelEvent) + Send,
) {
    // What only this follower receives.
    let own = format!("mainspring:alive:{}", uuid::Uuid::new_v4().simple());
    let mut pause = RETRY.0;
    loop {
        let mut switches = server.switches();
        match open(server, channel, &own).await {
            Ok((subscriber, publisher)) => {
                if let Some(availability) = availability {
                    availability.back(&server.place());
                }
                on(ChannelEvent::Subscribed);
                pause = RETRY.0;
                let nonce = publisher.clone();
                let error = tokio::select! {
                    error = server.keep_nonce(nonce), if availability.is_some() => error,
                    error = receive(server, subscriber, &own, &mut on) => error,
                    error = send(server, publisher, channel, &own, &mut outgoing) => error,
                    _ = switches.changed() => unavailable(&server.place(), "another server has become the master"),
                };
                tracing::debug!(%error, channel, "a subscription has ended; another one follows");
                availability.inspect(|availability| availability.failed());
            }
            Err(error) => match availability {
                Some(availability) => availability.away(&error),
                None => tracing::debug!(%error, channel, "there is no subscription"),
            },
        }
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

async fn open(server: &RedisServer, channel: &str, own: &str) -> Result<(Subscriber, MultiplexedConnection)> {
    let (publisher, node) = server.publisher().await?;
    let subscriber = server.subscribe(&[channel, own], node.as_ref()).await?;
    Ok((subscriber, publisher))
}

/// Returns when the connection is lost.
async fn receive(
    server: &RedisServer,
    mut subscriber: Subscriber,
    own: &str,
    on: &mut (impl FnMut(ChannelEvent) + Send),
) -> Error {
    loop {
        let message = match tokio::time::timeout(SILENCE, subscriber.next()).await {
            Ok(Some(message)) => message,
            Ok(None) => return unavailable(&server.place(), "it has closed the connection"),
            Err(_) => return unavailable(&server.place(), "it is silent"),
        };
        if message.get_channel_name() == own {
            continue;
        }
        // What is no text was sent by no node.
        if let Ok(text) = message.get_payload::<String>()
            && text.len() <= LONGEST
        {
            on(ChannelEvent::Received(text));
        }
    }
}

/// Returns when the connection is lost. What was being sent then is lost, too.
async fn send(
    server: &RedisServer,
    mut publisher: MultiplexedConnection,
    channel: &str,
    own: &str,
    outgoing: &mut mpsc::Receiver<String>,
) -> Error {
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut messages = Vec::with_capacity(BATCH);
    let mut is_open = true;
    loop {
        let beats = tokio::select! {
            _ = heartbeat.tick() => true,
            count = outgoing.recv_many(&mut messages, BATCH), if is_open => {
                is_open = count > 0;
                false
            }
        };
        let mut pipeline = redis::pipe();
        for message in messages.drain(..) {
            pipeline.cmd("PUBLISH").arg(channel).arg(message).ignore();
        }
        if beats {
            pipeline.cmd("PUBLISH").arg(own).arg("");
        }
        if pipeline.is_empty() {
            continue;
        }
        match pipeline.query_async::<Vec<u64>>(&mut publisher).await {
            // The nodes of a cluster count only their own receivers.
            Ok(receivers) if beats && receivers.first() == Some(&0) && !server.is_cluster() => {
                return unavailable(&server.place(), "the subscription is at another server");
            }
            Ok(_) => {}
            Err(_) => return unavailable(&server.place(), "it does not answer"),
        }
    }
}
