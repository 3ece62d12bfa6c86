//! Accepts starts: makes them durable, many in one statement.
//!
//! # Invariants
//!
//! - The statement that accepts a start resolves the published version. A start whose values were checked for another
//!   version is refused.
//! - A direct start is inserted claimed. If its caller gets its reply only after the burst's commit, it is written with
//!   `synchronous_commit = off`: that commit's flush covers it. A queued start is flushed before its caller gets a reply.
//! - A start under an activation strategy takes its key in the same statement, against what is committed and, by a unique
//!   index, against competing starts; a refused one writes nothing, not even its idempotency key. Under a just published
//!   strategy it waits until the running instances are counted, and is refused as busy after a timeout.
//! - A start by an HTTP request names the trigger of its route, and is refused if the definition does not have it in the snapshot.
//! - When the connection is lost, the acceptance of the batch is in doubt and resolved by `doubt`.

mod doubt;
mod form;
mod row;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::{Row, Statement};

use super::activation::{UNSEEDED_INTERVAL, UNSEEDED_TIMEOUT, unseeded};
use super::clock::DatabaseClock;
use super::commit::DefinitionRef;
use super::request::{IdempotencyKey, find_request};
use crate::db::{ANSWER_TIMEOUT, Connector, Exclusive, Pool, Session, columns, find_column, within};
use crate::failpoint;
use crate::id::{ActivityId, DefinitionId, Incarnation, InstanceId, StimulusHash, TenantId, VersionId, WorkId};
use crate::identity::RequestOrigin;
use crate::{Error, Result};

pub(super) use form::StartForm;
use row::StartRow;

/// The most starts in one statement.
const BATCH: usize = 256;

/// The most workflows with a strategy in the cache; when it is full, it is cleared.
const MAX_STRATEGIES: usize = 4096;

/// How long an idle task keeps its connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a single start is retried that lost its activation key to a concurrent start.
const COMPETING_RETRIES: usize = 3;

/// A start to accept.
#[derive(Clone, Debug)]
pub(crate) struct NewStart {
    pub(crate) tenant: TenantId,
    pub(crate) instance: InstanceId,
    pub(crate) definition_id: DefinitionId,
    /// The version; `None` means the published one.
    pub(crate) version_id: Option<VersionId>,
    /// The version for which its values were checked, an empty one if none was published then; `None` means any.
    pub(crate) checked_version: Option<VersionId>,
    /// The node id at which it begins, for another check; the body has the id of the activity there.
    pub(crate) trigger_node_id: Option<String>,
    pub(crate) body: Value,
    pub(crate) request: Option<IdempotencyKey>,
    /// Of a start by an HTTP request: the route that the definition must have.
    pub(crate) route: Option<StartRoute>,
    /// The caller chose the id, so another start may have the same.
    pub(crate) has_chosen_id: bool,
    /// It is inserted claimed, for a worker of this node.
    pub(crate) claimed: bool,
    /// The request that the statement notes in the audit.
    pub(crate) origin: Option<Arc<RequestOrigin>>,
}

/// The trigger at which a request starts an instance.
#[derive(Clone, Debug)]
pub(crate) struct StartRoute {
    pub(crate) activity_id: ActivityId,
    pub(crate) hash: StimulusHash,
    /// That of the publish whose options the request was read by.
    pub(crate) revision: i64,
}

/// The error for a start by a request whose route is no longer that of the definition: it is to be looked up again.
pub(crate) fn route_moved() -> Error {
    Error::conflict(
        "route-moved",
        "the route of the request was published again, or retracted, while it was accepted; try again",
    )
}

fn no_connection() -> Error {
    Error::unavailable(
        "database-unavailable",
        "starts cannot be accepted because there is no connection to the database",
    )
}

/// An accepted start.
#[derive(Clone, Debug)]
pub(crate) enum AcceptedStart {
    /// Accepted now; this node runs it if it was inserted claimed.
    New {
        work: WorkId,
        definition: DefinitionRef,
        clock: DatabaseClock,
    },
    /// Accepted before under its idempotency key, as this instance; or accepted, and claimed by another node by now.
    Existing { instance: InstanceId },
}

/// What became of a start.
#[derive(Debug)]
pub(crate) enum Attempt {
    Accepted(AcceptedStart),
    /// Not accepted: it would run this version, for which its values were not checked.
    Moved {
        start: Box<NewStart>,
        to: VersionId,
    },
}

