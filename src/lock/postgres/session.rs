//! Advisory locks, batched over the one session connection of a node.
//!
//! # Invariants
//!
//! - The session only ever tries. A session that waited for a lock would make every other request of the node wait
//!   behind it.
//! - What arrives while round trips are in flight goes out together in the next one. Two may be in flight, so that the
//!   server works on one while we prepare the other; what comes alone waits for nobody.
//! - Within a batch what is given back goes first, then what is asked for, then the hints: who hears that a key is free
//!   finds it so. Hints go out in transactions that write nothing.
//! - A batch that fails or times out may have locked some of its keys: all of them are in doubt, so the session is
//!   dropped, and every handle with it is lost. An unlock of what was not locked shows that the table is wrong: the
//!   same. The one exception is a server whose lock table is full (53200): the keys of the question are unlocked, whether
//!   they were taken or not, which is safe as none of them was ours before.
//! - The actor's end, however it comes, is seen by every handle: its end of the watch channel falls with it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::sync::mpsc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Notification, Statement};
use tokio_util::task::AbortOnDropHandle;

use super::super::front::{Behind, Front, TokenRequest};
use super::super::handle::FencingToken;
use super::super::key::{Keying, LockKey};
use super::super::request::LockMode;
use super::super::table::{Back, Batch};
use super::Budget;
use super::hint;
use crate::db::{ANSWER_TIMEOUT, Channel, Connector, LastAnswer, Session, within};
use crate::{Error, Result};

const TRY: &str = include_str!("../../../sql/queries/lock/try.sql");
const TAKE: &str = include_str!("../../../sql/queries/lock/take.sql");
const TAKE_SHARED: &str = include_str!("../../../sql/queries/lock/take_shared.sql");
const FREE: &str = include_str!("../../../sql/queries/lock/free.sql");
const FREE_SHARED: &str = include_str!("../../../sql/queries/lock/free_shared.sql");
const HINT: &str = include_str!("../../../sql/queries/lock/hint.sql");
const TOKEN: &str = include_str!("../../../sql/queries/lock/token.sql");
const CAPACITY: &str = include_str!("../../../sql/queries/lock/capacity.sql");

/// The most questions in one round trip.
const BATCH: usize = 1024;
/// Round trips in flight.
const DEPTH: usize = 2;
/// Tokens that are drawn at the same time.
const TOKENS: usize = 64;
/// Hints that were heard and not yet looked at. One that finds no room is lost, which a retry heals.
const HINTS: usize = 1024;

/// Why a hint may be lost, and nothing else: somebody holds the lock of NOTIFY, or its queue is full.
const HINT_LOST: [SqlState; 2] = [SqlState::LOCK_NOT_AVAILABLE, SqlState::PROGRAM_LIMIT_EXCEEDED];

/// Owns the actor and its connection.
pub(crate) struct SessionTask(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

/// Opens the session; `first` is a lock that nobody else may hold, kept until the session ends.
pub(super) async fn start(
    connector: &Connector,
    first: Option<LockKey>,
    budget: Budget,
    keying: Keying,
) -> Result<(Arc<Front>, SessionTask)> {
    let (heard, hints) = mpsc::channel(HINTS);
    let session = connector
        .open_with(move |notification| {
            let _ = heard.try_send(notification);
        })
        .await?;
    let client = &session.client;
    let channel = Channel::Locks.name(client, connector.schema()).await?;
    within(
        ANSWER_TIMEOUT,
        // Nothing but a hint ever waits for a lock here: NOTIFY's own, which whoever commits slowly may hold.
        client.batch_execute(&format!("SET lock_timeout = '250ms'; LISTEN {channel}")),
    )
    .await?;
    let row = within(ANSWER_TIMEOUT, client.query_one(CAPACITY, &[])).await?;
    let budget = budget.of(row.get(0));
    let me: i32 = row.get(1);
    if let Some(first) = first {
        let got = within(ANSWER_TIMEOUT, client.query(TRY, &[&vec![first.0]])).await?;
        if !got.first().is_some_and(|row| row.get(1)) {
            return Err(Error::conflict(
                "liveness-lock-taken",
                "another session holds the liveness lock of this node",
            ));
        }
    }
    let statements = Statements::prepare(client).await?;
    let Behind { front, tokens, ended } =
        Front::open(Back::Talking { budget, me }, connector.schema().as_str(), keying);
    if let Some(first) = first {
        front.keep(first);
    }
    let actor = Actor {
        front: Arc::clone(&front),
        session,
        statements,
        channel,
        last_answer: connector.last_answer().clone(),
    };
    let last = Ended(Arc::clone(&front), ended);
    let task = tokio::spawn(async move {
        let last = last;
        if let Err(error) = actor.run(hints, tokens).await {
            tracing::warn!(%error, "the lock session ended; every lock of this node is lost");
        }
        drop(last);
    });
    Ok((front, SessionTask(AbortOnDropHandle::new(task))))
}

/// Tells every handle and everybody who waits, also when the task is aborted.
struct Ended(Arc<Front>, tokio::sync::watch::Sender<bool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.send_replace(true);
        self.0.end();
    }
}

