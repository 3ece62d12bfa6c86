//! The table against the OpenAPI document, its page of the reference, and admission.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::api::admission::{self, Admission};
use crate::api::{ApiOptions, admit};
use crate::auth::{Authenticator, CallerKind};
use crate::id::TenantId;
use crate::identity::Permissions;
use crate::testing::reference_has;

const HEAD: &str = "\
# Permissions

A permission is a name; a caller has those of its roles, of its application, or of the claim `permissions` of its token. `*` is
every permission, and `read:*` every one that begins with `read:`. A route asks for one of the permissions in its line; without a
credential the answer is 401 `unauthorized`, without the permission 403 `permission-required`. While a server has no key, no
user, no application and no provider, every request may do everything.

- *any caller*: a credential is needed, and no permission.
- *open*: no credential is needed.
- *token*: the request has a token of its own instead, or is signed: a resume link, a webhook, a connection that was negotiated,
  a login.
- *and `*`*: the caller must have every permission, too (Elsa's policy `SecurityRoot`).
- A `POST /workflow-instances` that lists needs `read:workflow-instances`, one that starts `exec:workflow-definitions`. A save
  that publishes needs `publish:workflow-definitions`, too.
- The `Policy` of an endpoint is the name of the permission that its callers need, which may be any name.
- What all tenants share (`read:cluster`, `write:cluster`, `ManageWorkflowRuntime`) is for callers of the default tenant only.
- *noted*: each call has an entry in the [audit](rest.md#audit). HEAD is as its GET. Test of this page: `api::access::tests`.

";

/// What some roles of a company have, and the administrator of another tenant.
const ROLES: [(&str, &str, &[&str]); 5] = [
    ("reader", "", &["read:*"]),
    (
        "author",
        "",
        &[
            "read:*",
            "write:workflow-definitions",
            "publish:workflow-definitions",
            "retract:workflow-definitions",
            "exec:*",
        ],
    ),
    (
        "operator",
        "",
        &[
            "read:workflow-instances",
            "cancel:*",
            "read:cluster",
            "write:cluster",
            "write:schedules",
            "replay:bookmark-queue:dead-letters",
        ],
    ),
    ("administrator", "", &["*"]),
    ("tenant", "acme", &["*"]),
];

/// The page of the reference.
fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| permission | what it allows |\n|---|---|\n");
    for permission in Permission::ALL {
        page.push_str(&format!("| `{}` | {} |\n", permission.name(), permission.description()));
    }
    page.push_str("\n## Routes\n\n| method | path | permission | |\n|---|---|---|---|\n");
    for route in ROUTES {
        let names: Vec<String> = route
            .access
            .permissions()
            .iter()
            .map(|one| format!("`{}`", one.name()))
            .collect();
        let access = match route.access {
            Access::Open => "*open*".to_owned(),
            Access::Token => "*token*".to_owned(),
            Access::Caller => "*any caller*".to_owned(),
            Access::OneOf(_) => names.join(" or "),
            Access::Root(_) => format!("{} *and `*`*", names.join(" or ")),
        };
        let noted = if route.changes { "noted" } else { "" };
        page.push_str(&format!(
            "| {} | `{}` | {access} | {noted} |\n",
            route.method,
            route.path()
        ));
    }
    page
}

#[test]
fn the_reference_has_the_table() {
    reference_has("permissions.md", &page());
}

/// The operations of the document: method and path, with the form.
fn operations() -> BTreeMap<(String, String), Value> {
    let document = crate::api::openapi::document_of_tests();
    let mut found = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, form) in item.as_object().unwrap() {
            found.insert((method.to_ascii_uppercase(), path.clone()), form.clone());
        }
    }
    found
}

/// Routes that no document describes: Studio's files and the WebSocket of the hub.
fn is_described(route: &RouteAccess) -> bool {
    let path = route.path();
    path != "/" && !path.starts_with("/studio") && path != "/elsa/hubs/workflow-instance"
}

