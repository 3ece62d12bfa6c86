//! Two lanes on one server.

use std::sync::Arc;

use crate::assert_outcome;
use crate::id::ClaimNo;
use crate::store::commit::{Claim, CommitOutcome, WriterOptions};
use crate::testing::store::{Fixture, Writer, burst, journal, spawn, waiting, yielding};

/// The configuration of a node.
async fn two_lanes(fixture: &Fixture) -> Arc<Writer> {
    Arc::new(fixture.writer_with(&fixture.base, WriterOptions::default()).await)
}

#[tokio::test]
async fn a_lane_in_the_middle_of_a_batch_does_not_delay_others() {
    let fixture = Fixture::new().await;
    let writer = two_lanes(&fixture).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let gate = fixture.stop_at("i").await;
    let stopped = spawn(&writer, waiting(burst("i", Some(1)), "b2", 8));
    fixture.a_session_waits().await;
    // Far fewer than a second lane needs.
    writer.commits(journal(burst("j", None), 1)).await;
    // Not only after the first lane ended it: the contended lane does not skip locked rows.
    let stopped_in_first_lane = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                                AND wait_event_type = 'Lock' AND query LIKE '%without SKIP LOCKED%'";
    assert_eq!(fixture.count(stopped_in_first_lane).await, 1);
    gate.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(stopped.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn requests_of_many_callers_are_written_once_by_either_lane() {
    const SECOND_LANE_MIN: usize = 300;
    let fixture = Fixture::new().await;
    let writer = two_lanes(&fixture).await;
    let ids: Vec<String> = (0..SECOND_LANE_MIN).map(|n| format!("i{n}")).collect();
    let bursts = ids.iter().map(|id| {
        let writer = Arc::clone(&writer);
        let incarnation = writer.incarnation;
        let fixture = &fixture;
        async move {
            let Claim::Work(work, _) = fixture.claimed_work(id, incarnation).await else {
                panic!("it is a row of work")
            };
            let claims = || vec![Claim::Work(work, ClaimNo(1))];
            // Starts, continues twice under its row, and ends.
            for expected in [None, Some(1), Some(2), Some(3)] {
                let mut request = journal(burst(id, expected), expected.unwrap_or(0));
                request.claims = claims();
                if expected != Some(3) {
                    request = yielding(request);
                }
                writer.commits(request).await;
            }
        }
    });
    futures_util::future::join_all(bursts).await;
    let ended = "SELECT count(*) FROM instance WHERE status = 1 AND version = 4";
    assert_eq!(fixture.count(ended).await, SECOND_LANE_MIN as i64);
    assert_eq!(
        fixture.count("SELECT count(*) FROM burst_record").await,
        4 * SECOND_LANE_MIN as i64
    );
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}
