//! The state of an instance stands in its row; what was written while it stood beside it goes along.

use super::MIGRATIONS;
use crate::test_database::TestDatabase;

/// A small state, one that is stored apart, and one of another tenant's instance under the same id.
const OLD: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version)
        SELECT t, i, 'd', 'd1', 1, 0, 2, 3 FROM (VALUES ('', 'small'), ('', 'large'), ('other', 'small')) v(t, i);
    INSERT INTO instance_state
        SELECT tenant_id, id, CASE id WHEN 'large' THEN (SELECT string_agg(sha256(n::text::bytea), '')
                                                         FROM generate_series(1, 4000) n)
                              ELSE convert_to('{\"of\": \"' || tenant_id || '\"}', 'UTF8') END
        FROM instance;
    CREATE TABLE shown_before AS SELECT i.tenant_id, i.id, i.version, s.state
                                 FROM instance i JOIN instance_state s USING (tenant_id, id)";

#[tokio::test]
async fn what_stood_beside_the_row_is_in_it() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let schema = "CREATE SCHEMA old; SET search_path = old";
    client.batch_execute(schema).await.unwrap();
    let (before, since) = MIGRATIONS.split_at(12);
    for migration in before {
        client.batch_execute(migration).await.unwrap();
    }
    client.batch_execute(OLD).await.unwrap();
    let moved = format!("BEGIN; {} COMMIT", since[0]);
    client.batch_execute(&moved).await.unwrap();
    let same =
        "SELECT count(*), max(length(state)) FROM shown_before JOIN instance USING (tenant_id, id, version, state)";
    let row = client.query_one(same, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (3, 4000 * 32));
}
