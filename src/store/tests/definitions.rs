//! One save or publish of a definition at a time; a start runs what is published when it is accepted.

use serde_json::json;

use crate::id::{DefinitionId, InstanceId, StimulusHash, TenantId};
use crate::store::definition::delete::{DeleteGuard, delete};
use crate::store::definition::retract::retract;
use crate::store::definition::{self, NewDefinition, PublishOutcome, StartSources, TriggerRow};
use crate::store::event;
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::store::stimulus_key::StimulusKey;
use crate::testing::store::{Fixture, event, execute, idempotency_key};

pub(super) fn definition(name: &str) -> NewDefinition {
    NewDefinition {
        tenant: TenantId::default(),
        version_id: None,
        definition_id: DefinitionId::new("d"),
        version: 0,
        first_version: 1,
        name: Some(name.to_owned()),
        description: None,
        is_readonly: false,
        is_system: false,
        activity_type: None,
        references: Vec::new(),
        adds_version: false,
        guards_readonly: false,
        body: json!({ "name": name }).into(),
    }
}

pub(super) fn start(instance: &str, key: Option<&str>) -> NewStart {
    NewStart {
        tenant: TenantId::default(),
        instance: InstanceId::new(instance),
        definition_id: DefinitionId::new("d"),
        version_id: None,
        checked_version: None,
        trigger_node_id: None,
        body: json!({}),
        request: key.map(|key| idempotency_key("start", key)),
        route: None,
        has_chosen_id: false,
        claimed: true,
        origin: None,
    }
}

pub(super) fn trigger(hash: u8) -> TriggerRow {
    TriggerRow {
        activity_id: "a".to_owned(),
        hash: StimulusHash([hash; 32]),
        name: "Elsa.Event".to_owned(),
        payload: json!({}),
        pattern_bytes: 0,
        outline: None,
    }
}

