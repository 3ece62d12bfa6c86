//! Instances that hold something by their activation strategy, beside others.

use std::sync::Arc;

use crate::assert_outcome;
use crate::store::commit::{CommitOutcome, CommitRequest};
use crate::testing::store::{Fixture, Writer, burst, execute, journal, occupy, spawn};

/// Counts the statements that release what instances hold, also those that find nothing.
const COUNTS: &str = "
    CREATE SEQUENCE frees;
    CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''frees''); RETURN NULL; END';
    CREATE TRIGGER counts AFTER DELETE ON activation FOR EACH STATEMENT EXECUTE FUNCTION counts()";

const FREES: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM frees";

async fn holds(fixture: &Fixture, instance: &str) {
    let row = format!("INSERT INTO activation SELECT '', sha256('{instance}'), '{instance}', true, 1, 'strict', NULL");
    fixture.execute(&row).await;
}

/// A start that ends in its first burst.
async fn ends(fixture: &Fixture, writer: &Writer, instance: &str, strict: bool) -> CommitRequest {
    let mut request = journal(burst(instance, None), 1);
    request.claims = vec![fixture.claimed_work(instance, writer.incarnation).await];
    if strict {
        request.definition.definition_id = "strict".into();
    }
    request
}

#[tokio::test]
async fn instances_without_holders_stay_single_claim_beside_holders() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    fixture.execute(COUNTS).await;
    holds(&fixture, "lasting").await;
    for n in 0..5 {
        let request = ends(&fixture, &writer, &format!("plain{n}"), false).await;
        writer.commits(request).await;
    }
    assert_eq!(fixture.count(FREES).await, 0, "they were written in the slower form");
    holds(&fixture, "one").await;
    let request = ends(&fixture, &writer, "one", true).await;
    writer.commits(request).await;
    assert_eq!(fixture.count(FREES).await, 1);
    let left = "SELECT count(*) FROM activation WHERE instance_id = 'one'";
    assert_eq!(fixture.count(left).await, 0);
    // The next one of the same workflow is sent in a multi-claim batch at once, without others.
    holds(&fixture, "two").await;
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    let before = fixture.count(FREES).await;
    let mut sent = Vec::new();
    for (instance, strict) in [("a", false), ("two", true), ("b", false), ("c", false)] {
        let request = ends(&fixture, &writer, instance, strict).await;
        sent.push(spawn(&writer, request));
        tokio::task::yield_now().await;
    }
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    for burst in sent {
        assert_outcome!(burst.await.unwrap(), CommitOutcome::Committed(_));
    }
    // The occupying request has its own batch; the holder has the other one.
    let frees = fixture.count(FREES).await - before;
    assert!((1..=2).contains(&frees), "{frees}");
    assert_eq!(fixture.count("SELECT count(*) FROM activation").await, 1);
    let together = "SELECT count(DISTINCT xmin::text) FROM instance WHERE id IN ('a', 'b', 'c')";
    assert_eq!(
        fixture.count(together).await,
        1,
        "the single claims were not written together"
    );
    fixture.execute("DELETE FROM activation").await;
    fixture.is_sound().await;
}
