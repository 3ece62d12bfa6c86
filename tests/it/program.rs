//! The program as scripts see it: exit codes, what stands on which output, and that no password is printed.

use std::time::Duration;

use crate::support::{Child, Http, TestDatabase};

const SOON: Duration = Duration::from_secs(30);

/// The exit code, and what was said on standard error.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut child = Child::start(arguments, variables);
    let code = child.wait(SOON).code();
    let said = child.stderr().join("\n");
    let all = format!("{said}{}", child.stdout().join("\n"));
    assert!(!all.contains("s3cret"), "{arguments:?}: {all}");
    (code, said)
}

/// Nobody listens there.
const NO_DATABASE: &str = "postgres://somebody:s3cret@127.0.0.1:1/nowhere";

#[test]
fn wrong_usage_is_told_with_exit_code_2() {
    for arguments in [
        &[][..],
        &["fly"],
        &["serve", "--fly"],
        &["serve"],
        &["migrate"],
        &["check"],
        &["check", "--json"],
        &["serve", "--database-url", NO_DATABASE, "--listen", "0.0.0.0:0"],
        &[
            "serve",
            "--database-url",
            NO_DATABASE,
            "--listen",
            "[::]:0",
            "--api-key",
            "",
        ],
        &["serve", "--database-url", NO_DATABASE, "--listen", "here"],
        &["serve", "--database-url", NO_DATABASE, "--check-in", "5"],
        &["serve", "--database-url", NO_DATABASE, "--workers", "-1"],
        &["serve", "--database-url", NO_DATABASE, "--allowed-host", "*"],
        &["serve", "--database-url", NO_DATABASE, "--log", "=="],
        &["serve", NO_DATABASE],
        &["dev", "--listen", "0.0.0.0:0"],
    ] {
        let (code, said) = run(arguments, &[]);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(!said.is_empty(), "{arguments:?}");
    }
    let (_, said) = run(&["serve"], &[]);
    assert!(
        said.contains("--database-url") && said.contains("MAINSPRING_DATABASE_URL"),
        "{said}"
    );
    let (_, said) = run(
        &["serve", "--listen", "0.0.0.0:0"],
        &[("MAINSPRING_DATABASE_URL", NO_DATABASE)],
    );
    assert!(said.contains("--api-key"), "{said}");
}

#[test]
fn without_a_database_the_exit_code_is_3() {
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["migrate"],
        &["check"],
        &["check", "--json"],
    ] {
        let (code, said) = run(arguments, &[("MAINSPRING_DATABASE_URL", NO_DATABASE)]);
        assert_eq!(code, Some(3), "{arguments:?}: {said}");
        assert!(!said.is_empty());
    }
}

#[test]
fn help_tells_the_settings_and_no_secret() {
    let variables = [
        ("MAINSPRING_DATABASE_URL", NO_DATABASE),
        ("MAINSPRING_API_KEY", "s3cret"),
    ];
    assert_eq!(run(&["--help"], &variables).0, Some(0));
    assert_eq!(run(&["--version"], &variables).0, Some(0));
    let mut child = Child::start(&["serve", "--help"], &variables);
    assert!(child.wait(SOON).success());
    let help = child.stdout().join("\n");
    for part in [
        "--database-url",
        "MAINSPRING_DATABASE_URL",
        "--api-key",
        "MAINSPRING_NODE_ID",
        "127.0.0.1:5001",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(!help.contains("s3cret"), "{help}");
}

#[test]
fn a_taken_address_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = run(&["serve", "--database-url", NO_DATABASE, "--listen", &address], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

#[tokio::test]
async fn a_node_is_ready_answers_and_stops_in_good_order() {
    let database = TestDatabase::create().await;
    let url = database.url();
    // The flag wins over the environment.
    let variables = [("MAINSPRING_DATABASE_URL", NO_DATABASE), ("MAINSPRING_API_KEY", "k-1")];
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--database-url", &url];
    for signal in ["TERM", "INT"] {
        let mut child = Child::start(&arguments, &variables);
        let base = child.wait_for_line("ready ", SOON);
        let http = Http::new(&base);
        assert_eq!(http.get("/health/live").await.status, 200);
        assert_eq!(http.get("/health/ready").await.status, 200);
        assert_eq!(http.get("workflow-definitions").await.status, 401);
        assert_eq!(http.with_key("k-1").get("workflow-definitions").await.status, 200);
        child.signal(signal);
        assert_eq!(child.wait(SOON).code(), Some(0), "{}", child.stderr().join("\n"));
        assert_eq!(child.stdout().len(), 1, "{:?}", child.stdout());
    }
    let variables = [("MAINSPRING_DATABASE_URL", url.as_str())];
    let mut check = Child::start(&["check", "--json"], &variables);
    assert_eq!(check.wait(SOON).code(), Some(0));
    assert_eq!(check.stdout(), [r#"{"ok":true,"violations":[]}"#]);
}

#[tokio::test]
async fn dev_brings_everything_along_and_comes_back_after_a_kill() {
    let folder = std::env::temp_dir().join(format!("mainspring-dev-{}", uuid::Uuid::new_v4().simple()));
    let data = folder.to_string_lossy().into_owned();
    let start = || Child::start(&["dev", "--listen", "127.0.0.1:0", "--data-dir", &data], &[]);
    let patience = Duration::from_secs(120);

    let mut child = start();
    let http = Http::new(&child.wait_for_line("ready ", patience));
    let shown = child.stdout().join("\n");
    assert!(
        shown.contains("Elsa.WriteLine") && shown.contains("Completed"),
        "{shown}"
    );
    let executed = http
        .post("workflow-definitions/hello-world/execute", &serde_json::json!({}))
        .await;
    assert_eq!(executed.expect(200)["workflowState"]["status"], "Finished");
    child.kill9();

    let mut child = start();
    let http = Http::new(&child.wait_for_line("ready ", patience));
    let listed = http.get("workflow-instances").await.expect(200);
    assert_eq!(
        listed["totalCount"], 3,
        "two greetings of dev and one of ours: {listed}"
    );
    let definitions = http
        .get("workflow-definitions?definitionIds=hello-world")
        .await
        .expect(200);
    assert_eq!(definitions["totalCount"], 1, "a sample is imported once: {definitions}");
    child.signal("INT");
    assert_eq!(child.wait(patience).code(), Some(0), "{}", child.stderr().join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}
