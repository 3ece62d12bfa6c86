//! One batch on one connection: encode the rows, send the statements as one pipeline, read the winners.

use std::collections::HashMap;

use postgres_types::{ToSql, Type};
use tokio_postgres::error::DbError;
use tokio_postgres::{Client, Statement};

use super::links::{LINKS, LinkRows};
use super::prepared::{PreparedStatements, query_if};
use super::routes::{ROUTES, RouteRows};
use super::row::{
    AnswerRow, AwaitedRow, BookmarkRow, BurnedRow, ChildEndRow, ChildRow, ClaimRow, DeliveryRow, DueRow, EventRow,
    KeyRow, NestedRow, RequestRow, StimulusRow,
};
use super::statement::StatementShape;
use super::{Claim, Commit, CommitRequest};
use crate::db::{ANSWER_TIMEOUT, Connector, ErrorClass, Session, find_column, within};
use crate::failpoint;
use crate::id::{Incarnation, InstanceId, InstanceVersion, WorkId};
use crate::store::stimulus_key::KeySet;
use crate::{Error, Result};

const BATCH: &str = include_str!("../../../sql/queries/commit/batch.sql");
const LOCKS: &str = include_str!("../../../sql/queries/commit/stimulus_keys.sql");
const LOCKS_WAITING: &str = include_str!("../../../sql/queries/commit/stimulus_keys_waiting.sql");
const MATCH: &str = include_str!("../../../sql/queries/commit/match.sql");
const CLASSIFY: &str = include_str!("../../../sql/queries/commit/classify.sql");

/// What a lane does at a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockedRows {
    /// Skips it: one locked row must not stall the batch.
    Skip,
    /// Waits for it, under the connection's `lock_timeout`.
    Wait,
}

impl LockedRows {
    /// The name of the lane in the log.
    pub(super) fn lane(self) -> &'static str {
        match self {
            Self::Skip => "skipping",
            Self::Wait => "contended",
        }
    }
}

/// How the statements of a batch are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// All at once, in one round trip.
    Pipelined,
    /// One by one, for a failpoint between two of them.
    Stepwise,
}

/// The failpoints between two statements: only these need them one by one.
const STEPS: [&str; 4] = ["commit.begun", "commit.locked", "commit.written", "commit.matched"];

impl Default for SendMode {
    fn default() -> Self {
        if STEPS.into_iter().any(failpoint::armed) {
            Self::Stepwise
        } else {
            Self::Pipelined
        }
    }
}

/// A connection that commits.
pub(super) struct CommitConnection {
    session: Session,
    shapes: PreparedStatements,
    /// The types of the parameters, which are the same in all shapes.
    types: Vec<Type>,
    locks: Statement,
    matching: Statement,
    routing: Statement,
    linking: Statement,
    pub(super) classify: Statement,
    incarnation: Incarnation,
    writer: i16,
    lock_class: i32,
    send: SendMode,
}

/// The winners of a batch, by index.
pub(super) type Winners = HashMap<usize, Commit>;

/// A committed batch, with the shape of its statement.
pub(super) struct BatchCommit {
    pub(super) winners: Winners,
    pub(super) shape: StatementShape,
    /// The stimulus keys that other transactions held.
    pub(super) missed: Vec<i32>,
}

/// The result of a batch that was sent: its winners, and the stimulus keys that other transactions held.
type Sent = (Winners, Vec<i32>);

/// Why a whole batch was not committed, or is in doubt.
#[derive(Debug)]
pub(super) struct BatchError {
    pub(super) failure: ErrorClass,
    pub(super) error: Error,
    /// The id of a new instance is taken.
    pub(super) is_id_taken: bool,
}

impl From<tokio_postgres::Error> for BatchError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self {
            failure: ErrorClass::of(&error),
            is_id_taken: error.as_db_error().and_then(DbError::constraint) == Some("instance_pkey"),
            error: error.into(),
        }
    }
}

impl From<Error> for BatchError {
    /// An error of this process (a timeout, a failpoint) says nothing about the server: the batch is in doubt.
    fn from(error: Error) -> Self {
        Self {
            failure: ErrorClass::Connection,
            is_id_taken: false,
            error,
        }
    }
}