type Pending = (NewStart, oneshot::Sender<Result<StartOutcome>>);

enum StartOutcome {
    /// The workflow has an activation strategy, which the statement did not check.
    StrategyUnchecked,
    Made {
        work: WorkId,
        definition: DefinitionRef,
        clock: DatabaseClock,
    },
    /// It was accepted before, and its row has changed since.
    Existing,
    NoDefinition,
    /// The activation strategy of the workflow does not allow it.
    CannotStart,
    /// The strategy was published so recently that the running instances are not counted yet.
    Unseeded,
    IdTaken,
    /// Its values were checked for another version than this one.
    Moved(VersionId),
    /// The definition does not have the route of its request.
    RouteMoved,
}

/// The error for a start that the activation strategy of its workflow refuses.
pub(crate) fn cannot_start() -> Error {
    Error::conflict(
        "cannot-start",
        "the activation strategy of the workflow allows no other instance now; a running instance counts",
    )
}

/// Accepts starts, in batches of those that wait. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Acceptor {
    sender: mpsc::Sender<Pending>,
    pool: Pool,
}

impl Acceptor {
    /// With the task that accepts, which connects when it is needed. Unless `flushed`, callers must wait for the commit of
    /// the first burst.
    pub(crate) fn new(
        connector: &Connector,
        pool: &Pool,
        incarnation: Incarnation,
        flushed: bool,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, queue) = mpsc::channel(BATCH * 2);
        let is_pooled = pool.is_single();
        let task = AcceptTask {
            connector: connector.clone(),
            incarnation,
            flushed,
            texts: StartForm::ALL.map(|form| form.text(is_pooled, is_pooled && !flushed)),
            source: if is_pooled {
                ConnectionSource::Pooled(pool.clone(), None)
            } else {
                ConnectionSource::Own(None)
            },
            strategies: HashSet::new(),
        };
        let pool = pool.clone();
        (Self { sender, pool }, task.run(queue))
    }

    /// Accepts one start. Not cancellation safe: dropped, it may still be accepted.
    pub(crate) async fn try_accept(&self, start: NewStart) -> Result<Attempt> {
        let unknown = || {
            Error::unknown_outcome(
                "the database connection was lost while the start was accepted; look the instance up",
            )
            .instance(start.instance.as_str())
        };
        let deadline = Instant::now() + UNSEEDED_TIMEOUT;
        if let Some(origin) = &start.origin {
            origin.handed_over();
        }
        let outcome = loop {
            let (reply, answer) = oneshot::channel();
            self.sender.send((start.clone(), reply)).await.map_err(|_| unknown())?;
            let outcome = match answer.await.map_err(|_| unknown())? {
                Err(error) if error.is_paused() => {
                    return self.accepted_before(&start, error).await.map(Attempt::Accepted);
                }
                outcome => outcome?,
            };
            if !matches!(outcome, StartOutcome::Unseeded) || Instant::now() >= deadline {
                break outcome;
            }
            tokio::time::sleep(UNSEEDED_INTERVAL).await;
        };
        match outcome {
            StartOutcome::Made {
                work,
                definition,
                clock,
            } => {
                if let Some(origin) = &start.origin {
                    origin.noted();
                }
                Ok(Attempt::Accepted(AcceptedStart::New {
                    work,
                    definition,
                    clock,
                }))
            }
            StartOutcome::Existing => Ok(Attempt::Accepted(AcceptedStart::Existing {
                instance: start.instance,
            })),
            StartOutcome::StrategyUnchecked => {
                Err(Error::internal("the activation strategy of a start was not checked"))
            }
            StartOutcome::NoDefinition => Err(Error::not_found(
                "definition-not-found",
                match &start.version_id {
                    None => format!(
                        "no published workflow definition has the id {:?}; publish it first",
                        start.definition_id.as_str()
                    ),
                    Some(version) => {
                        format!("the version {version:?} of the workflow definition was changed or deleted; try again")
                    }
                },
            )),
            refused => {
                // A used key gets its first result, also when that very instance is what the strategy counts.
                if let Some(request) = &start.request
                    && let Some(before) = find_request(&self.pool, &start.tenant, request).await?
                {
                    return match before.instance {
                        Some(instance) => Ok(Attempt::Accepted(AcceptedStart::Existing { instance })),
                        None => Err(Error::internal("the request of an earlier start names no instance")),
                    };
                }
                match refused {
                    StartOutcome::CannotStart => return Err(cannot_start()),
                    StartOutcome::Unseeded => return Err(unseeded()),
                    StartOutcome::RouteMoved => return Err(route_moved()),
                    StartOutcome::Moved(to) => {
                        return Ok(Attempt::Moved {
                            start: Box::new(start),
                            to,
                        });
                    }
                    _ => {}
                }
                Err(Error::conflict(
                    "instance-id-taken",
                    format!("the instance id {:?} is taken; choose another", start.instance.as_str()),
                ))
            }
        }
    }
}

