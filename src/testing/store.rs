//! A migrated database, registered incarnations with real commit writers, and bursts that were not executed.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::assert_outcome;
use crate::db::{Connector, DatabaseUrl, Pool, SchemaName, Session, migrate};
use crate::id::{
    BurstId, ClaimNo, DefinitionId, Incarnation, InstanceId, InstanceVersion, NodeId, StimulusHash, TenantId,
    VersionId, WorkId,
};
use crate::lock::LockKey;
use crate::store::commit::{
    BookmarkRow, Claim, Commit, CommitOutcome, CommitReply, CommitRequest, CommitWriter, DefinitionRef, Effects,
    SendMode, WriterOptions,
};
use crate::store::commit::{CommitGuard, WriterTasks};
use crate::store::dead_letter::{self, DeadLetterFilter, DeadLetterRow};
use crate::store::event::NewEvent;
use crate::store::node::removal::{self, RemovalCause};
use crate::store::record::{ExecutionRef, NewEntry, Record};
use crate::store::request::IdempotencyKey;
use crate::store::start::{AcceptedStart, Acceptor, Attempt, NewStart};
use crate::store::{check, inbox_match, maintenance, node};
use crate::testing::{Proxy, TestDatabase};
use crate::watchdog::Watchdog;
use crate::{Error, Result};

pub(crate) struct Fixture {
    pub(crate) base: Connector,
    pub(crate) admin: Session,
    database: TestDatabase,
}

/// An incarnation with its writer.
pub(crate) struct Writer {
    pub(crate) incarnation: Incarnation,
    pub(crate) connector: Connector,
    pub(crate) pool: Pool,
    /// Its guard is an `Arc`, so that a test can count its references.
    pub(crate) commit: CommitWriter<Arc<()>>,
    _tasks: WriterTasks,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create().await;
        let schema = SchemaName::parse("mainspring").unwrap();
        let base = Connector::new(&DatabaseUrl::parse(&database.url()).unwrap(), &schema).unwrap();
        migrate::run(&base).await.unwrap();
        maintenance::ensure_partitions(&Pool::new(&base, 1).unwrap())
            .await
            .unwrap();
        let admin = base.open().await.unwrap();
        Self { base, admin, database }
    }

    /// The database's URL with another port, for what goes through a proxy.
    pub(crate) fn through(&self, port: u16) -> Connector {
        let mut url = reqwest::Url::parse(&self.database.url()).unwrap();
        url.set_port(Some(port)).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        Connector::new(
            &DatabaseUrl::parse(url.as_str()).unwrap(),
            &SchemaName::parse("mainspring").unwrap(),
        )
        .unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.database.url()
    }

    pub(crate) fn server_port(&self) -> u16 {
        reqwest::Url::parse(&self.database.url()).unwrap().port().unwrap()
    }

    pub(crate) async fn writer(&self) -> Writer {
        self.sending(SendMode::default()).await
    }

    /// A writer with one lane, in which what is sent together is written together, however long it takes.
    pub(crate) async fn sending(&self, send: SendMode) -> Writer {
        let options = WriterOptions {
            second_lane_min: None,
            send,
            ..WriterOptions::default()
        };
        self.writer_with(&self.base, options).await
    }

    pub(crate) async fn writer_with(&self, base: &Connector, options: WriterOptions) -> Writer {
        let client = &self.admin.client;
        let node_id = NodeId::new("test");
        let incarnation = node::next_incarnation(client).await.unwrap();
        node::register(client, incarnation, &node_id, Duration::from_secs(5))
            .await
            .unwrap();
        let connector = base.of(incarnation, &node_id);
        let (commit, tasks) = CommitWriter::start(&connector, incarnation, options, &Watchdog::default())
            .await
            .unwrap();
        let pool = Pool::new(&self.base, 4).unwrap();
        Writer {
            incarnation,
            connector,
            pool,
            commit,
            _tasks: tasks,
        }
    }

    /// A writer whose connections go through a proxy, and the proxy.
    pub(crate) async fn proxied(&self, options: WriterOptions) -> (Proxy, Writer) {
        let proxy = Proxy::start(self.server_port()).await;
        let writer = self.writer_with(&self.through(proxy.port), options).await;
        (proxy, writer)
    }

    /// Another session, in the schema of the test.
    pub(crate) async fn session(&self) -> Session {
        self.base.open().await.unwrap()
    }

    /// Another session, with an open transaction that has run this.
    pub(crate) async fn begin(&self, sql: &str) -> Session {
        let session = self.session().await;
        execute(&session, &format!("BEGIN; {sql}")).await;
        session
    }

    pub(crate) async fn execute(&self, sql: &str) {
        execute(&self.admin, sql).await;
    }

    /// Removes an incarnation, and returns how many of its claims were released.
    pub(crate) async fn remove(&self, incarnation: Incarnation, cause: RemovalCause) -> u64 {
        let session = self.session().await;
        removal::remove(&session.client, incarnation, &NodeId::new("test"), cause)
            .await
            .unwrap()
    }

    /// Stops whatever updates this instance in the middle of its statement, until the session is rolled back that comes back.
    pub(crate) async fn stop_at(&self, instance: &str) -> Session {
        let gate = format!(
            "CREATE TABLE gate (no integer);
             INSERT INTO gate VALUES (1);
             CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NEW; END';
             CREATE TRIGGER pass BEFORE UPDATE ON instance FOR EACH ROW WHEN (OLD.id = '{instance}')
             EXECUTE FUNCTION pass()"
        );
        self.execute(&gate).await;
        self.begin("SELECT 1 FROM gate FOR UPDATE").await
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.admin.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn version(&self, instance: &str) -> Option<i64> {
        let row = self
            .admin
            .client
            .query_opt("SELECT version FROM instance WHERE id = $1", &[&instance])
            .await
            .unwrap();
        row.map(|row| row.get(0))
    }

    /// A row of work for an instance, claimed by an incarnation.
    pub(crate) async fn claimed_work(&self, instance: &str, incarnation: Incarnation) -> Claim {
        let row = self
            .admin
            .client
            .query_one(
                "INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, claim_no, has_begun)
                 VALUES ('', $1, 1, '{}', $2, 1, true) RETURNING id",
                &[&instance, &incarnation.0],
            )
            .await
            .unwrap();
        Claim::Work(WorkId(row.get(0)), ClaimNo(1))
    }

    /// Waits until a query that counts gives this number.
    pub(crate) async fn until(&self, expected: i64, sql: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let count = self.count(sql).await;
            if count == expected {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{count} instead of {expected}: {sql}"
            );
            tokio::task::yield_now().await;
        }
    }

    /// Ends the session that holds this advisory lock.
    pub(crate) async fn terminate_holder(&self, lock: LockKey) {
        let end = holders(lock).replacen("count(*)", "count(pg_terminate_backend(pid))", 1);
        assert_eq!(self.count(&end).await, 1);
    }

    /// How many sessions hold this advisory lock.
    pub(crate) async fn holders(&self, lock: LockKey) -> i64 {
        self.count(&holders(lock)).await
    }

    /// Waits until no session holds this advisory lock.
    pub(crate) async fn until_free(&self, lock: LockKey) {
        self.until(0, &holders(lock)).await;
    }

    /// Waits until so many statements of other sessions wait for locks at the same moment.
    pub(crate) async fn so_many_wait(&self, expected: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.until(expected, waiting).await;
    }

    /// Waits until a statement of another session waits for a lock.
    pub(crate) async fn a_session_waits(&self) {
        let waiting = "SELECT (count(*) > 0)::int::bigint FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.until(1, waiting).await;
    }

    /// Starts what the inbox keeps for published triggers, as a node does after a publish; the number of pages.
    pub(crate) async fn match_inbox(&self, pool: &Pool) -> usize {
        let mut pages = 0;
        while inbox_match::page(pool).await.unwrap().is_some() {
            pages += 1;
        }
        pages
    }

    /// Every test ends with this.
    pub(crate) async fn is_sound(&self) {
        assert_eq!(check::check(&self.admin.client).await.unwrap(), []);
    }
}

