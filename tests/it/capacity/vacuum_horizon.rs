//! What the nodes of a cluster hold back: nothing that was deleted since the oldest snapshot of any statement is cleared
//! away, and every poll of a queue reads them.

use std::time::{Duration, Instant};

use crate::support::node::{assert_invariants, start_three};
use crate::support::{TestDatabase, poll_until};

/// More than the waits of the watch take where much is written, and less than where nothing is.
const SOON: Duration = Duration::from_secs(1);

/// Several in a row, so that no single moment decides.
const TIMES: usize = 10;

const OLDEST: &str = "SELECT coalesce(max(age(backend_xmin)), 0), age($1::text::xid)
     FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'mainspring/%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn liveness_watches_do_not_hold_back_the_vacuum_horizon() {
    let database = TestDatabase::create().await;
    let _nodes = start_three(&database, &["--tolerance", "20s"]);
    let client = database.connect().await;
    poll_until(Duration::from_secs(60), "three nodes to watch each other", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND state = 'active' AND wait_event = 'advisory'";
        (client.count(sql).await == 3).then_some(())
    })
    .await;
    let busy = database.connect().await;
    let writes = tokio::spawn(async move {
        loop {
            busy.execute("SELECT pg_current_xact_id()", &[]).await.unwrap();
        }
    });
    let mut in_a_row = 0;
    poll_until(
        Duration::from_secs(120),
        "what was written to be behind all snapshots soon",
        async || {
            let now = client
                .query_one("SELECT pg_current_xact_id()::xid::text", &[])
                .await
                .ok()?;
            let (now, began): (String, Instant) = (now.get(0), Instant::now());
            poll_until(Duration::from_secs(60), "all snapshots to be newer", async || {
                let row = client.query_one(OLDEST, &[&now]).await.ok()?;
                (row.get::<_, i32>(0) < row.get::<_, i32>(1)).then_some(())
            })
            .await;
            in_a_row = if began.elapsed() < SOON { in_a_row + 1 } else { 0 };
            (in_a_row == TIMES).then_some(())
        },
    )
    .await;
    writes.abort();
    assert_invariants(&database).await;
}