impl Acceptor {
    /// A start that was accepted under its idempotency key before the pause; otherwise the refusal.
    async fn accepted_before(&self, start: &NewStart, paused: Error) -> Result<AcceptedStart> {
        let before = match &start.request {
            Some(request) => find_request(&self.pool, &start.tenant, request).await?,
            None => None,
        };
        match before.and_then(|before| before.instance) {
            Some(instance) => Ok(AcceptedStart::Existing { instance }),
            None => Err(paused),
        }
    }
}

struct StartConnection {
    session: Session,
    /// Prepared at the first batch of each form.
    statements: [Option<Statement>; StartForm::ALL.len()],
}

/// The connection of an accept task.
enum ConnectionSource {
    /// A connection of its own. None while the task is idle.
    Own(Option<StartConnection>),
    /// For each batch the connection of a pool that has only one.
    Pooled(Pool, Option<Exclusive>),
}

/// One plan for all batches: to plan a small one again takes longer than to execute it.
const SETUP: &str = "SET plan_cache_mode = force_generic_plan";
const SETUP_RELAXED: &str = "SET plan_cache_mode = force_generic_plan; SET synchronous_commit = off";

impl StartConnection {
    async fn open(connector: &Connector, flushed: bool) -> Result<Self> {
        let session = connector.open().await?;
        let setup = if flushed { SETUP } else { SETUP_RELAXED };
        within(ANSWER_TIMEOUT, session.client.batch_execute(setup)).await?;
        Ok(Self {
            session,
            statements: Default::default(),
        })
    }

    async fn query(&mut self, form: StartForm, text: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let client = &self.session.client;
        let answer = within(ANSWER_TIMEOUT, async {
            let statement = match self.statements.get_mut(form.index()) {
                Some(Some(statement)) => statement.clone(),
                Some(unknown) => unknown.insert(client.prepare(text).await?).clone(),
                None => client.prepare(text).await?,
            };
            client.query(&statement, params).await
        });
        answer.await
    }
}

struct AcceptTask {
    connector: Connector,
    incarnation: Incarnation,
    flushed: bool,
    source: ConnectionSource,
    /// The text of the statement by form.
    texts: [String; StartForm::ALL.len()],
    /// Workflows that had an activation strategy at their last start.
    strategies: HashSet<(TenantId, DefinitionId)>,
}

impl AcceptTask {
    async fn run(mut self, mut queue: mpsc::Receiver<Pending>) {
        let mut backlog = VecDeque::new();
        loop {
            if backlog.is_empty() {
                let mut arrived = Vec::new();
                match tokio::time::timeout(IDLE_TIMEOUT, queue.recv_many(&mut arrived, BATCH)).await {
                    Ok(0) => return,
                    Ok(_) => backlog.extend(arrived),
                    Err(_) => {
                        if let ConnectionSource::Own(channel) = &mut self.source {
                            *channel = None;
                        }
                        continue;
                    }
                }
                // The last replies woke other tasks: what they send at once joins this batch.
                tokio::task::yield_now().await;
                while backlog.len() < BATCH
                    && let Ok(pending) = queue.try_recv()
                {
                    backlog.push_back(pending);
                }
            }
            if let Err(error) = self.open().await {
                // Nothing was sent.
                for (_, reply) in backlog.drain(..) {
                    let again = Error::unavailable("database-unavailable", "the database cannot be reached; try again");
                    let _ = reply.send(Err(again.caused_by(error.to_string())));
                }
                continue;
            }
            let batch = take_batch(&mut backlog);
            self.accept_batch(batch, false).await;
            if let ConnectionSource::Pooled(_, lent) = &mut self.source
                && let Some(connection) = lent.take()
            {
                connection.give_back();
            }
        }
    }

