//! Activation strategies: exact against committed instances and against competing starts.

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::definitions::{definition, start};
use crate::Result;
use crate::id::{ClaimNo, InstanceId, StimulusHash, TenantId};
use crate::store::commit::{Claim, CommitRequest, WaitingBookmark};
use crate::store::definition::{self as definitions, StartSources, TriggerRow};
use crate::store::event::{self, NewEvent};
use crate::store::node::removal::RemovalCause;
use crate::store::start::{AcceptedStart, Acceptor, NewStart, StartForm};
use crate::store::{claim, dead_letter};
use crate::testing::store::{self, Fixture, Writer, burst, idempotency_key, waiting};

pub(super) struct Environment {
    pub(super) fixture: Fixture,
    pub(super) writer: Writer,
    pub(super) acceptor: Acceptor,
    _task: AbortOnDropHandle<()>,
}

impl Environment {
    pub(super) async fn new(strategy: &str) -> Self {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        publish(&fixture, &writer, strategy, &[]).await;
        let (acceptor, task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, false);
        Self {
            fixture,
            writer,
            acceptor,
            _task: task,
        }
    }

    pub(super) async fn start(&self, instance: &str, correlation: Option<&str>) -> Result<Claim> {
        accept(&self.acceptor, correlated(start(instance, None), correlation)).await
    }

    /// Commits the first burst of a start.
    pub(super) async fn runs(&self, instance: &str, claim: Claim, change: impl FnOnce(CommitRequest) -> CommitRequest) {
        let mut request = change(burst(instance, None));
        request.definition = published(&self.fixture).await;
        request.claims.push(claim);
        self.writer.commits(request).await;
    }

    pub(super) async fn held(&self) -> i64 {
        self.fixture.count("SELECT count(*) FROM activation").await
    }
}

pub(super) async fn accept(acceptor: &Acceptor, start: NewStart) -> Result<Claim> {
    match acceptor.accept(start).await? {
        AcceptedStart::New { work, .. } => Ok(Claim::Work(work, ClaimNo(1))),
        AcceptedStart::Existing { instance } => panic!("{instance} was there before"),
    }
}

pub(super) async fn published(fixture: &Fixture) -> crate::store::commit::DefinitionRef {
    let row = fixture
        .admin
        .client
        .query_one("SELECT version_id, version FROM definition WHERE is_published", &[])
        .await
        .unwrap();
    crate::store::commit::DefinitionRef {
        definition_id: "d".into(),
        version_id: row.get::<_, String>(0).into(),
        version: row.get(1),
    }
}

pub(super) async fn publish(fixture: &Fixture, writer: &Writer, strategy: &str, triggers: &[TriggerRow]) {
    let mut new = definition("n");
    let strategy = format!("Elsa.Workflows.{strategy}Strategy, Elsa");
    new.body = json!({"options": {"activationStrategyType": strategy}}).into();
    let class = fixture.base.schema().lock_class();
    definitions::save(&writer.pool, class, &new, Some(StartSources::by(triggers)))
        .await
        .unwrap();
}

pub(super) fn correlated(mut start: NewStart, correlation: Option<&str>) -> NewStart {
    if let Some(correlation) = correlation {
        start.body = json!({ "correlationId": correlation });
    }
    start
}

pub(super) fn suspended(mut request: CommitRequest) -> CommitRequest {
    request = waiting(request, "b", 7);
    request
}

/// The bookmark of [`suspended`], in a burst that keeps it and changes the correlation id.
pub(super) fn stays() -> WaitingBookmark {
    WaitingBookmark {
        bookmark: "b".to_owned(),
        hash: StimulusHash([7; 32]),
    }
}

pub(super) fn correlating(correlation: &'static str) -> impl FnOnce(CommitRequest) -> CommitRequest {
    move |request| {
        let mut request = suspended(request);
        request.effects.correlation_id = Some(correlation.to_owned());
        request
    }
}

#[track_caller]
pub(super) fn refused(answer: Result<Claim>) {
    assert_eq!(answer.unwrap_err().code(), "cannot-start");
}

