//! Starts become durable, many in one statement.
//!
//! # Invariants
//!
//! - The statement that accepts a start resolves the published version: a start after a publish never runs the old one.
//! - A start that will be run at once is born claimed. If its door answers only after the burst's commit, it is written
//!   with `synchronous_commit = off`: that commit's flush covers it. Any other is flushed before its door answers.
//! - A start under an activation strategy takes its key in the same statement, against what is committed and against
//!   rivals by a unique index; one that is refused writes nothing, not even its idempotency key. Under a strategy that
//!   was published a moment ago it waits until what counts is known, and is refused as busy when its patience is over.
//! - When the connection dies, whether the batch was accepted is in doubt, and asked (`doubt`).

mod doubt;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::{Row, Statement};
use tokio_util::task::AbortOnDropHandle;

use super::activation::{UNSEEDED_LOOK, UNSEEDED_PATIENCE, unseeded};
use super::clock::DatabaseClock;
use super::commit::DefinitionRef;
use super::parts::with_parts;
use super::request::{IdempotencyKey, find_request};
use crate::db::{ANSWER_TIMEOUT, Connector, Exclusive, Pool, Session, columns, find_column, within};
use crate::failpoint;
use crate::id::{DefinitionId, Incarnation, InstanceId, TenantId, VersionId, WorkId};
use crate::{Error, Result};

const ACCEPT: &str = include_str!("../../../sql/queries/start/accept.sql");

/// The most starts in one statement.
const BATCH: usize = 256;

/// How many workflows with a strategy are remembered; more are learnt anew.
const STRICT: usize = 4096;

/// How long a lane keeps a connection that it does not need.
const IDLE: Duration = Duration::from_secs(60);

/// How often a single start is tried again that lost its activation key to a rival of the same moment.
const RIVALS: usize = 3;

/// A start on its way in.
#[derive(Clone, Debug)]
pub(crate) struct NewStart {
    pub(crate) tenant: TenantId,
    pub(crate) instance: InstanceId,
    pub(crate) definition_id: DefinitionId,
    pub(crate) body: Value,
    pub(crate) request: Option<IdempotencyKey>,
    /// The caller chose the id, so that another start may have the same.
    pub(crate) chosen: bool,
    /// A worker of this node waits for it.
    pub(crate) claimed: bool,
}

fn no_connection() -> Error {
    Error::unavailable("database-unavailable", "there is no connection to accept on")
}

/// What became of a start.
#[derive(Clone, Debug)]
pub(crate) enum AcceptedStart {
    /// It will be run, by us if it was born claimed.
    New {
        work: WorkId,
        definition: DefinitionRef,
        clock: DatabaseClock,
    },
    /// The same request was accepted before, and made this instance; or it was accepted, and others run it by now.
    Existing { instance: InstanceId },
}

#[derive(Debug, ToSql)]
#[postgres(name = "start_request")]
struct StartRow<'a> {
    no: i32,
    tenant_id: &'a str,
    instance_id: &'a str,
    definition_id: &'a str,
    body: &'a Value,
    route: Option<&'a str>,
    key: Option<&'a str>,
    fingerprint: Option<&'a [u8]>,
    claimed: bool,
}

type Pending = (NewStart, oneshot::Sender<Result<StartOutcome>>);

enum StartOutcome {
    /// The workflow has an activation strategy, which was not asked.
    StrategyUnchecked,
    Made {
        work: WorkId,
        definition: DefinitionRef,
        clock: DatabaseClock,
    },
    /// AcceptedStart, and not as it was born any more.
    Existing,
    NoDefinition,
    /// The activation strategy of the workflow does not allow it now.
    CannotStart,
    /// The strategy was published so recently that what counts is not known yet.
    Unseeded,
    IdTaken,
}

/// The error of a start that the activation strategy of its workflow refuses.
pub(crate) fn cannot_start() -> Error {
    Error::conflict(
        "cannot-start",
        "the activation strategy of the workflow allows no further instance now; an instance that runs counts",
    )
}

