//! What the statement of a start does besides accepting it.

use crate::store::start::StartForm;
use crate::testing::store::Fixture;

/// A reply before the burst's commit promises that the start is on disk, so only a start whose caller waits may skip the flush.
#[tokio::test]
async fn a_start_is_unflushed_only_where_its_caller_waits_for_a_later_commit() {
    let fixture = Fixture::new().await;
    let session = fixture.session().await;
    let flushes = "SET synchronous_commit = on";
    session.client.batch_execute(flushes).await.unwrap();
    for form in StartForm::ALL {
        for (lent, relaxed, inside) in [(true, true, "off"), (true, false, "on"), (false, false, "on")] {
            let row = "row(0, '', 'i', 'nothing', '{}', NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)::start_request";
            let accept = form
                .text(lent, relaxed)
                .replace("$2::start_request[]", &format!("array[{row}]"))
                .replace("$1::bigint", "NULL::bigint");
            let mut seen = Vec::new();
            for step in ["BEGIN", &accept, "COMMIT"] {
                session.client.batch_execute(step).await.unwrap();
                let row = session.client.query_one("SHOW synchronous_commit", &[]).await.unwrap();
                seen.push(row.get::<_, String>(0));
            }
            assert_eq!(seen, ["on", inside, "on"], "{form:?} {lent} {relaxed}");
        }
    }
    fixture.is_sound().await;
}
