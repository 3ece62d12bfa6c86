//! Who may call which route: one table, from which admission, the OpenAPI document, `docs/reference/permissions.md` and the
//! tests of admission are made. A route that it does not have is refused.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::{Method, StatusCode};

use super::PREFIX;
use crate::auth::Caller;
use crate::auth::Permission::{self, *};
use crate::http::ApiError;

/// The code of a refusal for want of a permission.
pub(super) const PERMISSION_REQUIRED: &str = "permission-required";

/// Who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Every request: it says nothing that is not public.
    Open,
    /// A request with a token of its own, or a signature: a resume link, a webhook, a connection to the hub, a login.
    Token,
    /// Each caller that is known.
    Caller,
    /// A caller with one of these permissions.
    OneOf(&'static [Permission]),
    /// A caller with one of these permissions who has every other one, too: Elsa's policy `SecurityRoot`.
    Root(&'static [Permission]),
}

impl Access {
    /// The permissions of which a caller needs one.
    pub(super) fn permissions(self) -> &'static [Permission] {
        match self {
            Self::Open | Self::Token | Self::Caller => &[],
            Self::OneOf(permissions) | Self::Root(permissions) => permissions,
        }
    }

    /// Whether it is given to a caller.
    pub(super) fn admits(self, caller: &Caller) -> bool {
        match self {
            Self::Open | Self::Token | Self::Caller => true,
            Self::OneOf(any_of) => caller.may(any_of),
            Self::Root(any_of) => caller.may(any_of) && caller.permissions.is_everything(),
        }
    }

    /// The answer to a caller to whom it is not given.
    pub(super) fn refusal(self, caller: &Caller) -> ApiError {
        let names: Vec<&str> = self.permissions().iter().map(|one| one.name()).collect();
        let mut message = format!("This needs the permission {}", names.join(" or "));
        if matches!(self, Self::Root(_)) {
            message.push_str(" of a caller who has every permission (`*`)");
        }
        message.push_str(
            match caller.permissions.allows(self.permissions()) && !matches!(self, Self::Root(_)) {
                true => ", which only a caller of the default tenant can use.",
                false => ", which this credential does not have.",
            },
        );
        ApiError::new(StatusCode::FORBIDDEN, PERMISSION_REQUIRED, message)
    }

    /// No credential is needed.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Token)
    }
}

/// A route with the access to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteAccess {
    pub(super) method: &'static str,
    /// Below [`PREFIX`] where it begins with no `//`, which stands for the root.
    path: &'static str,
    pub(super) access: Access,
    /// It changes something, or has effects outside: each call has an entry in the audit.
    pub(super) changes: bool,
}

const fn route(method: &'static str, path: &'static str, access: Access, changes: bool) -> RouteAccess {
    RouteAccess {
        method,
        path,
        access,
        changes,
    }
}

/// A GET that changes nothing.
const fn get(path: &'static str, any_of: &'static [Permission]) -> RouteAccess {
    route("GET", path, Access::OneOf(any_of), false)
}

/// A POST that changes nothing: its body has the question.
const fn ask(path: &'static str, any_of: &'static [Permission]) -> RouteAccess {
    route("POST", path, Access::OneOf(any_of), false)
}

/// A request that changes something.
const fn change(method: &'static str, path: &'static str, any_of: &'static [Permission]) -> RouteAccess {
    route(method, path, Access::OneOf(any_of), true)
}

const fn post(path: &'static str, any_of: &'static [Permission]) -> RouteAccess {
    change("POST", path, any_of)
}

const READ_DEFINITIONS: &[Permission] = &[ReadWorkflowDefinitions];
const WRITE_DEFINITIONS: &[Permission] = &[WriteWorkflowDefinitions];
const READ_INSTANCES: &[Permission] = &[ReadWorkflowInstances];
const MANAGE: &[Permission] = &[ManageWorkflowRuntime, WriteCluster];