#[tokio::test]
async fn a_singleton_starts_again_only_when_the_first_has_ended() {
    let env = Environment::new("Singleton").await;
    let claim = env.start("one", None).await.unwrap();
    refused(env.start("two", None).await);
    env.runs("one", claim, suspended).await;
    refused(env.start("two", Some("c")).await);
    env.fixture.is_sound().await;
    let mut end = burst("one", Some(1));
    end.effects.bookmarks_burned.push("b".into());
    env.writer.commits(end).await;
    assert_eq!(env.held().await, 0);
    // One burst from start to end.
    let claim = env.start("two", None).await.unwrap();
    env.runs("two", claim, |request| request).await;
    assert_eq!(env.held().await, 0);
    env.fixture.is_sound().await;
}

/// Two open transactions: the second start waits for the outcome of the first one.
async fn competing_starts(end: &str) -> (Environment, Result<Claim>) {
    let env = Environment::new("Singleton").await;
    let competitor = env.fixture.session().await;
    let accept = StartForm::Checked
        .text(false, false)
        .replace(
            "unnest($2::start_request[])",
            "(SELECT (row(0, '', 'competitor', 'd', '{}', NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)::start_request).*)",
        )
        .replace("$1::bigint", "NULL::bigint");
    competitor.client.batch_execute("BEGIN").await.unwrap();
    competitor.client.batch_execute(&accept).await.unwrap();
    let second = tokio::spawn({
        let acceptor = env.acceptor.clone();
        async move {
            let start = NewStart {
                request: Some(idempotency_key("start", "k")),
                ..start("second", None)
            };
            self::accept(&acceptor, start).await
        }
    });
    env.fixture.a_session_waits().await;
    competitor.client.batch_execute(end).await.unwrap();
    (env, second.await.unwrap())
}

