//! The connection to one server, with a circuit breaker: while the server is away, no request waits for it.
//!
//! # Invariants
//!
//! - Each new connection takes and releases a test lock: a server that answers may lack the memory, the disk, the replicas
//!   or the rights for locks. Such a server counts as away, with that cause.
//! - A connected server that refuses locks keeps its connection, over which leases are extended and locks are released as
//!   far as it allows. It counts as away until such a lock is granted again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};

use super::calls::{CallAnswer, CallForm, SCRIPTS, ScriptCall, Written};
use crate::lock::request::LockMode;
use crate::redis_server::{Availability, HashSlot, NodeAddress, RedisServer, away, is_answer, is_refusal, lacks};
use crate::{Error, Result};

/// Between two tries to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a server counts as sound that has refused nothing.
const SOUND: Duration = Duration::from_secs(10);
/// How long a new connection may take after a loss before the server is named as away.
const NAMED: Duration = Duration::from_millis(400);
/// How often it is checked that a master of a cluster answers.
const CHECK: Duration = Duration::from_secs(1);
/// How long calls wait for the first try to connect to a master that a redirection names.
const FIRST_TRY: Duration = Duration::from_secs(2);

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

/// What a link leads to.
pub(super) enum LinkTarget {
    /// The only server, whose nonce it keeps.
    Server(Availability),
    /// A master of a cluster. The notification follows each change of its state.
    Master(NodeAddress, Arc<Notify>),
}

/// The link to one server. One task keeps it ([`RedisLink::keep`]).
pub(super) struct RedisLink {
    server: RedisServer,
    target: LinkTarget,
    form: Arc<CallForm>,
    state: watch::Sender<LinkState>,
    /// Why the connected server keeps no locks.
    refusal: Mutex<Option<Arc<Error>>>,
    refused: Notify,
    /// One that a master of a cluster has, as far as is known.
    slot: Mutex<Option<HashSlot>>,
    broken: Notify,
}

impl RedisLink {
    pub(super) fn new(server: RedisServer, target: LinkTarget, form: Arc<CallForm>) -> Self {
        Self {
            server,
            target,
            form,
            state: watch::Sender::new(LinkState::Connecting),
            refusal: Mutex::default(),
            refused: Notify::new(),
            slot: Mutex::default(),
            broken: Notify::new(),
        }
    }

