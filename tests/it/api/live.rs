//! The hub: an observer at one node receives what another one commits; what is no token, no record or too long ends a
//! connection and nothing else.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Http, TIMEOUT, TestDatabase, assert_fields};

const HUB: &str = "/elsa/hubs/workflow-instance";
const KEY: &str = "0123456789abcdef";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A node, and its address without a scheme.
fn node(database: &TestDatabase, name: &'static str, settings: &[&str]) -> (Node, String) {
    let node = Node::start_with(database, name, &[&["--check-in", "200ms"], settings].concat(), "");
    let ready = node.child.wait_for_line("ready ", TIMEOUT);
    let address = ready.trim_end_matches('/').trim_start_matches("http://").to_owned();
    (node, address)
}

async fn negotiate(http: &Http) -> String {
    let answer = http
        .post(&format!("{HUB}/negotiate?negotiateVersion=1"), &json!({}))
        .await
        .expect(200);
    assert_fields!(answer, {"negotiateVersion": 1,
        "availableTransports": [{"transport": "WebSockets", "transferFormats": ["Text"]}]});
    assert!(answer["connectionId"].is_string());
    answer["connectionToken"].as_str().unwrap().to_owned()
}

/// Connects as a browser does: without a key, from a page of this origin. An error has the status.
async fn connect(address: &str, token: &str, origin: &str) -> Result<Socket, u16> {
    let mut request = format!("ws://{address}{HUB}?id={token}").into_client_request().unwrap();
    request.headers_mut().insert("origin", origin.parse().unwrap());
    match connect_async(request).await {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

async fn send(socket: &mut Socket, record: &Value) {
    socket.send(Message::text(format!("{record}\u{1e}"))).await.unwrap();
}

/// The next records; empty: the connection has ended.
async fn receive(socket: &mut Socket) -> Vec<Value> {
    loop {
        match tokio::time::timeout(TIMEOUT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Text(text))) => {
                let records = text.as_str().split_terminator('\u{1e}');
                return records.map(|record| serde_json::from_str(record).unwrap()).collect();
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return Vec::new(),
        }
    }
}

/// Connected, and greeted.
async fn greeted(http: &Http, address: &str) -> Socket {
    let token = negotiate(http).await;
    let mut socket = connect(address, &token, &format!("http://{address}")).await.unwrap();
    send(&mut socket, &json!({"protocol": "json", "version": 1})).await;
    assert_eq!(receive(&mut socket).await, [json!({})]);
    socket
}

/// Waits until an instance is reported as changed; returns the counts of its activities.
async fn changed(socket: &mut Socket, id: &str) -> Value {
    loop {
        let records = receive(socket).await;
        assert!(!records.is_empty(), "the connection has ended");
        let of = |target: &str| {
            records
                .iter()
                .find(|record| record["target"] == target)
                .map(|record| &record["arguments"][0])
        };
        let Some(updated) = of("WorkflowInstanceUpdatedAsync") else {
            continue;
        };
        assert_eq!(updated["workflowInstanceId"], id);
        assert_eq!(of("WorkflowExecutionLogUpdatedAsync"), Some(&json!({})));
        return of("ActivityExecutionLogUpdatedAsync").unwrap()["stats"].clone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_at_one_node_receives_the_commits_of_another() {
    let database = TestDatabase::create().await;
    let settings = ["--api-key", KEY];
    let ((one, at_one), (mut two, at_two)) = (
        node(&database, "one", &[&settings[..], &["--workers", "0"]].concat()),
        node(&database, "two", &settings),
    );
    let (first, second) = (
        one.http.clone().unwrap().with_key(KEY),
        two.http.clone().unwrap().with_key(KEY),
    );
    let event = |id: &str| json!({"type": "Elsa.Event", "id": id, "eventName": id});
    first
        .publish(
            &json!({"definitionId": "waits", "root": {"type": "Elsa.Sequence", "id": "root",
            "activities": [event("a"), event("b")]}}),
        )
        .await;
    let start = second.dispatch("waits", &json!({})).await;
    let id = start["workflowInstanceId"].as_str().unwrap();
    second.instance_becomes(id, "Suspended").await;

    // The first node runs nothing; the token was made by the second.
    let mut socket = greeted(&second, &at_one).await;
    let observe = json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": [id], "invocationId": "0"});
    send(&mut socket, &observe).await;
    assert_eq!(
        receive(&mut socket).await,
        [json!({"type": 3, "invocationId": "0", "result": null})]
    );
    let stats = changed(&mut socket, id).await;
    let of = |stats: &Value, activity: &str| {
        let found = stats
            .as_array()
            .unwrap()
            .iter()
            .find(|stat| stat["activityId"] == activity);
        found.cloned().unwrap_or_default()
    };
    assert_fields!(of(&stats, "a"), {"startedCount": 1, "completedCount": 0, "isBlocked": true});
    second.trigger("a", &json!({})).await;
    loop {
        let stats = changed(&mut socket, id).await;
        if of(&stats, "b")["startedCount"] == 1 {
            assert_fields!(of(&stats, "a"), {"completedCount": 1, "uncompletedCount": 0, "isBlocked": false});
            break;
        }
    }
    send(
        &mut socket,
        &json!({"type": 1, "target": "Other", "arguments": [], "invocationId": "1"}),
    )
    .await;
    let refused = loop {
        // A check-in may repeat the last change.
        let records = receive(&mut socket).await;
        if records.is_empty() || records[0]["type"] == 3 {
            break records;
        }
    };
    assert_fields!(refused[0], {"type": 3, "invocationId": "1"});
    assert!(refused[0]["error"].is_string());

    // An observer at the node that commits; both receive the end.
    let mut near = greeted(&first, &at_two).await;
    send(
        &mut near,
        &json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": [id]}),
    )
    .await;
    changed(&mut near, id).await;
    first.trigger("b", &json!({})).await;
    for socket in [&mut near, &mut socket] {
        while of(&changed(socket, id).await, "b")["completedCount"] != 1 {}
    }

    // A node that leaves sends its clients to another one.
    two.child.signal("TERM");
    let end = loop {
        let records = receive(&mut near).await;
        if records.is_empty() || records[0]["type"] == 7 {
            break records;
        }
    };
    assert_eq!(end, [json!({"type": 7, "allowReconnect": true})]);
    two.child.wait(TIMEOUT);
    for node in [&one, &two] {
        assert!(!node.child.logs("v1."), "a token is in the log");
    }
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_or_no_record_ends_a_connection_and_nothing_else() {
    let database = TestDatabase::create().await;
    let (node, address) = node(&database, "one", &["--api-key", KEY]);
    let (anonymous, http) = (node.http.clone().unwrap(), node.http.clone().unwrap().with_key(KEY));
    let origin = format!("http://{address}");
    anonymous
        .post(&format!("{HUB}/negotiate"), &json!({}))
        .await
        .assert_refused(401, "unauthorized");

    let token = negotiate(&http).await;
    assert_eq!(connect(&address, &token, "http://evil.example").await.err(), Some(403));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let reversed: String = signature.chars().rev().collect();
    for bad in ["", "x", head, &format!("{head}.{reversed}"), &"v1.a".repeat(1000)] {
        assert_eq!(connect(&address, bad, &origin).await.err(), Some(400), "{bad}");
    }
    http.get(&format!("{HUB}?id={token}"))
        .await
        .assert_refused(400, "websocket-required");
    drop(connect(&address, &token, &origin).await.unwrap());
    assert_eq!(connect(&address, &token, &origin).await.err(), Some(400), "it was used");
    http.publish(&json!({"definitionId": "waits", "root": {"type": "Elsa.Event", "id": "a", "eventName": "a"}}))
        .await;
    for id in ["first", "second"] {
        http.dispatch("waits", &json!({"instanceId": id})).await;
        http.instance_becomes(id, "Suspended").await;
    }
    let mut observer = greeted(&http, &address).await;
    // Of an instance that does not exist here nothing is sent.
    for id in ["none", "first"] {
        send(
            &mut observer,
            &json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": [id]}),
        )
        .await;
    }
    changed(&mut observer, "first").await;
    for garbage in [
        Message::text("no record"),
        Message::text("{}\u{1e}"),
        Message::text("[[[\u{1e}"),
        Message::text(format!("{{\"type\":6,\"x\":\"{}\"}}\u{1e}", "x".repeat(20_000))),
        Message::binary(vec![0_u8; 10]),
    ] {
        let mut socket = greeted(&http, &address).await;
        // It may be closed while it is sent.
        let _ = socket.send(garbage).await;
        while !receive(&mut socket).await.is_empty() {}
    }
    for greeting in ["", "{}\u{1e}", "{\"protocol\":\"messagepack\",\"version\":1}\u{1e}"] {
        let token = negotiate(&http).await;
        let mut socket = connect(&address, &token, &origin).await.unwrap();
        socket.send(Message::text(greeting)).await.unwrap();
        let answers = receive(&mut socket).await;
        assert!(answers.is_empty() || answers[0]["error"].is_string(), "{answers:?}");
    }
    // The others are served as before.
    send(&mut observer, &json!({"type": 6})).await;
    send(
        &mut observer,
        &json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": ["second"]}),
    )
    .await;
    changed(&mut observer, "second").await;
    send(&mut observer, &json!({"type": 7})).await;
    assert_eq!(receive(&mut observer).await, [json!({"type": 7})]);
    assert_invariants(&database).await;
}

/// A client of SignalR may send a key as `access_token` in the query: it is none here, and no log has it.
#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_in_the_query_is_no_key_and_in_no_log() {
    let database = TestDatabase::create().await;
    let settings = ["--api-key", KEY, "--log", "debug"];
    let (node, address) = node(&database, "one", &settings);
    let (anonymous, http) = (node.http.clone().unwrap(), node.http.clone().unwrap().with_key(KEY));
    let secret = "an-access-token-of-this-test";
    let query = format!("access_token={secret}");
    anonymous
        .post(&format!("{HUB}/negotiate?{query}"), &json!({}))
        .await
        .assert_refused(401, "unauthorized");
    http.post(&format!("{HUB}/negotiate?{query}"), &json!({}))
        .await
        .expect(200);
    let origin = format!("http://{address}");
    assert_eq!(connect(&address, &format!("x&{query}"), &origin).await.err(), Some(400));
    let token = negotiate(&http).await;
    drop(connect(&address, &format!("{token}&{query}"), &origin).await.unwrap());
    http.get(&format!("workflow-instances/none?{query}")).await.expect(404);
    for text in [secret, KEY, &token] {
        assert!(!node.child.logs(text), "{text} is in the log");
    }
}

/// Studio's client negotiates with its token in a header; others connect at once, with that of a user in the query.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_connects_with_an_access_token_in_the_query() {
    let database = TestDatabase::create().await;
    let (node, address) = node(&database, "one", &["--api-key", KEY, "--log", "debug"]);
    let (anonymous, http) = (node.http.clone().unwrap(), node.http.clone().unwrap().with_key(KEY));
    http.publish(&json!({"definitionId": "waits", "root": {"type": "Elsa.Event", "id": "a", "eventName": "a"}}))
        .await;
    http.dispatch("waits", &json!({"instanceId": "one"})).await;
    http.instance_becomes("one", "Suspended").await;
    let origin = format!("http://{address}");
    for (role, names, refused) in [
        ("reader", json!(["read:*"]), None),
        ("other", json!(["cancel:*"]), Some(403)),
    ] {
        let made = json!({"id": format!("test-{role}"), "name": role, "permissions": names});
        http.post("identity/roles", &made).await.expect(200);
        let user = json!({"name": role, "password": "a password of this test", "roles": [format!("test-{role}")]});
        http.post("identity/users", &user).await.expect(200);
        let login = json!({"username": role, "password": "a password of this test"});
        let tokens = anonymous.post("identity/login", &login).await.expect(200);
        let (access, refresh) = (
            tokens["accessToken"].as_str().unwrap(),
            tokens["refreshToken"].as_str().unwrap(),
        );
        assert_eq!(
            connect(&address, &format!("&access_token={refresh}"), &origin)
                .await
                .err(),
            Some(401)
        );
        let connected = connect(&address, &format!("&access_token={access}"), &origin).await;
        assert_eq!(connected.as_ref().err().copied(), refused, "{role}");
        if let Ok(mut socket) = connected {
            send(&mut socket, &json!({"protocol": "json", "version": 1})).await;
            assert_eq!(receive(&mut socket).await, [json!({})]);
            let observe = json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": ["one"]});
            send(&mut socket, &observe).await;
            changed(&mut socket, "one").await;
        }
        assert!(
            !node.child.logs(access) && !node.child.logs(refresh),
            "a token is in the log"
        );
    }
    assert_invariants(&database).await;
}

/// A Studio on another origin that is listed: it negotiates after a preflight, and connects.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_listed_origin_observes() {
    const ORIGIN: &str = "https://studio.example";
    let database = TestDatabase::create().await;
    let (node, address) = node(&database, "one", &["--api-key", KEY, "--cors-origin", ORIGIN]);
    let (anonymous, http) = (node.http.clone().unwrap(), node.http.clone().unwrap().with_key(KEY));
    let path = format!("{HUB}/negotiate?negotiateVersion=1");
    let preflight = [
        ("origin", ORIGIN),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,x-signalr-user-agent"),
    ];
    let answer = anonymous.send(Method::OPTIONS, &path, &preflight, None).await.unwrap();
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
    let allowed = answer.header("access-control-allow-headers");
    assert!(
        allowed.contains("x-signalr-user-agent") && allowed.contains("authorization"),
        "{allowed}"
    );
    let headers = [("origin", ORIGIN), ("x-signalr-user-agent", "Microsoft SignalR/8.0")];
    let answer = http.send(Method::POST, &path, &headers, None).await.unwrap();
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
    let token = answer.expect(200)["connectionToken"].as_str().unwrap().to_owned();
    assert_eq!(
        connect(&address, &token, "https://other.example").await.err(),
        Some(403)
    );
    let mut socket = connect(&address, &token, ORIGIN).await.unwrap();
    send(&mut socket, &json!({"protocol": "json", "version": 1})).await;
    assert_eq!(receive(&mut socket).await, [json!({})]);
}

/// A read of the counts that takes too long ends as a list does, and the change is reported without them.
#[tokio::test(flavor = "multi_thread")]
async fn counts_that_cannot_be_read_in_time_do_not_hold_a_change_up() {
    let database = TestDatabase::create().await;
    let (node, address) = node(&database, "one", &["--api-key", KEY]);
    let http = node.http.clone().unwrap().with_key(KEY);
    let mut client = database.connect().await;
    http.publish(&json!({"definitionId": "waits", "root": {"type": "Elsa.Event", "id": "a", "eventName": "a"}}))
        .await;
    let start = http.dispatch("waits", &json!({})).await;
    let id = start["workflowInstanceId"].as_str().unwrap();
    http.instance_becomes(id, "Suspended").await;
    let mut socket = greeted(&http, &address).await;
    let lock = client.transaction().await.unwrap();
    lock.batch_execute("LOCK mainspring.burst_record IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let began = std::time::Instant::now();
    let observe = json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": [id]});
    send(&mut socket, &observe).await;
    assert_eq!(changed(&mut socket, id).await, json!([]));
    // A read by its key would wait for 10 s.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    lock.rollback().await.unwrap();
    http.trigger("a", &json!({})).await;
    while changed(&mut socket, id).await[0]["completedCount"] != 1 {}
}