#[tokio::test]
async fn saves_at_once_make_versions_without_gaps_and_one_that_is_published() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let pool = crate::db::Pool::new(&fixture.base, 8).unwrap();
    let mut tasks = Vec::new();
    for n in 0..8 {
        let pool = pool.clone();
        tasks.push(tokio::spawn(async move {
            let saved =
                definition::save(&pool, class, &definition(&format!("n{n}")), Some(StartSources::by(&[]))).await;
            saved.unwrap().row.version
        }));
    }
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(task.await.unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        fixture.count("SELECT count(*) FROM definition WHERE is_latest").await,
        1
    );
    assert_eq!(
        fixture
            .count("SELECT max(version)::bigint FROM definition WHERE is_published")
            .await,
        8
    );
    assert_eq!(
        fixture.count("SELECT revision FROM revision").await,
        8,
        "one for each publish"
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_draft_that_changed_since_it_was_validated_is_not_published() {
    let fixture = Fixture::new().await;
    let (class, tenant) = (fixture.base.schema().lock_class(), TenantId::default());
    let pool = crate::db::Pool::new(&fixture.base, 8).unwrap();
    let validated = definition::save(&pool, class, &definition("one"), None)
        .await
        .unwrap()
        .row;
    assert_eq!(fixture.count("SELECT revision FROM revision").await, 0);
    definition::save(&pool, class, &definition("two"), None).await.unwrap();
    let outcome = definition::publish(&pool, class, &tenant, &validated, StartSources::by(&[]))
        .await
        .unwrap();
    assert_eq!(outcome, PublishOutcome::Changed);
    let wanted = definition::VersionSelector {
        latest: true,
        ..definition::VersionSelector::default()
    };
    let validated = definition::find(&pool, &tenant, &wanted).await.unwrap().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (pool, tenant, validated) = (pool.clone(), tenant.clone(), validated.clone());
        tasks.push(tokio::spawn(async move {
            definition::publish(&pool, class, &tenant, &validated, StartSources::by(&[trigger(1)]))
                .await
                .unwrap()
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), PublishOutcome::Published);
    }
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM definition WHERE is_published")
            .await,
        1
    );
    assert_eq!(fixture.count("SELECT revision FROM revision").await, 4);
    // A published body never changes: the next save makes a version, whose triggers replace the old ones.
    let next = definition::save(
        &pool,
        class,
        &definition("three"),
        Some(StartSources::by(&[trigger(2)])),
    )
    .await
    .unwrap();
    assert_eq!(next.row.version, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_refusal_keeps_its_connection() {
    let fixture = Fixture::new().await;
    let (class, tenant) = (fixture.base.schema().lock_class(), TenantId::default());
    let pool = crate::db::Pool::new(&fixture.base, 1).unwrap();
    let readonly = NewDefinition {
        is_readonly: true,
        guards_readonly: true,
        ..definition("n")
    };
    let id = &readonly.definition_id;
    let saved = definition::save(&pool, class, &readonly, Some(StartSources::by(&[])))
        .await
        .unwrap();
    let session = async || -> i32 { pool.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0) };
    let before = session().await;
    let other = NewDefinition {
        guards_readonly: true,
        ..definition("other")
    };
    let row = &saved.row.version_id;
    let refusals = [
        definition::save(&pool, class, &other, None).await.err(),
        definition::composition::probe(&pool, class, &other).await.err(),
        retract(&pool, class, &tenant, id, true).await.err(),
        delete(&pool, class, &tenant, id, None, DeleteGuard::ReadonlyOrSystem)
            .await
            .err(),
        delete(&pool, class, &tenant, id, Some(row), DeleteGuard::ReadonlyOrSystem)
            .await
            .err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap().code(), "definition-readonly");
    }
    assert_eq!(session().await, before);
    // The transaction has ended, too: it would hold the lock of the definition.
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    let held: i64 = pool.query_one(held, &[]).await.unwrap().get(0);
    assert_eq!(held, 0);
    // Only what belongs to the system is refused by this one.
    let deleted = delete(&pool, class, &tenant, id, Some(row), DeleteGuard::System).await;
    assert_eq!(deleted.unwrap().len(), 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_equal_definition_is_published_again_only_with_other_start_sources() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    for (hash, is_unchanged, revision) in [(1, false, 1), (1, true, 1), (2, false, 2), (2, true, 2)] {
        let triggers = [trigger(hash)];
        let saved = definition::save(&pool, class, &definition("n"), Some(StartSources::by(&triggers))).await;
        let saved = saved.unwrap();
        assert_eq!((saved.is_unchanged, saved.row.version), (is_unchanged, 1));
        assert!(saved.row.is_published);
        assert_eq!(fixture.count("SELECT revision FROM revision").await, revision);
        let triggers = format!("SELECT count(*) FROM trigger WHERE hash = decode(repeat('0{hash}', 32), 'hex')");
        assert_eq!(fixture.count(&triggers).await, 1);
        assert_eq!(fixture.count("SELECT count(*) FROM trigger").await, 1);
    }
    let draft = definition::save(&pool, class, &definition("n"), None).await.unwrap();
    assert!(draft.is_unchanged, "a draft equal to the published version is none");
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_accepted_after_a_publish_runs_what_was_published() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let writer = fixture.writer().await;
    let (acceptor, _task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, false);
    for version in 1..=3 {
        definition::save(&writer.pool, class, &definition("n"), Some(StartSources::by(&[])))
            .await
            .unwrap();
        // A newer draft does not matter.
        definition::save(&writer.pool, class, &definition("draft"), None)
            .await
            .unwrap();
        let accepted = acceptor.accept(start(&format!("i{version}"), None)).await.unwrap();
        let AcceptedStart::New { definition, .. } = accepted else {
            panic!("{accepted:?}")
        };
        // Each publish took the draft's number.
        assert_eq!(
            i64::from(definition.version),
            fixture
                .count("SELECT version::bigint FROM definition WHERE is_published")
                .await
        );
        assert_eq!(definition.version, version);
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_published_beside_its_trigger_finds_it_or_is_found() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    // The trigger comes first: its transaction stops after it has locked its keys.
    let blocker = fixture.begin("SELECT 1 FROM revision FOR UPDATE").await;
    let publishes = tokio::spawn({
        let pool = pool.clone();
        async move { definition::save(&pool, class, &definition("n"), Some(StartSources::by(&[trigger(9)]))).await }
    });
    fixture.a_session_waits().await;
    let happens = tokio::spawn({
        let pool = pool.clone();
        async move { event::publish(&pool, class, &event("k", 9)).await }
    });
    fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    publishes.await.unwrap().unwrap();
    assert_eq!(happens.await.unwrap().unwrap().started, 1);

    // The event comes first: it matched nothing and has not committed its row in the inbox.
    let publisher = fixture.session().await;
    let hash = StimulusHash([8; 32]);
    execute(
        &publisher,
        &format!(
            "BEGIN; SELECT pg_advisory_xact_lock_shared({class}, {}); INSERT INTO inbox (tenant_id, hash, name, expires_at)
             VALUES ('', decode(repeat('08', 32), 'hex'), 'Elsa.Event', now() + '1 h')",
            StimulusKey::Trigger.number(&hash)
        ),
    )
    .await;
    let publishes = tokio::spawn({
        let pool = pool.clone();
        async move { definition::save(&pool, class, &definition("n"), Some(StartSources::by(&[trigger(8)]))).await }
    });
    fixture.a_session_waits().await;
    publisher.client.batch_execute("COMMIT").await.unwrap();
    publishes.await.unwrap().unwrap();
    fixture.match_inbox(&pool).await;
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 0").await, 2);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_whose_key_was_used_starts_nothing_again() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let pool = crate::db::Pool::new(&fixture.base, 4).unwrap();
    definition::save(&pool, class, &definition("n"), Some(StartSources::by(&[trigger(9)])))
        .await
        .unwrap();
    assert_eq!(event::publish(&pool, class, &event("k", 9)).await.unwrap().started, 1);
    // The start was run meanwhile: its row does not block another one.
    fixture.execute("DELETE FROM work").await;
    let again = event::publish(&pool, class, &event("k", 9)).await.unwrap();
    assert_eq!((again.resumed, again.started, again.kept), (0, 0, false));
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}
