//! What users of some roles may do at a node: exactly what its OpenAPI document says of each operation.

use reqwest::Method;
use serde_json::{Value, json};

use super::identity::done;
use crate::support::openapi::{Document, Operation};
use crate::support::single_node::{SingleNode, waits_for};
use crate::support::{Answer, Http, wait_until};

const PASSWORD: &str = "a password of this test";

const ROLES: [(&str, &[&str]); 4] = [
    ("none", &[]),
    ("reader", &["read:*"]),
    (
        "author",
        &["read:*", "write:workflow-definitions", "publish:*", "exec:*"],
    ),
    (
        "operator",
        &["cancel:*", "read:workflow-instances", "write:schedules", "read:audit"],
    ),
];

const SHARED: [&str; 3] = ["read:cluster", "write:cluster", "ManageWorkflowRuntime"];

/// Whether names allow a permission, said in another way than the program does.
fn has(names: &[&str], wanted: &str) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(start) => wanted.starts_with(start),
        None => *name == wanted,
    })
}

/// What a user sends after a login.
async fn login(node: &SingleNode, user: &str) -> Http {
    let base = Http::new(&format!("http://{}", node.address));
    let login = json!({"username": user, "password": PASSWORD});
    let tokens = base.post("identity/login", &login).await.expect(200);
    base.with_token(tokens["accessToken"].as_str().unwrap())
}

/// Adds the administrator of another tenant, and returns what the command prints.
fn add_other_root(node: &SingleNode) -> String {
    let add = [
        "user",
        "add",
        "other-root",
        "--role",
        "admin",
        "--tenant",
        "other",
        "--password-stdin",
    ];
    done(&node.database, &add, PASSWORD)
}

/// Makes a role and a user who has it; returns what that user sends.
async fn sign_in(node: &SingleNode, role: &str, permissions: &[&str]) -> Http {
    let made = json!({"id": format!("test-{role}"), "name": role, "permissions": permissions});
    node.http.post("identity/roles", &made).await.expect(200);
    let user = json!({"name": format!("{role}-user"), "password": PASSWORD, "roles": [format!("test-{role}")]});
    node.http.post("identity/users", &user).await.expect(200);
    login(node, &format!("{role}-user")).await
}

