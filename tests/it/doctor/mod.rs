//! Planted faults: for each, `mainspring doctor` names it with what it means and the command that remedies it, and is silent about
//! it before.
//!
//! `work`: rows that wait, are lost or belong to nothing. `tables`: rights, locks, indexes, vacuum, partitions. `server`: snapshots,
//! settings and limits of the server. `cluster`: nodes. `report`: the form of the output, the exit code and `--fix`. `views`: the
//! views for people, and those by Elsa's names.

mod cluster;
mod report;
mod server;
mod tables;
mod views;
mod work;

use serde_json::Value;

use crate::support::{Child, Server, TIMEOUT, TestDatabase, assert_contains, command};

/// What the doctor finds with these arguments, whatever its age; the exit code is 0 or 1 as it says.
fn examine_at(url: &str, arguments: &[&str]) -> Value {
    let common = ["doctor", "--json", "--database-url", url];
    // A flag that is given takes precedence.
    let any_age = [("MAINSPRING_OLDER_THAN", "0s")];
    let mut doctor = Child::start(&[&common, arguments].concat(), &any_age);
    let code = doctor.wait(TIMEOUT).code();
    let printed = doctor.stdout().join("\n");
    let found: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {:?}", doctor.stderr()));
    assert_eq!(code, Some(if found["ok"] == true { 0 } else { 1 }), "{found}");
    assert_eq!(found["ok"], found["findings"].as_array().unwrap().is_empty());
    found
}

fn examine(database: &TestDatabase) -> Value {
    examine_at(&database.url(), &[])
}

/// A migrated database on a server of the test's own.
async fn migrated_on(server: &Server) -> TestDatabase {
    let database = TestDatabase::create_on(&server.url()).await;
    let (code, printed) = command(&database, &["migrate"]);
    assert_eq!(code, Some(0), "{printed}");
    database
        .connect()
        .await
        .run("SELECT mainspring.ensure_partitions(7)")
        .await;
    database
}

/// The findings of one check.
fn of(found: &Value, check: &str) -> Vec<Value> {
    let all = found["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["check"] == check).cloned().collect()
}

#[track_caller]
fn assert_silent(found: &Value, check: &str) {
    assert_eq!(of(found, check), [Value::Null; 0], "{check}");
}

/// A finding of this check has these parts in what it says; its remedy.
#[track_caller]
fn assert_finds(found: &Value, check: &str, parts: &[&str]) -> String {
    let all = of(found, check);
    let is_it = |finding: &&Value| {
        parts
            .iter()
            .all(|part| finding["what"].as_str().unwrap().contains(part))
    };
    let finding = all
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{check} does not say {parts:?}: {found:#}"));
    let text = |field: &str| finding[field].as_str().unwrap().to_owned();
    assert!(text("means").ends_with('.') && text("remedy").len() > 8, "{finding}");
    assert!(["problem", "warning"].contains(&&*text("level")), "{finding}");
    text("remedy")
}

/// Runs the statements of a remedy `psql … -c "…"` as `psql` would.
async fn follow(database: &TestDatabase, remedy: &str) {
    assert_contains(remedy, &["psql \"$MAINSPRING_DATABASE_URL\" -c \""]);
    let client = database.connect().await;
    for statement in remedy.split(" -c \"").skip(1) {
        client.run(statement.trim_end_matches('"')).await;
    }
}
