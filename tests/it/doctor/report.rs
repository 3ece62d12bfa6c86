//! The form of the output, the exit code, and what `--fix` does and leaves.

use serde_json::json;

use super::{assert_finds, assert_silent, examine, examine_at};
use crate::support::node::{Node, assert_invariants, publish, walk};
use crate::support::{Child, TIMEOUT, TestDatabase, assert_contains, command};

const ORPHANED: &str =
    "INSERT INTO mainspring.instance (tenant_id, id, definition_id, version_id, definition_version, status,
        sub_status, version, state) VALUES ('', 'i7', 'd', 'v', 1, 0, 2, 1, '{}');
    INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, claimed_by, claim_no, has_begun)
        VALUES ('', 'i7', 1, '{}', 4711, 1, true), ('', 'i7', 3, '{}', 4711, 1, true)";

#[tokio::test]
async fn orphaned_claims_are_found_and_released_and_nothing_else_is_changed() {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), "orphaned-claims");
    let client = database.connect().await;
    client.run(ORPHANED).await;
    let found = examine(&database);
    let remedy = assert_finds(
        &found,
        "orphaned-claims",
        &["2 rows", "incarnation 4711", "instance i7"],
    );
    assert_eq!(remedy, "mainspring doctor --fix");
    assert_eq!(
        client.rows("work WHERE claimed_by = 4711").await,
        2,
        "without --fix nothing is changed"
    );
    let fixed = examine_at(&database.url(), &["--fix"]);
    assert_eq!(fixed["fixed"], json!(["released 2 claims"]));
    assert_silent(&fixed, "orphaned-claims");
    assert_eq!(client.rows("work WHERE claimed_by IS NULL AND crashes = 0").await, 2);
    assert_finds(&fixed, "missing-roles", &["no live node runs workflows"]);
}

#[tokio::test]
async fn people_read_what_is_wrong_what_it_means_and_what_to_do() {
    let database = TestDatabase::create().await;
    database.connect().await.run(ORPHANED).await;
    let (code, printed) = command(&database, &["doctor"]);
    assert_eq!(code, Some(1), "{printed}");
    let lines: Vec<&str> = printed.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("problem: orphaned-claims: 2 rows are claimed by incarnation 4711"));
    let at = at.unwrap_or_else(|| panic!("{printed}"));
    assert!(
        lines[at].contains(" (since 20") && lines[at].ends_with("Z)"),
        "{printed}"
    );
    assert_eq!(
        lines[at + 1],
        "  means: No node runs these rows until they are released."
    );
    assert_eq!(lines[at + 2], "  remedy: mainspring doctor --fix");
    let last = lines.last().unwrap();
    assert!(last.contains(" findings of ") && last.ends_with(" s"), "{printed}");
    // Problems come before warnings.
    let levels: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(level, _)| level)
        .collect();
    let warning = levels
        .iter()
        .position(|level| *level == "warning")
        .unwrap_or(levels.len());
    assert!(!levels[warning..].contains(&"problem"), "{printed}");
}

/// What is younger is work in progress, not a fault.
#[tokio::test]
async fn what_is_young_is_not_found() {
    let database = TestDatabase::create().await;
    let work = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                VALUES ('', 'i7', 1, '{}', now() - interval '5 s')";
    database.connect().await.run(work).await;
    assert_finds(&examine(&database), "late-work", &["i7"]);
    let (_, printed) = command(&database, &["doctor", "--json"]);
    assert_silent(&serde_json::from_str(&printed).unwrap(), "late-work");
}

/// A node that works is found fault with only for what its test server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_works_has_no_finding() {
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "one");
    publish(node.http.as_ref().unwrap()).await;
    let http = node.http.clone();
    for n in 0..3 {
        walk(n, &mut || http.clone()).await;
    }
    let (code, printed) = command(&database, &["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    // Other tests use the server, which is set up for speed.
    let of_server = [
        "server-settings",
        "server-version",
        "old-snapshots",
        "connections",
        "writes",
        "session",
    ];
    let all = found["findings"].as_array().unwrap().iter();
    let mut own = all.filter(|finding| !of_server.contains(&finding["check"].as_str().unwrap()));
    assert!(own.next().is_none(), "{code:?} {found:#}");
    assert!(found["checks"].as_u64().unwrap() > 30, "{found}");
    assert_invariants(&database).await;
}

#[tokio::test]
async fn a_schema_of_another_version_is_a_finding_and_no_database_a_failure() {
    let database = TestDatabase::empty().await;
    let found = examine(&database);
    let remedy = assert_finds(&found, "schema", &["needs"]);
    assert_eq!(remedy, "mainspring migrate");
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found}");
    let url = "postgres://nobody@127.0.0.1:1/none";
    let mut doctor = Child::start(&["doctor", "--database-url", url], &[]);
    assert_eq!(doctor.wait(TIMEOUT).code(), Some(3), "{:?}", doctor.stderr());
    assert_contains(&doctor.stderr().join("\n"), &["is PostgreSQL running there"]);
    let mut usage = Child::start(&["doctor", "--older-than", "soon"], &[]);
    assert_eq!(usage.wait(TIMEOUT).code(), Some(2));
}

/// Each check has a test that plants its fault: here, beside the probes, or with the pooler.
#[test]
fn each_check_is_planted_by_a_test() {
    let docs = include_str!("../../../docs/reference/doctor.md");
    let checks: Vec<&str> = docs
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0))
        .collect();
    assert!(checks.len() > 30, "{checks:?}");
    let tests = [
        include_str!("cluster.rs"),
        include_str!("report.rs"),
        include_str!("server.rs"),
        include_str!("tables.rs"),
        include_str!("work.rs"),
        include_str!("../../../src/store/doctor/tests.rs"),
    ]
    .concat();
    let missing: Vec<&&str> = checks
        .iter()
        .filter(|check| !tests.contains(&format!("\"{check}\",")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The guide names no check that does not exist.
    let guide = include_str!("../../../docs/guide/troubleshooting.md");
    let commands = guide.lines().filter(|line| line.contains("mainspring doctor`: "));
    for name in commands.flat_map(|line| line.split('`').skip(3).step_by(2)) {
        assert!(checks.contains(&name), "{name}");
    }
}
