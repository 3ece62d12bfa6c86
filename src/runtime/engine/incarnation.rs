//! The start of an incarnation: joins the cluster, opens the connections, and spawns the loops.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{cache_invalidation, identity_settings, lock_reports, log_levels, service_domains};
use crate::Result;
use crate::cluster::{Membership, MembershipOptions, election};
use crate::db::{Connector, NotifierTask, Pool, ReadPool};
use crate::execution::Interpreter;
use crate::id::Incarnation;
use crate::lock::LockOwner;
use crate::runtime::context::claim_state::ClaimState;
use crate::runtime::context::definition_cache::DefinitionCache;
use crate::runtime::context::kept_events::KeptEvents;
use crate::runtime::context::known_sample::KnownSample;
use crate::runtime::context::lifecycle::Lifecycle;
use crate::runtime::context::locks::NodeLocks;
use crate::runtime::context::node_context::{Caches, Commits, Database, NodeContext, Notifications};
use crate::runtime::context::observed::Observed;
use crate::runtime::context::pause_state::PauseState;
use crate::runtime::context::program_cache::ProgramCache;
use crate::runtime::context::replies::ReplyRegistry;
#[cfg(feature = "http")]
use crate::runtime::context::route_cache::RouteCaches;
use crate::runtime::context::settings::Settings;
use crate::runtime::context::token_keys::TokenKeys;
use crate::runtime::context::waiting_requests::WaitingRequests;
use crate::runtime::context::wake_sender::WakeSender;
use crate::runtime::context::wake_timer::SchedulerState;
#[cfg(feature = "http")]
use crate::runtime::context::webhooks::{WebhookOptions, Webhooks};
use crate::runtime::scheduler::fire;
#[cfg(feature = "http")]
use crate::runtime::sender;
use crate::runtime::worker::{bulk_action, fan_out, maintenance, poll, unsupported, wake_notifications};
use crate::store::commit::{CommitWriter, WriterOptions, WriterTasks};
use crate::store::node::NodeFacts;
use crate::store::start::Acceptor;
#[cfg(feature = "http")]
use crate::store::webhook::delivery::Retention;
use crate::store::{lock as store_lock, maintenance as store_maintenance, node as store_node};
use crate::watchdog::{Part, Watchdog, WatchedPart};

/// What outlives an incarnation.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) interpreter: Interpreter,
    pub(super) programs: Arc<ProgramCache>,
    pub(super) replies: Arc<ReplyRegistry>,
    pub(super) requests: Arc<WaitingRequests>,
    pub(super) observed: Arc<Observed>,
    pub(super) token_keys: Arc<TokenKeys>,
    pub(super) sample: Option<Arc<KnownSample>>,
    pub(super) watchdog: Watchdog,
}

/// A registration with its context and its tasks.
pub(super) struct RunningNode {
    pub(super) membership: Membership,
    pub(super) context: Arc<NodeContext>,
    pub(super) connections: ConnectionTasks,
    pub(super) loops: Loops,
}

/// The tasks that own the connections.
pub(super) struct ConnectionTasks {
    writer: WriterTasks,
    direct_starts: AbortOnDropHandle<()>,
    queued_starts: AbortOnDropHandle<()>,
    notifier: NotifierTask,
    candidate: AbortOnDropHandle<()>,
}

/// The loops of an incarnation.
pub(super) struct Loops {
    pub(super) poller: AbortOnDropHandle<()>,
    pub(super) scheduler: AbortOnDropHandle<()>,
    pub(super) others: OtherLoops,
}

