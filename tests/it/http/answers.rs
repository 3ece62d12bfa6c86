//! What a client receives: the answer of the workflow, or what happened instead.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Received, echo, endpoint, get, instances, request, responds, serving, waits_at, workflow};
use crate::support::Child;
use crate::support::single_node::{KEY, SingleNode};
use crate::support::wait_until;

const NONE: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_receives_a_request_and_answers_it() {
    let all = "({body: getBody(), route: getRoute(), query: getQuery(), agent: getHeaders()['X-Kept']})";
    let answered = workflow(
        "answered",
        &[
            endpoint("in", "orders/{id:int}/{*rest}", &["POST", "HEAD"], json!({})),
            responds(
                "out",
                all,
                json!({"statusCode": 201, "responseHeaders": {
                "typeName": "Object", "expression": {"type": "Object", "value": "{\"X-Own\": [\"a\", \"b\"]}"}}}),
            ),
        ],
    );
    let node = serving(&NONE, &[answered]).await;
    let sent = request(&node.http, Method::POST, "Orders/7/a%20b/c?x=1&x=2&y=%C3%A9")
        .header("X-Kept", "yes")
        .json(&json!({"amount": 5}));
    let received = Received::of(sent).await;
    assert_eq!(received.header("content-type"), "application/json");
    let own: Vec<_> = received.headers.get_all("x-own").iter().collect();
    assert_eq!(own, ["a", "b"]);
    let body = received.expect(201);
    assert_eq!(
        body,
        json!({"body": {"amount": 5}, "route": {"id": "7", "rest": "a b/c"}, "query": {"x": ["1", "2"], "y": "é"}, "agent": "yes"})
    );
    // A HEAD is answered without the body that it would have.
    let head = Received::of(request(&node.http, Method::HEAD, "orders/7/x")).await;
    assert_eq!((head.status, head.text.as_str()), (201, ""));
    assert_ne!(head.header("content-length"), "0");
    assert_eq!(instances(&node.http, "answered").await.len(), 2);

    let allowed = get(&node.http, "orders/7/x").await;
    allowed.assert_refused(405, "method-not-allowed");
    let mut methods: Vec<&str> = allowed.header("allow").split(", ").collect();
    methods.sort_unstable();
    assert_eq!(methods, ["HEAD", "POST"]);
    for unknown in ["orders/x/y", "none", "", "resume/", "..%2F..%2Felsa/api"] {
        assert_eq!(get(&node.http, unknown).await.status, 404, "{unknown}");
    }
    get(&node.http, "orders/7/%00")
        .await
        .assert_refused(400, "invalid-text");
    get(&node.http, "orders/7?x=%00")
        .await
        .assert_refused(400, "invalid-text");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_nothing_answers_says_what_happened() {
    let starts = |path: &str| endpoint("in", path, &["GET"], json!({}));
    let delay = json!({"id": "nap", "type": "Elsa.Delay", "timeSpan": "00:00:00.3"});
    let fault = json!({"id": "fails", "type": "Elsa.Fault", "message": "with a secret"});
    let node = serving(
        &NONE,
        &[
            workflow("ends", &[starts("ends")]),
            workflow(
                "naps",
                &[starts("naps"), delay.clone(), responds("late", "'late'", json!({}))],
            ),
            workflow("fails", &[starts("fails"), fault.clone()]),
            workflow(
                "answers-and-fails",
                &[starts("both"), responds("out", "'fine'", json!({})), fault],
            ),
            workflow(
                "twice",
                &[
                    starts("twice"),
                    responds("a", "'first'", json!({})),
                    responds("b", "'second'", json!({})),
                ],
            ),
            workflow(
                "held",
                &[
                    endpoint("in", "held", &["GET"], json!({"waitForResponse": "00:00:30"})),
                    delay.clone(),
                    responds("late", "'late'", json!({})),
                ],
            ),
            workflow(
                "held-short",
                &[
                    endpoint("in", "held-short", &["GET"], json!({"waitForResponse": "00:00:00.2"})),
                    json!({"id": "nap", "type": "Elsa.Delay", "timeSpan": "00:05:00"}),
                ],
            ),
            workflow(
                "slow",
                &[
                    endpoint(
                        "in",
                        "slow",
                        &["GET"],
                        json!({"requestTimeout": "00:00:00.2", "waitForResponse": "00:00:30"}),
                    ),
                    delay,
                ],
            ),
        ],
    )
    .await;
    let finished = get(&node.http, "ends").await;
    assert_eq!((finished.status, finished.text.as_str()), (200, ""));
    let waits = get(&node.http, "naps").await;
    let id = waits.header("x-elsa-workflow-instance-id").to_owned();
    assert_eq!(waits.expect(202), json!({"workflowInstanceId": id}));
    let faulted = get(&node.http, "fails").await;
    faulted.assert_refused(500, "workflow-faulted");
    assert!(!faulted.text.contains("secret"), "{}", faulted.text);
    assert_eq!(get(&node.http, "both").await.expect(200), "fine");
    assert_eq!(get(&node.http, "twice").await.expect(200), "first");
    assert_eq!(instances(&node.http, "twice").await[0]["subStatus"], "Faulted");
    assert_eq!(get(&node.http, "held").await.expect(200), "late");
    assert_eq!(get(&node.http, "held-short").await.status, 202);
    get(&node.http, "slow").await.assert_refused(408, "request-timeout");
    node.http.instance_becomes(&id, "Faulted").await;
    let slow = instances(&node.http, "slow").await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    node.http.instance_becomes(&slow, "Finished").await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_open_or_asks_for_the_key_of_the_server() {
    let node = SingleNode::with_key(&["--http-base-path", "/flows/v1"]).await;
    let guarded = |path: &str| endpoint("in", path, &["GET"], json!({"authorize": true}));
    let seen = responds("out", "getHeaders().Authorization ?? 'none'", json!({}));
    node.http
        .publish(&echo("open", "open", &["GET"], "getHeaders().Authorization ?? 'none'"))
        .await;
    node.http
        .publish(&workflow("guarded", &[guarded("guarded"), seen.clone()]))
        .await;
    let middle = waits_at("mid", json!("middle"), &["GET"], json!({"authorize": true}));
    node.http.publish(&workflow("middle", &[middle, seen])).await;
    node.http.dispatch("middle", &json!({})).await;
    let get = async |path: &str, credential: &str| {
        let request = super::client().get(format!("http://{}/flows/v1/{path}", node.address));
        let request = if credential.is_empty() {
            request
        } else {
            request.header("Authorization", credential)
        };
        Received::of(request).await
    };
    let key = format!("ApiKey {KEY}");
    assert_eq!(get("open", "").await.expect(200), "none");
    assert_eq!(get("open", "Bearer mine").await.expect(200), "Bearer mine");
    // The key of the server is not for workflows.
    assert_eq!(get("open", &key).await.expect(200), "none");
    wait_until("the instance to wait", async || get("middle", "").await.status == 401).await;
    for path in ["guarded", "middle"] {
        for wrong in ["", "ApiKey 0000000000000000", "Bearer mine"] {
            let refused = get(path, wrong).await;
            assert_eq!((refused.status, refused.text.as_str()), (401, ""), "{path} {wrong}");
            assert_eq!(refused.header("www-authenticate"), "Bearer, ApiKey");
        }
        assert_eq!(get(path, &key).await.expect(200), "none");
    }
    assert_eq!(get("middle", &key).await.status, 404, "the bookmark is gone");
    for id in ["m1", "m2"] {
        node.http.dispatch("middle", &json!({"instanceId": id})).await;
        node.http.instance_becomes(id, "Suspended").await;
    }
    let refused = get("middle", "Bearer mine").await;
    assert_eq!(
        (refused.status, refused.text.as_str()),
        (401, ""),
        "which instances wait is not for everybody"
    );
    assert_eq!(get("middle", &key).await.status, 409);
    let other = super::client()
        .get(format!("http://{}/flows/v1/open", node.address))
        .header("Host", "evil.example");
    Received::of(other).await.assert_refused(403, "host-not-allowed");
    // The resume URLs and the API are where they were.
    let resume = super::client().post(format!("http://{}/workflows/resume/x", node.address));
    Received::of(resume).await.assert_refused(404, "no-such-link");
    let stopped = Child::start(&["serve", "--http-base-path", "/elsa"], &[]).wait(crate::support::TIMEOUT);
    assert_eq!(stopped.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_reaches_open_endpoints_only() {
    let node = serving(
        &NONE,
        &[
            echo("open", "open", &["GET", "POST"], "'here'"),
            workflow(
                "guarded",
                &[
                    endpoint("in", "guarded", &["GET", "POST"], json!({"authorize": true})),
                    responds("out", "'here'", json!({})),
                ],
            ),
        ],
    )
    .await;
    for method in [Method::GET, Method::POST] {
        let foreign = |path: &str| request(&node.http, method.clone(), path).header("Origin", "https://evil.example");
        assert_eq!(Received::of(foreign("open")).await.expect(200), "here");
        Received::of(foreign("guarded"))
            .await
            .assert_refused(403, "cross-site-request");
        let link = request(&node.http, method.clone(), "guarded");
        Received::of(link).await.assert_refused(403, "header-required");
        let own = request(&node.http, method.clone(), "guarded").header("X-Requested-With", "curl");
        assert_eq!(Received::of(own).await.expect(200), "here");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_the_instance_that_it_is_for() {
    let answer = responds("out", "getWorkflowInstanceId() + getCorrelationId()", json!({}));
    let waits = workflow(
        "waits",
        &[waits_at("mid", json!("meet"), &["GET"], json!({})), answer.clone()],
    );
    let starts = workflow(
        "starts",
        &[
            endpoint("in", "begin", &["GET"], json!({})),
            answer,
            waits_at("mid", json!("begin"), &["GET"], json!({})),
            responds("then", "getWorkflowInstanceId() + getCorrelationId()", json!({})),
        ],
    );
    let node = serving(&NONE, &[waits, starts]).await;
    for (id, correlation) in [("one", "c1"), ("two", "c2"), ("three", "c3")] {
        let start = json!({"instanceId": id, "correlationId": correlation});
        node.http.dispatch("waits", &start).await;
        node.http.instance_becomes(id, "Suspended").await;
    }
    let ambiguous = get(&node.http, "meet").await.expect(409);
    assert_eq!(
        ambiguous["errorMessage"],
        "The call is ambiguous and matches multiple workflows."
    );
    let mut named: Vec<&str> = ambiguous["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["WorkflowInstanceId"].as_str().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["one", "three", "two"]);
    let by_header = request(&node.http, Method::GET, "meet").header("X-Workflow-Instance-ID", "two");
    assert_eq!(Received::of(by_header).await.expect(200), "twoc2");
    assert_eq!(get(&node.http, "meet?correlationId=c3").await.expect(200), "threec3");
    assert_eq!(get(&node.http, "meet").await.expect(200), "onec1");
    assert_eq!(get(&node.http, "meet").await.status, 404);
    // A definition goes first, unless the request names an instance that waits there.
    let started = get(&node.http, "begin?workflowInstanceId=mine&correlationId=c").await;
    assert_eq!(started.expect(200), "minec");
    assert_eq!(
        get(&node.http, "begin?workflowInstanceId=mine").await.expect(200),
        "minec"
    );
    let fresh: Value = get(&node.http, "begin").await.expect(200);
    assert_ne!(fresh, "mine");
    get(&node.http, &format!("begin?workflowInstanceId={}", "x".repeat(300)))
        .await
        .assert_refused(400, "invalid-field");
    node.assert_invariants();
}