impl CommitConnection {
    pub(super) async fn open(
        connector: &Connector,
        incarnation: Incarnation,
        writer: i16,
        mode: LockedRows,
        send: SendMode,
    ) -> Result<Self> {
        let session = connector.open().await?;
        let client = &session.client;
        let lock_timeout = if mode == LockedRows::Skip { 2_000 } else { 500 };
        // One plan for all batches: to plan a small one again takes longer than to execute it.
        let setup = format!("SET lock_timeout = {lock_timeout}; SET plan_cache_mode = force_generic_plan");
        within(ANSWER_TIMEOUT, client.batch_execute(&setup)).await?;
        let locks = match mode {
            LockedRows::Skip => LOCKS,
            LockedRows::Wait => LOCKS_WAITING,
        };
        let whole = within(ANSWER_TIMEOUT, client.prepare(&StatementShape::WHOLE.text(BATCH))).await?;
        let types = whole.params().to_vec();
        let mut shapes = PreparedStatements::default();
        shapes.add((StatementShape::WHOLE, false), whole);
        Ok(Self {
            types,
            shapes,
            locks: within(ANSWER_TIMEOUT, client.prepare(locks)).await?,
            matching: within(ANSWER_TIMEOUT, client.prepare(MATCH)).await?,
            routing: within(ANSWER_TIMEOUT, client.prepare(ROUTES)).await?,
            linking: within(ANSWER_TIMEOUT, client.prepare(LINKS)).await?,
            classify: within(ANSWER_TIMEOUT, client.prepare(CLASSIFY)).await?,
            lock_class: connector.schema().lock_class(),
            session,
            incarnation,
            writer,
            send,
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.session.client
    }

    pub(super) fn writer(&self) -> (i64, i16) {
        (self.incarnation.0, self.writer)
    }

    /// Writes a batch with at most one request per instance. On an error nothing was committed, or, for
    /// [`ErrorClass::Connection`], the outcome is in doubt. With `waits` it waits for rows that other transactions have locked,
    /// instead of skipping their requests: only one request may do so, as rows are locked in the order of no plan.
    pub(super) async fn write<'a>(
        &mut self,
        requests: impl Iterator<Item = &'a mut CommitRequest>,
        waits: bool,
    ) -> Result<BatchCommit, BatchError> {
        failpoint::hit("commit.gathered").await?;
        let rows = Rows::of(requests);
        let batch = match tokio::time::timeout(ANSWER_TIMEOUT, self.prepared(rows.shape, waits)).await {
            // An error here leaves nothing in doubt: no commit was sent.
            Ok(prepared) => prepared?,
            Err(_) => {
                return Err(Error::unavailable("database-timeout", "the database did not prepare a commit").into());
            }
        };
        let (winners, missed) = match tokio::time::timeout(ANSWER_TIMEOUT, self.send(&batch, &rows)).await {
            Ok(result) => result?,
            Err(_) => {
                return Err(Error::unavailable("database-timeout", "the database did not answer to a commit").into());
            }
        };
        failpoint::hit("commit.answered").await?;
        Ok(BatchCommit {
            winners,
            shape: rows.shape,
            missed,
        })
    }

    /// Whether the server executes a batch of this shape without rows in time: then the rows are what takes too long.
    pub(super) async fn probe(&mut self, shape: StatementShape) -> bool {
        let rows = Rows {
            shape,
            ..Rows::default()
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, async {
            let batch = self.prepared(shape, false).await?;
            self.send(&batch, &rows).await
        });
        matches!(answer.await, Ok(Ok(_)))
    }

    /// The prepared statement of a shape.
    async fn prepared(
        &mut self,
        shape: StatementShape,
        waits: bool,
    ) -> std::result::Result<Statement, tokio_postgres::Error> {
        // A multi-claim statement reports pending work anyway.
        let reports_pending = shape.reports_pending && !shape.multi;
        let shape = StatementShape {
            reports_pending,
            ..shape
        };
        if let Some(statement) = self.shapes.find((shape, waits)) {
            return Ok(statement);
        }
        let client = &self.session.client;
        let mut text = shape.text(BATCH);
        if waits {
            text = text.replace(" SKIP LOCKED", "");
        }
        let statement = client.prepare_typed(&text, &self.types).await?;
        self.shapes.add((shape, waits), statement.clone());
        Ok(statement)
    }

    async fn send(&self, batch: &Statement, rows: &Rows<'_>) -> Result<Sent, BatchError> {
        let sent = match self.send {
            SendMode::Pipelined => self.send_pipelined(batch, rows).await,
            SendMode::Stepwise => self.send_stepwise(batch, rows).await,
        }?;
        failpoint::hit("commit.committed").await?;
        Ok(sent)
    }

    /// One round trip. Committed means that every statement succeeded: COMMIT of a failed transaction succeeds, too.
    async fn send_pipelined(&self, batch: &Statement, rows: &Rows<'_>) -> Result<Sent, BatchError> {
        let client = self.client();
        let params = rows.params(&self.incarnation.0, &self.writer);
        if rows.keys.is_empty() && rows.links.is_empty() {
            // One statement is its own transaction: its result is complete only once it is committed.
            let answer = client.query(batch, &params).await?;
            return Ok((winners(&answer), Vec::new()));
        }
        let (keys, exclusive) = rows.modes.columns();
        let (tenants, instances, bookmarks) = &rows.waiting;
        let lock_params: [&(dyn ToSql + Sync); 3] = [&self.lock_class, &keys, &exclusive];
        let match_params: [&(dyn ToSql + Sync); 3] = [tenants, instances, bookmarks];
        // `join!` polls in this order, so the statements are sent in this order.
        let has_keys = !rows.keys.is_empty();
        let (begun, locked, routed, written, linked, matched, committed) = futures_util::join!(
            client.batch_execute("BEGIN"),
            query_if(has_keys, client, &self.locks, &lock_params),
            rows.routes.write(client, &self.routing),
            client.query(batch, &params),
            rows.links.write(client, &self.linking),
            query_if(has_keys, client, &self.matching, &match_params),
            client.batch_execute("COMMIT"),
        );
        // The first failure is the cause; later statements only report that the transaction is aborted.
        begun?;
        let locked = locked?;
        routed?;
        let answer = written?;
        linked?;
        matched?;
        committed?;
        Ok((winners(&answer), missed(&locked)))
    }

    /// The same statements one by one, with a failpoint after each.
    async fn send_stepwise(&self, batch: &Statement, rows: &Rows<'_>) -> Result<Sent, BatchError> {
        let client = self.client();
        client.batch_execute("BEGIN").await?;
        failpoint::hit("commit.begun").await?;
        let steps = async {
            let mut missed_keys = Vec::new();
            if !rows.keys.is_empty() {
                let (keys, exclusive) = rows.modes.columns();
                let locked = client
                    .query(&self.locks, &[&self.lock_class, &keys, &exclusive])
                    .await?;
                missed_keys = missed(&locked);
                failpoint::hit("commit.locked").await?;
            }
            rows.routes.write(client, &self.routing).await?;
            let answer = client
                .query(batch, &rows.params(&self.incarnation.0, &self.writer))
                .await?;
            rows.links.write(client, &self.linking).await?;
            failpoint::hit("commit.written").await?;
            if !rows.keys.is_empty() {
                let (tenants, instances, bookmarks) = &rows.waiting;
                client.query(&self.matching, &[tenants, instances, bookmarks]).await?;
                failpoint::hit("commit.matched").await?;
            }
            Ok::<_, BatchError>((winners(&answer), missed_keys))
        }
        .await;
        if steps.is_err() {
            client.batch_execute("ROLLBACK").await?;
            return steps;
        }
        client.batch_execute("COMMIT").await?;
        steps
    }
}

/// The parameters of a batch with one request, in the bytes that are sent, for the types of the statement's parameters.
#[cfg(test)]
pub(crate) fn encoded(request: &mut CommitRequest, types: &[Type]) -> usize {
    let rows = Rows::of(std::iter::once(request));
    let mut bytes = postgres_types::private::BytesMut::new();
    for (param, of_type) in rows.params(&1, &0).into_iter().zip(types) {
        param.to_sql_checked(of_type, &mut bytes).unwrap();
    }
    bytes.len()
}

/// The types of the parameters of the batch statement.
#[cfg(test)]
pub(crate) async fn parameter_types(client: &Client) -> Vec<Type> {
    let whole = client.prepare(&StatementShape::WHOLE.text(BATCH)).await.unwrap();
    whole.params().to_vec()
}

/// The keys that a lock statement did not get.
fn missed(locked: &[tokio_postgres::Row]) -> Vec<i32> {
    let place = find_column(locked, "missed");
    let keys = locked
        .first()
        .zip(place)
        .map_or("", |(row, place)| row.get::<_, &str>(place));
    keys.split(',').filter_map(|key| key.parse().ok()).collect()
}

fn winners(rows: &[tokio_postgres::Row]) -> Winners {
    let place = |name| find_column(rows, name);
    let (Some(no), Some(version), Some(committed)) = (place("no"), place("version"), place("committed_at")) else {
        return Winners::default();
    };
    // The other columns depend on the shape.
    let (created, freed, more) = (place("created_at"), place("freed"), place("more"));
    let (continued, refused) = (place("continued"), place("refused_children"));
    rows.iter()
        .filter_map(|row| {
            let no = usize::try_from(row.get::<_, i32>(no)).ok()?;
            let committed_at = row.get(committed);
            let commit = Commit {
                version: InstanceVersion(row.get(version)),
                created_at: created.and_then(|place| row.get(place)).unwrap_or(committed_at),
                committed_at,
                released_schedule: freed.is_some_and(|place| row.get(place)),
                has_pending_work: more.is_some_and(|place| row.get(place)),
                continued: continued.and_then(|place| row.get(place)).map(WorkId),
                refused_children: refused.map_or(0, |place| row.get(place)),
            };
            Some((no, commit))
        })
        .collect()
}

/// A request without those of its effects that are rows of their own.
pub(super) fn request_row(no: i32, request: &CommitRequest) -> RequestRow<'_> {
    let effects = &request.effects;
    let (work, record) = (request.single_claim(), effects.record.as_ref());
    RequestRow {
        no,
        tenant_id: request.tenant.as_str(),
        instance_id: request.instance.as_str(),
        expected: request.expected.map_or(0, |version| version.0),
        burst: request.burst.0,
        claims: request.claims.len() as i32,
        definition_id: request.definition.definition_id.as_str(),
        version_id: request.definition.version_id.as_str(),
        definition_version: request.definition.version,
        status: effects.status,
        sub_status: effects.sub_status,
        correlation_id: effects.correlation_id.as_deref(),
        name: effects.name.as_deref(),
        incident_count: effects.incident_count,
        state: &effects.state,
        elapsed: i64::try_from(effects.elapsed.as_micros()).unwrap_or(i64::MAX),
        work_id: work.map(|(id, _)| id.0),
        claim_no: work.map(|(_, no)| no.0),
        continues: effects.continues,
        retried: effects.retried,
        first_entry: record.map(|record| record.first_entry),
        entries: record.map(|record| record.entries),
        record: record.map(|record| record.body.as_str()),
        parent_instance_id: effects.parent.as_ref().map(InstanceId::as_str),
    }
}