pub(super) struct OtherLoops {
    maintenance: AbortOnDropHandle<()>,
    fan_outs: AbortOnDropHandle<()>,
    bulk_actions: AbortOnDropHandle<()>,
    webhooks: AbortOnDropHandle<()>,
    lock_reports: AbortOnDropHandle<()>,
    log_levels: AbortOnDropHandle<()>,
    service_domains: AbortOnDropHandle<()>,
    identity_settings: AbortOnDropHandle<()>,
    wake_notifications: AbortOnDropHandle<()>,
    cache_signals: AbortOnDropHandle<()>,
    unsupported: AbortOnDropHandle<()>,
    /// Whether the mail server is there; it does not end.
    #[cfg(feature = "http")]
    _mail: Option<AbortOnDropHandle<()>>,
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// The same for a task whose awaits have their own deadlines: it answers the watchdog as long as it is polled.
fn spawn_watched(watched: WatchedPart, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    spawn(async move { watched.idle(task).await })
}

/// Registers the node and starts its loops. `publish` makes the context known before the first poll; with `drains` it
/// claims nothing.
pub(super) async fn start(
    base: &Connector,
    shared: &Shared,
    previous: Option<Incarnation>,
    drains: bool,
    publish: impl FnOnce(Arc<NodeContext>) + Send,
) -> Result<RunningNode> {
    let options = MembershipOptions {
        node_id: shared.settings.node_id.clone(),
        check_in: shared.settings.check_in,
        tolerance: shared.settings.tolerance,
        retention: shared.settings.retention,
        watchdog: shared.watchdog.clone(),
    };
    let membership = Membership::join(base, &options, previous).await?;
    let (node, connections) = open(&membership, shared).await?;
    if drains {
        node.begin_drain();
    }
    // Before the first poll, so that no notification is missed in between.
    let received = node.notifications.wake.subscribe();
    let wake_notifications = spawn(wake_notifications::receive(Arc::clone(&node), received));
    let received = node.notifications.cache.subscribe();
    let cache_signals = spawn(cache_invalidation::receive(Arc::clone(&node), received));
    let received = node.notifications.cache.subscribe();
    // The first poll must leave out what other nodes must run; the rest of the list can wait.
    unsupported::refresh(&node).await?;
    let unsupported = spawn(unsupported::keep_list(Arc::clone(&node), received));
    #[cfg(feature = "http")]
    node.webhooks.refresh(&node.database.pool).await?;
    publish(Arc::clone(&node));
    let watched = shared.watchdog.watch(Part::Poller, Some(membership.incarnation));
    let poller = spawn(poll::run(Arc::clone(&node), watched));
    let watched = shared.watchdog.watch(Part::Scheduler, Some(membership.incarnation));
    let scheduler = spawn_watched(watched, fire::run(Arc::clone(&node)));
    let maintenance = spawn(maintenance::run(Arc::clone(&node)));
    let fan_outs = spawn(fan_out::run(Arc::clone(&node)));
    let bulk_actions = spawn(bulk_action::run(Arc::clone(&node)));
    // Tracked, so that the sinks are released before the connections close.
    #[cfg(feature = "http")]
    let webhooks = {
        let has_workers = shared.settings.workers > 0;
        spawn(
            node.lifecycle
                .tasks
                .track_future(sender::run(Arc::clone(&node), has_workers)),
        )
    };
    #[cfg(not(feature = "http"))]
    let webhooks = spawn(std::future::pending());
    let lock_reports = spawn(lock_reports::answer(Arc::clone(&node)));
    let log_levels = spawn(log_levels::follow(Arc::clone(&node)));
    let roles = shared.settings.effective_roles();
    let service_domains = spawn(service_domains::keep(Arc::clone(&node), roles));
    let identity_settings = spawn(identity_settings::compare(Arc::clone(&node)));
    Ok(RunningNode {
        membership,
        context: node,
        connections,
        loops: Loops {
            poller,
            scheduler,
            others: OtherLoops {
                maintenance,
                fan_outs,
                bulk_actions,
                webhooks,
                lock_reports,
                log_levels,
                service_domains,
                identity_settings,
                wake_notifications,
                cache_signals,
                unsupported,
                #[cfg(feature = "http")]
                _mail: shared
                    .interpreter
                    .catalogue()
                    .mail()
                    .map(|client| spawn(client.clone().watch())),
            },
        },
    })
}

/// Opens the connections of an incarnation.
async fn open(membership: &Membership, shared: &Shared) -> Result<(Arc<NodeContext>, ConnectionTasks)> {
    let (connector, incarnation, settings) = (&membership.connector, membership.incarnation, &shared.settings);
    let pool = Pool::new(connector, settings.pool_size)?;
    if let Err(error) = store_maintenance::ensure_partitions(&pool).await {
        store_lock::log_foreign_locks(&pool, connector.schema(), &[]).await;
        return Err(error);
    }
    let mut writing = WriterOptions::default();
    if pool.is_single() {
        // With so few connections there is no second one for commits.
        writing.second_lane_min = None;
    }
    let watchdog = &shared.watchdog;
    let (writer, writer_tasks) = CommitWriter::start(connector, incarnation, writing, watchdog).await?;
    let (direct_starts, accepting) = Acceptor::new(connector, &pool, incarnation, false);
    let direct_task = spawn_watched(watchdog.watch(Part::Acceptor, Some(incarnation)), accepting);
    let (queued_starts, accepting) = Acceptor::new(connector, &pool, incarnation, true);
    let queued_task = spawn_watched(watchdog.watch(Part::Acceptor, Some(incarnation)), accepting);
    let cluster = store_node::cluster_name(&pool).await?;
    let services = settings.services.open(connector, incarnation, &cluster).await?;
    let domains = || services.domains(&settings.services);
    let identity_settings = settings.identity_settings.recorded(&cluster);
    let roles = settings.effective_roles();
    store_node::report_facts(&pool, incarnation, &facts(shared)).await?;
    service_domains::join(&pool, incarnation, &roles, &identity_settings, domains).await?;
    let instances = settings
        .services
        .instance_locks(&membership.locks, || owner(cluster, incarnation, &pool));
    let draining = CancellationToken::new();
    // A node that drains gives up the election at once, not when its last burst has ended.
    let (election, candidate) = election::start(membership, &pool, settings.firing_mode(), draining.clone());
    let (reports, taken_over) = (membership.reports(), membership.taken_over());
    let node = Arc::new(NodeContext {
        database: Database {
            incarnation,
            node_id: settings.node_id.clone(),
            pool,
            reads: ReadPool::new(connector, settings.read_pool_size)?,
            connector: connector.clone(),
            schema: connector.schema().clone(),
        },
        commits: Commits {
            writer,
            direct_starts,
            queued_starts,
        },
        locks: NodeLocks {
            instances,
            session: membership.locks.clone(),
        },
        caches: Caches {
            programs: Arc::clone(&shared.programs),
            definitions: DefinitionCache::new(settings.cache_bytes / 4),
            #[cfg(feature = "http")]
            routes: RouteCaches::default(),
        },
        claims: ClaimState::new(
            settings.workers,
            settings.claimed_bytes,
            shared.interpreter.catalogue(),
            watchdog.steps().clone(),
        ),
        interpreter: shared.interpreter.clone(),
        notifications: Notifications {
            wake: WakeSender::new(services.wake),
            cache: services.signal,
            notifier: services.notifier,
            replies: Arc::clone(&shared.replies),
            requests: Arc::clone(&shared.requests),
        },
        schedules: SchedulerState::new(election),
        lifecycle: Lifecycle::new(reports, taken_over, settings.check_in, draining),
        pause: PauseState::default(),
        observed: Arc::clone(&shared.observed),
        token_keys: Arc::clone(&shared.token_keys),
        sample: shared.sample.clone(),
        identity_settings,
        inbox_matches: Notify::new(),
        bulk_actions: Notify::new(),
        inbox_lifetime: i64::try_from(settings.inbox_lifetime.as_micros()).unwrap_or(i64::MAX),
        traces: settings.traces.clone(),
        kept_events: KeptEvents::new(settings.inbox_budget),
        #[cfg(feature = "http")]
        webhooks: Webhooks::default(),
        #[cfg(feature = "http")]
        webhook_options: WebhookOptions {
            timeout: settings.webhook_timeout,
            kept: Retention {
                delivered: settings.webhook_lifetime,
                dead: settings.retention.dead_letters,
            },
        },
    });
    let in_flight = Arc::clone(&node.claims.in_flight);
    watchdog.watch_bursts(incarnation, move |step| in_flight.polled_since(step));
    let tasks = ConnectionTasks {
        writer: writer_tasks,
        direct_starts: direct_task,
        queued_starts: queued_task,
        notifier: services.notifier_task,
        candidate,
    };
    Ok((node, tasks))
}

/// What operators compare of this node with others.
fn facts(shared: &Shared) -> NodeFacts {
    let (settings, options) = (&shared.settings, shared.interpreter.options());
    NodeFacts {
        version: env!("CARGO_PKG_VERSION"),
        connections: settings.pool_size + settings.read_pool_size + store_node::OWN_CONNECTIONS,
        workers: settings.workers,
        check_in_ms: u64::try_from(settings.check_in.as_millis()).unwrap_or(u64::MAX),
        settings: BTreeMap::from([
            ("value-kib", (options.max_value_bytes / 1024).to_string()),
            ("flowchart-mode", format!("{:?}", options.flowchart_mode).to_lowercase()),
        ]),
    }
}

/// This registration as a lock provider sees it.
fn owner(cluster: String, incarnation: Incarnation, pool: &Pool) -> LockOwner {
    let pool = pool.clone();
    LockOwner::new(cluster, incarnation.0, move |incarnations| {
        let pool = pool.clone();
        Box::pin(async move { store_node::living(&pool, &incarnations).await })
    })
}

impl RunningNode {
    /// Returns when the incarnation must end, and why. Cancellation safe.
    pub(super) async fn ended(&mut self) -> &'static str {
        let (connections, loops) = (&mut self.connections, &mut self.loops);
        let others = &mut loops.others;
        // Waiting for a task is cancellation safe, and a task that ended by itself has failed. In this order, as a cause
        // comes before its consequences.
        tokio::select! {
            biased;
            reason = self.membership.ended() => reason,
            () = self.context.lifecycle.stop.cancelled() => "one of its commits was fenced",
            _ = &mut connections.writer.first => "its commit writer ended",
            _ = &mut connections.writer.second => "its second commit writer ended",
            _ = &mut connections.writer.contended => "its commit writer for contended commits ended",
            _ = &mut connections.direct_starts => "its acceptor of direct starts ended",
            _ = &mut connections.queued_starts => "its acceptor of queued starts ended",
            _ = &mut loops.poller => "its poller ended",
            _ = &mut loops.scheduler => "its scheduler ended",
            _ = &mut others.maintenance => "its maintenance ended",
            _ = &mut others.fan_outs => "its fan-outs ended",
            _ = &mut others.bulk_actions => "its bulk actions ended",
            _ = &mut others.webhooks => "its sender of webhooks ended",
            _ = &mut others.lock_reports => "its lock reports ended",
            _ = &mut others.log_levels => "its levels of the log ended",
            _ = &mut others.service_domains => "its comparison of services ended",
            _ = &mut others.identity_settings => "its comparison of identity settings ended",
            _ = &mut others.cache_signals => "its subscription to cache invalidations ended",
            _ = &mut others.unsupported => "its list of unsupported versions ended",
            _ = &mut connections.candidate => "its candidate in the election ended",
            _ = &mut others.wake_notifications => "its subscription to wake notifications ended",
            _ = &mut connections.notifier => "its connection for notifications ended",
        }
    }
}
