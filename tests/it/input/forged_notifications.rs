//! A role that may only connect cannot send notifications to nodes.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::engine::{entered, gated_on, start};
use crate::support::{Server, TestDatabase, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_connect_cannot_forge_a_hint_that_stops_a_burst() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let (test, count, permits) = gated_on(database).await;
    let id = test.engine.dispatch(start("gated")).await.unwrap();
    entered(&count, 1).await;
    let owner = test.database.connect().await;
    owner.run("SET search_path = mainspring").await;
    let foreign_role = server.foreign_role(&test.database).await;
    let refused = foreign_role.query_one("SELECT mainspring.channel_name('w')", &[]).await;
    assert!(refused.is_err(), "a foreign role can compute the names of channels");
    let forged = json!({"from": "x", "no": 1, "cancelled": [["", id.as_str()]]}).to_string();
    let everywhere = "SELECT pg_notify('mainspring_' || kind || '_' || name, $1)
                      FROM unnest(array['lock', 'w', 's', 'a', 'signal', 'wake']) kind,
                           unnest(array['mainspring', substr(encode(sha256('mainspring'), 'hex'), 1, 8),
                                        substr(encode(sha256('w'), 'hex'), 1, 32)]) name";
    foreign_role.query(everywhere, &[&forged]).await.unwrap();
    // Notifications arrive in order, and this request is one: its answer follows the forged ones.
    wait_until("the node to answer a question", async || {
        let locks = test.engine.cluster_locks(Default::default()).await.unwrap();
        locks.items.iter().any(|lock| lock.held_ms.is_some())
    })
    .await;
    assert_eq!(count.load(Ordering::SeqCst), 1, "a forged hint stopped the burst");
    // A role that knows the name could.
    let known = "SELECT pg_notify(channel_name('w'), $1)";
    owner.query(known, &[&forged]).await.unwrap();
    entered(&count, 2).await;
    permits.add_permits(10);
    test.finishes(&id).await;
    drop(foreign_role);
    test.assert_clean_end().await;
}