/// The claims of a request.
pub(super) fn claim_rows(no: i32, request: &CommitRequest) -> impl Iterator<Item = ClaimRow<'_>> {
    rows_of(no, &request.claims)
}

/// The claims that a child in the burst of its parent leaves to that one.
pub(super) fn outer_claim_rows(no: i32, request: &CommitRequest) -> impl Iterator<Item = ClaimRow<'_>> {
    let nested = request.nested.iter();
    nested.flat_map(move |nested| rows_of(no, &nested.claims))
}

/// The fence of a child in the burst of its parent.
pub(super) fn nested_row(no: i32, request: &CommitRequest) -> Option<NestedRow<'_>> {
    let nested = request.nested.as_deref()?;
    Some(NestedRow {
        no,
        root_instance_id: nested.root.as_str(),
        expected: nested.expected.map_or(0, |version| version.0),
        claims: nested.claims.len() as i32,
        lives: nested.lives,
        continues: nested.continues,
    })
}

fn rows_of(no: i32, claims: &[Claim]) -> impl Iterator<Item = ClaimRow<'_>> {
    claims.iter().map(move |claim| match claim {
        Claim::Work(id, claim_no) => ClaimRow {
            no,
            work_id: Some(id.0),
            timer_id: None,
            claim_no: claim_no.0,
        },
        Claim::Timer(id, claim_no) => ClaimRow {
            no,
            work_id: None,
            timer_id: Some(id.as_str()),
            claim_no: claim_no.0,
        },
    })
}

