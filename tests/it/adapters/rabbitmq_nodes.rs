//! Nodes that notify each other over RabbitMQ: work and definitions reach the others at once, and without a broker by check-ins.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::rabbitmq_services::{queues_of, resource};
use crate::support::node::{
    Node, assert_each_exactly_once, assert_invariants, load, publish, spawn, wait_until_finished,
};
use crate::support::rabbitmq::RabbitProcess;
use crate::support::{Child, Http, TIMEOUT, TestDatabase, assert_contains, long, wait_until};

/// No check-in comes while a test runs: what arrives was notified.
const NEVER: [&str; 4] = ["--check-in", "10m", "--tolerance", "1h"];
const OVER_RABBITMQ: [&str; 4] = ["--wake", "rabbitmq", "--signal", "rabbitmq"];

/// The settings of a node; exchanges have the name of the database, which is the test's own.
fn settings<'a>(broker: &'a str, prefix: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let place = ["--rabbitmq-url", broker, "--rabbitmq-prefix", prefix];
    [&OVER_RABBITMQ[..], &place, further].concat()
}

/// The same with the URL in a file.
fn from_file<'a>(file: &'a str, prefix: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let place = ["--rabbitmq-url-file", file, "--rabbitmq-prefix", prefix];
    [&OVER_RABBITMQ[..], &place, further].concat()
}

fn named(version: usize) -> Value {
    json!({"model": {"definitionId": "named", "name": format!("v{version}"), "root":
        {"type": "Elsa.WriteLine", "id": "say", "text": {"typeName": "String", "expression":
            {"type": "Literal", "value": format!("v{version}")}}}}, "publish": true})
}