impl Writer {
    /// Writes a request that must be committed; a failure names the caller's line.
    #[track_caller]
    pub(crate) fn commits(&self, request: CommitRequest) -> impl Future<Output = Commit> {
        let caller = Location::caller();
        async move {
            match self.write(request).await {
                CommitOutcome::Committed(commit) => commit,
                outcome => panic!("{outcome:?} of the commit at {caller}"),
            }
        }
    }

    /// The newest dead letters, newest first.
    pub(crate) async fn dead_letters(&self) -> Vec<DeadLetterRow> {
        let all = DeadLetterFilter::default();
        let (_, found) = dead_letter::list(&self.pool, &TenantId::default(), all, 100, 0)
            .await
            .unwrap();
        found
    }

    pub(crate) async fn write(&self, request: CommitRequest) -> CommitOutcome {
        self.reply(request, Arc::default()).await.outcome
    }

    pub(crate) async fn reply(&self, request: CommitRequest, guard: Arc<()>) -> CommitReply<Arc<()>> {
        tokio::time::timeout(Duration::from_secs(20), self.commit.commit(Box::new(request), guard))
            .await
            .unwrap()
            .unwrap()
    }
}

/// A finished burst of an instance that suspends, or, without bookmarks, finishes.
pub(crate) fn burst(instance: &str, expected: Option<i64>) -> CommitRequest {
    CommitRequest {
        tenant: TenantId::default(),
        instance: InstanceId::new(instance),
        expected: expected.map(InstanceVersion),
        burst: BurstId::random(),
        definition: DefinitionRef {
            definition_id: DefinitionId::new("d"),
            version_id: VersionId::new("d1"),
            version: 1,
        },
        claims: Vec::new(),
        nested: None,
        effects: Effects {
            status: 1,
            sub_status: 3,
            state: b"{}".to_vec(),
            ..Effects::default()
        },
        holds: false,
    }
}