struct Statements {
    take: Statement,
    take_shared: Statement,
    free: Statement,
    free_shared: Statement,
    hint: Statement,
    token: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Self> {
        let prepare = |text: &'static str| within(ANSWER_TIMEOUT, client.prepare(text));
        Ok(Self {
            take: prepare(TAKE).await?,
            take_shared: prepare(TAKE_SHARED).await?,
            free: prepare(FREE).await?,
            free_shared: prepare(FREE_SHARED).await?,
            hint: prepare(HINT).await?,
            token: prepare(TOKEN).await?,
        })
    }
}

struct Actor {
    front: Arc<Front>,
    session: Session,
    statements: Statements,
    channel: String,
    last_answer: LastAnswer,
}

/// What became of a batch.
struct Answer {
    batch: Batch,
    missed: HashSet<LockKey>,
    full: bool,
    took: Duration,
}

impl Actor {
    async fn run(
        self,
        mut hints: mpsc::Receiver<Notification>,
        mut tokens: mpsc::Receiver<TokenRequest>,
    ) -> Result<()> {
        let mut ended = self.session.lost();
        let mut flying = FuturesOrdered::new();
        let mut drawing = FuturesUnordered::new();
        loop {
            if flying.len() < DEPTH
                && let Some(batch) = self.front.batch(BATCH)
            {
                flying.push_back(self.exchange(batch));
            }
            let retry = self.front.next_retry();
            let retry = async {
                match retry {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            // All are cancellation safe: what is in flight stays in its queue, and the token is drawn outside.
            tokio::select! {
                Some(answer) = flying.next() => {
                    let answer = answer?;
                    self.front.pace(answer.took);
                    self.front.answer(&answer.batch, &answer.missed, answer.full);
                }
                () = self.front.rung(), if flying.len() < DEPTH => {}
                Some(notification) = hints.recv() => self.hear(&notification),
                Some(request) = tokens.recv(), if drawing.len() < TOKENS => drawing.push(self.draw(request)),
                Some(()) = drawing.next() => {}
                () = retry => self.front.retry(),
                _ = ended.wait_for(|ended| *ended) => return Err(Error::lost_lock("its connection was closed")),
            }
        }
    }

    fn hear(&self, notification: &Notification) {
        self.front
            .hear(notification.process_id(), &hint::read(notification.payload()));
    }

    /// One round trip. Nothing in it waits, so that only a session that has gone silent, or a database that has, is
    /// long about it.
    async fn exchange(&self, batch: Batch) -> Result<Answer> {
        let sent = Instant::now();
        // What is dropped half-way leaves its keys in doubt, and the error ends the session.
        let mut answer = tokio::select! {
            biased;
            answer = within(ANSWER_TIMEOUT, self.pipeline(batch)) => answer?,
            () = self.last_answer.overtaken(sent) => {
                return Err(Error::lost_lock("its connection went silent, and others did not"));
            }
        };
        answer.took = sent.elapsed();
        Ok(answer)
    }

    async fn pipeline(&self, batch: Batch) -> Result<Answer> {
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
        let payloads = hint::payloads(&batch.say);
        let of = &self.statements;
        // Polled in this order, so sent in this order.
        let (freed, freed_shared, taken, taken_shared, hinted) = futures_util::join!(
            self.ask(&of.free, &free),
            self.ask(&of.free_shared, &free_shared),
            self.ask(&of.take, &take),
            self.ask(&of.take_shared, &take_shared),
            self.hint(&payloads),
        );
        if !freed?.is_empty() || !freed_shared?.is_empty() {
            return Err(Error::lost_lock("a lock that we gave back was not ours"));
        }
        match hinted {
            Err(error) if error.code().is_some_and(|code| HINT_LOST.contains(code)) => {
                tracing::debug!(%error, "a hint about locks was lost; a retry heals it");
            }
            hinted => hinted?,
        }
        let mut missed = HashSet::new();
        let mut full = false;
        for (answer, asked, free) in [(taken, &take, &of.free), (taken_shared, &take_shared, &of.free_shared)] {
            match answer {
                Ok(keys) => missed.extend(keys),
                Err(error) if error.code() == Some(&SqlState::OUT_OF_MEMORY) => {
                    tracing::warn!("the server's table of locks is full; locks queue (max_locks_per_transaction)");
                    full = true;
                    self.ask(free, asked).await?;
                    missed.extend(asked.iter().map(|key| LockKey(*key)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Answer {
            batch,
            missed,
            full,
            took: Duration::ZERO,
        })
    }

    /// The keys for which the answer is no.
    async fn ask(&self, statement: &Statement, keys: &Vec<i64>) -> Result<Vec<LockKey>, tokio_postgres::Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.session.client.query(statement, &[keys]).await?;
        Ok(rows.iter().map(|row| LockKey(row.get(0))).collect())
    }

    async fn hint(&self, payloads: &Vec<String>) -> Result<(), tokio_postgres::Error> {
        if !payloads.is_empty() {
            let client = &self.session.client;
            client.query(&self.statements.hint, &[&self.channel, payloads]).await?;
        }
        Ok(())
    }

    /// Draws a token beside the batches. As long as this session answers, it holds the lock that the token is for.
    async fn draw(&self, request: TokenRequest) {
        let row = within(
            ANSWER_TIMEOUT,
            self.session.client.query_one(&self.statements.token, &[]),
        )
        .await;
        let token = row.map(|row| FencingToken(row.get::<_, i64>(0).cast_unsigned()));
        // Who asked may have gone away; a number is skipped then.
        let _ = request.send(token);
    }
}