#[test]
fn the_table_has_each_route_of_the_document_and_no_other_one() {
    let described: BTreeSet<(String, String)> = operations()
        .keys()
        .map(|(method, path)| (method.clone(), without_names(path)))
        .collect();
    let table: Vec<(String, String)> = ROUTES
        .iter()
        .filter(|route| is_described(route))
        .map(|route| (route.method.to_owned(), without_names(&route.path())))
        .collect();
    let known: BTreeSet<(String, String)> = table.iter().cloned().collect();
    assert_eq!(known.len(), table.len(), "a route is in the table twice");
    let missing: Vec<_> = described.difference(&known).collect();
    let unknown: Vec<_> = known.difference(&described).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "missing: {missing:?}; unknown: {unknown:?}"
    );
}

#[test]
fn each_permission_is_that_of_a_route() {
    let used: BTreeSet<Permission> = ROUTES
        .iter()
        .flat_map(|route| route.access.permissions())
        .copied()
        .collect();
    let unused: Vec<_> = Permission::ALL.iter().filter(|one| !used.contains(one)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn the_document_names_the_permissions_of_the_table() {
    for ((method, path), form) in operations() {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let Found::Route(route) = find(&method, &path) else {
            panic!("{method} {path}")
        };
        let names: Vec<&str> = route.access.permissions().iter().map(|one| one.name()).collect();
        let written = form["x-permission"].as_array().into_iter().flatten();
        let written: Vec<&str> = written.map(|name| name.as_str().unwrap()).collect();
        assert_eq!(written, names, "{method} {path}");
        assert_eq!(
            form.get("security").is_some(),
            route.access.is_open(),
            "{method} {path}"
        );
        // Some of those with a token of their own refuse it so.
        let is_refused = form["responses"].get("401").is_some();
        assert!(is_refused || route.access.is_open(), "{method} {path}");
        assert!(!is_refused || route.access != Access::Open, "{method} {path}");
    }
}

/// A line of the page: who may call a route.
struct Line {
    method: String,
    path: String,
    access: String,
}

/// The lines of the page as it is in the repository, which a reader has approved.
fn lines() -> Vec<Line> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/permissions.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, routes) = page.split_once("## Routes").unwrap();
    let lines = routes.lines().filter(|line| line.contains("| `/"));
    let lines = lines.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Line {
            method: cells[1].to_owned(),
            path: cells[2].trim_matches('`').to_owned(),
            access: cells[3].to_owned(),
        }
    });
    lines.collect()
}

/// Whether names allow a permission, said in another way than `Permissions` does.
fn has(names: &[&str], wanted: &str) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(start) => wanted.starts_with(start),
        None => *name == wanted,
    })
}

/// What a line says about a role.
fn expected(line: &Line, tenant: &str, names: &[&str]) -> StatusCode {
    if ["*open*", "*token*"].contains(&line.access.as_str()) {
        return StatusCode::NO_CONTENT;
    }
    if line.access == "*any caller*" {
        return StatusCode::NO_CONTENT;
    }
    let mut wanted = line
        .access
        .split('`')
        .filter(|part| part.contains(':') || *part == "ManageWorkflowRuntime");
    let is_shared = |wanted: &str| ["read:cluster", "write:cluster", "ManageWorkflowRuntime"].contains(&wanted);
    let is_admitted = wanted.any(|wanted| has(names, wanted) && (tenant.is_empty() || !is_shared(wanted)));
    let is_root = line.access.contains("*and");
    match is_admitted && (!is_root || names.contains(&"*")) {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::FORBIDDEN,
    }
}

