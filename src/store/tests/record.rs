//! Records: what was written before there were any is shown as it was, and a page of a journal holds what belongs there.

use super::MIGRATIONS;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::store::commit::CommitOutcome;
use crate::store::commit::tests::fixture::{self, Fixture};
use crate::store::record as store_record;
use crate::test_database::TestDatabase;

/// Two commits of one instance, of two days, and one of another tenant's instance under the same id.
const OLD: &str = r#"
    SELECT ensure_partitions(3);
    INSERT INTO journal
        SELECT t, 'i', s, now() + (s / 3) * interval '1 day', 1 + s / 3, now() - interval '1 second' + s * interval '1 millisecond',
               'Started', 'e' || s, nullif('e' || (s - 1), 'e0'), 'a' || s, 'Elsa.WriteLine', 1, nullif('n' || s, 'n2'), 'w:a' || s,
               nullif('m' || s, 'm1'), NULL, CASE WHEN s <> 4 THEN '{"Text": "line \"1\""}'::json END,
               CASE WHEN s = 4 THEN '[1]'::json END
        FROM generate_series(1, 5) s, unnest(ARRAY['', 'other']) t;
    INSERT INTO activity_execution
        SELECT '', 'i', 'e' || s, 1 + s / 3, now() + (s / 3) * interval '1 day', NULL, 'a' || s, 'w:a' || s, 'Elsa.WriteLine', 1, NULL,
               'Completed', CASE WHEN s > 1 THEN now() - interval '1 second' END, now(), '{"a": 1}', NULL, NULL, '{"p": 2}', NULL,
               s = 2, s
        FROM generate_series(1, 4) s;
    CREATE TABLE shown_before AS SELECT j::text AS row FROM journal j UNION ALL SELECT e::text FROM activity_execution e;
"#;

#[tokio::test]
async fn what_was_written_before_is_shown_as_it_was() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    client
        .batch_execute("CREATE SCHEMA old; SET search_path = old")
        .await
        .unwrap();
    let (before, since) = MIGRATIONS.split_at(7);
    for migration in before {
        client.batch_execute(migration).await.unwrap();
    }
    client.batch_execute(OLD).await.unwrap();
    client
        .batch_execute(&format!("BEGIN; {} COMMIT", since[0]))
        .await
        .unwrap();
    let shown = "CREATE TEMP TABLE shown_now AS SELECT j::text AS row FROM journal j
                 UNION ALL SELECT e::text FROM activity_execution e";
    client.batch_execute(shown).await.unwrap();
    for (more, less) in [("shown_before", "shown_now"), ("shown_now", "shown_before")] {
        let query = format!("SELECT row FROM {more} EXCEPT ALL SELECT row FROM {less}");
        let rows = client.query(&query, &[]).await.unwrap();
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, Vec::<String>::new(), "in {more} and not in {less}");
    }
    let count = client.query_one("SELECT count(*) FROM record", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 4);
}

#[tokio::test]
async fn a_page_of_a_journal_begins_and_ends_within_records() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for version in 0..4 {
        let request = fixture::burst("i", (version > 0).then_some(version));
        let entries: Vec<i64> = (version * 3..version * 3 + 3).collect();
        let outcome = writer.write(fixture::journal_of(request, &entries)).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
    let pool = Pool::new(&fixture.base, 2).unwrap();
    let (tenant, id) = (TenantId::default(), InstanceId::new("i"));
    for (limit, offset) in [(100, 0), (1, 0), (1, 2), (2, 2), (5, 4), (3, 3), (12, 11), (3, 9)] {
        let (total, page) = store_record::list_journal(&pool, &tenant, &id, limit, offset)
            .await
            .unwrap();
        let numbers: Vec<i64> = page.iter().map(|entry| entry.sequence).collect();
        let expected: Vec<i64> = (offset..(offset + limit).min(12)).collect();
        assert_eq!((total, numbers), (12, expected), "{limit} from {offset}");
        for entry in page {
            assert_eq!(entry.activity_execution_id, format!("e{}", entry.sequence));
            assert_eq!(entry.activity_state, Some(serde_json::json!({"Text": "x"})));
        }
    }
    let (_, beyond) = store_record::list_journal(&pool, &tenant, &id, 10, 12).await.unwrap();
    assert!(beyond.is_empty());
}
