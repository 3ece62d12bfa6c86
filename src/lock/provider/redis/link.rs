//! The connection to the server, and a circuit breaker: while the server is away no request waits for it.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError};
use tokio::sync::{Notify, watch};

use crate::redis_server::{Availability, RedisServer, away, is_answer};
use crate::{Error, Result};

/// Between two tries to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A script of the server. Its keys and arguments are described in its file.
#[derive(Clone, Copy)]
pub(super) enum Script {
    Exchange,
    Extend,
    Token,
    TakeOver,
}

const SCRIPTS: [&str; 4] = [
    include_str!("exchange.lua"),
    include_str!("extend.lua"),
    include_str!("token.lua"),
    include_str!("take_over.lua"),
];

/// Whether there is a connection.
#[derive(Clone)]
enum LinkState {
    Connecting,
    Open {
        connection: MultiplexedConnection,
        digests: Arc<[String]>,
        number: u64,
    },
    Away(Arc<Error>),
}

/// The link to one server. One task keeps it ([`RedisLink::keep`]).
pub(super) struct RedisLink {
    server: RedisServer,
    state: watch::Sender<LinkState>,
    broken: Notify,
    availability: Availability,
}

impl RedisLink {
    pub(super) fn new(server: RedisServer) -> Self {
        Self {
            server,
            state: watch::Sender::new(LinkState::Connecting),
            broken: Notify::new(),
            availability: Availability::of_locks(),
        }
    }

    /// Connects, and again after each failure. Never returns.
    pub(super) async fn keep(&self) {
        let (mut number, mut pause) = (0, RETRY.0);
        loop {
            let mut switches = self.server.switches();
            match self.open().await {
                Ok((connection, digests)) => {
                    number += 1;
                    self.availability.back(&self.server.place());
                    self.state.send_replace(LinkState::Open {
                        connection: connection.clone(),
                        digests,
                        number,
                    });
                    tokio::select! {
                        () = self.broken.notified() => {}
                        _ = switches.changed() => { self.mark_lost(number); }
                        _ = self.server.keep_nonce(connection) => { self.mark_lost(number); }
                    }
                    pause = RETRY.0;
                }
                Err(error) => {
                    self.availability.away(&error);
                    self.state.send_replace(LinkState::Away(Arc::new(error)));
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
    }

    /// Whether there is no connection.
    pub(super) fn is_away(&self) -> bool {
        self.availability.is_away()
    }

    async fn open(&self) -> Result<(MultiplexedConnection, Arc<[String]>)> {
        let mut connection = self.server.connect().await?;
        let mut digests = Vec::with_capacity(SCRIPTS.len());
        for script in SCRIPTS {
            let loaded = redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(script)
                .query_async(&mut connection)
                .await;
            digests.push(loaded.map_err(|error: RedisError| self.failed(&error))?);
        }
        Ok((connection, digests.into()))
    }

    fn failed(&self, error: &RedisError) -> Error {
        // Its text is left out: it may repeat an argument.
        let code = error.code().unwrap_or("no answer").to_owned();
        let message = format!("the Redis server {} refused a command ({code})", self.server.place());
        Error::unavailable("redis-unavailable", message)
    }

    /// Waits for the end of the first try to connect.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) async fn first_try(&self) -> Result<()> {
        let mut state = self.state.subscribe();
        let tried = state.wait_for(|state| !matches!(state, LinkState::Connecting)).await;
        match tried.as_deref() {
            Ok(LinkState::Away(error)) if error.is_invalid() => {
                Err(Error::invalid("redis-refused", error.message().to_owned()))
            }
            Ok(LinkState::Open { .. }) => Ok(()),
            Ok(_) | Err(_) => Err(away(&self.server.place())),
        }
    }

    /// An error while the breaker is open; at once.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.state.borrow() {
            LinkState::Away(_) => Err(away(&self.server.place())),
            LinkState::Connecting | LinkState::Open { .. } => Ok(()),
        }
    }

    /// Runs a script. After an error the connection is replaced.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<T> {
        let mut state = self.state.subscribe();
        let open = match state
            .wait_for(|state| !matches!(state, LinkState::Connecting))
            .await
            .as_deref()
        {
            Ok(LinkState::Open {
                connection,
                digests,
                number,
            }) => (connection.clone(), digests.get(script as usize).cloned(), *number),
            Ok(_) | Err(_) => return Err(away(&self.server.place())),
        };
        let (mut connection, digest, number) = open;
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(digest.unwrap_or_default())
            .arg(keys.len())
            .arg(keys)
            .arg(arguments);
        let answered = command.query_async(&mut connection).await;
        answered.map_err(|error: RedisError| {
            // A script that is gone, a master that has become a replica: both need a new connection, too.
            tracing::debug!(
                answered = is_answer(&error),
                code = error.code(),
                "a Redis command failed"
            );
            self.lose(number);
            self.failed(&error)
        })
    }

    /// The connection with this number has failed, and is replaced.
    fn lose(&self, number: u64) {
        if self.mark_lost(number) {
            self.broken.notify_one();
        }
    }

    /// False: another one has taken its place already.
    fn mark_lost(&self, number: u64) -> bool {
        let lost = self.state.send_if_modified(|state| {
            let is_current = matches!(state, LinkState::Open { number: current, .. } if *current == number);
            if is_current {
                *state = LinkState::Away(Arc::new(away(&self.server.place())));
            }
            is_current
        });
        if lost {
            self.availability.failed();
        }
        lost
    }
}
