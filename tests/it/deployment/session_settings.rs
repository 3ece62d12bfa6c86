//! What others set for the database, and servers that are not what they should be.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::json;

use crate::support::node::{assert_invariants, send_until_answered, start_three};
use crate::support::{Child, TIMEOUT, TestDatabase, assert_wrong_server};

/// Waits for one event.
const WAITS: &str = r#"{"model": {"definitionId": "waits", "name": "Waits", "root": {"type": "Elsa.Event", "id": "word",
    "eventName": {"typeName": "String", "expression": {"type": "JavaScript", "value": "'go-' + getInput('n')"}}}},
    "publish": true}"#;

/// An event and the burst that begins to wait for it each lock its key and then search for the other, which takes a new
/// snapshot for each statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_misses_its_bookmark_under_a_foreign_default_isolation_level() {
    const COUNT: usize = 400;
    const LANES: usize = 16;
    let database = TestDatabase::create().await;
    let name = database.name();
    let theirs = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'");
    database.connect_to_server().await.run(&theirs).await;
    let nodes = start_three(&database, &[]);
    let addresses: Arc<[_]> = nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    let waits = serde_json::from_str(WAITS).unwrap();
    addresses[0].post("workflow-definitions", &waits).await.expect(200);
    let lane = |lane: usize| {
        let addresses = Arc::clone(&addresses);
        async move {
            for n in (lane..COUNT).step_by(LANES) {
                let (starts, triggers) = (addresses[n % 3].clone(), addresses[(n + 1) % 3].clone());
                let start = json!({"input": {"n": n}});
                let dispatch = "workflow-definitions/waits/dispatch";
                send_until_answered(dispatch, &format!("s{n}"), &start, &mut || Some(starts.clone())).await;
                let event = format!("events/go-{n}/trigger");
                send_until_answered(&event, &format!("e{n}"), &json!({}), &mut || Some(triggers.clone())).await;
            }
        }
    };
    let lanes: Vec<_> = (0..LANES).map(|no| tokio::spawn(lane(no))).collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let client = database.connect().await;
    client.wait_for_rows("work", 0).await;
    assert_invariants(&database).await;
    let finished = client.rows("instance WHERE status = 1 AND sub_status = 3").await;
    assert_eq!(finished, COUNT as i64);
}

/// The server only reports an older version, which is all that a node checks.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused_by_name() {
    let database = TestDatabase::create().await;
    let claims = "SET allow_system_table_mods = on;
        ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO real_setting;
        CREATE FUNCTION pg_catalog.current_setting(text) RETURNS text LANGUAGE sql STABLE AS $$
            SELECT CASE $1 WHEN 'server_version_num' THEN '130022' WHEN 'server_version' THEN '13.22'
                   ELSE pg_catalog.real_setting($1) END $$";
    database.connect().await.run(claims).await;
    assert_wrong_server(&database.url(), &["PostgreSQL 13.22", "14 to 18"]);
}

/// Settings that put data or the password at risk are warned of at startup, once.
#[tokio::test]
async fn risky_settings_are_warned_of_at_startup() {
    let database = TestDatabase::create().await;
    let fsync = database.connect().await.query_one("SHOW fsync", &[]).await.unwrap();
    let is_unsafe = fsync.get::<_, String>(0) == "off";
    let mut url = reqwest::Url::parse(&database.url()).unwrap();
    let file = std::env::temp_dir().join(format!("mainspring-secret-{}", uuid::Uuid::new_v4().simple()));
    std::fs::write(&file, url.password().unwrap_or("none")).unwrap();
    url.set_password(None).unwrap();
    let path = file.display().to_string();
    for (mode, is_open) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let command = [
            "migrate",
            "--database-url",
            url.as_str(),
            "--database-password-file",
            &path,
        ];
        let mut child = Child::start(&command, &[]);
        assert!(child.wait(TIMEOUT).success());
        let said = child.stderr().join("\n");
        let times = |what: &str| said.matches(what).count();
        assert_eq!(times("can be read by every user"), usize::from(is_open), "{said}");
        assert_eq!(times("fsync = off"), usize::from(is_unsafe), "{said}");
        // The test's server is on this machine.
        assert_eq!(times("receives its password"), 0, "{said}");
    }
    std::fs::remove_file(&file).unwrap();
}