async fn shown(http: &Http) -> String {
    let path = "workflow-definitions/by-definition-id/named?versionOptions=Published";
    http.get(path).await.expect(200)["name"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_and_definitions_reach_another_node_over_rabbitmq() {
    let database = TestDatabase::create().await;
    let (broker, prefix) = (RabbitProcess::shared(), database.name());
    let url = broker.url();
    let without_workers = settings(&url, prefix, &[&NEVER[..], &["--workers", "0"]].concat());
    let api_node = Node::start_with(&database, "api-node", &without_workers, "");
    let runner = Node::start_with(&database, "runner", &settings(&url, prefix, &NEVER), "");
    let (one, two) = (api_node.http.as_ref().unwrap(), runner.http.as_ref().unwrap());
    publish(one).await;
    let client = database.connect().await;
    for n in 0..3 {
        one.dispatch("walk", &json!({"input": {"n": n}})).await;
    }
    client.wait_for_rows("bookmark WHERE name = 'Elsa.Event'", 3).await;
    for n in 0..3 {
        one.trigger(&format!("go-{n}"), &json!({})).await;
    }
    wait_until_finished(&client, 3).await;
    assert_each_exactly_once(&database, &client, 3).await;
    for version in 1..=3 {
        one.post("workflow-definitions", &named(version)).await.expect(200);
        wait_until("the other node to show the new version", async || {
            shown(two).await == format!("v{version}")
        })
        .await;
    }
    let said = runner.child.stderr().join("\n");
    assert_contains(
        &said,
        &["Received cache invalidation event for workflow definition named"],
    );
    // One that notifies over NOTIFY is refused.
    let mut other = spawn(&database.url(), "other", &NEVER, &[]);
    assert_eq!(other.wait(TIMEOUT).code(), Some(2));
    assert_contains(&other.stderr().join("\n"), &["rabbitmq", "--signal"]);
}

/// How long work that a node without workers accepts takes to run elsewhere.
async fn lateness(database: &TestDatabase, http: &Http) -> Duration {
    let client = database.connect().await;
    let finished = "instance WHERE definition_id = 'named' AND status = 1";
    let before = client.rows(finished).await;
    let began = Instant::now();
    http.dispatch("named", &json!({})).await;
    client.wait_for_rows(finished, before + 1).await;
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_under_load_delays_by_one_check_in_and_loses_nothing() {
    let rounds = if long() { 5 } else { 1 };
    let check_in = Duration::from_secs(1);
    let database = TestDatabase::create().await;
    let (mut broker, prefix) = (RabbitProcess::start(), database.name());
    let url = broker.url();
    let cluster = ["--check-in", "1s", "--tolerance", "20s"];
    let without_workers = settings(&url, prefix, &[&cluster[..], &["--workers", "0"]].concat());
    let api_node = Node::start_with(&database, "api-node", &without_workers, "");
    let with_workers = settings(&url, prefix, &cluster);
    let one = Node::start_with(&database, "one", &with_workers, "");
    let two = Node::start_with(&database, "two", &with_workers, "");
    let http = api_node.http.as_ref().unwrap();
    publish(http).await;
    http.post("workflow-definitions", &named(1)).await.expect(200);
    let count = 60 * rounds;
    let nodes = [&api_node, &one, &two];
    let walks = load(nodes.iter().filter_map(|node| node.http.clone()).collect(), count);
    let mut latest = Duration::ZERO;
    for _ in 0..rounds {
        broker.kill();
        for _ in 0..3 {
            let late = lateness(&database, http).await;
            // The rest is what a busy machine needs, the more so beside other tests.
            let busy = Duration::from_secs(if long() { 2 } else { 10 });
            assert!(late < check_in + busy, "{late:?}");
            latest = latest.max(late);
        }
        let away = async || http.get("/health/ready").await.expect(200)["away"].clone();
        assert_eq!(away().await, json!(["signal", "wake"]), "and the node stays ready");
        let again = |node: &Node| {
            node.child
                .stderr()
                .iter()
                .filter(|line| line.contains("is connected again"))
                .count()
        };
        let before = nodes.map(again);
        tokio::task::block_in_place(|| broker.restart());
        for (node, before) in nodes.into_iter().zip(before) {
            wait_until("both services to be connected again", async || {
                again(node) == before + 2
            })
            .await;
        }
        assert_eq!(away().await, json!([]));
        lateness(&database, http).await;
    }
    println!("{rounds} kills, check-ins every {check_in:?}: what came meanwhile had run after {latest:?} at most");
    for walk in walks {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    let finished = i64::try_from(count).unwrap();
    wait_until_finished(&client, finished).await;
    let begun = "SELECT count(*) FROM mainspring.instance WHERE definition_id = 'walk' AND status = 1";
    assert_eq!(client.count(begun).await, finished);
    assert_invariants(&database).await;
    for node in nodes {
        let said = node.child.stderr();
        let outages = said
            .iter()
            .filter(|line| line.contains("notifications do not go over RabbitMQ"));
        assert_eq!(
            outages.count(),
            2 * rounds,
            "once for each service and outage: {said:?}"
        );
        assert!(
            !said
                .iter()
                .any(|line| line.contains("guest:guest") || line.contains("error doing IO")),
            "{said:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_and_a_changed_password_delay_by_one_check_in() {
    let database = TestDatabase::create().await;
    let (broker, prefix) = (RabbitProcess::start(), database.name());
    let file = std::env::temp_dir().join(format!("{prefix}.url"));
    // The alarm lasts longer than a broker that no longer answers is waited for.
    std::fs::write(&file, broker.url() + "?heartbeat=1").unwrap();
    let place = file.to_str().unwrap();
    let cluster = ["--check-in", "1s", "--tolerance", "20s"];
    let without_workers = from_file(place, prefix, &[&cluster[..], &["--workers", "0"]].concat());
    let api_node = Node::start_with(&database, "api-node", &without_workers, "");
    let _runner = Node::start_with(&database, "runner", &from_file(place, prefix, &cluster), "");
    let http = api_node.http.as_ref().unwrap();
    http.post("workflow-definitions", &named(1)).await.expect(200);
    broker.alarm(true);
    for _ in 0..3 {
        lateness(&database, http).await;
    }
    api_node.child.wait_for_log("RabbitMQ has an alarm").await;
    broker.alarm(false);
    api_node.child.wait_for_log("RabbitMQ takes messages again").await;
    lateness(&database, http).await;
    let said = api_node.child.stderr();
    let alarms = said
        .iter()
        .filter(|line| line.contains("service=\"wake\"") && line.contains("has an alarm"));
    assert_eq!(alarms.count(), 1, "{said:?}");
    assert!(
        !api_node.child.logs("notifications do not go over RabbitMQ"),
        "{said:?}"
    );
    // The file is read for each connection.
    std::fs::write(&file, broker.url().replace("guest@", "geheim@")).unwrap();
    broker.eval(
        "rabbit_auth_backend_internal:change_password(<<\"guest\">>, <<\"geheim\">>, <<\"t\">>), \
         [rabbit_networking:close_connection(P, <<\"test\">>) || P <- rabbit_networking:connections()].",
    );
    wait_until("both services to be connected again", async || {
        let said = api_node.child.stderr();
        said.iter().filter(|line| line.contains("is connected again")).count() == 2
    })
    .await;
    lateness(&database, http).await;
    assert!(!api_node.child.logs("geheim"));
    std::fs::remove_file(&file).unwrap();
    assert_invariants(&database).await;
}

/// Two lines of Erlang: the queue of a node, and what follows with it.
fn with_queue_of(exchange: &str, then: &str) -> String {
    format!(
        "[N | _] = {}, {{ok, Q}} = rabbit_amqqueue:lookup(N), {then}.",
        queues_of(exchange)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_closed_or_taken_at_the_broker_is_logged_once_and_heals() {
    let database = TestDatabase::create().await;
    let (broker, prefix) = (RabbitProcess::shared(), database.name());
    let url = broker.url();
    // Only this node has queues of this prefix.
    let settings = settings(&url, prefix, &["--check-in", "1s", "--tolerance", "20s"]);
    let node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.as_ref().unwrap();
    http.post("workflow-definitions", &named(1)).await.expect(200);
    let said = |part: &str| node.child.stderr().iter().filter(|line| line.contains(part)).count();
    let (outage, end) = ("notifications do not go over RabbitMQ", "is connected again");
    let wake = format!("{prefix}.wake");
    let delete = "rabbit_amqqueue:delete(Q, false, false, <<\"t\">>)";
    let channel =
        "[C | _] = rabbit_amqqueue:consumers(Q), rabbit_channel:do(element(1, C), {'basic.ack', 999999, false})";
    let connection = "[C | _] = rabbit_amqqueue:consumers(Q), [{connection, P}] = rabbit_channel:info(element(1, C), [connection]), \
                      rabbit_networking:close_connection(P, <<\"test\">>)";
    for (n, done) in (1..).zip([delete, channel, connection]) {
        broker.eval(&with_queue_of(&wake, done));
        wait_until(done, async || said(end) == n).await;
        assert_eq!(said(outage), n, "{done}: {:?}", node.child.stderr());
    }
    assert_eq!(said("its queue was deleted"), 1);
    // Another program declares the queue before the node does.
    let taken = "rabbit_amqqueue:declare(N, true, false, [], none, <<\"t\">>)";
    broker.eval(&with_queue_of(&wake, &format!("{delete}, {taken}")));
    let remedy = "was declared by another program with other arguments: delete it";
    wait_until(remedy, async || said(remedy) == 1).await;
    for _ in 0..3 {
        lateness(&database, http).await;
    }
    assert_eq!(http.get("/health/ready").await.expect(200)["away"], json!(["wake"]));
    assert_eq!((said(remedy), said(end)), (1, 3));
    broker.eval(&with_queue_of(&wake, delete));
    wait_until("the node to be connected again", async || said(end) == 4).await;
    assert_eq!(http.get("/health/ready").await.expect(200)["away"], json!([]));
    lateness(&database, http).await;
    assert_invariants(&database).await;
}

/// Each is logged once for each service while a node runs, and heals when it is put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_cannot_be_used_any_more_is_named_once_until_it_is_put_right() {
    let database = TestDatabase::create().await;
    let (broker, name) = (RabbitProcess::shared(), database.name());
    // A user and a virtual host of this test.
    let host = format!("rabbit_vhost:add(<<\"{name}\">>, <<\"t\">>)");
    let rights = |pattern: &str| {
        let pattern = format!("<<\"{pattern}\">>");
        format!(
            "rabbit_auth_backend_internal:set_permissions(<<\"{name}\">>, <<\"{name}\">>, {pattern}, {pattern}, {pattern}, \
             <<\"t\">>)"
        )
    };
    let user = format!("rabbit_auth_backend_internal:add_user(<<\"{name}\">>, <<\"geheim\">>, <<\"t\">>)");
    broker.eval(&format!("{host}, {user}, {}.", rights(".*")));
    let close = format!(
        "[rabbit_networking:close_connection(P, <<\"test\">>) || [{{pid, P}}, {{user, <<\"{name}\">>}}] <- \
         rabbit_networking:connection_info_all([pid, user])]"
    );
    let url = |scheme: &str| format!("{scheme}://{name}:geheim@127.0.0.1:{}/{name}", broker.port());
    let file = std::env::temp_dir().join(format!("{name}.rabbitmq-url"));
    std::fs::write(&file, url("amqp")).unwrap();
    let cluster = ["--check-in", "1s", "--tolerance", "20s"];
    let node = Node::start_with(&database, "one", &from_file(file.to_str().unwrap(), name, &cluster), "");
    let http = node.http.as_ref().unwrap();
    http.post("workflow-definitions", &named(1)).await.expect(200);
    let said = |part: &str| node.child.stderr().iter().filter(|line| line.contains(part)).count();
    let away = async |names: &[&str]| {
        wait_until("readiness to name what is away", async || {
            http.get("/health/ready").await.expect(200)["away"] == json!(names)
        })
        .await;
    };
    let (no_rights, all_rights) = (rights("^$"), rights(".*"));
    let delete_host = format!("rabbit_vhost:delete(<<\"{name}\">>, <<\"t\">>)");
    let end = "is connected again";
    for (n, remedy, wrong, right) in [
        (
            1,
            "rabbitmqctl set_permissions` grants it",
            no_rights,
            all_rights.clone(),
        ),
        (
            2,
            "`rabbitmqctl add_vhost`",
            delete_host,
            format!("{host}, {all_rights}"),
        ),
    ] {
        broker.eval(&format!("{wrong}, {close}."));
        away(&["signal", "wake"]).await;
        wait_until(remedy, async || said(remedy) == 2).await;
        // Some more tries, none of which is logged.
        for _ in 0..2 {
            lateness(&database, http).await;
        }
        assert_eq!(said(remedy), 2, "{:?}", node.child.stderr());
        broker.eval(&format!("{right}."));
        away(&[]).await;
        wait_until(end, async || said(end) == 2 * n).await;
    }
    // TLS where the broker speaks none.
    std::fs::write(&file, url("amqps")).unwrap();
    broker.eval(&format!("{close}."));
    away(&["signal", "wake"]).await;
    let no_tls = "a port without TLS needs amqp://";
    wait_until(no_tls, async || said(no_tls) == 2).await;
    lateness(&database, http).await;
    std::fs::write(&file, url("amqp")).unwrap();
    away(&[]).await;
    wait_until(end, async || said(end) == 6).await;
    assert_eq!((said(no_tls), said("geheim")), (2, 0), "{:?}", node.child.stderr());
    // Each time one line for the lost connection of a service, and one for what keeps it from coming back. A service that tries
    // between the new virtual host and the rights in it names those, too.
    let lines = said("notifications do not go over RabbitMQ");
    assert!((12..=14).contains(&lines), "{lines}: {:?}", node.child.stderr());
    lateness(&database, http).await;
    std::fs::remove_file(&file).unwrap();
    broker.eval(&format!("rabbit_vhost:delete(<<\"{name}\">>, <<\"t\">>), rabbit_auth_backend_internal:delete_user(<<\"{name}\">>, <<\"t\">>)."));
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_connect_and_not_send_is_named_once() {
    let database = TestDatabase::create().await;
    let (broker, name) = (RabbitProcess::shared(), database.name());
    let rights = |write: &str| {
        format!(
            "rabbit_auth_backend_internal:set_permissions(<<\"{name}\">>, <<\"/\">>, <<\".*\">>, <<\"{write}\">>, <<\".*\">>, \
             <<\"t\">>)"
        )
    };
    let user = format!("rabbit_auth_backend_internal:add_user(<<\"{name}\">>, <<\"geheim\">>, <<\"t\">>)");
    // It may bind the queues, and not send to the exchanges, whose names have one dot.
    broker.eval(&format!("{user}, {}.", rights(".*[.].*[.].*")));
    let url = format!("amqp://{name}:geheim@127.0.0.1:{}/", broker.port());
    let node = Node::start_with(
        &database,
        "one",
        &settings(&url, name, &["--check-in", "1s", "--tolerance", "20s"]),
        "",
    );
    let http = node.http.as_ref().unwrap();
    let said = |part: &str| node.child.stderr().iter().filter(|line| line.contains(part)).count();
    let remedy = "rabbitmqctl set_permissions` grants it";
    for version in 1..=12 {
        http.post("workflow-definitions", &named(version)).await.expect(200);
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    // While it connects anew, the cause is the end of the connection before.
    wait_until("the remedy as the cause", async || {
        let ready = http.get("/health/ready").await.expect(200);
        let cause = ready["causes"]["signal"].as_str().unwrap_or_default();
        cause.contains(remedy)
    })
    .await;
    assert!((1..=2).contains(&said(remedy)), "{:?}", node.child.stderr());
    broker.eval(&format!("{}.", rights(".*")));
    wait_until("it to be used again", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
    assert_eq!(said("geheim"), 0);
    broker.eval(&format!(
        "rabbit_auth_backend_internal:delete_user(<<\"{name}\">>, <<\"t\">>)."
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_exits_with_a_remedy_where_its_broker_cannot_be_used() {
    let database = TestDatabase::create().await;
    let (broker, prefix) = (RabbitProcess::shared(), database.name());
    let port = broker.port();
    let ended = |url: &str| {
        let mut child = spawn(&database.url(), "one", &settings(url, prefix, &NEVER), &[]);
        let code = child.wait(TIMEOUT).code().unwrap();
        let said = child.stderr().join("\n");
        assert!(!said.contains("geheim"), "{said}");
        (code, said)
    };
    let (code, said) = ended(&format!("amqp://guest:geheim@127.0.0.1:{port}/"));
    assert!(code == 2 && said.contains("--rabbitmq-url"), "{code}: {said}");
    for (url, expected, named) in [
        (format!("amqp://guest:guest@127.0.0.1:{port}/absent"), 2, "add_vhost"),
        (format!("amqps://guest:geheim@127.0.0.1:{port}/"), 3, "TLS"),
        ("amqp://guest:geheim@127.0.0.1:1/".to_owned(), 3, "127.0.0.1:1"),
    ] {
        let (code, said) = ended(&url);
        assert!(code == expected && said.contains(named), "{code}: {said}");
    }
    let taken = resource("exchange", &format!("{prefix}.signal"));
    broker.eval(&format!(
        "rabbit_exchange:declare({taken}, direct, true, false, false, [], <<\"t\">>)."
    ));
    let (code, said) = ended(&broker.url());
    assert!(code == 2 && said.contains("rabbitmq-prefix"), "{code}: {said}");
    broker.eval(&format!("rabbit_exchange:delete({taken}, false, <<\"t\">>)."));
    let waits = settings("amqp://guest:geheim@127.0.0.1:1/", prefix, &["--service-wait", "1s"]);
    let mut waits = spawn(&database.url(), "one", &waits, &[]);
    assert_eq!(waits.wait(TIMEOUT).code(), Some(3));
    assert_contains(&waits.stderr().join("\n"), &["waiting for RabbitMQ", "127.0.0.1:1"]);
    let (code, said) = ended("amqp://guest:geheim@127.0.0.1/?hartbeat=1");
    assert!(code == 2 && said.contains("hartbeat"), "{code}: {said}");
    let mut child = spawn(&database.url(), "one", &OVER_RABBITMQ, &[]);
    assert_eq!(child.wait(TIMEOUT).code(), Some(2));
    assert_contains(&child.stderr().join("\n"), &["--rabbitmq-url"]);
    // A URL alone selects nothing.
    let alone = ["--rabbitmq-url", "amqp://guest:geheim@127.0.0.1:1/"];
    let alone = Node::start_with(&database, "alone", &alone, "");
    assert!(
        alone.child.logs("--rabbitmq-url is not needed"),
        "{:?}",
        alone.child.stderr()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_a_broker_that_the_variables_of_elsa_name() {
    let database = TestDatabase::create().await;
    let (broker, prefix) = (RabbitProcess::shared(), database.name().to_owned());
    let later = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = later.port().to_string();
    let variables = [
        ("RabbitMq__Host", "127.0.0.1"),
        ("RabbitMq__Port", &port),
        ("RabbitMq__UserName", "guest"),
        ("RabbitMq__Password", "guest"),
        ("RabbitMq__ConcurrentMessageLimit", "32"),
    ];
    let arguments = [
        "--wake",
        "rabbitmq",
        "--rabbitmq-prefix",
        &prefix,
        "--service-wait",
        "1m",
    ];
    let node: Child = spawn(&database.url(), "one", &arguments, &variables);
    node.wait_for_log("waiting for RabbitMQ").await;
    let listener = TcpListener::bind(later).await.unwrap();
    let target = broker.port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    node.wait_for_line("ready ", TIMEOUT);
    assert!(
        node.logs("ignored variables of Elsa: RabbitMq__ConcurrentMessageLimit"),
        "{:?}",
        node.stderr()
    );
}