    /// Connects, and again after each failure. Never returns.
    pub(super) async fn keep(&self) {
        let (mut number, mut pause) = (0, RETRY.0);
        loop {
            let mut switches = self.server.switches();
            match self.open_named(number > 0).await {
                Ok((connection, digests)) => {
                    number += 1;
                    self.accept();
                    self.set(LinkState::Open {
                        connection: connection.clone(),
                        digests: Arc::clone(&digests),
                        number,
                    });
                    tokio::select! {
                        () = self.broken.notified() => {}
                        () = self.try_after_refusals(connection.clone(), &digests) => { self.mark_lost(number); }
                        _ = switches.changed() => { self.mark_lost(number); }
                        () = self.check_periodically(connection) => { self.mark_lost(number); }
                    }
                    pause = RETRY.0;
                }
                Err(error) => {
                    if let LinkTarget::Server(availability) = &self.target {
                        availability.away(&error);
                    }
                    self.set(LinkState::Away(Arc::new(error)));
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
    }

    /// Connects. A server that was connected and is not soon connected again is named as away.
    async fn open_named(&self, was_open: bool) -> Result<(MultiplexedConnection, Arc<[String]>)> {
        let mut opening = std::pin::pin!(self.open());
        if was_open && let LinkTarget::Server(availability) = &self.target {
            match tokio::time::timeout(NAMED, &mut opening).await {
                Ok(opened) => return opened,
                Err(_) => availability.away(&away(&self.place())),
            }
        }
        opening.await
    }

    /// After each refusal, tries with pauses whether the server keeps locks again. Returns when it does not answer.
    async fn try_after_refusals(&self, mut connection: MultiplexedConnection, digests: &[String]) {
        let (mut pause, mut accepted) = (RETRY.0, Instant::now());
        loop {
            self.refused.notified().await;
            if accepted.elapsed() > SOUND {
                pause = RETRY.0;
            }
            while self.refusal().is_some() {
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause = (pause * 2).min(RETRY.1);
                match self.try_lock(&mut connection, digests).await {
                    Ok(()) => {
                        accepted = Instant::now();
                        self.accept();
                    }
                    Err(error) if is_answer(&error) => self.refuse(&error),
                    Err(_) => return,
                }
            }
        }
    }

    /// The master has this hash slot.
    pub(super) fn note_slot(&self, slot: Option<HashSlot>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
    }

    fn refusal(&self) -> Option<Arc<Error>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_refusal(&self, refusal: Option<Arc<Error>>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        self.changed();
    }

    /// The server keeps locks.
    fn accept(&self) {
        self.set_refusal(None);
        if let LinkTarget::Server(availability) = &self.target {
            availability.back(&self.place());
        }
    }

    /// The server answers, and keeps no locks.
    pub(super) fn refuse(&self, error: &RedisError) {
        let error = lacks(&self.place(), error);
        if let LinkTarget::Server(availability) = &self.target {
            availability.failed();
            availability.away(&error);
        }
        self.set_refusal(Some(Arc::new(error)));
        self.refused.notify_one();
    }

    /// Takes and releases a test lock.
    async fn try_lock(&self, connection: &mut MultiplexedConnection, digests: &[String]) -> redis::RedisResult<()> {
        let id = uuid::Uuid::new_v4().simple();
        let slot = *self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match (&self.target, slot) {
            (LinkTarget::Server(_), _) => format!("{}mainspring:try:{id}", self.form.prefix),
            (LinkTarget::Master(..), Some(slot)) => {
                format!("{}mainspring:try:{{{}}}:{id}", self.form.prefix, slot.tag())
            }
            (LinkTarget::Master(..), None) => return Ok(()),
        };
        let (value, mode) = (format!("try:{id}"), LockMode::Exclusive);
        let written = [Written { key, value, mode }];
        for call in [self.form.exchange(&[], &written), self.form.exchange(&written, &[])]
            .iter()
            .flatten()
        {
            let answered: redis::RedisResult<Value> = call.command(digests, false).query_async(connection).await;
            match answered {
                // The slot has moved, or moves: the calls that follow it show what its master does.
                Err(error) if is_of_slot(&error) => return Ok(()),
                answered => drop(answered?),
            }
        }
        Ok(())
    }

    fn set(&self, state: LinkState) {
        self.state.send_replace(state);
        self.changed();
    }

    fn changed(&self) {
        if let LinkTarget::Master(_, changed) = &self.target {
            changed.notify_one();
        }
    }

    /// Returns when the server does not answer.
    async fn check_periodically(&self, mut connection: MultiplexedConnection) {
        if let LinkTarget::Server(_) = &self.target {
            self.server.keep_nonce(connection).await;
            return;
        }
        loop {
            tokio::time::sleep(CHECK).await;
            let answer = redis::cmd("PING").query_async::<Value>(&mut connection).await;
            if !answer.is_ok_and(|answer| matches!(answer, Value::SimpleString(_))) {
                return;
            }
        }
    }

    /// Whether there is no connection.
    pub(super) fn is_away(&self) -> bool {
        match &self.target {
            LinkTarget::Server(availability) => availability.is_away(),
            LinkTarget::Master(..) => matches!(&*self.state.borrow(), LinkState::Away(_)),
        }
    }

    /// Whether there is a connection.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*self.state.borrow(), LinkState::Open { .. })
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<MultiplexedConnection> {
        match &*self.state.borrow() {
            LinkState::Open { connection, .. } => Some(connection.clone()),
            LinkState::Connecting | LinkState::Away(_) => None,
        }
    }

    async fn open(&self) -> Result<(MultiplexedConnection, Arc<[String]>)> {
        let mut connection = match &self.target {
            LinkTarget::Server(_) => self.server.connect().await?,
            LinkTarget::Master(address, ..) => self.server.connect_to(address).await?,
        };
        let digests = match self.load(&mut connection).await {
            Ok(digests) => digests,
            Err(error) => return Err(self.failed(&error)),
        };
        match self.try_lock(&mut connection, &digests).await {
            Ok(()) => Ok((connection, digests)),
            Err(error) => Err(self.failed(&error)),
        }
    }

    async fn load(&self, connection: &mut MultiplexedConnection) -> redis::RedisResult<Arc<[String]>> {
        let is_cluster = matches!(self.target, LinkTarget::Master(..));
        let mut digests = Vec::with_capacity(SCRIPTS.len());
        for script in SCRIPTS {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.text(is_cluster));
            digests.push(load.query_async(connection).await?);
        }
        Ok(digests.into())
    }

    fn place(&self) -> String {
        match &self.target {
            LinkTarget::Server(_) => self.server.place(),
            LinkTarget::Master(address, ..) => address.to_string(),
        }
    }

    fn failed(&self, error: &RedisError) -> Error {
        lacks(&self.place(), error)
    }

    /// The error of a call that has not run.
    pub(super) fn failed_call(&self) -> Error {
        self.check().err().unwrap_or_else(|| away(&self.place()))
    }

    /// Why it is away.
    pub(super) fn cause(&self) -> Option<String> {
        match &self.target {
            LinkTarget::Server(availability) => availability.cause(),
            LinkTarget::Master(..) => self.check().err().map(|error| error.message().to_owned()),
        }
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
            Ok(_) | Err(_) => Err(away(&self.place())),
        }
    }

    /// An error while the breaker is open; at once.
    pub(super) fn check(&self) -> Result<()> {
        let refused = |error: &Error| Err(Error::unavailable("redis-unavailable", error.message().to_owned()));
        match &*self.state.borrow() {
            LinkState::Away(error) => refused(error),
            LinkState::Connecting => Ok(()),
            LinkState::Open { .. } => self.refusal().map_or(Ok(()), |error| refused(&error)),
        }
    }

    /// Waits for the first try to connect.
    async fn opened(&self) -> Result<(MultiplexedConnection, Arc<[String]>, u64)> {
        let mut state = self.state.subscribe();
        match state
            .wait_for(|state| !matches!(state, LinkState::Connecting))
            .await
            .as_deref()
        {
            Ok(LinkState::Open {
                connection,
                digests,
                number,
            }) => Ok((connection.clone(), Arc::clone(digests), *number)),
            Ok(_) | Err(_) => Err(away(&self.place())),
        }
    }

    /// Runs a script. After an error the connection is replaced.
    pub(super) async fn run(&self, call: &ScriptCall) -> CallAnswer {
        let Ok((mut connection, digests, number)) = self.opened().await else {
            return CallAnswer::NotRun;
        };
        let answered: redis::RedisResult<Value> = call.command(&digests, false).query_async(&mut connection).await;
        let error = match answered {
            Ok(value) => return CallAnswer::Done(value),
            Err(error) => error,
        };
        tracing::debug!(
            answered = is_answer(&error),
            code = error.code(),
            "a Redis command failed"
        );
        if is_refusal(&error) {
            self.refuse(&error);
            return CallAnswer::NotRun;
        }
        if is_of_connection(&error) {
            // A script that is gone, a master that has become a replica: both need a new connection.
            self.lose(number);
            return CallAnswer::NotRun;
        }
        if is_answer(&error) {
            self.refuse(&error);
        } else {
            self.lose(number);
        }
        CallAnswer::InDoubt
    }

    /// Runs scripts in one round trip, each by itself; with `asking` at the node to which their hash slot moves. Scripts that the server
    /// does not have are loaded.
    ///
    /// # Errors
    /// [`CallAnswer::NotRun`] if there is no connection, [`CallAnswer::InDoubt`] without an answer: for all of them.
    pub(super) async fn run_each(
        &self,
        calls: &[&ScriptCall],
        asking: bool,
    ) -> std::result::Result<Vec<redis::RedisResult<Value>>, CallAnswer> {
        let Ok(Ok((mut connection, digests, number))) = tokio::time::timeout(FIRST_TRY, self.opened()).await else {
            return Err(CallAnswer::NotRun);
        };
        let mut answers = self.send(&mut connection, calls, &digests, asking, number).await?;
        let is_missing = |answer: &redis::RedisResult<Value>| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        };
        if !answers.iter().any(is_missing) {
            return Ok(answers);
        }
        let Ok(digests) = self.load(&mut connection).await else {
            self.lose(number);
            return Ok(answers);
        };
        let missing = calls.iter().zip(&answers).filter(|(_, answer)| is_missing(answer));
        let missing: Vec<&ScriptCall> = missing.map(|(call, _)| *call).collect();
        // Without an answer now those of before are in doubt, too: that costs their release.
        let again = self.send(&mut connection, &missing, &digests, asking, number).await?;
        let places = answers.iter_mut().filter(|answer| is_missing(answer));
        places.zip(again).for_each(|(place, answer)| *place = answer);
        Ok(answers)
    }

