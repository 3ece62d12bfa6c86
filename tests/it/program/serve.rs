//! The program as scripts see it: exit codes, what is written to which output, and that no password is printed.

use std::time::Duration;

use crate::support::redis::RedisProcess;
use crate::support::{Child, Http, Server, Stop, TIMEOUT, TestDatabase, assert_contains};

const KEY: &str = "0123456789abcdef";

/// The exit code and standard error.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut child = Child::start(arguments, variables);
    let code = child.wait(TIMEOUT).code();
    let said = child.stderr().join("\n");
    let all = format!("{said}{}", child.stdout().join("\n"));
    assert!(!all.contains("s3cret"), "{arguments:?}: {all}");
    (code, said)
}

/// No server listens there.
const NO_DATABASE: &str = "postgres://somebody:s3cret@127.0.0.1:1/nowhere";

#[test]
fn wrong_usage_is_reported_with_exit_code_2() {
    for arguments in [
        &[][..],
        &["fly"],
        &["serve", "--fly"],
        &["serve"],
        &["migrate"],
        &["check"],
        &["check", "--json"],
        &[
            "serve",
            "--database-url",
            NO_DATABASE,
            "--listen",
            "[::]:0",
            "--api-key",
            "",
        ],
        &["serve", "--database-url", NO_DATABASE, "--api-key", "fifteen-letters"],
        &["serve", "--database-url", NO_DATABASE, "--listen", "here"],
        &["serve", "--database-url", NO_DATABASE, "--check-in", "5"],
        &["serve", "--database-url", NO_DATABASE, "--workers", "-1"],
        &["serve", "--database-url", NO_DATABASE, "--log", "=="],
        &["serve", NO_DATABASE],
        &["dev", "--listen", "0.0.0.0:0"],
    ] {
        let (code, said) = run(arguments, &[]);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(!said.is_empty(), "{arguments:?}");
    }
    let (_, said) = run(&["serve"], &[]);
    assert_contains(&said, &["--database-url", "MAINSPRING_DATABASE_URL"]);
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

#[tokio::test]
async fn a_node_waits_for_a_database_that_is_started_with_it() {
    let server = Server::start().await;
    server.stop(Stop::Fast);
    let url = server.url();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--database-wait", "2m"];
    let child = Child::start(&arguments, &[("MAINSPRING_DATABASE_URL", &url)]);
    child.wait_for_log("waiting for the database").await;
    server.start_again();
    let http = Http::new(&child.wait_for_line("ready ", TIMEOUT));
    http.get("/health/ready").await.expect(200);
}

#[test]
fn help_lists_the_settings_and_no_secret() {
    let variables = [
        ("MAINSPRING_DATABASE_URL", NO_DATABASE),
        ("MAINSPRING_API_KEY", "s3cret"),
    ];
    assert_eq!(run(&["--help"], &variables).0, Some(0));
    assert_eq!(run(&["--version"], &variables).0, Some(0));
    let mut child = Child::start(&["serve", "--help"], &variables);
    assert!(child.wait(TIMEOUT).success());
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

#[tokio::test]
async fn a_file_sets_what_no_flag_and_no_variable_does() {
    let database = TestDatabase::empty().await;
    let path = std::env::temp_dir().join(format!("mainspring-settings-{}.toml", std::process::id()));
    let config = path.to_str().unwrap();
    let text = format!(
        "database-url = '{}'\nlisten = '127.0.0.1:1'\nlog = 'warn'\napi-key = '{KEY}'\nread-pool-size = 3\n",
        database.url()
    );
    std::fs::write(&path, &text).unwrap();
    let mut child = Child::start(&["serve", "--config", config, "--listen", "127.0.0.1:0"], &[]);
    let http = Http::new(&child.wait_for_line("ready ", TIMEOUT));
    assert_eq!(http.get("workflow-definitions").await.status, 401);
    assert_eq!(http.with_key(KEY).get("workflow-definitions").await.status, 200);
    child.wait_for_log("contains a secret and can be read by").await;
    child.signal("TERM");
    assert_eq!(child.wait(TIMEOUT).code(), Some(0));
    assert_eq!(run(&["check"], &[("MAINSPRING_CONFIG", config)]).0, Some(0));

    std::fs::write(&path, "api-key = 's3cret'\nread-pool-sise = 3\n").unwrap();
    let (code, said) = run(&["serve", "--config", config], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert_contains(
        &said,
        &[config, "line 2", "read-pool-sise", "the nearest is read-pool-size"],
    );
    std::fs::remove_file(&path).unwrap();
    let (code, said) = run(&["serve", "--read-pool-size", "3"], &[]);
    assert!(code == Some(2) && said.contains("MAINSPRING_READ_POOL_SIZE"), "{said}");
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = run(&["serve", "--database-url", NO_DATABASE, "--listen", &address], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

#[tokio::test]
async fn a_node_is_ready_answers_and_stops_in_good_order() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    // The flag wins over the environment.
    let variables = [("MAINSPRING_DATABASE_URL", NO_DATABASE), ("MAINSPRING_API_KEY", KEY)];
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--database-url", &url];
    for signal in ["TERM", "INT"] {
        let mut child = Child::start(&arguments, &variables);
        let base = child.wait_for_line("ready ", TIMEOUT);
        let http = Http::new(&base);
        assert_eq!(http.get("/health/live").await.status, 200);
        assert_eq!(http.get("/health/ready").await.status, 200);
        assert_eq!(http.get("workflow-definitions").await.status, 401);
        assert_eq!(http.with_key(KEY).get("workflow-definitions").await.status, 200);
        child.signal(signal);
        assert_eq!(child.wait(TIMEOUT).code(), Some(0), "{}", child.stderr().join("\n"));
        assert_eq!(child.stdout().len(), 1, "{:?}", child.stdout());
    }
    let variables = [("MAINSPRING_DATABASE_URL", url.as_str())];
    let mut check = Child::start(&["check", "--json"], &variables);
    assert_eq!(check.wait(TIMEOUT).code(), Some(0));
    assert_eq!(check.stdout(), [r#"{"ok":true,"violations":[]}"#]);
}

/// The environment that the documentation of Elsa's clusters gives a node in Docker Compose, and what our image adds.
#[tokio::test]
async fn a_node_runs_in_the_environment_of_elsas_compose_file() {
    let database = TestDatabase::create().await;
    let url = reqwest::Url::parse(&database.url()).unwrap();
    // Where the server accepts every password, any one works.
    let password = url.password().unwrap_or("s3cret");
    let connection = format!(
        "Server={};Port={};Database={};User Id={};Password={password};Colour=s3cret",
        url.host_str().unwrap(),
        url.port().unwrap(),
        database.name(),
        url.username()
    );
    let image = [("ASPNETCORE_HTTP_PORTS", "0"), ("MAINSPRING_ALLOW_ANONYMOUS", "true")];
    let redis = RedisProcess::start_with(&["--requirepass", "s3cret"]);
    let of_redis = format!("127.0.0.1:{},password=s3cret,abortConnect=false", redis.port());
    let compose = [
        ("ASPNETCORE_ENVIRONMENT", "Development"),
        ("CONNECTIONSTRINGS__POSTGRESQL", connection.as_str()),
        ("REDIS__CONNECTIONSTRING", of_redis.as_str()),
        ("RABBITMQ__CONNECTIONSTRING", "amqp://guest:s3cret@rabbitmq:5672/"),
        ("ELSA__RUNTIME__TYPE", "Distributed"),
        ("QUARTZ__CLUSTERED", "true"),
        ("ELSA__LOCKING__PROVIDER", "Redis"),
    ];
    let mut child = Child::start(&["serve"], &[&image[..], &compose].concat());
    let base = child.wait_for_line("ready ", TIMEOUT);
    let http = Http::new(&base);
    assert_eq!(http.get("workflow-definitions").await.status, 200);
    // As `curl localhost:5001` does; a name that was made to lead here does not get in.
    let get = async |host: &str| {
        let named = [("host", host)];
        let sent = http.send(reqwest::Method::GET, "cluster/nodes", &named, None);
        sent.await.unwrap().status
    };
    assert_eq!((get("localhost:5001").await, get("evil.example").await), (200, 403));
    child.signal("TERM");
    assert_eq!(child.wait(TIMEOUT).code(), Some(0));
    let said = child.stderr().join("\n");
    assert!(!said.contains("s3cret") && !said.contains(password), "{said}");
    for line in [
        "ignored variables of Elsa: ASPNETCORE_ENVIRONMENT, ELSA__RUNTIME__TYPE, QUARTZ__CLUSTERED, RABBITMQ__CONNECTIONSTRING",
        "has no effect: \"Colour\"",
        "0.0.0.0:0 accepts all requests without a key",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // Without the setting of the image the node refuses to start.
    let (code, said) = run(&["serve"], &[&image[..1], &compose].concat());
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = run(
        &["serve"],
        &[
            ("CONNECTIONSTRINGS__POSTGRESQL", "Server=h;Password=\"s3cret"),
            image[1],
        ],
    );
    assert!(code == Some(2) && said.contains("connection string"), "{said}");
}

#[tokio::test]
async fn dev_brings_everything_along_and_comes_back_after_a_kill() {
    let folder = std::env::temp_dir().join(format!("mainspring-dev-{}", uuid::Uuid::new_v4().simple()));
    let data = folder.to_string_lossy().into_owned();
    let start = || Child::start(&["dev", "--listen", "127.0.0.1:0", "--data-dir", &data], &[]);
    let timeout = Duration::from_secs(120);

    let mut child = start();
    let http = Http::new(&child.wait_for_line("ready ", timeout));
    let shown = child.stdout().join("\n");
    assert_contains(&shown, &["Elsa.WriteLine", "Completed"]);
    let executed = http
        .post("workflow-definitions/hello-world/execute", &serde_json::json!({}))
        .await;
    assert_eq!(executed.expect(200)["workflowState"]["status"], "Finished");
    child.kill9();

    let mut child = start();
    let http = Http::new(&child.wait_for_line("ready ", timeout));
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
    assert_eq!(child.wait(timeout).code(), Some(0), "{}", child.stderr().join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The standard output of `cron`.
fn cron(arguments: &[&str]) -> Vec<String> {
    let all = [&["cron"], arguments].concat();
    let mut child = Child::start(&all, &[]);
    let code = child.wait(TIMEOUT).code();
    assert_eq!(code, Some(0), "{arguments:?}: {:?}", child.stderr());
    child.stdout()
}

#[test]
fn cron_shows_what_daylight_saving_does() {
    let berlin = ["30 2 * * *", "--zone", "europe/berlin", "--json", "--next", "2"];
    let said = cron(&[&berlin[..], &["--from", "2026-03-28T12:00:00Z"]].concat());
    assert_eq!(
        said,
        [
            r#"{"at":"2026-03-29T03:00:00+02:00","utc":"2026-03-29T01:00:00Z","note":"02:30:00 on 2026-03-29 does not exist: fires at the end of the gap"}"#,
            r#"{"at":"2026-03-30T02:30:00+02:00","utc":"2026-03-30T00:30:00Z","note":null}"#,
        ]
    );
    let shifted = cron(&[&berlin[..], &["--from", "2026-03-28T12:00:00Z", "--gap", "shift"]].concat());
    assert!(
        shifted[0].starts_with(r#"{"at":"2026-03-29T03:30:00+02:00""#),
        "{shifted:?}"
    );
    let skipped = cron(&[&berlin[..], &["--from", "2026-03-28T12:00:00Z", "--gap", "skip"]].concat());
    assert_contains(&skipped[0], &["2026-03-30T02:30:00+02:00", "skipped"]);
    let both = cron(&[&berlin[..], &["--from", "2026-10-24T12:00:00Z", "--overlap", "both"]].concat());
    assert_contains(&both[0], &["02:30:00+02:00", "the first"]);
    assert_contains(&both[1], &["02:30:00+01:00", "the second"]);
    assert_eq!(cron(&["@every_second"]).len(), 10);
    assert_eq!(
        cron(&["0 0 29 2 *", "--from", "2026-01-01T00:00:00Z", "--next", "1"]),
        ["2028-02-29T00:00:00+00:00  2028-02-29T00:00:00Z"]
    );
}

#[test]
fn cron_refuses_what_is_wrong_with_exit_code_2() {
    for (arguments, hint) in [
        (&["cron"][..], "EXPR"),
        (&["cron", "0 0 30 2 *"], "never fires"),
        (&["cron", "61 * * * *"], "minute"),
        (&["cron", "BadCronExpression"], "allowed are 5"),
        (&["cron", "* * * * *", "--zone", "Europe/Berln"], "Europe/Berlin"),
        (&["cron", "* * * * *", "--from", "yesterday"], "2026-03-28T00:00:00Z"),
        (&["cron", "* * * * *", "--from", "1969-12-31T00:00:00Z"], "1970"),
        (&["cron", "* * * * *", "--gap", "jump"], "end-of-gap"),
        (&["cron", "* * * * *", "--overlap", "third"], "both"),
        (&["cron", "* * * * *", "--next", "0"], "whole number"),
    ] {
        let (code, said) = run(arguments, &[]);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(hint), "{arguments:?}: {said}");
    }
    let (code, said) = run(&["cron", "* * * * *", "--from", "9999-12-31T23:59:59Z"], &[]);
    assert!(code == Some(1) && said.contains("9999"), "{code:?} {said}");
}