    /// Writes a batch and replies to each caller. A lone start that lost to a competing one is sent again, one whose strategy
    /// was not checked is written in the checked form, and a batch in doubt is resolved. Another failing batch is halved, so
    /// that one bad start fails alone. `retried`: an earlier attempt is in doubt.
    async fn accept_batch(&mut self, batch: Vec<Pending>, retried: bool) {
        let mut sent = self.send(&batch).await;
        for _ in 0..COMPETING_RETRIES {
            // Lost to a concurrent start, which the next snapshot shows.
            if batch.len() > 1 || !matches!(&sent, Err(error) if error.code() == "database-busy") {
                break;
            }
            sent = self.send(&batch).await;
        }
        match sent {
            Ok(mut outcomes) => {
                metrics::histogram!("mainspring_accept_batch_starts").record(batch.len() as f64);
                let mut unchecked = Vec::new();
                for (no, (start, reply)) in batch.into_iter().enumerate() {
                    match outcomes.remove(&no).unwrap_or(StartOutcome::IdTaken) {
                        StartOutcome::StrategyUnchecked => unchecked.push((start, reply)),
                        outcome if retried => self.confirm((start, reply), outcome).await,
                        outcome => drop(reply.send(Ok(outcome))),
                    }
                }
                if !unchecked.is_empty() {
                    self.remember_strategies(&unchecked);
                    Box::pin(self.accept_batch(unchecked, retried)).await;
                }
            }
            Err(error) if error.is_paused() && !retried => {
                for (_, reply) in batch {
                    let _ = reply.send(Err(Error::unavailable("runtime-paused", error.message())));
                }
            }
            Err(error) if doubt::is_in_doubt(&error) || (retried && batch.len() == 1) => {
                Box::pin(self.resolve(batch, &error, retried)).await;
            }
            Err(_) if batch.len() > 1 => {
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                Box::pin(self.accept_batch(first, retried)).await;
                Box::pin(self.accept_batch(second, retried)).await;
            }
            Err(error) if error.code() == "duplicate" => {
                for (_, reply) in batch {
                    let _ = reply.send(Ok(StartOutcome::IdTaken));
                }
            }
            Err(error) => {
                for (_, reply) in batch {
                    let again = if error.is_database_fault() {
                        Error::unavailable("database-fault", error.message())
                    } else {
                        Error::unavailable("database-busy", "the start could not be accepted; try again")
                    };
                    let _ = reply.send(Err(again.caused_by(error.to_string())));
                }
            }
        }
    }

    /// The strategies of these workflows are checked from now on.
    fn remember_strategies(&mut self, starts: &[Pending]) {
        if self.strategies.len() > MAX_STRATEGIES {
            self.strategies.clear();
        }
        let workflows = starts
            .iter()
            .map(|(start, _)| (start.tenant.clone(), start.definition_id.clone()));
        self.strategies.extend(workflows);
    }

    /// The form that a batch needs.
    fn form(&self, batch: &[Pending]) -> StartForm {
        let has_strategy = |start: &NewStart| {
            let key = (start.tenant.clone(), start.definition_id.clone());
            self.strategies.contains(&key)
        };
        let is_checked =
            |start: &NewStart| start.request.is_some() || (!self.strategies.is_empty() && has_strategy(start));
        if batch.iter().any(|(start, _)| start.version_id.is_some()) {
            StartForm::Version
        } else if batch.iter().any(|(start, _)| start.has_chosen_id) {
            StartForm::ChosenId
        } else if batch.iter().any(|(start, _)| is_checked(start)) {
            StartForm::Checked
        } else {
            let is_routed = batch.iter().any(|(start, _)| start.route.is_some());
            match (is_routed, batch.iter().all(|(start, _)| start.claimed)) {
                (false, true) => StartForm::Claimed,
                (false, false) => StartForm::Unclaimed,
                (true, true) => StartForm::RoutedClaimed,
                (true, false) => StartForm::Routed,
            }
        }
    }

