//! Advisory locks, batched over the one session of a node.
//!
//! # Invariants
//!
//! - The session only ever tries. A session that waited for a lock would block every other request of the node.
//! - Requests that arrive while round trips are in flight go out together in the next one. Two may be in flight, so that the
//!   server works on one while the next is prepared; a lone request does not wait.
//! - Within a batch releases go first, then the keys to take, then the messages: a node that receives a handoff finds the
//!   key free. Messages go out in transactions that write nothing.
//! - A batch that fails or times out may have taken some of its keys. The session is dropped, and every handle is lost.
//!   The same holds for an unlock of a key that was not locked, because the table is then wrong. The one exception is a
//!   server whose lock table is full (53200): the keys of that request are unlocked, taken or not, since none was held
//!   before.
//! - The session is probed about twice a second, even while no request needs it. A missing answer ends it, whatever
//!   acknowledges its packets: a node's session when the database answers a later check-in, any other session within ten
//!   seconds. A lock table that stays full is reported.
//! - Every handle learns of the end of the actor, however it ends: [`EndGuard`](crate::lock::shared_table::EndGuard) is
//!   dropped with it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::sync::mpsc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Notification, Statement};
use tokio_util::task::AbortOnDropHandle;

use super::full_table::FullTable;
use super::{Budget, message};
use crate::db::{ANSWER_TIMEOUT, Channel, Connector, LastAnswer, Session, find_column, within};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::request::LockMode;
use crate::lock::shared_table::{BackendParts, FencingToken, SharedTable, TokenRequest};
use crate::lock::table::{Backend, Batch};
use crate::watchdog::WatchedPart;
use crate::{Error, Result};

const TRY: &str = include_str!("../../../../sql/queries/lock/try.sql");
const TAKE: &str = include_str!("../../../../sql/queries/lock/take.sql");
const TAKE_SHARED: &str = include_str!("../../../../sql/queries/lock/take_shared.sql");
const FREE: &str = include_str!("../../../../sql/queries/lock/free.sql");
const FREE_SHARED: &str = include_str!("../../../../sql/queries/lock/free_shared.sql");
const NOTIFY: &str = include_str!("../../../../sql/queries/lock/notify.sql");
const TOKEN: &str = include_str!("../../../../sql/queries/lock/token.sql");
const PROBE: &str = include_str!("../../../../sql/queries/lock/probe.sql");
const MOST_LOCKS: &str = include_str!("../../../../sql/queries/lock/most_locks.sql");
const ROLE_NAME: &str = include_str!("../../../../sql/queries/lock/role_name.sql");
const CAPACITY: &str = include_str!("../../../../sql/queries/lock/capacity.sql");

/// The most keys to take in one round trip.
const BATCH: usize = 1024;
/// The most round trips in flight.
const DEPTH: usize = 2;
/// The most tokens that are drawn at the same time.
const TOKENS: usize = 64;
/// Between two probes: usually, and while the server's lock table may be full.
const PROBE_INTERVAL: (Duration, Duration) = (Duration::from_millis(600), Duration::from_millis(250));
/// How long the answer to a probe is awaited where no check-ins show whether the database answers others, so that a session
/// without an answer is lost within ten seconds. A node's session is not: a database that stalls for all expires no node.
const PROBE_TIMEOUT: Duration = Duration::from_secs(9);
/// How long the statement may take that finds the session with most entries.
const MOST_LOCKS_TIMEOUT: Duration = Duration::from_secs(5);
/// The most notifications that are not handled yet. Further ones are lost, which a retry makes up for.
const NOTIFICATIONS: usize = 1024;

/// Why a message may be lost without the end of the session: another session holds the lock of NOTIFY, or its queue is
/// full.
const MESSAGE_LOST: [SqlState; 2] = [SqlState::LOCK_NOT_AVAILABLE, SqlState::PROGRAM_LIMIT_EXCEEDED];

