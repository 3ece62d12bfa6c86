//! The engine of a node: accepts requests, claims work, runs bursts and commits them.
//!
//! # Layout
//!
//! - `engine`: the public methods by subject, and the supervisor that keeps a registration.
//! - `worker`: polls for work, claims it, runs it and commits it.
//! - `scheduler`: fires schedules. `sender`: sends the deliveries of webhooks.
//! - `context`: what the others share: settings, requests, reply registry, caches, claims in flight, wake timer.
//!
//! Imports run downward: `engine` uses the others, and `worker`, `scheduler` and `sender` use `context`.

mod context;
mod engine;
mod scheduler;
#[cfg(feature = "http")]
mod sender;
mod worker;

pub use context::instance_list::{
    InstanceDetail, InstanceFilter, InstanceList, InstanceOrder, InstancePage, InstanceSummary, InstanceTime,
    TimeFilter, TimeOperator,
};
#[cfg(test)]
pub(crate) use context::request::ExecutedState;
pub use context::request::{
    BulkResult, DefinitionFilter, DefinitionOrder, DefinitionSummary, EventAccepted, EventRequest, Executed,
    Idempotency, InstanceSelection, JournalRecord, Listed, Page, Published, Readiness, Refreshed, ResumeRequest,
    StartRequest, VersionOptions,
};
pub use context::settings::Role;
pub use engine::activity_executions::{
    ActivityExecutionDetail, ActivityExecutionFilter, ActivityExecutionList, ActivityExecutionStats,
    ActivityExecutionSummary, CallStack,
};
pub use engine::activity_test::{ActivityTested, DefinitionHandle};
pub use engine::audit::{AuditQuery, AuditRecord};
pub use engine::builder::EngineBuilder;
pub use engine::bulk_actions::BulkAction;
pub use engine::cluster_view::{ClusterFanOut, ClusterLock, ClusterNode, ClusterNodeState, QueueItem};
pub use engine::connection_token::ConnectionToken;
pub use engine::dead_letters::{
    DeadLetter, DeadLetterBatch, DeadLetterCause, DeadLetterFilter, DeadLetterReplayed, DeadLettersReplayed,
};
#[cfg(feature = "http")]
pub(crate) use engine::definitions::{KnownWorkflows, PreparedDraft};
#[cfg(feature = "http")]
pub(crate) use engine::http_request::{HttpEnd, HttpOutcome, HttpRun};
#[cfg(feature = "http")]
pub(crate) use engine::http_routes::{FoundRoute, RouteCandidate, RouteQuery};
#[cfg(feature = "http")]
pub(crate) use engine::identity::{
    admin::IdentityAdmin,
    applications::{AddedApplication, ApplicationSummary, NewKey},
    roles::{NewRole, RoleImpact, RoleSummary},
    sign_in::{SignInRequest, SignedInOutcome, TokenPair},
    tokens::TokenRefusal,
    users::{AddedUser, NewUser, UserChange, UserSummary},
};
pub use engine::journal::{JournalFilter, JournalRange, StoredJournalRecord};
pub use engine::link_use::{GenuineLink, LinkPage, LinkUseRequest, LinkUsed};
pub use engine::log_levels::LogLevels;
pub use engine::observe::InstanceObserver;
pub use engine::pause::{
    DrainOutcome, RuntimeSource, RuntimeState, RuntimeStatus, cluster_status, pause_cluster, resume_cluster,
};
pub use engine::resume_links::{ResumeLink, ResumeLinkRequest, ResumeLinkSummary};
pub use engine::retry::RetriedInstance;
pub use engine::schedules::{ScheduleFilter, ScheduleState, ScheduleSummary};
pub use engine::tasks::{TaskList, TaskSummary};
pub use engine::token_keys::{LinkKey, link_keys, retire_link_key, rotate_link_key};
pub use engine::transfer::ExportParts;
#[cfg(feature = "http")]
pub(crate) use engine::transfer::MAX_INSTANCES;
pub use engine::variables::{InstanceExecutionState, InstanceVariable};
#[cfg(feature = "http")]
pub use engine::webhook_deliveries::{WebhookDelivery, WebhookDeliveryList, WebhookDeliveryState};
#[cfg(feature = "http")]
pub(crate) use engine::webhook_events::{ReceivedWebhook, WebhookReceipt};
#[cfg(feature = "http")]
pub use engine::webhook_sinks::{WebhookSinkState, WebhookSinkSummary};
pub use engine::{Engine, check, migrate};
#[cfg(feature = "cli")]
pub(crate) use engine::{
    doctor::{Examination, examine},
    make_elsa_views,
};

pub use crate::activity::FlowchartMode;
pub use crate::execution::{
    ActivityHandle, ActivityRetry, EvaluatedExpression, ExpressionChanges, ExpressionError, ExpressionRequest,
    InterpreterOptions,
};
pub use crate::expression::{
    DeclaredKinds, LinkSource, NamedValues, ResumeLinks, ScriptOptions, ScriptScope, WorkflowFacts,
};
pub use crate::log::{LogLevel, LogLevelOf};
#[cfg(feature = "http")]
pub use crate::mail::MailOptions;
#[cfg(feature = "http")]
pub use crate::outgoing::OutgoingOptions;
pub use crate::trace::{CurrentTrace, TraceContext};
pub use crate::watchdog::Hang;