    async fn send(&mut self, batch: &[Pending]) -> Result<HashMap<usize, StartOutcome>> {
        failpoint::hit("accept.before").await?;
        let rows: Vec<StartRow<'_>> = batch
            .iter()
            .enumerate()
            .map(|(no, (start, _))| StartRow::of(no as i32, start))
            .collect();
        let incarnation = self.incarnation.0;
        let params: [&(dyn ToSql + Sync); 2] = [&incarnation, &rows];
        let answer = self.query(self.form(batch), &params).await?;
        failpoint::hit("accept.after").await?;
        let at = columns!(answer; no, version_id, version, id, accepted_at, strict)?;
        // Which of these there are is a matter of the form.
        let (unseeded, refused) = (find_column(&answer, "unseeded"), find_column(&answer, "cannot_start"));
        let moved = find_column(&answer, "moved");
        let asked = |row: &Row, place: Option<usize>| place.is_some_and(|place| row.get(place));
        Ok(answer
            .iter()
            .filter_map(|row| {
                let no = usize::try_from(row.get::<_, i32>(at.no)).ok()?;
                let start = &batch.get(no)?.0;
                let is_moved = |version: &str| start.checked_version.as_ref().is_some_and(|it| it.as_str() != version);
                let outcome = match (
                    row.get::<_, Option<String>>(at.version_id),
                    row.get::<_, Option<i64>>(at.id),
                ) {
                    (None, _) if start.route.is_some() => StartOutcome::RouteMoved,
                    (None, _) => StartOutcome::NoDefinition,
                    (Some(_), None) if asked(row, moved) => StartOutcome::RouteMoved,
                    (Some(version), None) if is_moved(&version) => StartOutcome::Moved(VersionId::from(version)),
                    (Some(_), None) if row.get(at.strict) => StartOutcome::StrategyUnchecked,
                    (Some(_), None) if asked(row, unseeded) => StartOutcome::Unseeded,
                    (Some(_), None) if asked(row, refused) => StartOutcome::CannotStart,
                    (Some(_), None) => StartOutcome::IdTaken,
                    (Some(version_id), Some(work)) => StartOutcome::Made {
                        work: WorkId(work),
                        definition: DefinitionRef {
                            definition_id: start.definition_id.clone(),
                            version_id: VersionId::from(version_id),
                            version: row.get(at.version),
                        },
                        clock: DatabaseClock::read(row.get(at.accepted_at)),
                    },
                };
                Some((no, outcome))
            })
            .collect())
    }

    /// Connects unless there is a connection.
    async fn open(&mut self) -> Result<()> {
        match &mut self.source {
            ConnectionSource::Own(Some(_)) | ConnectionSource::Pooled(_, Some(_)) => {}
            ConnectionSource::Own(channel) => {
                *channel = Some(StartConnection::open(&self.connector, self.flushed).await?)
            }
            ConnectionSource::Pooled(pool, lent) => *lent = Some(pool.exclusive().await?),
        }
        Ok(())
    }

    async fn query(&mut self, form: StartForm, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let text = self.texts.get(form.index()).map_or("", String::as_str);
        match &mut self.source {
            ConnectionSource::Own(Some(channel)) => channel.query(form, text, params).await,
            ConnectionSource::Own(None) => Err(no_connection()),
            ConnectionSource::Pooled(_, place) => {
                // A connection that fails is dropped, not returned to the pool.
                let Some(lent) = place.take() else {
                    return Err(no_connection());
                };
                let client = lent.client()?;
                let sent = async {
                    let statement = client.prepare_cached(text).await?;
                    client.query(&statement, params).await
                };
                let answer = within(ANSWER_TIMEOUT, async { Ok::<_, Error>(sent.await) }).await?;
                if !client.is_closed() {
                    *place = Some(lent);
                }
                Ok(answer?)
            }
        }
    }
}

/// Takes what one statement can accept: each instance id and each key at most once.
fn take_batch(backlog: &mut VecDeque<Pending>) -> Vec<Pending> {
    let mut seen = HashSet::new();
    let mut batch = Vec::new();
    let mut left = VecDeque::new();
    while let Some(pending) = backlog.pop_front() {
        let tenant = pending.0.tenant.as_str().to_owned();
        let instance = (tenant.clone(), "", pending.0.instance.as_str().to_owned());
        let key = pending
            .0
            .request
            .as_ref()
            .map(|request| (tenant, request.route, request.key.clone()));
        let is_new = !seen.contains(&instance) && key.as_ref().is_none_or(|key| !seen.contains(key));
        if batch.len() < BATCH && is_new {
            seen.insert(instance);
            seen.extend(key);
            batch.push(pending);
        } else {
            left.push_back(pending);
        }
    }
    *backlog = left;
    batch
}
