//! Sequences that have begun again below the ids of the rows, as after an upgrade of the server by logical replication: `check`
//! reports them, and a migration raises them.

use crate::db::migrate;
use crate::store::check;
use crate::testing::store::Fixture;

/// Rows with ids that no sequence has reached.
const ROWS: &str = "
    INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
        VALUES ('', 700, 'i', 1, '{}'), ('', -900, 'i', 3, '{}');
    INSERT INTO bookmark (tenant_id, instance_id, id, number, activity_id, node_id, activity_execution_id, name, hash, payload,
                          publishable) VALUES ('', 'i', 'b', 400, 'a', 'w:a', 'e', 'Elsa.Event', sha256(''), '{}', true);
    INSERT INTO fan_out (tenant_id, id, hash, name, expires_at, began_at, cut, finished_at) OVERRIDING SYSTEM VALUE
        VALUES ('', 50, sha256('f'), 'Elsa.Event', now(), now(), 600, now());
    INSERT INTO inbox (tenant_id, id, hash, name, expires_at) OVERRIDING SYSTEM VALUE
        VALUES ('', 60, sha256('x'), 'Elsa.Event', now() + interval '1 hour');
    INSERT INTO dead_letter (tenant_id, id, instance_id, kind, reason, work_id, failures, crashes) OVERRIDING SYSTEM VALUE
        VALUES ('', 70, 'd', 0, '', 1, 0, 0);
    INSERT INTO webhook_sink (tenant_id, number, id, url, event_types, definitions, secret, retry_for) OVERRIDING SYSTEM VALUE
        VALUES ('', 80, 's', 'http://sink.example', '{}', '{}', 'whsec_', '1 day');
    INSERT INTO audit (tenant_id, id, action, outcome) OVERRIDING SYSTEM VALUE VALUES ('', 90, 0, 6);
    INSERT INTO node (incarnation, node_id, tolerance) VALUES (30, 'n', '5 s')";

const INSTANCE: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
    VALUES ('', 'i', 'd', 'v', 1, 0, 2, 1, '{}')";

/// More than any id that was counted up from one; the time in microseconds.
const NEVER_DRAWN: i64 = 1_700_000_000_000_000;

/// All sequences of the schema, with the last number that was drawn; 0: none.
async fn drawn(fixture: &Fixture) -> Vec<(String, i64)> {
    let all = "SELECT sequencename::text, coalesce(last_value, 0) FROM pg_sequences
               WHERE schemaname = current_schema() ORDER BY 1";
    let rows = fixture.admin.client.query(all, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn behind(fixture: &Fixture) -> Vec<(i64, String)> {
    let broken = check::check(&fixture.admin.client).await.unwrap();
    let found = broken
        .into_iter()
        .filter(|broken| broken.invariant == "sequence-behind");
    found.map(|broken| (broken.count, broken.sample.unwrap())).collect()
}

#[tokio::test]
async fn sequences_behind_their_rows_are_reported_and_raised() {
    let fixture = Fixture::new().await;
    fixture.execute(INSTANCE).await;
    fixture.execute(ROWS).await;
    let names: Vec<String> = drawn(&fixture).await.into_iter().map(|(name, _)| name).collect();
    let count = i64::try_from(names.len()).unwrap();
    let first = "audit_id_seq is behind 90".to_owned();
    assert_eq!(behind(&fixture).await, [(count, first)], "each sequence is known");
    assert!(migrate::run(&fixture.base).await.unwrap().is_empty());
    let raised = drawn(&fixture).await;
    for (name, last) in &raised {
        match name.as_str() {
            "bookmark_number" => assert_eq!(*last, 600),
            "incarnation" => assert_eq!(*last, 30),
            "webhook_sink_number_seq" => assert_eq!(*last, 80),
            // What was drawn before and deleted is not drawn again, either.
            _ => assert!(*last > NEVER_DRAWN, "{name} is at {last}"),
        }
    }
    assert_eq!(behind(&fixture).await, []);
    migrate::run(&fixture.base).await.unwrap();
    assert_eq!(drawn(&fixture).await, raised, "nothing is left to do");
}

/// Each on its own: the others do not show it.
#[tokio::test]
async fn one_sequence_that_began_again_is_raised_and_no_other_lowered() {
    let fixture = Fixture::new().await;
    fixture.execute(INSTANCE).await;
    fixture.execute(ROWS).await;
    let ahead = "SELECT setval(format('%I', sequencename)::regclass, max_value / 2) FROM pg_sequences
                 WHERE schemaname = current_schema()";
    for (name, _) in drawn(&fixture).await {
        fixture.execute(ahead).await;
        let before = drawn(&fixture).await;
        assert_eq!(behind(&fixture).await, []);
        fixture.execute(&format!("ALTER SEQUENCE {name} RESTART")).await;
        assert_eq!(behind(&fixture).await.len(), 1, "{name}");
        migrate::run(&fixture.base).await.unwrap();
        for ((other, last), (_, was)) in drawn(&fixture).await.into_iter().zip(before) {
            assert_eq!(last == was, other != name, "{name}: {other} is at {last}");
            assert!(last > 0, "{name}");
        }
        assert_eq!(behind(&fixture).await, [], "{name}");
    }
}

/// An idle cluster has no row of work, whose ids are in idempotency keys all the same.
#[tokio::test]
async fn sequences_of_emptied_tables_are_raised_where_no_node_has_run() {
    let fixture = Fixture::new().await;
    assert!(drawn(&fixture).await.iter().all(|(_, last)| *last == 0), "a new schema");
    fixture.execute(INSTANCE).await;
    migrate::run(&fixture.base).await.unwrap();
    for (name, last) in drawn(&fixture).await {
        assert_eq!(last > NEVER_DRAWN, name.ends_with("_id_seq"), "{name} is at {last}");
    }
}

#[tokio::test]
async fn sequences_of_a_running_cluster_stay() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    fixture.execute(INSTANCE).await;
    fixture.claimed_work("i", writer.incarnation).await;
    let before = drawn(&fixture).await;
    migrate::run(&fixture.base).await.unwrap();
    assert_eq!(drawn(&fixture).await, before);
    assert_eq!(
        fixture
            .count("SELECT raise_sequence('incarnation', 0)::int::bigint")
            .await,
        0
    );
    assert_eq!(drawn(&fixture).await, before, "it is not lowered");
}

#[tokio::test]
async fn a_sequence_is_raised_after_those_that_draw_from_it() {
    let fixture = Fixture::new().await;
    let drawing = fixture
        .begin("SELECT nextval('bookmark_number') FROM generate_series(1, 10)")
        .await;
    let other = fixture.session().await;
    let raise = tokio::spawn(async move {
        let raise = "SELECT raise_sequence('bookmark_number', 15)";
        other.client.query_one(raise, &[]).await.unwrap().get::<_, bool>(0)
    });
    fixture.a_session_waits().await;
    let more = "SELECT nextval('bookmark_number') FROM generate_series(1, 10); COMMIT";
    drawing.client.batch_execute(more).await.unwrap();
    assert!(!raise.await.unwrap());
    assert_eq!(fixture.count("SELECT nextval('bookmark_number')").await, 21);
}
