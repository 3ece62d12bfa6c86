//! What requests are for, on two nodes of one cluster.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::definition::WorkflowDefinition;
use crate::id::{DefinitionId, InstanceId};
use crate::runtime::context::request::StartRequest;
use crate::runtime::engine::http_routes::{
    AmbiguousRoutes, FoundRoute, FoundTarget, RouteCandidate, RouteQuery, RouteTarget,
};
use crate::runtime::engine::{Engine, start_admission};
use crate::signal::LocalSignal;
use crate::store::start::{NewStart, StartRoute};
use crate::testing::TestDatabase;
use crate::{Error, Result};

struct Nodes {
    one: Engine,
    two: Engine,
    database: TestDatabase,
}

impl Nodes {
    /// Hints do not reach the other node unless they are `connected`.
    async fn start(connected: bool) -> Self {
        let database = TestDatabase::create().await;
        let signal = LocalSignal::default();
        let mut nodes = Vec::new();
        for name in ["one", "two"] {
            let signal = if connected {
                signal.clone()
            } else {
                LocalSignal::default()
            };
            let builder = Engine::builder(database.url()).node_id(name).signal(signal);
            let slow = (Duration::from_secs(30), Duration::from_secs(120));
            nodes.push(builder.check_in(slow.0).tolerance(slow.1).start().await.unwrap());
        }
        let (two, one) = (nodes.pop().unwrap(), nodes.pop().unwrap());
        Self { one, two, database }
    }

    async fn end(self) {
        self.one.shutdown().await;
        self.two.shutdown().await;
    }
}

/// An endpoint; `path` may be an expression in JavaScript, after `=`.
fn endpoint(id: &str, path: &str, methods: &[&str]) -> Value {
    let (language, path) = match path.strip_prefix('=') {
        Some(script) => ("JavaScript", script),
        None => ("Literal", path),
    };
    json!({"type": "Elsa.HttpEndpoint", "id": id,
        "path": {"typeName": "String", "expression": {"type": language, "value": path}},
        "supportedMethods": {"typeName": "String[]", "expression": {"type": "Object", "value": json!(methods).to_string()}}})
}

fn trigger(id: &str, path: &str, methods: &[&str]) -> Value {
    let mut endpoint = endpoint(id, path, methods);
    endpoint["canStartWorkflow"] = true.into();
    endpoint
}

async fn publish(engine: &Engine, id: &str, activities: &[Value]) -> Result<()> {
    let definition = json!({"definitionId": id, "name": id.to_uppercase(),
        "root": {"type": "Elsa.Sequence", "id": "all", "activities": activities}});
    let definition = WorkflowDefinition::from_value(definition).unwrap();
    engine.save(definition, true).await.map(drop)
}

/// Starts an instance and waits until it waits itself.
async fn begin(engine: &Engine, definition: &str, instance: &str, correlation_id: Option<&str>) -> InstanceId {
    let request = StartRequest {
        definition_id: DefinitionId::new(definition),
        instance_id: Some(InstanceId::new(instance)),
        correlation_id: correlation_id.map(str::to_owned),
        ..StartRequest::default()
    };
    let executed = engine.execute(request).await.unwrap();
    assert!(!executed.pending);
    InstanceId::new(instance)
}

fn query<'a>(method: &'a str, path: &'a str) -> RouteQuery<'a> {
    RouteQuery {
        method,
        path,
        instance_id: None,
        correlation_id: None,
    }
}

async fn find(engine: &Engine, query: RouteQuery<'_>) -> FoundRoute {
    engine.find_route(&query).await.unwrap()
}

async fn target(engine: &Engine, query: RouteQuery<'_>) -> FoundTarget {
    match find(engine, query).await {
        FoundRoute::Target(target) => *target,
        other => panic!("{other:?} of {query:?}"),
    }
}

/// The definition or instance that a request is for.
async fn meant(engine: &Engine, query: RouteQuery<'_>) -> String {
    match target(engine, query).await.target {
        RouteTarget::Start { definition_id, .. } => definition_id.as_str().to_owned(),
        RouteTarget::Resume { instance_id, .. } => instance_id.as_str().to_owned(),
    }
}