#[tokio::test]
async fn of_two_starts_in_the_same_moment_one_is_refused_and_writes_nothing() {
    let (env, second) = competing_starts("COMMIT").await;
    refused(second);
    assert_eq!(env.fixture.count("SELECT count(*) FROM idempotency_key").await, 0);
    assert_eq!(env.fixture.count("SELECT count(*) FROM work").await, 1);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_that_loses_its_key_takes_no_other_start_of_its_batch_along() {
    let env = Environment::new("Singleton").await;
    let other = crate::store::definition::NewDefinition {
        definition_id: "other".into(),
        ..definition("other")
    };
    let class = env.fixture.base.schema().lock_class();
    definitions::save(&env.writer.pool, class, &other, Some(StartSources::by(&[])))
        .await
        .unwrap();
    // The lane has a batch in flight, so that all that follows is in one.
    let gate = env.fixture.session().await;
    let shut = "BEGIN; LOCK TABLE idempotency_key IN SHARE MODE";
    gate.client.batch_execute(shut).await.unwrap();
    let accept_it = |instance: String, definition: &'static str| {
        let acceptor = env.acceptor.clone();
        tokio::spawn(async move {
            let request = idempotency_key("start", &instance);
            let start = NewStart {
                definition_id: definition.into(),
                request: Some(request),
                ..start(&instance, None)
            };
            accept(&acceptor, start).await
        })
    };
    let first = accept_it("first".to_owned(), "other");
    env.fixture.a_session_waits().await;
    let mut starts = Vec::new();
    for n in 0..60 {
        starts.push(accept_it(format!("i{n}"), if n % 30 == 7 { "d" } else { "other" }));
        tokio::task::yield_now().await;
    }
    gate.client.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap();
    let mut lost = 0;
    for start in starts {
        match start.await.unwrap() {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), "cannot-start");
                lost += 1;
            }
        }
    }
    assert_eq!(lost, 1, "of the two singletons");
    // Each statement that accepted something is one transaction.
    let statements = "SELECT count(DISTINCT xmin::text) FROM work WHERE instance_id <> 'first'";
    let statements = env.fixture.count(statements).await;
    assert!(statements <= 2, "{statements} statements for one batch");
    assert_eq!(env.fixture.count("SELECT count(*) FROM idempotency_key").await, 60);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_whose_competitor_was_rolled_back_is_accepted() {
    let (env, second) = competing_starts("ROLLBACK").await;
    second.unwrap();
    assert_eq!(env.fixture.count("SELECT count(*) FROM idempotency_key").await, 1);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn many_starts_in_one_batch_come_to_one_each() {
    let env = Environment::new("CorrelatedSingleton").await;
    let starts = (0..60).map(|n| {
        let acceptor = env.acceptor.clone();
        async move {
            let correlation = ["", "a", "b"][n % 3];
            let start = correlated(start(&format!("i{n}"), None), Some(correlation));
            accept(&acceptor, start).await
        }
    });
    let answers = futures_util::future::join_all(starts).await;
    let (accepted, turned_away): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), turned_away.len()), (3, 57));
    turned_away.into_iter().for_each(refused);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn the_first_answer_of_an_idempotency_key_outlives_what_it_started() {
    let env = Environment::new("Singleton").await;
    assert!(matches!(
        env.acceptor.accept(start("one", Some("k"))).await.unwrap(),
        AcceptedStart::New { .. }
    ));
    let again = env.acceptor.accept(start("two", Some("k"))).await.unwrap();
    assert!(matches!(again, AcceptedStart::Existing { instance } if instance.as_str() == "one"));
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_correlation_counts_the_instances_that_have_it_now() {
    let env = Environment::new("Correlation").await;
    // Of another definition, started without any strategy, and correlated later.
    env.writer.commits(suspended(burst("other", None))).await;
    let one = env.start("one", Some("c")).await.unwrap();
    env.runs("one", one, |request| request).await;
    let mut later = burst("other", Some(1));
    (later.effects.status, later.effects.sub_status) = (0, 2);
    later.effects.correlation_id = Some("c".to_owned());
    later.effects.rematched = vec![stays()];
    env.writer.commits(later).await;
    refused(env.start("two", Some("c")).await);
    // Instances without a correlation id are not compared.
    env.start("free", None).await.unwrap();
    env.start("free too", None).await.unwrap();
    // An instance that changes its correlation id releases the former one.
    let claim = env.start("three", Some("x")).await.unwrap();
    refused(env.start("four", Some("x")).await);
    env.runs("three", claim, correlating("y")).await;
    refused(env.start("five", Some("y")).await);
    env.start("four", Some("x")).await.unwrap();
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_correlated_singleton_counts_its_own_definition_only() {
    let env = Environment::new("CorrelatedSingleton").await;
    let mut other = correlating("c")(burst("other", None));
    other.definition.definition_id = "another".into();
    env.writer.commits(other).await;
    env.start("one", Some("c")).await.unwrap();
    refused(env.start("two", Some("c")).await);
    // An instance of its own definition, from before it had a strategy.
    let plain = correlating("p")(burst("plain", None));
    env.writer.commits(plain).await;
    refused(env.start("three", Some("p")).await);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn what_ran_before_a_definition_became_a_singleton_counts() {
    let env = Environment::new("AllowAlways").await;
    let pending = env.start("pending", None).await.unwrap();
    let running = env.start("running", None).await.unwrap();
    env.runs("running", running, suspended).await;
    publish(&env.fixture, &env.writer, "Singleton", &[]).await;
    refused(env.start("late", None).await);
    let mut end = burst("running", Some(1));
    end.effects.bookmarks_burned.push("b".into());
    env.writer.commits(end).await;
    refused(env.start("late", None).await);
    env.runs("pending", pending, |request| request).await;
    assert_eq!(env.held().await, 0);
    // A row of an instance that ended during the publish refuses no start.
    let stale =
        "INSERT INTO activation SELECT '', activation_key(1::smallint, 'd', NULL), 'running', false, 1, 'd', NULL";
    env.fixture.execute(stale).await;
    env.start("late", None).await.unwrap();
    env.fixture.is_sound().await;
}

pub(super) fn event(key: &str) -> NewEvent {
    NewEvent {
        payload: Some(Value::Null),
        ..store::event(key, 9)
    }
}

#[tokio::test]
async fn events_start_as_the_strategy_allows_and_refused_ones_are_not_kept() {
    let env = Environment::new("AllowAlways").await;
    let (pool, class) = (env.writer.pool.clone(), env.fixture.base.schema().lock_class());
    for key in ["early", "later"] {
        assert!(event::publish(&pool, class, &event(key)).await.unwrap().kept);
    }
    let trigger = TriggerRow {
        activity_id: "a".to_owned(),
        hash: StimulusHash([9; 32]),
        name: "Elsa.Event".to_owned(),
        payload: json!({}),
        pattern_bytes: 0,
        outline: None,
    };
    let another = TriggerRow {
        activity_id: "z".to_owned(),
        ..trigger.clone()
    };
    publish(&env.fixture, &env.writer, "Singleton", &[trigger, another]).await;
    assert_eq!(env.fixture.match_inbox(&pool).await, 1);
    let count = async |table: &str| env.fixture.count(&format!("SELECT count(*) FROM {table}")).await;
    assert_eq!((count("work").await, count("inbox").await), (1, 0));
    let published = event::publish(&pool, class, &event("now")).await.unwrap();
    assert_eq!((published.started, published.kept), (0, false));
    assert_eq!(published.refused, ["d", "d"]);
    // The same event again changes nothing.
    assert!(
        event::publish(&pool, class, &event("now"))
            .await
            .unwrap()
            .refused
            .is_empty()
    );
    env.fixture.is_sound().await;
    env.fixture.execute("DELETE FROM work; DELETE FROM activation").await;
    let published = event::publish(&pool, class, &event("free")).await.unwrap();
    assert_eq!((published.started, published.refused.len()), (1, 1));
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_dead_lettered_start_releases_its_key_and_takes_it_again_when_replayed() {
    let env = Environment::new("Singleton").await;
    env.start("one", None).await.unwrap();
    let crashed = "UPDATE work SET crashes = 2";
    env.fixture.execute(crashed).await;
    env.fixture.remove(env.writer.incarnation, RemovalCause::Crashed).await;
    assert_eq!(env.held().await, 0);
    let heir = env.fixture.writer().await;
    let (acceptor, _task) = Acceptor::start(&heir.connector, &heir.pool, heir.incarnation, false);
    let two = accept(&acceptor, start("two", None)).await.unwrap();
    let tenant = TenantId::default();
    let dead_letter = heir.dead_letters().await[0].id;
    let error = dead_letter::replay(&heir.pool, &tenant, dead_letter).await.unwrap_err();
    assert_eq!(error.code(), "cannot-start");
    assert_eq!(heir.dead_letters().await.len(), 1);
    // The running start is discarded by its burst, which releases the key as well.
    claim::discard_work(&heir.pool, heir.incarnation, &tenant, &[two])
        .await
        .unwrap();
    assert_eq!(env.held().await, 0);
    let replayed = dead_letter::replay(&heir.pool, &tenant, dead_letter).await.unwrap();
    assert_eq!(replayed.instance, InstanceId::new("one"));
    refused(accept(&acceptor, start("three", None)).await);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_correlation_id_may_be_longer_than_an_index_entry() {
    let env = Environment::new("Correlation").await;
    let long: &'static str = String::leak("long".repeat(100_000));
    env.writer.commits(correlating(long)(burst("i", None))).await;
    refused(env.start("one", Some(long)).await);
    env.fixture.is_sound().await;
}

/// The cost of a start with a correlation id of many finished instances.
#[tokio::test]
async fn ended_instances_of_a_correlation_id_are_not_read() {
    let env = Environment::new("Correlation").await;
    let fill = "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                      version, correlation_id, finished_at, state)
                SELECT '', 'f' || n, 'd', 'd1', 1, 1, 3, 1, 'c', now(), '{}' FROM generate_series(1, 20000) n;
                ANALYZE instance";
    env.fixture.execute(fill).await;
    let client = &env.fixture.admin.client;
    client.batch_execute("BEGIN").await.unwrap();
    let asks = "SELECT activation_blocked('', 3::smallint, 'd', 'c'), activation_blocked('', 2::smallint, 'd', 'c')";
    let row = client.query_one(asks, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (false, false));
    let read = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint
                FROM pg_stat_xact_user_tables WHERE relname = 'instance'";
    let read: i64 = client.query_one(read, &[]).await.unwrap().get(0);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(read, 0, "instances were read");
}