/// A batch as arrays of composite types.
#[derive(Default)]
struct Rows<'a> {
    shape: StatementShape,
    requests: Vec<RequestRow<'a>>,
    claims: Vec<ClaimRow<'a>>,
    /// Always empty: a single-claim statement takes its claims from the requests.
    no_claims: Vec<ClaimRow<'a>>,
    bookmarks: Vec<&'a BookmarkRow>,
    burned: Vec<BurnedRow<'a>>,
    stimuli: Vec<&'a StimulusRow>,
    unmet: Vec<ClaimRow<'a>>,
    dues: Vec<&'a DueRow>,
    rematched: Vec<BurnedRow<'a>>,
    events: Vec<&'a EventRow>,
    children: Vec<&'a ChildRow>,
    child_ends: Vec<&'a ChildEndRow>,
    nested: Vec<NestedRow<'a>>,
    outer_claims: Vec<ClaimRow<'a>>,
    awaited: Vec<&'a AwaitedRow>,
    answers: Vec<&'a AnswerRow>,
    keys: Vec<KeyRow>,
    modes: KeySet,
    /// Only beside keys: a bookmark that has one waits for a stimulus.
    routes: RouteRows<'a>,
    links: LinkRows<'a>,
    deliveries: Vec<&'a DeliveryRow>,
    /// Tenants, instances and ids of the bookmarks to match with the inbox.
    waiting: (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>),
}