/// All routes.
pub(super) const ROUTES: &[RouteAccess] = &[
    get("/workflow-definitions", READ_DEFINITIONS),
    change("POST", "/workflow-definitions", WRITE_DEFINITIONS),
    get("/workflow-definitions/{id}", READ_DEFINITIONS),
    change("PUT", "/workflow-definitions/{id}", WRITE_DEFINITIONS),
    change("DELETE", "/workflow-definitions/{id}", &[DeleteWorkflowDefinitions]),
    get("/workflow-definitions/by-definition-id/{id}", READ_DEFINITIONS),
    get("/workflow-definitions/by-id/{id}", READ_DEFINITIONS),
    get("/workflow-definitions/many-by-id", READ_DEFINITIONS),
    get("/workflow-definitions/query/count", READ_DEFINITIONS),
    get("/workflow-definitions/validation/is-name-unique", READ_DEFINITIONS),
    get("/workflow-definitions/subgraph/{id}", READ_DEFINITIONS),
    get("/workflow-definitions/graph/{id}", READ_DEFINITIONS),
    get("/workflow-definitions/subgraph/segments/{id}", READ_DEFINITIONS),
    get("/workflow-definitions/{id}/consumers", READ_DEFINITIONS),
    get("/workflow-definitions/{id}/versions", READ_DEFINITIONS),
    get("/workflow-definitions/{id}/export", READ_DEFINITIONS),
    ask("/workflow-definitions/{id}/export", READ_DEFINITIONS),
    get("/bulk-actions/export/workflow-definitions", READ_DEFINITIONS),
    ask("/bulk-actions/export/workflow-definitions", READ_DEFINITIONS),
    post("/workflow-definitions/import", WRITE_DEFINITIONS),
    change("PUT", "/workflow-definitions/import", WRITE_DEFINITIONS),
    post("/workflow-definitions/{id}/import", WRITE_DEFINITIONS),
    change("PUT", "/workflow-definitions/{id}/import", WRITE_DEFINITIONS),
    post("/workflow-definitions/import-files", WRITE_DEFINITIONS),
    post("/workflow-definitions/{id}/publish", &[PublishWorkflowDefinitions]),
    post(
        "/workflow-definitions/{id}/update-references",
        &[PublishWorkflowDefinitions],
    ),
    post(
        "/workflow-definitions/{id}/revert/{version}",
        &[PublishWorkflowDefinitions],
    ),
    post(
        "/bulk-actions/publish/workflow-definitions/by-definition-ids",
        &[PublishWorkflowDefinitions],
    ),
    post("/workflow-definitions/{id}/retract", &[RetractWorkflowDefinitions]),
    post(
        "/bulk-actions/retract/workflow-definitions/by-definition-ids",
        &[RetractWorkflowDefinitions],
    ),
    change(
        "DELETE",
        "/workflow-definitions/{id}/version/{version}",
        &[DeleteWorkflowDefinitions],
    ),
    change(
        "DELETE",
        "/workflow-definition-versions/{id}",
        &[DeleteWorkflowDefinitions],
    ),
    post(
        "/bulk-actions/delete/workflow-definitions/by-definition-id",
        &[DeleteWorkflowDefinitions],
    ),
    post(
        "/bulk-actions/delete/workflow-definitions/by-id",
        &[DeleteWorkflowDefinitions],
    ),
    post("/workflow-definitions/{id}/execute", &[ExecWorkflowDefinitions]),
    change("GET", "/workflow-definitions/{id}/execute", &[ExecWorkflowDefinitions]),
    post("/workflow-definitions/{id}/dispatch", &[ExecWorkflowDefinitions]),
    post("/workflow-definitions/{id}/bulk-dispatch", &[ExecWorkflowDefinitions]),
    post("/actions/workflow-definitions/refresh", &[RefreshWorkflowDefinitions]),
    post("/actions/workflow-definitions/reload", &[ReloadWorkflowDefinitions]),
    get("/workflow-instances", READ_INSTANCES),
    // It lists or starts: of a start the handler asks for the permission to start.
    post("/workflow-instances", &[ReadWorkflowInstances, ExecWorkflowDefinitions]),
    get("/workflow-instances/{id}", READ_INSTANCES),
    get("/workflow-instances/{id}/execution-state", READ_INSTANCES),
    get("/workflow-instances/{id}/journal", READ_INSTANCES),
    ask("/workflow-instances/{id}/journal", READ_INSTANCES),
    get("/workflow-instances/{id}/journal/{activityId}", READ_INSTANCES),
    get("/workflow-instances/{id}/variables", READ_INSTANCES),
    get("/workflow-instances/{id}/export", READ_INSTANCES),
    ask("/workflow-instances/{id}/export", READ_INSTANCES),
    get("/bulk-actions/export/workflow-instances", READ_INSTANCES),
    ask("/bulk-actions/export/workflow-instances", READ_INSTANCES),
    post("/workflow-instances/{id}/variables", &[WriteWorkflowInstances]),
    post("/workflow-instances/{id}/resume", &[WriteWorkflowInstances]),
    post("/bulk-actions/import/workflow-instances", &[WriteWorkflowInstances]),
    post("/cancel/workflow-instances/{id}", &[CancelWorkflowInstances]),
    post("/bulk-actions/cancel/workflow-instances", &[CancelWorkflowInstances]),
    post("/bulk-actions/cancel/workflow-instances/", &[CancelWorkflowInstances]),
    change("DELETE", "/workflow-instances/{id}", &[DeleteWorkflowInstances]),
    post("/bulk-actions/delete/workflow-instances", &[DeleteWorkflowInstances]),
    post(
        "/bulk-actions/delete/workflow-instances/by-id",
        &[DeleteWorkflowInstances],
    ),
    get("/cluster/bulk-actions", READ_INSTANCES),
    get("/cluster/bulk-actions/{id}", READ_INSTANCES),
    get("/activity-executions/by-id", &[ReadActivityExecution]),
    get("/activity-executions/count", &[ReadActivityExecution]),
    get("/activity-executions/list", &[ReadActivityExecution]),
    ask("/activity-executions/report", &[ReadActivityExecution]),
    get("/activity-executions/{id}", &[ReadActivityExecution]),
    get("/activity-executions/{id}/call-stack", &[ReadActivityExecution]),
    get("/activity-execution-summaries/by-id", &[ReadActivityExecution]),
    get("/activity-execution-summaries/list", &[ReadActivityExecution]),
    get("/activity-execution-summaries/{id}", &[ReadActivityExecution]),
    get("/descriptors/activities", &[ReadActivityDescriptors]),
    get("/descriptors/activities/{type}", &[ReadActivityDescriptors]),
    ask(
        "/descriptors/activities/{type}/options/{input}",
        &[ReadActivityDescriptorsOptions],
    ),
    get("/descriptors/expression-descriptors", &[ReadExpressionDescriptors]),
    get("/descriptors/output-converters", &[ReadOutputConverters]),
    get("/descriptors/storage-drivers", &[ReadStorageDrivers]),
    get("/descriptors/variables", &[ReadVariableDescriptors]),
    get("/features/installed", &[ReadInstalledFeatures]),
    get("/features/installed/{name}", &[ReadInstalledFeatures]),
    get("/descriptors/commit-strategies/workflows", &[ReadCommitStrategies]),
    get("/descriptors/commit-strategies/activities", &[ReadCommitStrategies]),
    get("/descriptors/incident-strategies", &[ReadIncidentStrategies]),
    get(
        "/descriptors/log-persistence-strategies",
        &[ReadLogPersistenceStrategies],
    ),
    get(
        "/descriptors/workflow-activation-strategies",
        &[ReadWorkflowActivationStrategies],
    ),
    get("/workflow-contexts/provider-descriptors", &[ReadActivityDescriptors]),
    get("/resilience/strategies", &[ReadResilience, ReadResilienceStrategies]),
    get("/resilience/retries/{id}", &[ReadResilience, ReadResilienceRetries]),
    ask(
        "/scripting/javascript/type-definitions/{id}",
        &[ReadJavascriptTypeDefinitions],
    ),
    ask("/expressions/evaluate", &[ExecTests]),
    post("/tests/activities", &[ExecTests]),
    post("/events/{id}/trigger", &[TriggerEvent]),
    get("/tasks", &[TasksComplete]),
    post("/tasks/{taskId}/complete", &[TasksComplete]),
    get("/bookmark-queue/dead-letters", &[ReadDeadLetters]),
    ask("/bookmark-queue/dead-letters", &[ReadDeadLetters]),
    get("/bookmark-queue/dead-letters/{id}", &[ReadDeadLetters]),
    change("DELETE", "/bookmark-queue/dead-letters/{id}", &[DeleteDeadLetters]),
    post("/bookmark-queue/dead-letters/{id}/replay", &[ReplayDeadLetters]),
    get("/cluster/dead-letters", &[ReadDeadLetters]),
    get("/cluster/dead-letters/{id}", &[ReadDeadLetters]),
    change("DELETE", "/cluster/dead-letters/{id}", &[DeleteDeadLetters]),
    post("/cluster/dead-letters/{id}/replay", &[ReplayDeadLetters]),
    post("/cluster/dead-letters/replay", &[ReplayDeadLetters]),
    get(
        "/admin/workflow-runtime/status",
        &[ReadWorkflowRuntime, ManageWorkflowRuntime],
    ),
    post("/admin/workflow-runtime/pause", MANAGE),
    post("/admin/workflow-runtime/resume", MANAGE),
    post("/admin/workflow-runtime/force-drain", MANAGE),
    post("/alterations/submit", &[RunAlterations]),
    post("/alterations/workflows/retry", &[RunAlterations]),
    get("/alterations/{id}", &[ReadAlterations]),
    get("/cluster/nodes", &[ReadCluster]),
    get("/cluster/queue", &[ReadCluster]),
    get("/cluster/locks", &[ReadCluster]),
    get("/cluster/fan-outs", &[ReadCluster]),
    get("/cluster/log-level", &[ReadCluster]),
    change("PUT", "/cluster/log-level", &[WriteCluster]),
    get("/cluster/schedules", &[ReadSchedules]),
    get("/cluster/schedules/{id}", &[ReadSchedules]),
    post("/cluster/schedules/{id}/pause", &[WriteSchedules]),
    post("/cluster/schedules/{id}/resume", &[WriteSchedules]),
    post("/cluster/schedules/{id}/trigger", &[WriteSchedules]),
    get("/cluster/timers", &[ReadSchedules]),
    get("/cluster/timers/{id}", &[ReadSchedules]),
    post("/cluster/timers/{id}/pause", &[WriteSchedules]),
    post("/cluster/timers/{id}/resume", &[WriteSchedules]),
    post("/cluster/timers/{id}/trigger", &[WriteSchedules]),
    get("/workflow-instances/{id}/resume-links", &[ReadResumeLinks]),
    post("/workflow-instances/{id}/resume-links", &[WriteResumeLinks]),
    change(
        "DELETE",
        "/workflow-instances/{id}/resume-links/{linkId}",
        &[WriteResumeLinks],
    ),
    get("/cluster/link-keys", &[ReadCluster]),
    post("/cluster/link-keys", &[WriteCluster]),
    change("DELETE", "/cluster/link-keys/{id}", &[WriteCluster]),
    get("/audit", &[ReadAudit]),
    get("/audit/export", &[ReadAudit]),
    get("/webhook-sinks", &[ReadWebhooks]),
    post("/webhook-sinks", &[WriteWebhooks]),
    get("/webhook-sinks/{id}", &[ReadWebhooks]),
    change("PUT", "/webhook-sinks/{id}", &[WriteWebhooks]),
    change("PATCH", "/webhook-sinks/{id}", &[WriteWebhooks]),
    change("DELETE", "/webhook-sinks/{id}", &[WriteWebhooks]),
    post("/webhook-sinks/{id}/rotate-secret", &[WriteWebhooks]),
    get("/webhook-sinks/{id}/deliveries", &[ReadWebhooks]),
    post("/webhook-sinks/{id}/deliveries/replay", &[WriteWebhooks]),
    post("/webhook-sinks/{id}/deliveries/{deliveryId}/replay", &[WriteWebhooks]),
    get("/workflow-instances/{id}/webhook-deliveries", &[ReadWebhooks]),
    // Who signs in is noted by the handler, with the name that was tried.
    route("POST", "/identity/login", Access::Token, false),
    route("POST", "/identity/refresh-token", Access::Token, false),
    route("GET", "/identity/sign-in", Access::Open, false),
    route("POST", "/identity/external/{issuer}/start", Access::Token, false),
    route("POST", "/identity/external/{issuer}/token", Access::Token, false),
    route("POST", "/identity/external/{issuer}/refresh", Access::Token, false),
    route("POST", "/identity/logout", Access::Caller, true),
    route("GET", "/identity/me", Access::Caller, false),
    route("POST", "/identity/password", Access::Caller, true),
    get("/identity/users", &[ReadUser]),
    get("/identity/users/{id}", &[ReadUser]),
    post("/identity/users", &[CreateUser]),
    change("PUT", "/identity/users/{id}", &[UpdateUser]),
    change("DELETE", "/identity/users/{id}", &[DeleteUser]),
    get("/identity/roles", &[ReadRole]),
    route("POST", "/identity/roles", Access::Root(&[CreateRole]), true),
    change("PUT", "/identity/roles/{id}", &[UpdateRole]),
    change("DELETE", "/identity/roles/{id}", &[DeleteRole]),
    get("/identity/roles/{id}/deletion-impact", &[DeleteRole]),
    post(
        "/identity/roles/{id}/remove-from-jit-policies-and-delete",
        &[DeleteRole],
    ),
    get("/identity/applications", &[ReadApplication]),
    route(
        "POST",
        "/identity/applications",
        Access::Root(&[CreateApplication]),
        true,
    ),
    change("DELETE", "/identity/applications/{id}", &[DeleteApplication]),
    route("GET", "/package/version", Access::Caller, false),
    route("GET", "/bookmarks/resume", Access::Token, false),
    route("POST", "/bookmarks/resume", Access::Token, false),
    route("GET", "/events/trigger", Access::Token, false),
    route("POST", "/events/trigger", Access::Token, false),
    route("POST", "/webhooks", Access::Token, false),
    // An attempt at a link has an entry of its own.
    route("GET", "//workflows/resume/{link}", Access::Token, false),
    route("POST", "//workflows/resume/{link}", Access::Token, false),
    route(
        "POST",
        "//elsa/hubs/workflow-instance/negotiate",
        Access::OneOf(READ_INSTANCES),
        false,
    ),
    route("GET", "//elsa/hubs/workflow-instance", Access::Token, false),
    route("GET", "//health/live", Access::Open, false),
    route("GET", "//health/ready", Access::Open, false),
    get("//metrics", &[ReadCluster]),
    route("GET", "//openapi.json", Access::Open, false),
    route("GET", "//openapi", Access::Open, false),
    route("GET", "//", Access::Open, false),
    route("GET", "//studio", Access::Open, false),
    route("GET", "//studio/", Access::Open, false),
    route("GET", "//studio/{*path}", Access::Open, false),
];

