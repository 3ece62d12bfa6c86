//! A role for each node: none may see what the sessions of another do.

use tokio_postgres::{Client, NoTls};

use crate::support::node::{Node, assert_each_exactly_once, publish, wait_until_finished, walk};
use crate::support::{Child, Server, TIMEOUT, TestDatabase, wait_until};

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
        .run(&format!(
            "CREATE ROLE engine LOGIN PASSWORD 'p'; GRANT CREATE ON DATABASE {name} TO engine;
             CREATE ROLE one LOGIN PASSWORD 'p' IN ROLE engine; CREATE ROLE two LOGIN PASSWORD 'p' IN ROLE engine"
        ))
        .await;
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
    let warned = || blind.child.logs("pg_read_all_stats");
    assert!(warned(), "{:?}", blind.child.stderr());

    admin.run("GRANT pg_read_all_stats TO engine").await;
    assert_eq!(has_idle_session(&watcher).await, Some(true));
    living.abort();
    drop(_alive);
    wait_until("the server to notice that it is gone", async || {
        has_idle_session(&watcher).await == Some(false)
    })
    .await;
    let sees = Node::start_at(&url("two"), "two", &settings, &[]);
    assert!(!sees.child.logs("pg_read_all_stats"));
    // With these rights they do all that nodes do.
    publish(blind.http.as_ref().unwrap()).await;
    let nodes = [blind.http.clone(), sees.http.clone()];
    for n in 0..10 {
        let mut next = || nodes[n % 2].clone();
        walk(n, &mut next).await;
    }
    wait_until_finished(&admin, 10).await;
    assert_each_exactly_once(&database, &admin, 10).await;
}