/// Makes a burst wait for a stimulus.
pub(crate) fn waiting(mut request: CommitRequest, bookmark: &str, hash: u8) -> CommitRequest {
    request.effects.status = 0;
    request.effects.sub_status = 2;
    request.effects.bookmarks_made.push(BookmarkRow {
        no: 0,
        id: bookmark.to_owned(),
        activity_id: "a".to_owned(),
        node_id: "w:a".to_owned(),
        activity_execution_id: "e".to_owned(),
        name: "Elsa.Event".to_owned(),
        hash: vec![hash; 32],
        payload: serde_json::json!({}),
        publishable: true,
        delay: None,
    });
    request
}

pub(crate) fn journal(request: CommitRequest, sequence: i64) -> CommitRequest {
    journal_of(request, &[sequence])
}

pub(crate) fn journal_of(mut request: CommitRequest, sequences: &[i64]) -> CommitRequest {
    let state = serde_json::json!({"Text": "x"});
    let who = |number| ExecutionRef {
        number,
        parent: None,
        scheduled_after: None,
        activity_id: "a",
        node_id: "w:a",
        activity_type: "Elsa.WriteLine",
        activity_type_version: 1,
        activity_name: None,
    };
    let entry = NewEntry {
        at: 0,
        event_name: "Started",
        message: None,
        source: None,
        activity_state: Some(&state),
        payload: None,
    };
    let mut record = Record::default();
    for sequence in sequences {
        record.entry(who(sequence.unsigned_abs() + 1), entry).unwrap();
    }
    request.effects.record = record.into_row(sequences[0]).unwrap();
    request
}

/// Makes a burst yield: it continues under a row of work.
pub(crate) fn yielding(mut request: CommitRequest) -> CommitRequest {
    (request.effects.status, request.effects.sub_status) = (0, 1);
    request.effects.continues = true;
    request
}

/// The idempotency key of a request with an empty body.
pub(crate) fn idempotency_key(route: &'static str, key: &str) -> IdempotencyKey {
    IdempotencyKey {
        route,
        key: key.to_owned(),
        fingerprint: vec![0; 32],
    }
}

/// An event without a target, under a key of its own.
pub(crate) fn event(key: &str, hash: u8) -> NewEvent {
    NewEvent {
        tenant: TenantId::default(),
        request: idempotency_key("event", key),
        hash: StimulusHash([hash; 32]),
        name: "Elsa.Event".to_owned(),
        payload: None,
        correlation_id: None,
        instance: None,
        activity_execution_id: None,
        lifetime: Duration::from_secs(60),
        may_keep: true,
        link: None,
        trace: None,
    }
}

/// Sends a request, and does not wait for what is said of it.
pub(crate) fn spawn(writer: &Arc<Writer>, request: CommitRequest) -> JoinHandle<CommitOutcome> {
    let writer = Arc::clone(writer);
    tokio::spawn(async move { writer.write(request).await })
}

/// Keeps the fast lane of a writer in flight until the session that comes back is rolled back: what is sent meanwhile
/// travels together, in the order in which it was sent.
pub(crate) async fn occupy(fixture: &Fixture, writer: &Arc<Writer>) -> (Session, JoinHandle<CommitOutcome>) {
    assert_outcome!(
        writer.write(waiting(burst("occupied", None), "b", 7)).await,
        CommitOutcome::Committed(_)
    );
    let blocker = fixture.stop_at("occupied").await;
    let in_flight = spawn(writer, waiting(burst("occupied", Some(1)), "b2", 7));
    fixture.a_session_waits().await;
    (blocker, in_flight)
}

/// Counts the sessions that hold an advisory lock of the database.
fn holders(lock: LockKey) -> String {
    format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND ((classid::bigint << 32) | objid::bigint) = {}",
        lock.0
    )
}

pub(crate) async fn execute(session: &Session, sql: &str) {
    session.client.batch_execute(sql).await.unwrap();
}

#[macro_export]
#[doc(hidden)]
macro_rules! assert_outcome {
    ($outcome:expr, $pattern:pat) => {{
        let outcome = $outcome;
        assert!(matches!(outcome, $pattern), "{outcome:?}");
    }};
}

impl CommitGuard for Arc<()> {}

impl Acceptor {
    /// With a task that accepts.
    pub(crate) fn start(
        connector: &Connector,
        pool: &Pool,
        incarnation: Incarnation,
        flushed: bool,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (acceptor, task) = Self::new(connector, pool, incarnation, flushed);
        (acceptor, AbortOnDropHandle::new(tokio::spawn(task)))
    }

    /// Accepts a start whose values need no check.
    pub(crate) async fn accept(&self, start: NewStart) -> Result<AcceptedStart> {
        match self.try_accept(start).await? {
            Attempt::Accepted(accepted) => Ok(accepted),
            Attempt::Moved { to, .. } => Err(Error::internal(format!("the start is not checked for {to}"))),
        }
    }
}