async fn send(http: &Http, operation: Operation<'_>) -> Answer {
    let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).unwrap();
    let body = operation.has_body().then_some(json!({}));
    let headers = [("x-requested-with", "test")];
    let path = operation.path_with("missing");
    http.send(method, &path, &headers, body.as_ref()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_do_what_the_document_says_and_nothing_else() {
    let node = SingleNode::with_key(&[]).await;
    let document = Document::of(&node.http).await;
    let mut wrong = Vec::new();
    let mut callers = Vec::new();
    for (role, permissions) in ROLES {
        callers.push((role, "", permissions, sign_in(&node, role, permissions).await));
    }
    add_other_root(&node);
    callers.push((
        "another tenant's administrator",
        "other",
        &["*"],
        login(&node, "other-root").await,
    ));
    for (role, tenant, permissions, http) in callers {
        // What all tenants share is for the default one.
        let is_usable = |name: &&&str| tenant.is_empty() || !SHARED.contains(*name);
        // The session itself goes last.
        let operations = document.operations().into_iter();
        for operation in operations.filter(|operation| !operation.path.ends_with("/identity/logout")) {
            let answer = send(&http, operation).await;
            let wanted = operation.permissions();
            let may = wanted.is_empty() || wanted.iter().filter(is_usable).any(|one| has(permissions, one));
            let is_refused = answer.body["code"] == "permission-required";
            // What one route does twice is checked by its handler, too.
            let is_twofold = operation.path.ends_with("/workflow-instances") && operation.method == "post";
            if answer.status == 401 && !operation.is_open() || (may == is_refused && !is_twofold) {
                wrong.push(format!(
                    "{} {} as {role}: {}",
                    operation.method, operation.path, answer.status
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_is_good_for_nothing() {
    let node = SingleNode::with_key(&["--access-token-lifetime", "4s"]).await;
    let document = Document::of(&node.http).await;
    let http = sign_in(&node, "everything", &["*"]).await;
    http.get("identity/me").await.expect(200);
    wait_until("the token expires", async || {
        http.get("identity/me").await.status == 401
    })
    .await;
    // An open endpoint of a workflow is none for it either: nothing runs as another caller than the one that asks.
    let open = json!({"type": "Elsa.HttpEndpoint", "id": "in", "canStartWorkflow": true,
        "path": {"typeName": "String", "expression": {"type": "Literal", "value": "open"}}});
    node.publish("open", open).await;
    assert_eq!(http.get("/workflows/open").await.status, 401);
    let stranger = Http::new(&format!("http://{}", node.address));
    assert_eq!(stranger.get("/workflows/open").await.status, 200);
    for operation in document.operations() {
        let answer = send(&http, operation).await;
        let is_refused = ["unauthorized", "token-expired"].contains(&answer.body["code"].as_str().unwrap_or_default());
        let route = format!("{} {}: {}", operation.method, operation.path, answer.status);
        assert_eq!(is_refused && answer.status == 401, !operation.is_open(), "{route}");
    }
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_of_its_own_sees_and_changes_nothing_of_another() {
    let node = SingleNode::with_key(&[]).await;
    let added = add_other_root(&node);
    assert_eq!(added, "added other-root (admin)");
    let other = login(&node, "other-root").await;
    node.publish("w", waits_for("A")).await;
    let start = json!({"instanceId": "i"});
    node.http
        .post("workflow-definitions/w/dispatch", &start)
        .await
        .expect(200);
    node.http.instance_becomes("i", "Suspended").await;
    // A header that the client chooses names no tenant.
    let headers = [("x-tenant-id", ""), ("x-requested-with", "test")];
    let listed = other
        .send(Method::GET, "workflow-definitions", &headers, None)
        .await
        .unwrap();
    assert_eq!(listed.expect(200)["totalCount"], 0);
    assert_eq!(other.get("workflow-instances").await.expect(200)["totalCount"], 0);
    assert_eq!(
        other.get("audit").await.expect(200)["items"].as_array().unwrap().len(),
        2,
        "the command that added it, and its own login"
    );
    other.get("workflow-instances/i").await.expect(404);
    other
        .post("workflow-definitions/w/dispatch", &json!({}))
        .await
        .expect(404);
    other.post("cancel/workflow-instances/i", &json!({})).await;
    other
        .post("bulk-actions/cancel/workflow-instances", &json!({"ids": ["i"]}))
        .await;
    other.delete("workflow-instances/i").await;
    other.post("events/A/trigger", &json!({})).await.expect(200);
    node.http.instance_becomes("i", "Suspended").await;

    // The same ids are free in it, also those of the instance.
    let model = json!({"model": {"definitionId": "w", "root": waits_for("B")}, "publish": true});
    other.post("workflow-definitions", &model).await.expect(200);
    other.post("workflow-definitions/w/dispatch", &start).await.expect(200);
    other.instance_becomes("i", "Suspended").await;
    other.post("events/B/trigger", &json!({})).await.expect(200);
    other.instance_becomes("i", "Finished").await;
    assert_eq!(
        node.http.get("workflow-instances/i").await.expect(200)["subStatus"],
        "Suspended"
    );
    // Users of the tenant are its own; a name is one of the cluster.
    let users = other.get("identity/users").await.expect(200);
    assert_eq!(users["users"].as_array().unwrap().len(), 1, "{users}");
    assert_eq!(node.http.get("identity/users").await.expect(200)["users"], json!([]));
    node.http
        .post(
            "identity/users",
            &json!({"name": "OTHER-ROOT", "password": PASSWORD, "roles": ["admin"]}),
        )
        .await
        .assert_refused(409, "user-exists");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_two_things_needs_the_permission_of_what_it_does() {
    let node = SingleNode::with_key(&[]).await;
    node.publish("w", waits_for("A")).await;
    let editor = sign_in(
        &node,
        "editor",
        &["write:workflow-definitions", "exec:workflow-definitions"],
    )
    .await;
    let model = json!({"definitionId": "mine", "root": waits_for("A")});
    let save = |publish: bool| json!({"model": model, "publish": publish});
    editor.post("workflow-definitions", &save(false)).await.expect(200);
    editor
        .post("workflow-definitions", &save(true))
        .await
        .assert_refused(403, "permission-required");
    let started = editor
        .post("workflow-instances", &json!({"definitionId": "w"}))
        .await
        .expect(200);
    assert!(started["workflowInstanceId"].is_string());
    let list = json!({"page": 0, "pageSize": 5});
    editor
        .post("workflow-instances", &list)
        .await
        .assert_refused(403, "permission-required");
    // Who was refused is in the audit, with the name.
    let page = node
        .http
        .get("audit?callerName=editor-user&outcome=Refused")
        .await
        .expect(200);
    let items: &Vec<Value> = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{items:#?}");
    for item in items {
        assert_eq!(
            (&item["code"], &item["callerKind"]),
            (&json!("permission-required"), &json!("user"))
        );
        assert!(item["callerId"].is_string());
    }
    let logins = node
        .http
        .get("audit?action=Login&callerName=editor-user")
        .await
        .expect(200);
    assert_eq!(logins["items"][0]["outcome"], "Accepted");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_asks_for_the_permission_that_its_policy_names() {
    let node = SingleNode::with_key(&[]).await;
    let input = |kind: &str, value: Value| json!({"typeName": kind, "expression": {"type": "Literal", "value": value}});
    let endpoint = json!({"type": "Elsa.HttpEndpoint", "id": "in", "canStartWorkflow": true,
        "path": input("String", json!("invoices")), "policy": input("String", json!("approve:invoices")),
        "supportedMethods": {"typeName": "String[]", "expression": {"type": "Object", "value": "[\"POST\"]"}}});
    let answer = json!({"type": "Elsa.WriteHttpResponse", "id": "out", "content": input("String", json!("done"))});
    let root = json!({"type": "Elsa.Sequence", "id": "all", "activities": [endpoint, answer]});
    node.publish("invoices", root).await;
    let approver = sign_in(&node, "approver", &["approve:invoices"]).await;
    let other = sign_in(&node, "other", &["approve:orders"]).await;
    let stranger = Http::new(&format!("http://{}", node.address));
    let path = "/workflows/invoices";
    assert_eq!(stranger.post(path, &json!({})).await.status, 401);
    other
        .post(path, &json!({}))
        .await
        .assert_refused(403, "permission-required");
    for http in [&approver, &node.http] {
        assert_eq!(http.post(path, &json!({})).await.status, 200);
    }
    node.assert_invariants();
}
