//! Every shape that the batch statement can take is prepared on a server, and its plans are checked.

use std::collections::HashSet;

use crate::id::{BookmarkId, ClaimNo, InstanceId, WorkId};
use crate::store::commit::pipeline::{CommitConnection, LockedRows};
use crate::store::commit::prepared::MOST_PREPARED;
use crate::store::commit::statement::StatementShape;
use crate::store::commit::{Claim, CommitRequest, NestedBurst, RUNNING, SendMode, WRITERS};
use crate::testing::store::{Fixture, burst, waiting};

const BATCH: &str = include_str!("../../../../sql/queries/commit/batch.sql");

/// A request with each of these, or without.
fn request(bits: u32) -> CommitRequest {
    let is = |bit: u32| bits & (1 << bit) > 0;
    let mut request = burst("i", is(0).then_some(1));
    if is(1) {
        request = waiting(request, "made", 1);
    }
    if is(2) {
        request.claims.push(Claim::Work(WorkId(1), ClaimNo(1)));
    }
    if is(3) {
        request.claims.push(Claim::Timer(BookmarkId::new("timer"), ClaimNo(1)));
    }
    if is(4) {
        request.effects.bookmarks_burned.push(BookmarkId::new("burned"));
    }
    if is(5) {
        request.effects.status = RUNNING;
        request.effects.correlation_id = Some("c".to_owned());
    }
    if is(6) {
        request.effects.unmet.push(WorkId(1));
    }
    request.effects.continues = is(7);
    request.effects.reads_pending_work = is(8);
    request.holds = is(9);
    request.effects.cancels_children = is(10);
    request.nested = is(11).then(|| {
        Box::new(NestedBurst {
            root: InstanceId::new("root"),
            expected: None,
            claims: vec![Claim::Work(WorkId(1), ClaimNo(1))],
            lives: false,
            continues: false,
        })
    });
    if request.expected.is_some() && bits >> 12 == 1 {
        request.effects.retried = true;
    }
    request
}

fn union(a: StatementShape, b: StatementShape) -> StatementShape {
    StatementShape {
        multi: a.multi || b.multi,
        existing: a.existing || b.existing,
        timed: a.timed || b.timed,
        burned: a.burned || b.burned,
        waiting: a.waiting || b.waiting,
        continuing: a.continuing || b.continuing,
        reports_pending: a.reports_pending || b.reports_pending,
        new_row: a.new_row || b.new_row,
        rare: a.rare || b.rare,
        family: a.family || b.family,
        nested: a.nested || b.nested,
        retried: a.retried || b.retried,
        delivering: a.delivering || b.delivering,
    }
}

/// The texts of all batches of such requests.
fn formed() -> HashSet<String> {
    let single: HashSet<StatementShape> = (0..1 << 13)
        .map(|bits| StatementShape::of_one(&request(bits)))
        .collect();
    let mut shapes = single.clone();
    loop {
        let pairs = shapes.iter().flat_map(|a| single.iter().map(|b| union(*a, *b)));
        let more: HashSet<StatementShape> = pairs.filter(|shape| !shapes.contains(shape)).collect();
        if more.is_empty() {
            break;
        }
        shapes.extend(more);
    }
    shapes.into_iter().map(|shape| shape.text(BATCH)).collect()
}

#[tokio::test]
async fn every_shape_of_a_batch_has_its_plan_tested() {
    let known: HashSet<String> = StatementShape::all().map(|shape| shape.text(BATCH)).collect();
    let formed = formed();
    assert!(formed.len() > 50, "only {} shapes", formed.len());
    let missing = formed.difference(&known).next();
    assert!(
        missing.is_none(),
        "StatementShape::all has no\n{}",
        missing.map_or("", String::as_str)
    );
}

#[tokio::test]
async fn every_shape_that_a_batch_can_take_is_prepared() {
    let fixture = Fixture::new().await;
    let session = fixture.session().await;
    let whole = session
        .client
        .prepare(&StatementShape::WHOLE.text(BATCH))
        .await
        .unwrap();
    for text in formed() {
        let prepared = session.client.prepare_typed(&text, whole.params()).await;
        let statement = prepared.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let names: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
        for name in ["no", "version", "committed_at"] {
            assert!(names.contains(&name), "{names:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_keeps_the_statements_that_it_used_last() {
    let fixture = Fixture::new().await;
    let incarnation = fixture.writer().await.incarnation;
    let [writer, ..] = WRITERS;
    let (mode, send) = (LockedRows::Skip, SendMode::Pipelined);
    let opened = CommitConnection::open(&fixture.base, incarnation, writer, mode, send).await;
    let mut connection = opened.unwrap();
    let start = StatementShape::of_one(&burst("i", None));
    let first: HashSet<String> = prepared(&connection).await;
    for shape in StatementShape::all() {
        assert!(connection.probe(start).await, "a start");
        assert!(connection.probe(shape).await, "{shape:?}");
    }
    let kept = prepared(&connection).await;
    let batches = kept.iter().filter(|text| text.contains("WITH fence_held")).count();
    assert_eq!(batches, MOST_PREPARED);
    assert!(
        kept.contains(&start.text(BATCH)),
        "the shape of each second batch is prepared anew"
    );
    let others = |texts: &HashSet<String>| texts.iter().filter(|text| !text.contains("WITH fence_held")).count();
    assert_eq!(others(&kept), others(&first));
}

/// The texts of the statements that the server keeps for a connection.
async fn prepared(connection: &CommitConnection) -> HashSet<String> {
    let rows = connection
        .client()
        .query("SELECT statement FROM pg_prepared_statements", &[])
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
