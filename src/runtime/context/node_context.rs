//! The state that all tasks of one incarnation share. It ends with the incarnation: bursts that have not reached the
//! commit writer are dropped, the others wait for the outcome of their commit.
//!
//! It is composed of structs by purpose, each of which is passed alone where nothing else is needed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::claim_state::ClaimState;
use super::definition_cache::DefinitionCache;
use super::kept_events::KeptEvents;
use super::known_sample::KnownSample;
use super::lifecycle::Lifecycle;
use super::locks::{InstanceLock, NodeLocks};
use super::observed::Observed;
use super::pause_state::PauseState;
use super::program_cache::ProgramCache;
use super::replies::ReplyRegistry;
#[cfg(feature = "http")]
use super::route_cache::RouteCaches;
use super::services;
use super::token_keys::TokenKeys;
use super::waiting_requests::WaitingRequests;
use super::wake_sender::WakeSender;
use super::wake_timer::SchedulerState;
#[cfg(feature = "http")]
use super::webhooks::{WebhookOptions, Webhooks};
use crate::db::{Connector, Notifier, Pool, ReadPool, SchemaName};
use crate::execution::Interpreter;
use crate::id::{Incarnation, InstanceId, NodeId, TenantId, WorkId};
use crate::lock::LockKey;
use crate::signal::CacheSignal;
use crate::store::code::PauseMode;
use crate::store::commit::CommitWriter;
use crate::store::node::ServiceDomains;
use crate::store::pause::Pause;
use crate::store::start::Acceptor;
use crate::trace::Traces;
use crate::wake::WakeNotification;

/// The most locks held by another session that a report names.
const MOST_LOCKED_ELSEWHERE: usize = 256;

/// One running incarnation.
pub(crate) struct NodeContext {
    pub(crate) database: Database,
    pub(crate) commits: Commits,
    pub(crate) locks: NodeLocks,
    pub(crate) interpreter: Interpreter,
    pub(crate) caches: Caches,
    pub(crate) claims: ClaimState,
    pub(crate) notifications: Notifications,
    pub(crate) schedules: SchedulerState,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) pause: PauseState,
    pub(crate) observed: Arc<Observed>,
    /// They outlive the incarnation.
    pub(crate) token_keys: Arc<TokenKeys>,
    /// The sample of the cluster; none where this node takes no part in it. It outlives the incarnation.
    pub(crate) sample: Option<Arc<KnownSample>>,
    /// Digests of what decides at this node who may do what, as they are recorded.
    pub(crate) identity_settings: Vec<String>,
    /// Notified when this node has published triggers: the inbox may keep events for them.
    pub(crate) inbox_matches: Notify,
    /// Notified when this node has accepted a bulk action.
    pub(crate) bulk_actions: Notify,
    /// The sinks of webhooks.
    #[cfg(feature = "http")]
    pub(crate) webhooks: Webhooks,
    #[cfg(feature = "http")]
    pub(crate) webhook_options: WebhookOptions,
    /// How long the inbox keeps a stimulus, in microseconds.
    pub(crate) inbox_lifetime: i64,
    /// Where spans go; `None`: the node makes none.
    pub(crate) traces: Option<Traces>,
    /// Whether the inbox has room for further events.
    pub(crate) kept_events: KeptEvents,
}

/// The database as this incarnation uses it.
pub(crate) struct Database {
    pub(crate) incarnation: Incarnation,
    pub(crate) node_id: NodeId,
    pub(crate) pool: Pool,
    /// For what the API reads; the pool is for what the engine does.
    pub(crate) reads: ReadPool,
    /// For statements that would occupy a connection of the pool for too long.
    pub(crate) connector: Connector,
    pub(crate) schema: SchemaName,
}

impl Database {
    /// The class of the advisory locks of this schema.
    pub(crate) fn lock_class(&self) -> i32 {
        self.schema.lock_class()
    }
}

/// What writes commits and starts.
pub(crate) struct Commits {
    pub(crate) writer: CommitWriter<InstanceLock>,
    /// Starts that this node runs at once.
    pub(crate) direct_starts: Acceptor,
    /// Starts that wait in the queue for any node.
    pub(crate) queued_starts: Acceptor,
}

impl Commits {
    /// Whether the database takes commits of this node, as far as it knows. While it does not, starts are only accepted, for
    /// a probe of this node or for another node.
    pub(crate) fn are_accepted(&self) -> bool {
        !self.writer.breaker().is_open()
    }
}

/// What a node caches of definitions.
pub(crate) struct Caches {
    /// Compiled programs. They outlive the incarnation, as versions never change.
    pub(crate) programs: Arc<ProgramCache>,
    /// Published definitions as the API shows them.
    pub(crate) definitions: DefinitionCache,
    /// The routes of published endpoints.
    #[cfg(feature = "http")]
    pub(crate) routes: RouteCaches,
}

/// What carries notifications: to other nodes, and to the callers that wait on this one.
pub(crate) struct Notifications {
    pub(crate) wake: WakeSender,
    pub(crate) cache: Arc<dyn CacheSignal>,
    pub(crate) notifier: Notifier,
    pub(crate) replies: Arc<ReplyRegistry>,
    pub(crate) requests: Arc<WaitingRequests>,
}