    async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        calls: &[&ScriptCall],
        digests: &[String],
        asking: bool,
        number: u64,
    ) -> std::result::Result<Vec<redis::RedisResult<Value>>, CallAnswer> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        pipeline.ignore_errors();
        for call in calls {
            if asking {
                // Holds for the next command.
                pipeline.add_command(redis::cmd("ASKING")).ignore();
            }
            pipeline.add_command(call.command(digests, asking));
        }
        match pipeline.query_async::<Vec<redis::RedisResult<Value>>>(connection).await {
            Ok(answers) if answers.len() == calls.len() => return Ok(answers),
            Ok(_) => {}
            Err(error) => tracing::debug!(code = error.code(), place = %self.place(), "a master does not answer"),
        }
        self.lose(number);
        Err(CallAnswer::InDoubt)
    }

    /// The server has answered what a master does not: it is looked at anew.
    pub(super) fn reconnect(&self) {
        let number = match &*self.state.borrow() {
            LinkState::Open { number, .. } => *number,
            LinkState::Connecting | LinkState::Away(_) => return,
        };
        self.lose(number);
    }

    /// The connection with this number has failed, and is replaced.
    fn lose(&self, number: u64) {
        if self.mark_lost(number) {
            self.broken.notify_one();
        }
    }

    /// Returns false if another one has already taken its place.
    fn mark_lost(&self, number: u64) -> bool {
        let lost = self.state.send_if_modified(|state| {
            let is_current = matches!(state, LinkState::Open { number: current, .. } if *current == number);
            if is_current {
                *state = LinkState::Away(Arc::new(away(&self.place())));
            }
            is_current
        });
        if lost {
            if let LinkTarget::Server(availability) = &self.target {
                availability.failed();
            }
            self.changed();
        }
        lost
    }
}

/// Whether the server has not run a script because another connection is needed.
fn is_of_connection(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, MasterDown, NoScript, ReadOnly};
    matches!(
        error.kind(),
        ErrorKind::Server(NoScript | ReadOnly | MasterDown | BusyLoading)
    )
}

/// Whether a master has not run a script because the hash slot is elsewhere.
fn is_of_slot(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Ask | ClusterDown | Moved | TryAgain))
}
