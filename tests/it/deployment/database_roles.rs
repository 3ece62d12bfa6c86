//! A role for each node: none may see what the sessions of another do.

use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::support::node::{Node, assert_each_exactly_once, publish, send_event, start_walk, wait_until_finished};
use crate::support::{Child, Server, TIMEOUT, TestDatabase, poll_until};

/// A session of a role, which calls itself something and is closed with its task.
async fn session(url: &str, application: &str) -> (Client, tokio::task::JoinHandle<()>) {
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    config
        .application_name(application)
        .options("-c search_path=mainspring");
    let (client, driver) = config.connect(NoTls).await.unwrap();
    let driver = tokio::spawn(async move {
        let _ = driver.await;
    });
    (client, driver)
}

async fn has_idle_session(client: &Client) -> Option<bool> {
    client
        .query_one("SELECT has_idle_session(77)", &[])
        .await
        .unwrap()
        .get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_sessions_are_not_visible_is_not_taken_for_crashed() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let admin = database.connect().await;
    let name = database.name();
    admin
        .batch_execute(&format!(
            "CREATE ROLE engine LOGIN PASSWORD 'p'; GRANT CREATE ON DATABASE {name} TO engine;
             CREATE ROLE one LOGIN PASSWORD 'p' IN ROLE engine; CREATE ROLE two LOGIN PASSWORD 'p' IN ROLE engine"
        ))
        .await
        .unwrap();
    let url = |role: &str| format!("postgres://{role}:p@127.0.0.1:{}/{name}", server.port());
    let mut migrates = Child::start(&["migrate", "--database-url", &url("engine")], &[]);
    assert!(migrates.wait(TIMEOUT).success(), "{:?}", migrates.stderr());
    let key = "SELECT substr(encode(sha256('mainspring'), 'hex'), 1, 8)";
    let key: String = admin.query_one(key, &[]).await.unwrap().get(0);
    let (watcher, _watching) = session(&url("two"), "watcher").await;
    assert_eq!(
        has_idle_session(&watcher).await,
        Some(false),
        "there is no session of it"
    );
    let (_alive, living) = session(&url("one"), &format!("mainspring/{key}/77/one")).await;
    // The owner may not see it either: what is not visible counts as no crash.
    assert_eq!(has_idle_session(&watcher).await, None);
    let settings = ["--check-in", "200ms"];
    let blind = Node::start_at(&url("one"), "one", &settings, &[]);
    let warned = || {
        blind
            .child
            .stderr()
            .iter()
            .any(|line| line.contains("pg_read_all_stats"))
    };
    assert!(warned(), "{:?}", blind.child.stderr());

    admin.batch_execute("GRANT pg_read_all_stats TO engine").await.unwrap();
    assert_eq!(has_idle_session(&watcher).await, Some(true));
    living.abort();
    drop(_alive);
    poll_until(TIMEOUT, "the server to notice that it is gone", async || {
        (has_idle_session(&watcher).await == Some(false)).then_some(())
    })
    .await;
    let sees = Node::start_at(&url("two"), "two", &settings, &[]);
    assert!(
        !sees
            .child
            .stderr()
            .iter()
            .any(|line| line.contains("pg_read_all_stats"))
    );
    // With these rights they do all that nodes do.
    publish(blind.http.as_ref().unwrap()).await;
    let nodes = [blind.http.clone(), sees.http.clone()];
    for n in 0..10 {
        let mut next = || nodes[n % 2].clone();
        start_walk(n, &json!({"input": {"n": n}}), &mut next).await;
        send_event(n, &mut next).await;
    }
    wait_until_finished(&admin, 10).await;
    assert_each_exactly_once(&database, &admin, 10).await;
}