impl NodeContext {
    /// The time by the database's clock, without another query: the answer to a check-in and how long ago it came. Never ahead of the
    /// database.
    #[cfg(feature = "http")]
    pub(crate) fn database_now(&self) -> chrono::DateTime<chrono::Utc> {
        let report = self.lifecycle.reports.borrow();
        let passed = chrono::TimeDelta::from_std(report.received.elapsed()).unwrap_or_default();
        let at = report.check_in.clock;
        at.checked_add_signed(passed).unwrap_or(at)
    }

    /// Claims nothing new from now on, and wakes the other nodes for what is accepted.
    pub(crate) fn begin_drain(&self) {
        self.lifecycle.draining.cancel();
        self.notifications.wake.no_capacity();
    }

    /// The services as nodes compare them.
    pub(crate) fn service_domains(&self) -> ServiceDomains {
        let notifications = &self.notifications;
        let locks = self.locks.instances.domain();
        services::domains(locks, notifications.cache.domain(), notifications.wake.domain())
    }

    /// The services whose server is away. What they do is done later, or by check-ins.
    pub(crate) fn services_away(&self) -> Vec<&'static str> {
        let notifications = &self.notifications;
        let each = [
            ("locks", self.locks.instances.is_away()),
            ("signal", notifications.cache.is_away()),
            ("wake", notifications.wake.is_away()),
            ("mail", self.mail_away().is_some()),
        ];
        each.into_iter()
            .filter(|(_, away)| *away)
            .map(|(name, _)| name)
            .collect()
    }

    /// Why services are away, as far as they say it.
    pub(crate) fn causes_of_away(&self) -> BTreeMap<&'static str, String> {
        let notifications = &self.notifications;
        let each = [
            ("locks", self.locks.instances.away_cause()),
            ("signal", notifications.cache.away_cause()),
            ("wake", notifications.wake.away_cause()),
            ("mail", self.mail_away()),
        ];
        each.into_iter()
            .filter_map(|(name, cause)| Some((name, cause?)))
            .collect()
    }

    /// Why the mail server is away, if it is.
    fn mail_away(&self) -> Option<String> {
        #[cfg(feature = "http")]
        return self.interpreter.catalogue().mail()?.away();
        #[cfg(not(feature = "http"))]
        None
    }

    /// The locks that recent polls found held by another session, where the server keeps them.
    pub(crate) fn locked_elsewhere(&self) -> Vec<(LockKey, InstanceId)> {
        let schema = self.database.schema.as_str();
        let locked = self
            .claims
            .in_flight
            .locked_elsewhere(MOST_LOCKED_ELSEWHERE)
            .into_iter();
        locked
            .map(|(tenant, instance)| (LockKey::instance(schema, &tenant, &instance), instance))
            .collect()
    }

    /// Unclaimed work was accepted: this node polls. The other nodes are notified if this one has no room for `count` rows,
    /// drains, or does not support every version. `awaited`: a caller of this node waits for the end of that row.
    pub(crate) fn work_accepted(&self, instance: Option<&InstanceId>, awaited: Option<WorkId>, count: usize) {
        self.claims.wake_timer.wake_now();
        if self.has_room(count) {
            return;
        }
        let work = instance.map_or(WakeNotification::Poll, |id| WakeNotification::WorkReady(id.clone()));
        let awaited = awaited.map(WakeNotification::ReplyAwaited);
        self.notifications.wake.notify(std::iter::once(work).chain(awaited));
    }

    /// Whether this node can run the bursts of `count` rows now.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let claims = &self.claims;
        claims.workers.room() >= count && !self.lifecycle.is_draining() && !claims.unsupported.has_any()
    }

    /// This node has written an unclaimed row that is due at `at`.
    pub(crate) fn row_due(&self, at: Instant) {
        let known = self.claims.wake_timer.row_due(at);
        self.notifications.wake.row_due(at, known, self.lifecycle.check_in);
    }

    /// This node has changed an instance: its observers are notified, here and at other nodes.
    pub(crate) fn committed(&self, tenant: &TenantId, instance: &InstanceId) {
        if self.observed.committed(tenant, instance) {
            let changed = WakeNotification::InstanceChanged(tenant.clone(), instance.clone());
            self.notifications.wake.notify([changed]);
        }
    }

    /// What is known of the pause: bursts stop if the cluster drains, and all loops continue if it was resumed.
    pub(crate) fn pause_known(&self, pause: Pause) {
        let Some(before) = self.pause.set(pause) else { return };
        self.interpreter.stop_bursts(pause.mode == PauseMode::Draining);
        if before != PauseMode::Running && pause.mode == PauseMode::Running {
            self.claims.wake_timer.wake_now();
            self.schedules.timer.wake_now();
            self.claims.fan_outs.notify_one();
            self.inbox_matches.notify_one();
            #[cfg(feature = "http")]
            self.webhooks.may_be_due();
        }
    }

    /// An instance was cancelled or deleted: a running burst of it stops, on this node and on others.
    pub(crate) fn cancel_bursts(&self, tenant: &TenantId, instance: &InstanceId) {
        self.claims.cancel(&(tenant.clone(), instance.clone()));
        let cancelled = WakeNotification::InstanceCancelled(tenant.clone(), instance.clone());
        self.notifications.wake.notify([cancelled]);
    }

    /// An instance has ended that kept others of its schedule from starting. A node that does not fire notifies those that
    /// do.
    pub(crate) fn overlap_ended(&self) {
        self.schedules.overlap_ended();
        if self.lifecycle.is_draining() || self.schedules.election.may_fire().is_none() {
            self.notifications.wake.notify([WakeNotification::OverlapEnded]);
        }
    }
}