fn values(target: &FoundTarget) -> Value {
    Value::Object(target.values.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_template_of_the_path_is_meant_on_each_node() {
    let nodes = Nodes::start(false).await;
    let (one, two) = (&nodes.one, &nodes.two);
    assert!(matches!(find(two, query("GET", "/orders/17")).await, FoundRoute::None));
    publish(one, "any", &[trigger("e", "orders/{id}", &["GET", "POST"])])
        .await
        .unwrap();
    publish(one, "int", &[trigger("e", "Orders/{id:int}", &["GET"])])
        .await
        .unwrap();
    publish(one, "new", &[trigger("e", "/orders/new/", &["GET"])])
        .await
        .unwrap();
    publish(
        one,
        "rest",
        &[
            trigger("e", "orders/{*rest}", &["GET"]),
            trigger("f", "{**all}", &["PUT"]),
        ],
    )
    .await
    .unwrap();
    for engine in [two, one] {
        assert_eq!(meant(engine, query("get", "/orders/a%20b")).await, "any");
        assert_eq!(meant(engine, query("GET", "/ORDERS/17/")).await, "int");
        assert_eq!(meant(engine, query("POST", "/orders/17")).await, "any");
        assert_eq!(meant(engine, query("GET", "/orders/new")).await, "new");
        assert_eq!(meant(engine, query("GET", "/orders/1/2")).await, "rest");
        assert_eq!(meant(engine, query("PUT", "/")).await, "rest");
        let found = target(engine, query("GET", "/orders/a%20b")).await;
        assert_eq!(values(&found), json!({"id": "a b"}));
        assert_eq!(
            (&found.options["path"], &found.options["method"]),
            (&json!("orders/{id}"), &json!("get"))
        );
        let RouteTarget::Start { activity_id, .. } = found.target else {
            panic!("{:?}", found.target);
        };
        assert_eq!(activity_id.as_str(), "e");
        let FoundRoute::WrongMethod { allowed } = find(engine, query("DELETE", "/orders/17")).await else {
            panic!("no other methods");
        };
        assert_eq!(allowed, ["GET", "POST", "PUT"]);
        let error = engine.find_route(&query("GET", "orders")).await.unwrap_err();
        assert_eq!(error.code(), "invalid-path");
    }
    nodes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_endpoints_of_a_definition_or_of_two_have_different_routes() {
    let nodes = Nodes::start(true).await;
    let both = [
        trigger("a", "orders/{id}", &["GET"]),
        trigger("b", "/Orders/{number}/", &["PUT", "GET"]),
    ];
    let error = publish(&nodes.one, "d", &both).await.unwrap_err();
    assert_eq!(error.code(), "invalid-trigger");
    for part in ["GET", "ambiguous"] {
        assert!(error.message().contains(part), "{}", error.message());
    }
    let twice = [
        trigger("a", "orders/{id}", &["GET", "get", "PUT"]),
        trigger("b", "orders/{id}", &["POST"]),
    ];
    publish(&nodes.one, "d", &twice).await.unwrap();
    let error = publish(&nodes.two, "e", &[trigger("a", "orders/{x?}", &["DELETE", "PUT"])])
        .await
        .unwrap_err();
    assert_eq!(error.code(), "route-taken");
    for part in ["\"d\" (D)", "orders/{id}", "PUT"] {
        assert!(error.message().contains(part), "{}", error.message());
    }
    publish(&nodes.two, "e", &[trigger("a", "orders/{x?}", &["DELETE"])])
        .await
        .unwrap();
    let error = publish(&nodes.one, "f", &[trigger("a", "orders/{id", &["GET"])])
        .await
        .unwrap_err();
    assert!(error.is_invalid(), "{error}");
    nodes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_match_a_path_in_common_are_not_published() {
    let nodes = Nodes::start(true).await;
    let (one, two) = (&nodes.one, &nodes.two);
    let get = |id: &str, path: &str| trigger(id, path, &["GET"]);
    let both = [
        get("a", "orders/{id:int}"),
        trigger("b", "/Orders/{number:min(1)}/", &["PUT", "GET"]),
    ];
    let error = publish(one, "d", &both).await.unwrap_err();
    assert_eq!(error.code(), "invalid-trigger");
    for part in ["/orders/1", "{number:min(1)}", "{id:int}", "GET", "ambiguous"] {
        assert!(error.message().contains(part), "{part}: {}", error.message());
    }
    let apart = [
        get("a", "orders/{id:int}"),
        get("b", "orders/{id:guid}"),
        trigger("c", "orders/{number:min(1)}", &["PUT"]),
    ];
    publish(one, "d", &apart).await.unwrap();
    publish(one, "d", &apart).await.unwrap();
    let error = publish(two, "e", &[get("a", "orders/{x:range(5,9)}")])
        .await
        .unwrap_err();
    assert_eq!(error.code(), "route-taken");
    for part in ["\"d\" (D)", "orders/{id:int}", "GET", "/orders/5"] {
        assert!(error.message().contains(part), "{part}: {}", error.message());
    }
    publish(two, "e", &[get("a", "orders/{x:alpha}")]).await.unwrap();
    // What an expression and a constraint have in common is not known before a request has it.
    publish(two, "f", &[get("a", "orders/{x:regex(^ab$)}")]).await.unwrap();
    let FoundRoute::Ambiguous(AmbiguousRoutes { candidates, .. }) = find(one, query("GET", "/orders/ab")).await else {
        panic!("one of two");
    };
    let named = ["e", "f"].map(|id| RouteCandidate::Definition(DefinitionId::new(id)));
    assert_eq!(candidates, named);
    nodes.end().await;
}

/// The node that is asked has heard nothing of either.
#[tokio::test(flavor = "multi_thread")]
async fn a_bookmark_that_another_node_has_committed_is_met() {
    let nodes = Nodes::start(false).await;
    let (one, two) = (&nodes.one, &nodes.two);
    publish(
        one,
        "literal",
        &[endpoint("e", "=`approve/${getWorkflowInstanceId()}`", &["POST"])],
    )
    .await
    .unwrap();
    publish(
        one,
        "pattern",
        &[endpoint("e", "Decide/{what:alpha}/{why?}", &["POST", "PUT"])],
    )
    .await
    .unwrap();
    for number in 1..=10 {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        begin(one, "literal", &a, None).await;
        assert_eq!(meant(two, query("POST", &format!("/Approve/{a}/"))).await, a);
        let b = begin(one, "pattern", &b, None).await;
        let named = RouteQuery {
            instance_id: Some(&b),
            ..query("PUT", "/decide/yes")
        };
        let found = target(two, named).await;
        assert_eq!(values(&found), json!({"what": "yes"}));
        assert!(matches!(found.target, RouteTarget::Resume { instance_id, .. } if instance_id == b));
    }
    let FoundRoute::Ambiguous(AmbiguousRoutes { candidates, options }) =
        find(two, query("POST", "/decide/yes/now")).await
    else {
        panic!("one of ten");
    };
    assert_eq!(options.len(), 10);
    assert_eq!(candidates.len(), 10);
    assert!(candidates.contains(&RouteCandidate::Instance(InstanceId::new("b7"))));
    assert!(matches!(find(two, query("POST", "/decide/17")).await, FoundRoute::None));
    for path in ["/approve/a1", "/decide/yes"] {
        let FoundRoute::WrongMethod { allowed } = find(two, query("GET", path)).await else {
            panic!("no other methods");
        };
        assert_eq!(
            allowed.last().map(String::as_str),
            Some(if path == "/approve/a1" { "POST" } else { "PUT" })
        );
    }
    nodes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_goes_before_instances_that_the_request_does_not_name() {
    let nodes = Nodes::start(true).await;
    let (one, two) = (&nodes.one, &nodes.two);
    publish(one, "waits", &[endpoint("e", "orders/{id}", &["GET"])])
        .await
        .unwrap();
    let waiting = begin(one, "waits", "w1", Some("c1")).await;
    begin(one, "waits", "w2", Some("c2")).await;
    let path = query("GET", "/orders/1");
    assert!(matches!(find(two, path).await, FoundRoute::Ambiguous(all) if all.candidates.len() == 2));
    let correlated = RouteQuery {
        correlation_id: Some("c2"),
        ..path
    };
    assert_eq!(meant(two, correlated).await, "w2");
    let other = RouteQuery {
        correlation_id: Some("c3"),
        ..path
    };
    assert!(matches!(find(two, other).await, FoundRoute::None));
    publish(one, "starts", &[trigger("e", "orders/{id}", &["GET"])])
        .await
        .unwrap();
    assert_eq!(meant(two, path).await, "starts");
    assert_eq!(meant(two, correlated).await, "starts");
    let named = RouteQuery {
        instance_id: Some(&waiting),
        ..path
    };
    assert_eq!(meant(two, named).await, "w1");
    let wrong = RouteQuery {
        correlation_id: Some("c2"),
        ..named
    };
    assert_eq!(meant(two, wrong).await, "starts");
    let elsewhere = InstanceId::new("another");
    let new = RouteQuery {
        instance_id: Some(&elsewhere),
        ..path
    };
    assert_eq!(meant(two, new).await, "starts");
    // A literal template goes before one with a parameter, whichever instance waits there.
    publish(one, "precise", &[endpoint("e", "orders/1", &["GET"])])
        .await
        .unwrap();
    begin(one, "precise", "p1", None).await;
    assert_eq!(meant(two, path).await, "p1");
    publish(one, "literal", &[trigger("e", "orders/1", &["GET"])])
        .await
        .unwrap();
    assert_eq!(meant(two, path).await, "literal");
    assert_eq!(meant(two, named).await, "w1");
    nodes.end().await;
}

/// More templates than are tried, in place of those of as many instances.
const MANY: &str = "
    INSERT INTO mainspring.bookmark_route (id, tenant_id, anchor, hash, template, method)
    SELECT sha256(n::text::bytea), r.tenant_id, r.anchor, sha256(n::text::bytea), format(TEMPLATE, n), r.method
    FROM mainspring.bookmark_route r, generate_series(1, COUNT) n WHERE r.method = 'post'";

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_behind_too_many_templates_is_not_said_to_be_missing() {
    let nodes = Nodes::start(true).await;
    let (one, two) = (&nodes.one, &nodes.two);
    publish(one, "waits", &[endpoint("e", "orders/{id:int}", &["POST"])])
        .await
        .unwrap();
    let waiting = begin(one, "waits", "w", None).await;
    publish(one, "exact", &[endpoint("e", "orders/exact", &["POST"])])
        .await
        .unwrap();
    begin(one, "exact", "x", None).await;
    let client = nodes.database.connect().await;
    for (template, count) in [("'orders/{id}/%s'", "501"), ("'orders/{id:regex(^%s$)}/a'", "65")] {
        assert_eq!(meant(two, query("POST", "/orders/1")).await, "w");
        assert!(matches!(find(two, query("POST", "/orders/a")).await, FoundRoute::None));
        let many = MANY.replace("TEMPLATE", template).replace("COUNT", count);
        client.batch_execute(&many).await.unwrap();
        for path in ["/orders/1", "/orders/a"] {
            let error = two.find_route(&query("POST", path)).await.unwrap_err();
            assert_eq!(error.code(), "too-many-routes");
        }
        assert_eq!(meant(two, query("POST", "/orders/exact")).await, "x");
        let named = RouteQuery {
            instance_id: Some(&waiting),
            ..query("POST", "/orders/1")
        };
        assert_eq!(meant(two, named).await, "w");
        let wrong = RouteQuery { method: "PUT", ..named };
        assert!(matches!(find(two, wrong).await, FoundRoute::WrongMethod { allowed } if allowed == ["POST"]));
        let delete = "DELETE FROM mainspring.bookmark_route WHERE template LIKE '%/{id%}/%'";
        client.batch_execute(delete).await.unwrap();
    }
    nodes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_does_not_wait_behind_large_regular_expressions() {
    let nodes = Nodes::start(true).await;
    let path = |parts: usize| {
        let parts = (0..parts).map(|part| format!("{{p{part}:regex(^a$)}}"));
        parts.collect::<Vec<String>>().join("/")
    };
    for (parts, is_refused) in [(16, false), (17, true)] {
        publish(&nodes.one, "waits", &[endpoint("e", &path(parts), &["POST"])])
            .await
            .unwrap();
        let request = StartRequest {
            definition_id: DefinitionId::new("waits"),
            ..StartRequest::default()
        };
        let executed = nodes.one.execute(request).await.unwrap();
        assert_eq!(executed.faulted, is_refused);
        let state = nodes.one.instance(&executed.instance_id).await.unwrap().workflow_state;
        assert_eq!(state.to_string().contains("256 KiB"), is_refused, "{state}");
    }
    nodes.end().await;
}

async fn accepts(engine: &Engine, instance: &str, target: RouteTarget) -> Result<String> {
    let RouteTarget::Start {
        definition_id,
        activity_id,
        hash,
        revision,
    } = target
    else {
        return Err(Error::internal("no start"));
    };
    let owner = definition_id.as_str().to_owned();
    // No request: its burst faults, and waits for nothing.
    let body = json!({"triggerActivityId": activity_id, "payload": {}});
    let start = NewStart {
        tenant: engine.tenant.clone(),
        instance: InstanceId::new(instance),
        definition_id,
        version_id: None,
        checked_version: None,
        trigger_node_id: None,
        body,
        request: None,
        route: Some(StartRoute {
            activity_id,
            hash,
            revision,
        }),
        has_chosen_id: true,
        claimed: false,
        origin: None,
    };
    let node = engine.node()?;
    start_admission::accept(&node, start, Instant::now() + Duration::from_secs(10)).await?;
    Ok(owner)
}

/// The node that is asked does not hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_route_is_never_served_from_an_old_table() {
    let nodes = Nodes::start(false).await;
    let (one, two) = (&nodes.one, &nodes.two);
    // A path without parameters is found without the database.
    for path in ["orders", "items/{id}"] {
        let request = path.replace("{id}", "17");
        let request = format!("/{request}");
        publish(one, "a", &[trigger("e", path, &["GET"])]).await.unwrap();
        for round in 0..5 {
            let owners = if round % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            let found = target(two, query("GET", &request)).await;
            let owner = accepts(two, &format!("{path}-{round}-before"), found.target.clone())
                .await
                .unwrap();
            assert_eq!(owner, owners[0]);
            publish(one, owners[0], &[trigger("e", "elsewhere", &["GET"])])
                .await
                .unwrap();
            publish(one, owners[1], &[trigger("e", path, &["GET"])]).await.unwrap();
            publish(
                one,
                owners[0],
                &[trigger("e", &format!("elsewhere/{}", owners[0]), &["GET"])],
            )
            .await
            .unwrap();
            // What it found before the move, and finds in its table until it is refused.
            let error = accepts(two, &format!("{path}-{round}-old"), found.target)
                .await
                .unwrap_err();
            assert_eq!(error.code(), "route-moved");
            let found = target(two, query("GET", &request)).await;
            assert_eq!(
                accepts(two, &format!("{path}-{round}-new"), found.target)
                    .await
                    .unwrap(),
                owners[1]
            );
        }
        // Without an owner.
        let found = target(two, query("GET", &request)).await;
        for id in ["a", "b"] {
            one.retract(&DefinitionId::new(id)).await.unwrap();
        }
        assert_eq!(
            accepts(two, "gone", found.target).await.unwrap_err().code(),
            "route-moved"
        );
        assert!(matches!(find(two, query("GET", &request)).await, FoundRoute::None));
    }
    nodes.end().await;
}

/// The node that is asked receives no signal of the second publish.
#[tokio::test(flavor = "multi_thread")]
async fn options_of_an_older_publish_are_never_served() {
    let nodes = Nodes::start(false).await;
    let (one, two) = (&nodes.one, &nodes.two);
    let mut endpoint = trigger("e", "orders", &["GET"]);
    publish(one, "a", std::slice::from_ref(&endpoint)).await.unwrap();
    let open = target(two, query("GET", "/orders")).await;
    assert_eq!(open.options["authorize"], Value::Null, "{}", open.options);
    endpoint["authorize"] = true.into();
    publish(one, "a", &[endpoint]).await.unwrap();
    // The route has the same path and the same owner, and asks for a credential.
    let known = target(two, query("GET", "/orders")).await;
    for (name, target) in [("found-before", open.target), ("found-after", known.target)] {
        let error = accepts(two, name, target).await.unwrap_err();
        assert_eq!(error.code(), "route-moved", "{name}");
    }
    let guarded = target(two, query("GET", "/orders")).await;
    assert_eq!(guarded.options["authorize"], true, "{}", guarded.options);
    accepts(two, "new", guarded.target).await.unwrap();
    nodes.end().await;
}