/// Owns the actor and its connection.
pub(crate) struct SessionTask(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

/// Opens the session. The liveness lock, which no other session may hold, is kept until the session ends. `watch` is called
/// once the actor can answer.
pub(super) async fn start(
    connector: &Connector,
    liveness: Option<LockKey>,
    budget: Budget,
    key_function: KeyFunction,
    watch: impl FnOnce() -> WatchedPart,
) -> Result<(Arc<SharedTable>, SessionTask, Arc<FullTable>)> {
    let (sender, notifications) = mpsc::channel(NOTIFICATIONS);
    let session = connector
        .open_with(move |notification| {
            let _ = sender.try_send(notification);
        })
        .await?;
    let client = &session.client;
    let channel = Channel::Locks.name(client, connector.schema()).await?;
    within(
        ANSWER_TIMEOUT,
        // Only a NOTIFY ever waits for a lock here: its own, which a slow commit may hold.
        client.batch_execute(&format!("SET lock_timeout = '250ms'; LISTEN {channel}")),
    )
    .await?;
    let row = within(ANSWER_TIMEOUT, client.query_one(CAPACITY, &[])).await?;
    let budget = budget.of(row.get("capacity"));
    let me: i32 = row.get("process_id");
    if let Some(liveness) = liveness {
        let taken = within(ANSWER_TIMEOUT, client.query(TRY, &[&vec![liveness.0]])).await?;
        if !taken.first().is_some_and(|row| row.get("taken")) {
            return Err(Error::conflict(
                "liveness-lock-taken",
                "another session holds the liveness lock of this node",
            ));
        }
    }
    let statements = Statements::prepare(client).await?;
    let backend = Backend::Notified { budget, me };
    let BackendParts { table, tokens, end } = SharedTable::open(backend, connector.schema().as_str(), key_function);
    let is_of_node = liveness.is_some();
    if let Some(liveness) = liveness {
        table.keep(liveness);
    }
    let full = Arc::<FullTable>::default();
    let actor = Actor {
        table: Arc::clone(&table),
        full: Arc::clone(&full),
        session,
        statements,
        channel,
        last_answer: connector.last_answer().clone(),
        is_of_node,
        watched: watch(),
    };
    let task = tokio::spawn(async move {
        let end = end;
        if let Err(error) = actor.run(notifications, tokens).await {
            tracing::warn!(%error, "the lock session ended; every lock of this node is lost");
        }
        drop(end);
    });
    Ok((table, SessionTask(AbortOnDropHandle::new(task)), full))
}

struct Statements {
    take: Statement,
    take_shared: Statement,
    free: Statement,
    free_shared: Statement,
    notify: Statement,
    token: Statement,
    probe: Statement,
    most_locks: Statement,
    role_name: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Self> {
        let prepare = |text: &'static str| within(ANSWER_TIMEOUT, client.prepare(text));
        Ok(Self {
            take: prepare(TAKE).await?,
            take_shared: prepare(TAKE_SHARED).await?,
            free: prepare(FREE).await?,
            free_shared: prepare(FREE_SHARED).await?,
            notify: prepare(NOTIFY).await?,
            token: prepare(TOKEN).await?,
            probe: prepare(PROBE).await?,
            most_locks: prepare(MOST_LOCKS).await?,
            role_name: prepare(ROLE_NAME).await?,
        })
    }
}

struct Actor {
    table: Arc<SharedTable>,
    full: Arc<FullTable>,
    session: Session,
    statements: Statements,
    channel: String,
    last_answer: LastAnswer,
    /// Check-ins show whether the database answers other connections.
    is_of_node: bool,
    watched: WatchedPart,
}

/// The server's answer to a batch.
struct BatchResult {
    batch: Batch,
    missed: HashSet<LockKey>,
    full: bool,
    took: Duration,
}

impl Actor {
    async fn run(
        self,
        mut notifications: mpsc::Receiver<Notification>,
        mut tokens: mpsc::Receiver<TokenRequest>,
    ) -> Result<()> {
        let mut ended = self.session.lost();
        let mut in_flight = FuturesOrdered::new();
        let mut drawing = FuturesUnordered::new();
        let mut probing = FuturesUnordered::new();
        let mut probe_at = tokio::time::Instant::now() + PROBE_INTERVAL.0;
        loop {
            if in_flight.len() < DEPTH
                && let Some(batch) = self.table.batch(BATCH)
            {
                in_flight.push_back(self.exchange(batch));
            }
            let retry = self.table.next_retry();
            let retry = async {
                match retry {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            // All are cancellation safe: what is in flight stays in its queue, and the token is drawn outside.
            let next = async {
                tokio::select! {
                    Some(result) = in_flight.next() => {
                        let result = result?;
                        self.table.record_round_trip(result.took);
                        let BatchResult { batch, missed, full, .. } = &result;
                        self.table.step(|table, step| table.complete(batch, missed, *full, step));
                    }
                    () = self.table.batch_ready(), if in_flight.len() < DEPTH => {}
                    Some(notification) = notifications.recv() => self.receive(&notification),
                    Some(request) = tokens.recv(), if drawing.len() < TOKENS => drawing.push(self.draw(request)),
                    Some(()) = drawing.next() => {}
                    () = tokio::time::sleep_until(probe_at), if probing.is_empty() => probing.push(self.probe()),
                    Some(probed) = probing.next() => {
                        probed?;
                        let pause = if self.full.is_suspected() { PROBE_INTERVAL.1 } else { PROBE_INTERVAL.0 };
                        probe_at = tokio::time::Instant::now() + pause;
                    }
                    () = retry => self.table.step(|table, step| table.retry(step)),
                    _ = ended.wait_for(|ended| *ended) => return Err(Error::lost_lock("its connection was closed")),
                }
                Ok(())
            };
            self.watched.idle(next).await?;
        }
    }

    fn receive(&self, notification: &Notification) {
        let messages = message::parse(notification.payload());
        self.table.receive(notification.process_id(), &messages);
    }

    /// Shows that the session answers, and whether the server's lock table has room.
    async fn probe(&self) -> Result<()> {
        let sent = Instant::now();
        let client = &self.session.client;
        let silent = async {
            if self.is_of_node {
                std::future::pending::<()>().await;
            }
            // In small steps: after a pause of this process, one long sleep would end before a received answer is read.
            for _ in 0..90 {
                tokio::time::sleep(PROBE_TIMEOUT / 90).await;
            }
        };
        let answered = tokio::select! {
            biased;
            answered = client.query(&self.statements.probe, &[]) => answered,
            () = self.last_answer.overtaken(sent) => {
                return Err(Error::lost_lock("its connection is unresponsive, while others are answered"));
            }
            () = silent => return Err(Error::lost_lock("its connection is unresponsive")),
        };
        match answered {
            Ok(_) => self.full.has_room(),
            Err(error) if error.code() == Some(&SqlState::OUT_OF_MEMORY) => {
                if self.full.is_to_be_asked() {
                    // Readiness names the full table meanwhile.
                    let holder = tokio::time::timeout(MOST_LOCKS_TIMEOUT, self.most_locks()).await;
                    self.full.note(holder.ok().flatten());
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The session with most entries in the lock table; `None` if it cannot be read.
    async fn most_locks(&self) -> Option<String> {
        let client = &self.session.client;
        let asked = client.query_opt(&self.statements.most_locks, &[]).await;
        let row = asked
            .inspect_err(
                |error| tracing::debug!(%error, "the session with most entries in the lock table cannot be read"),
            )
            .ok()??;
        let (process, locks, role): (i32, i64, i64) = (row.get("pid"), row.get("locks"), row.get("role"));
        let named = client.query_one(&self.statements.role_name, &[&role]).await;
        let role = named.map_or_else(
            |_| format!("with the oid {role}"),
            |row| format!("{:?}", row.get::<_, String>("role")),
        );
        let of_node = if row.get("own") { ", this node," } else { "" };
        Some(format!(
            "most of its entries, {locks}, are those of process {process}{of_node} of the role {role}"
        ))
    }

    /// One round trip. Nothing in it waits for a lock, so only an unresponsive connection or database takes long.
    async fn exchange(&self, batch: Batch) -> Result<BatchResult> {
        let sent = Instant::now();
        // An exchange that is dropped halfway leaves its keys in doubt; the error ends the session.
        let mut result = tokio::select! {
            biased;
            result = within(ANSWER_TIMEOUT, self.pipeline(batch)) => result?,
            () = self.last_answer.overtaken(sent) => {
                return Err(Error::lost_lock("its connection is unresponsive, while others are answered"));
            }
        };
        result.took = sent.elapsed();
        Ok(result)
    }

    async fn pipeline(&self, batch: Batch) -> Result<BatchResult> {
        let keys = |of: &[(LockKey, LockMode)], mode: LockMode| -> Vec<i64> {
            of.iter()
                .filter(|(_, its)| *its == mode)
                .map(|(key, _)| key.0)
                .collect()
        };
        let free = keys(&batch.free, LockMode::Exclusive);
        let free_shared = keys(&batch.free, LockMode::Shared);
        let take = keys(&batch.take, LockMode::Exclusive);
        let take_shared = keys(&batch.take, LockMode::Shared);
        let payloads = message::payloads(&batch.messages);
        let of = &self.statements;
        // Polled in this order, so sent in this order.
        let (freed, freed_shared, taken, taken_shared, notified) = futures_util::join!(
            self.failed_keys(&of.free, &free),
            self.failed_keys(&of.free_shared, &free_shared),
            self.failed_keys(&of.take, &take),
            self.failed_keys(&of.take_shared, &take_shared),
            self.notify(&payloads),
        );
        if !freed?.is_empty() || !freed_shared?.is_empty() {
            return Err(Error::lost_lock("a lock that this node released was not its own"));
        }
        match notified {
            Err(error) if error.code().is_some_and(|code| MESSAGE_LOST.contains(code)) => {
                tracing::debug!(%error, "a message about locks was lost; a retry makes up for it");
            }
            notified => notified?,
        }
        let mut missed = HashSet::new();
        let mut full = false;
        for (answer, asked, free) in [(taken, &take, &of.free), (taken_shared, &take_shared, &of.free_shared)] {
            match answer {
                Ok(keys) => missed.extend(keys),
                Err(error) if error.code() == Some(&SqlState::OUT_OF_MEMORY) => {
                    tracing::debug!("the server's lock table is full (max_locks_per_transaction); lock requests queue");
                    self.full.suspect();
                    full = true;
                    self.failed_keys(free, asked).await?;
                    missed.extend(asked.iter().map(|key| LockKey(*key)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(BatchResult {
            batch,
            missed,
            full,
            took: Duration::ZERO,
        })
    }

    /// Runs a statement for these keys. It returns those for which it failed.
    async fn failed_keys(&self, statement: &Statement, keys: &Vec<i64>) -> Result<Vec<LockKey>, tokio_postgres::Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.session.client.query(statement, &[keys]).await?;
        let key = find_column(&rows, "key").unwrap_or_default();
        Ok(rows.iter().map(|row| LockKey(row.get(key))).collect())
    }

    async fn notify(&self, payloads: &Vec<String>) -> Result<(), tokio_postgres::Error> {
        if !payloads.is_empty() {
            let client = &self.session.client;
            client
                .query(&self.statements.notify, &[&self.channel, payloads])
                .await?;
        }
        Ok(())
    }

    /// Draws a token beside the batches. While this session answers, it holds the lock that the token is for.
    async fn draw(&self, request: TokenRequest) {
        let row = within(
            ANSWER_TIMEOUT,
            self.session.client.query_one(&self.statements.token, &[]),
        )
        .await;
        let token = row.map(|row| FencingToken(row.get::<_, i64>("token").cast_unsigned()));
        // Fails for a dropped future; the number is skipped.
        let _ = request.reply.send(token);
    }
}
