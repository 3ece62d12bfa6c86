//! One connection: its handshake, its calls, its pings, and the changes that it receives.

use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::protocol::{self, ClientMessage};
use crate::id::InstanceId;
use crate::runtime::{Engine, InstanceObserver};

/// How long a client has for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a client may be silent; it pings every 15 s.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a connection lasts: the next one shows its credential again.
const LIFETIME: Duration = Duration::from_secs(3600);

/// How often the server pings: a client gives up after 30 s without one.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How often idle time, pings and the end of the node are checked.
const TICK: Duration = Duration::from_millis(500);

/// How long a client may take for a message before it is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The least time between two messages of changes; longer where the reads for them take long.
const CHANGE_INTERVAL: Duration = Duration::from_millis(100);
const READ_SHARE: u32 = 4;

/// Why a connection ends.
enum End {
    /// The client is gone, or does not take what it is sent.
    Gone,
    /// The client requested it.
    Asked,
    /// For this reason of the client's doing.
    Refused(&'static str),
    /// The node leaves, or the credential is to be checked again: another connection continues.
    Leaving,
}

/// Serves a connection to its end.
pub(super) async fn run(mut socket: WebSocket, engine: &Engine) {
    let end = match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(&mut socket)).await {
        Ok(Ok(rest)) => {
            let mut connection = Connection {
                socket: &mut socket,
                engine,
                observer: engine.observer(),
                began: Instant::now(),
                heard: Instant::now(),
                pinged: Instant::now(),
            };
            connection.serve(rest).await
        }
        Ok(Err(end)) => end,
        Err(_) => End::Refused("The handshake did not come in time."),
    };
    let (message, code) = match end {
        End::Gone => return,
        End::Asked => (protocol::close(None, false), close_code::NORMAL),
        End::Refused(why) => (protocol::close(Some(why), false), close_code::POLICY),
        End::Leaving => (protocol::close(None, true), close_code::AWAY),
    };
    if send(&mut socket, message).await.is_ok() {
        let frame = CloseFrame {
            code,
            reason: "".into(),
        };
        let _ = tokio::time::timeout(SEND_TIMEOUT, socket.send(Message::Close(Some(frame)))).await;
    }
}

async fn send(socket: &mut WebSocket, text: String) -> Result<(), End> {
    let sending = socket.send(Message::Text(text.into()));
    match tokio::time::timeout(SEND_TIMEOUT, sending).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(End::Gone),
    }
}

/// The next text; `None` after a control frame, which was handled. Cancellation safe.
async fn receive(socket: &mut WebSocket) -> Result<Option<String>, End> {
    match socket.recv().await {
        Some(Ok(Message::Text(text))) => Ok(Some(text.as_str().to_owned())),
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
        Some(Ok(Message::Binary(_))) => Err(End::Refused("The hub reads text frames only.")),
        // Too long, or no WebSocket.
        Some(Ok(Message::Close(_)) | Err(_)) | None => Err(End::Gone),
    }
}

/// Returns the records that came with the handshake.
async fn handshake(socket: &mut WebSocket) -> Result<Vec<String>, End> {
    let text = loop {
        if let Some(text) = receive(socket).await? {
            break text;
        }
    };
    let mut records = protocol::records(&text).map_err(End::Refused)?.into_iter();
    let greeting = records.next().unwrap_or_default();
    let refused = protocol::handshake(greeting).err();
    send(socket, protocol::handshake_answer(refused)).await?;
    match refused {
        Some(why) => Err(End::Refused(why)),
        None => Ok(records.map(str::to_owned).collect()),
    }
}

struct Connection<'a> {
    socket: &'a mut WebSocket,
    engine: &'a Engine,
    observer: InstanceObserver,
    began: Instant,
    heard: Instant,
    pinged: Instant,
}

impl Connection<'_> {
    async fn serve(&mut self, first: Vec<String>) -> End {
        match self.try_serve(first).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn try_serve(&mut self, first: Vec<String>) -> Result<std::convert::Infallible, End> {
        for record in first {
            self.handle(&record).await?;
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_change = Instant::now();
        loop {
            // All are cancellation safe.
            tokio::select! {
                received = receive(self.socket) => {
                    self.heard = Instant::now();
                    if let Some(text) = received? {
                        for record in protocol::records(&text).map_err(End::Refused)? {
                            self.handle(record).await?;
                        }
                    }
                }
                _ = tick.tick() => self.check_silence().await?,
                changed = self.observer.changed(), if next_change <= Instant::now() => {
                    let began = Instant::now();
                    for instance in changed {
                        if let Some(stats) = stats(self.engine, &instance).await {
                            send(self.socket, protocol::changed(&instance, &stats)).await?;
                        }
                    }
                    self.pinged = Instant::now();
                    next_change = Instant::now() + CHANGE_INTERVAL.max(began.elapsed() * READ_SHARE);
                }
                () = tokio::time::sleep_until(next_change.into()), if next_change > Instant::now() => {}
            }
        }
    }

    async fn handle(&mut self, record: &str) -> Result<(), End> {
        let (invocation, error) = match protocol::message(record).map_err(End::Refused)? {
            ClientMessage::Ping => return Ok(()),
            ClientMessage::Close => return Err(End::Asked),
            ClientMessage::Refused { invocation, why } => (invocation, Some(why.to_owned())),
            ClientMessage::Observe { instance, invocation } => {
                let refused = self.observer.observe(&instance).err();
                (invocation, refused.map(|error| error.message().to_owned()))
            }
        };
        match invocation {
            Some(invocation) => send(self.socket, protocol::completion(&invocation, error.as_deref())).await,
            None => Ok(()),
        }
    }

    async fn check_silence(&mut self) -> Result<(), End> {
        if self.engine.is_leaving() || self.began.elapsed() > LIFETIME {
            return Err(End::Leaving);
        }
        if self.heard.elapsed() > SILENCE {
            return Err(End::Refused("The client was silent for too long."));
        }
        if self.pinged.elapsed() >= PING_INTERVAL {
            self.pinged = Instant::now();
            send(self.socket, protocol::ping()).await?;
        }
        Ok(())
    }
}

/// The counts on the canvas; without them the client still reads the instance and its journal. `None`: the instance is of another
/// tenant, which must not learn of its changes.
async fn stats(engine: &Engine, instance: &InstanceId) -> Option<Value> {
    let none = || Value::Array(Vec::new());
    match engine.observed_activities(instance).await {
        Ok(stats) if stats.is_empty() => match engine.instance(instance).await {
            Err(error) if error.is_not_found() => None,
            _ => Some(none()),
        },
        Ok(stats) => Some(serde_json::to_value(stats).unwrap_or_else(|_| none())),
        Err(error) if error.is_not_found() => None,
        Err(_) => Some(none()),
    }
}