/// Admission in front of all routes of the page, whose handlers say the tenant.
fn admitted() -> Router {
    let mut paths: BTreeMap<String, ()> = BTreeMap::new();
    paths.extend(lines().into_iter().map(|line| (line.path, ())));
    let mut routes = Router::new();
    for path in paths.keys() {
        let handler = async |request: axum::extract::Request| {
            let caller = request.extensions().get::<std::sync::Arc<Caller>>();
            let tenant = caller.map_or("", |caller| caller.tenant.as_str()).to_owned();
            (StatusCode::NO_CONTENT, [("x-tenant", tenant)]).into_response()
        };
        routes = routes.route(path, any(handler));
    }
    let callers = ROLES.iter().map(|(role, tenant, names)| {
        let caller = Caller {
            kind: CallerKind::User,
            id: (*role).to_owned(),
            name: (*role).to_owned(),
            tenant: TenantId::from(*tenant),
            permissions: Permissions::of(names.iter().map(|&name| name.to_owned())),
            session: None,
        };
        ((*role).to_owned(), caller)
    });
    let authenticator = Authenticator::of_callers(callers.collect::<HashMap<_, _>>());
    let admission = Admission::new(&ApiOptions::default(), authenticator, find, None);
    admit(routes.fallback(admission::no_such_route), admission)
}

async fn answer(routes: &Router, method: &str, path: &str, token: Option<&str>) -> (StatusCode, String) {
    let concrete: Vec<&str> = path
        .split('/')
        .map(|part| if part.starts_with('{') { "x" } else { part })
        .collect();
    let mut request = Request::builder()
        .method(method)
        .uri(concrete.join("/"))
        .header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = routes
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let tenant = response
        .headers()
        .get("x-tenant")
        .map(|tenant| tenant.to_str().unwrap().to_owned());
    (response.status(), tenant.unwrap_or_default())
}

#[tokio::test]
async fn each_role_may_call_exactly_the_routes_of_the_page() {
    let routes = admitted();
    let mut wrong = Vec::new();
    let mut check = |line: &Line, who: &str, got: StatusCode, wanted: StatusCode| {
        if got != wanted {
            wrong.push(format!("{} {} as {who}: {got}, not {wanted}", line.method, line.path));
        }
    };
    let lines = lines();
    assert!(lines.len() > 150, "{}", lines.len());
    for line in &lines {
        let is_open = ["*open*", "*token*"].contains(&line.access.as_str());
        let refused = if is_open {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::UNAUTHORIZED
        };
        for (who, token) in [
            ("one without a credential", None),
            ("one with a wrong token", Some("wrong")),
            ("one with an expired token", Some("expired")),
        ] {
            check(
                line,
                who,
                answer(&routes, &line.method, &line.path, token).await.0,
                refused,
            );
        }
        for (role, tenant, names) in ROLES {
            let (status, of) = answer(&routes, &line.method, &line.path, Some(role)).await;
            check(line, role, status, expected(line, tenant, names));
            if status == StatusCode::NO_CONTENT && !line.path.starts_with("/health") {
                assert_eq!(of, tenant, "{} {} as {role}", line.method, line.path);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn what_the_table_lacks_is_refused() {
    let routes = admitted();
    let unknown = "/elsa/api/workflow-definitions/x/unknown";
    assert_eq!(answer(&routes, "GET", unknown, None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(
        answer(&routes, "GET", unknown, Some("reader")).await.0,
        StatusCode::NOT_FOUND
    );
    // A route that was forgotten in the table is refused to each caller.
    let forgotten = Router::new().route("/elsa/api/forgotten", any(async || "x"));
    let administrator = HashMap::from([("a".to_owned(), Caller::static_key())]);
    let admission = Admission::new(
        &ApiOptions::default(),
        Authenticator::of_callers(administrator),
        find,
        None,
    );
    let routes = admit(forgotten.fallback(admission::no_such_route), admission);
    let (status, _) = answer(&routes, "GET", "/elsa/api/forgotten", Some("a")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_head_is_as_its_get() {
    let routes = admitted();
    let path = "/elsa/api/workflow-definitions";
    assert_eq!(
        answer(&routes, "HEAD", path, Some("reader")).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        answer(&routes, "HEAD", path, Some("operator")).await.0,
        StatusCode::FORBIDDEN
    );
}