/// Accepts starts in batches of what piled up. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Acceptor {
    sender: mpsc::Sender<Pending>,
    pool: Pool,
}

impl Acceptor {
    /// Starts the lane of `incarnation`, which connects when it is needed. Unless `flushed`, whoever asked waits for the
    /// commit of the first burst.
    pub(crate) fn start(
        connector: &Connector,
        pool: &Pool,
        incarnation: Incarnation,
        flushed: bool,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (sender, queue) = mpsc::channel(BATCH * 2);
        let is_lent = pool.is_single();
        let lane = AcceptTask {
            connector: connector.clone(),
            incarnation,
            flushed,
            texts: StartForm::ALL.map(|form| form.text(is_lent, is_lent && !flushed)),
            line: if is_lent {
                ConnectionSource::Lent(pool.clone(), None)
            } else {
                ConnectionSource::Own(None)
            },
            strict: HashSet::new(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(lane.run(queue)));
        (
            Self {
                sender,
                pool: pool.clone(),
            },
            task,
        )
    }

    /// Accepts one start. Dropped half-way, it may be accepted all the same.
    pub(crate) async fn accept(&self, start: NewStart) -> Result<AcceptedStart> {
        let unknown = || {
            Error::unknown_outcome("the database went away while the start was accepted; look the instance up")
                .instance(start.instance.as_str())
        };
        let patience = Instant::now() + UNSEEDED_PATIENCE;
        let outcome = loop {
            let (reply, answer) = oneshot::channel();
            self.sender.send((start.clone(), reply)).await.map_err(|_| unknown())?;
            let outcome = answer.await.map_err(|_| unknown())??;
            if !matches!(outcome, StartOutcome::Unseeded) || Instant::now() >= patience {
                break outcome;
            }
            tokio::time::sleep(UNSEEDED_LOOK).await;
        };
        match outcome {
            StartOutcome::Made {
                work,
                definition,
                clock,
            } => Ok(AcceptedStart::New {
                work,
                definition,
                clock,
            }),
            StartOutcome::Existing => Ok(AcceptedStart::Existing {
                instance: start.instance,
            }),
            StartOutcome::StrategyUnchecked => Err(Error::internal("a start was not asked for its strategy")),
            StartOutcome::NoDefinition => Err(Error::not_found(
                "definition-not-found",
                format!(
                    "no published workflow definition has the id {:?}; publish it first",
                    start.definition_id.as_str()
                ),
            )),
            refused => {
                // A key that was used before gets its first answer, also when that very instance is what counts now.
                if let Some(request) = &start.request
                    && let Some(before) = find_request(&self.pool, &start.tenant, request).await?
                {
                    return match before.instance {
                        Some(instance) => Ok(AcceptedStart::Existing { instance }),
                        None => Err(Error::internal("a remembered start names no instance")),
                    };
                }
                match refused {
                    StartOutcome::CannotStart => return Err(cannot_start()),
                    StartOutcome::Unseeded => return Err(unseeded()),
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

/// What is asked for the starts of a batch: the less, the sooner it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartForm {
    /// Whether their idempotency keys were used before, and what their activation strategies say.
    Asked,
    /// The same, where a caller chose an id: also whether it was taken since the statement began.
    Chosen,
    /// Only whether their workflows are published, and whether their ids are taken.
    Unclaimed,
    /// Only whether their workflows are published: they are born claimed, and have ids that were made for them.
    Claimed,
}

impl StartForm {
    pub(super) const ALL: [Self; 4] = [Self::Asked, Self::Chosen, Self::Unclaimed, Self::Claimed];

    /// Everything is asked.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Asked | Self::Chosen)
    }

    fn place(self) -> usize {
        match self {
            Self::Asked => 0,
            Self::Chosen => 1,
            Self::Unclaimed => 2,
            Self::Claimed => 3,
        }
    }

    /// The statement, over a connection that is lent, and one that sees to flushing itself.
    pub(super) fn text(self, lent: bool, relaxed: bool) -> String {
        let has = |part: &str| match part {
            "asked" => self.is_whole(),
            "unasked" => !self.is_whole(),
            "chosen" => self == Self::Chosen,
            "unclaimed" => self == Self::Unclaimed,
            "lent" => lent,
            "own" => !lent,
            _ => relaxed,
        };
        with_parts(ACCEPT, |part| part.split(" and ").all(has))
    }
}

struct StartConnection {
    session: Session,
    /// Once there was a batch of the form.
    statements: [Option<Statement>; StartForm::ALL.len()],
}

/// Over what a lane writes.
enum ConnectionSource {
    /// A connection of its own. None: not needed yet, or not any more.
    Own(Option<StartConnection>),
    /// The connection of a pool that has only one, for each batch: who asks for so few gets no more.
    Lent(Pool, Option<Exclusive>),
}

/// One plan for all batches: the server would plan small ones anew, each time, for longer than they take.
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
            let statement = match self.statements.get_mut(form.place()) {
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
    line: ConnectionSource,
    /// The statement in its forms.
    texts: [String; StartForm::ALL.len()],
    /// Workflows that had an activation strategy when they were last started here.
    strict: HashSet<(TenantId, DefinitionId)>,
}

impl AcceptTask {
    async fn run(mut self, mut queue: mpsc::Receiver<Pending>) {
        let mut backlog = VecDeque::new();
        loop {
            if backlog.is_empty() {
                let mut arrived = Vec::new();
                match tokio::time::timeout(IDLE, queue.recv_many(&mut arrived, BATCH)).await {
                    Ok(0) => return,
                    Ok(_) => backlog.extend(arrived),
                    Err(_) => {
                        if let ConnectionSource::Own(channel) = &mut self.line {
                            *channel = None;
                        }
                        continue;
                    }
                }
                // The last answers woke others, too: what they have ready comes along.
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
                    let again = Error::unavailable(
                        "database-unavailable",
                        "the database cannot be reached just now; try again",
                    );
                    let _ = reply.send(Err(again.caused_by(error.to_string())));
                }
                continue;
            }
            let batch = take_batch(&mut backlog);
            self.write(batch, false).await;
            if let ConnectionSource::Lent(_, lent) = &mut self.line
                && let Some(lent) = lent.take()
            {
                lent.give_back();
            }
        }
    }

    /// Writes a batch and answers everybody in it; a batch that fails as a whole is halved, so that one bad start
    /// hurts only its own caller. If `again`, an earlier try is in doubt.
    async fn write(&mut self, batch: Vec<Pending>, again: bool) {
        let mut sent = self.send(&batch).await;
        for _ in 0..RIVALS {
            // Lost to a rival of the same moment: the next snapshot shows it.
            if batch.len() > 1 || !matches!(&sent, Err(error) if error.code() == "database-busy") {
                break;
            }
            sent = self.send(&batch).await;
        }
        match sent {
            Ok(mut outcomes) => {
                metrics::histogram!("mainspring_accept_batch_starts").record(batch.len() as f64);
                let mut strict = Vec::new();
                for (no, (start, reply)) in batch.into_iter().enumerate() {
                    match outcomes.remove(&no).unwrap_or(StartOutcome::IdTaken) {
                        StartOutcome::StrategyUnchecked => strict.push((start, reply)),
                        outcome if again => self.confirm((start, reply), outcome).await,
                        outcome => drop(reply.send(Ok(outcome))),
                    }
                }
                if !strict.is_empty() {
                    self.learn(&strict);
                    Box::pin(self.write(strict, again)).await;
                }
            }
            Err(error) if doubt::is_in_doubt(&error) || (again && batch.len() == 1) => {
                Box::pin(self.settle(batch, &error, again)).await;
            }
            Err(_) if batch.len() > 1 => {
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                Box::pin(self.write(first, again)).await;
                Box::pin(self.write(second, again)).await;
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
                        Error::unavailable("database-busy", "the start could not be accepted just now; try again")
                    };
                    let _ = reply.send(Err(again.caused_by(error.to_string())));
                }
            }
        }
    }

    /// Has these asked for their strategy from now on.
    fn learn(&mut self, strict: &[Pending]) {
        if self.strict.len() > STRICT {
            self.strict.clear();
        }
        let known = strict
            .iter()
            .map(|(start, _)| (start.tenant.clone(), start.definition_id.clone()));
        self.strict.extend(known);
    }

    /// What needs to be asked for a batch.
    fn form(&self, batch: &[Pending]) -> StartForm {
        let is_strict = |start: &NewStart| {
            let key = (start.tenant.clone(), start.definition_id.clone());
            self.strict.contains(&key)
        };
        let is_asked = |start: &NewStart| start.request.is_some() || (!self.strict.is_empty() && is_strict(start));
        if batch.iter().any(|(start, _)| start.chosen) {
            StartForm::Chosen
        } else if batch.iter().any(|(start, _)| is_asked(start)) {
            StartForm::Asked
        } else if batch.iter().all(|(start, _)| start.claimed) {
            StartForm::Claimed
        } else {
            StartForm::Unclaimed
        }
    }

    async fn send(&mut self, batch: &[Pending]) -> Result<HashMap<usize, StartOutcome>> {
        failpoint::hit("accept.before").await?;
        let rows: Vec<StartRow<'_>> = batch
            .iter()
            .enumerate()
            .map(|(no, (start, _))| StartRow {
                no: no as i32,
                tenant_id: start.tenant.as_str(),
                instance_id: start.instance.as_str(),
                definition_id: start.definition_id.as_str(),
                body: &start.body,
                route: start.request.as_ref().map(|request| request.route),
                key: start.request.as_ref().map(|request| request.key.as_str()),
                fingerprint: start.request.as_ref().map(|request| request.fingerprint.as_slice()),
                claimed: start.claimed,
            })
            .collect();
        let incarnation = self.incarnation.0;
        let params: [&(dyn ToSql + Sync); 2] = [&incarnation, &rows];
        let answer = self.query(self.form(batch), &params).await?;
        failpoint::hit("accept.after").await?;
        let at = columns!(answer; no, version_id, version, id, accepted_at, strict)?;
        // Which of these there are is a matter of the form.
        let (unseeded, refused) = (find_column(&answer, "unseeded"), find_column(&answer, "cannot_start"));
        let asked = |row: &Row, place: Option<usize>| place.is_some_and(|place| row.get(place));
        Ok(answer
            .iter()
            .filter_map(|row| {
                let no = usize::try_from(row.get::<_, i32>(at.no)).ok()?;
                let start = &batch.get(no)?.0;
                let outcome = match (
                    row.get::<_, Option<String>>(at.version_id),
                    row.get::<_, Option<i64>>(at.id),
                ) {
                    (None, _) => StartOutcome::NoDefinition,
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

    /// Has a connection from now on.
    async fn open(&mut self) -> Result<()> {
        match &mut self.line {
            ConnectionSource::Own(Some(_)) | ConnectionSource::Lent(_, Some(_)) => {}
            ConnectionSource::Own(channel) => {
                *channel = Some(StartConnection::open(&self.connector, self.flushed).await?)
            }
            ConnectionSource::Lent(pool, lent) => *lent = Some(pool.exclusive().await?),
        }
        Ok(())
    }

    async fn query(&mut self, form: StartForm, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let text = self.texts.get(form.place()).map_or("", String::as_str);
        match &mut self.line {
            ConnectionSource::Own(Some(channel)) => channel.query(form, text, params).await,
            ConnectionSource::Own(None) => Err(no_connection()),
            ConnectionSource::Lent(_, place) => {
                // Unless it comes back in good order, the connection goes.
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

/// Takes what may stand in one statement: an instance id, and a key, at most once.
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
        let fresh = !seen.contains(&instance) && key.as_ref().is_none_or(|key| !seen.contains(key));
        if batch.len() < BATCH && fresh {
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