impl<'a> Rows<'a> {
    fn of(requests: impl Iterator<Item = &'a mut CommitRequest>) -> Self {
        let mut rows = Rows::default();
        for (no, request) in requests.enumerate() {
            let no = no as i32;
            request.effects.bookmarks_made.iter_mut().for_each(|row| row.no = no);
            request.effects.stimuli.iter_mut().for_each(|row| row.no = no);
            request.effects.dues.iter_mut().for_each(|row| row.no = no);
            request.effects.events.iter_mut().for_each(|row| row.no = no);
            request.effects.children.iter_mut().for_each(|row| row.no = no);
            request.effects.child_end.iter_mut().for_each(|row| row.no = no);
            request.effects.awaited.iter_mut().for_each(|row| row.no = no);
            request.effects.answers.iter_mut().for_each(|row| row.no = no);
            request.effects.deliveries.iter_mut().for_each(|row| row.no = no);
            rows.add(no, request);
        }
        rows
    }

    fn add(&mut self, no: i32, request: &'a CommitRequest) {
        let effects = &request.effects;
        self.shape.include(request);
        self.requests.push(request_row(no, request));
        self.claims.extend(claim_rows(no, request));
        self.burned.extend(
            effects
                .bookmarks_burned
                .iter()
                .map(|id| BurnedRow { no, id: id.as_str() }),
        );
        self.unmet.extend(effects.unmet.iter().map(|work| ClaimRow {
            no,
            work_id: Some(work.0),
            timer_id: None,
            claim_no: 0,
        }));
        self.stimuli.extend(&effects.stimuli);
        self.dues.extend(&effects.dues);
        self.events.extend(&effects.events);
        self.children.extend(&effects.children);
        self.child_ends.extend(&effects.child_end);
        self.nested.extend(nested_row(no, request));
        self.outer_claims.extend(outer_claim_rows(no, request));
        self.awaited.extend(&effects.awaited);
        self.answers.extend(&effects.answers);
        for (key, exclusive) in request.keys().iter() {
            self.keys.push(KeyRow { no, key });
            self.modes.add(key, exclusive);
        }
        self.routes.add(request);
        self.links.add(request);
        self.deliveries.extend(&effects.deliveries);
        for waiting in &effects.rematched {
            self.rematched.push(BurnedRow {
                no,
                id: &waiting.bookmark,
            });
            self.waiting.0.push(request.tenant.as_str());
            self.waiting.1.push(request.instance.as_str());
            self.waiting.2.push(&waiting.bookmark);
        }
        for bookmark in &effects.bookmarks_made {
            self.bookmarks.push(bookmark);
            if bookmark.publishable {
                self.waiting.0.push(request.tenant.as_str());
                self.waiting.1.push(request.instance.as_str());
                self.waiting.2.push(&bookmark.id);
            }
        }
    }

    fn params<'b>(&'b self, incarnation: &'b i64, writer: &'b i16) -> [&'b (dyn ToSql + Sync); 19] {
        [
            incarnation,
            writer,
            &self.requests,
            if self.shape.multi {
                &self.claims
            } else {
                &self.no_claims
            },
            &self.bookmarks,
            &self.burned,
            &self.stimuli,
            &self.keys,
            &self.unmet,
            &self.dues,
            &self.rematched,
            &self.events,
            &self.children,
            &self.child_ends,
            &self.nested,
            &self.outer_claims,
            &self.awaited,
            &self.answers,
            &self.deliveries,
        ]
    }
}