impl RouteAccess {
    /// The whole path.
    pub(super) fn path(&self) -> String {
        match self.path.strip_prefix("//") {
            Some(rest) => format!("/{rest}"),
            None => format!("{PREFIX}{}", self.path),
        }
    }
}

/// The accesses of a path, by method.
type OfPath = Vec<&'static RouteAccess>;

static BY_PATH: LazyLock<HashMap<String, OfPath>> = LazyLock::new(|| {
    let mut by_path: HashMap<String, OfPath> = HashMap::new();
    for route in ROUTES {
        by_path.entry(without_names(&route.path())).or_default().push(route);
    }
    by_path
});

/// A path whose parameters have no names, as handlers name them as they like.
fn without_names(path: &str) -> String {
    let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) if name.starts_with('*') => "{*}".to_owned(),
        Some(_) => "{}".to_owned(),
        None => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// What the table has for a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Route(&'static RouteAccess),
    /// The path has other methods only.
    OtherMethod,
    /// The path is not in the table.
    None,
}

/// The access of a request whose path has this template. A HEAD is as its GET.
pub(super) fn find(method: &Method, template: &str) -> Found {
    let Some(routes) = BY_PATH.get(without_names(template).as_str()) else {
        return Found::None;
    };
    let of = |name: &str| routes.iter().find(|route| route.method == name).copied();
    let found = of(method.as_str()).or_else(|| of("GET").filter(|_| *method == Method::HEAD));
    found.map_or(Found::OtherMethod, Found::Route)
}

#[cfg(test)]
mod tests;
