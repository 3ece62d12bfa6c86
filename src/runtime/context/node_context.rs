//! Everything that works under one incarnation. When the incarnation is over, so is its shift: bursts that have not
//! reached the writer are dropped, those that have wait for their verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::Result;
use crate::cluster::election::{self, Election};
use crate::cluster::{CheckInReport, Membership};
use crate::db::{Connector, Notifier, NotifierTask, Pool, SchemaName};
use crate::execution::Interpreter;
use crate::id::{DefinitionId, Incarnation, InstanceId, NodeId, TenantId};
use crate::lock::{LockKey, SessionLocks};
use crate::runtime::context::definition_cache::PublishedDefinitions;
use crate::runtime::context::hints::Wake;
use crate::runtime::context::in_flight::{Hold, InFlight};
use crate::runtime::context::instance_lock::InstanceLock;
use crate::runtime::context::program_cache::Programs;
use crate::runtime::context::replies::Doors;
use crate::runtime::context::services::{InstanceLocks, OpenServices};
use crate::runtime::context::wake_timer::Alarm;
use crate::runtime::engine::builder::Options;
use crate::runtime::scheduler::fire::Firing;
use crate::runtime::worker::unsupported::Capability;
use crate::runtime::worker::vacuum::Tidy;
use crate::signal::{CacheSignal, DefinitionChange};
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release};
use crate::store::commit::{Claim, CommitWriter, WriterOptions, WriterTasks};
use crate::store::start::Acceptor;
use crate::store::{lock as store_lock, maintenance, node};

/// How long an instance is left alone whose lock somebody else has; jittered. Whoever holds it looks for more after the
/// release, so this is only for lost wake-ups.
const ELSEWHERE: Duration = Duration::from_millis(100);

/// The longest pause before a burst that failed is tried again.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The most locks that are asked about because claiming has found them elsewhere.
const MOST_MISSED: usize = 256;

// With its jitter.
const _: () = assert!(LONGEST_PAUSE.as_secs() * 5 / 4 < maintenance::LONGEST_WAIT.as_secs());

/// One incarnation at work.
pub(crate) struct Shift {
    pub(crate) incarnation: Incarnation,
    pub(crate) pool: Pool,
    /// For what takes longer than others may wait for a connection of the pool.
    pub(crate) connector: Connector,
    pub(crate) tidy: Tidy,
    pub(crate) locks: InstanceLocks,
    /// The session of this registration, whoever keeps the locks of instances.
    pub(crate) session: SessionLocks,
    pub(crate) writer: CommitWriter<InstanceLock>,
    /// Starts that will be run at once.
    pub(crate) express: Acceptor,
    /// Starts that somebody will run.
    pub(crate) durable: Acceptor,
    pub(crate) interpreter: Interpreter,
    pub(crate) programs: Arc<Programs>,
    /// What it can run.
    pub(crate) capability: Capability,
    /// Whether it may fire schedules.
    pub(crate) election: Election,
    pub(crate) doors: Arc<Doors>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) node_id: NodeId,
    pub(crate) firing: Firing,
    pub(crate) wake: Wake,
    pub(crate) signal: Arc<dyn CacheSignal>,
    pub(crate) published: PublishedDefinitions,
    pub(crate) in_flight: Arc<InFlight>,
    /// One permit per burst that may run at once.
    pub(crate) permits: Arc<Semaphore>,
    /// How many of them the look has in hands that is under way, for what it may find.
    pub(crate) looking: AtomicUsize,
    /// The last look has not shown all there is to do.
    pub(crate) crowded: AtomicBool,
    pub(crate) workers: usize,
    /// The one permit to run a row that has been in the hands of two processes that died.
    pub(crate) suspects: Arc<Semaphore>,
    /// All work of this incarnation must end.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) reports: watch::Receiver<CheckInReport>,
    /// How often every node checks in.
    pub(crate) check_in: Duration,
    /// When it began to work.
    pub(crate) began: Instant,
    /// Changes when this node has taken over from another one.
    pub(crate) taken_over: watch::Receiver<u64>,
    /// In microseconds.
    pub(crate) inbox_lifetime: i64,
    pub(crate) lock_class: i32,
    pub(crate) notices: Notifier,
    pub(crate) schema: SchemaName,
    /// Nothing new is claimed.
    pub(crate) draining: CancellationToken,
    /// The claim loop may end.
    closing: CancellationToken,
}

/// The tasks behind a shift's handles, for its owner.
pub(crate) struct ShiftTasks {
    pub(crate) writer: WriterTasks,
    pub(crate) express: AbortOnDropHandle<()>,
    pub(crate) durable: AbortOnDropHandle<()>,
    pub(crate) notices: NotifierTask,
    /// The candidate task of the leader election.
    pub(crate) candidate: AbortOnDropHandle<()>,
}

impl Shift {
    /// Opens the connections of an incarnation and sets it to work.
    pub(crate) async fn start(
        membership: &Membership,
        options: &Options,
        interpreter: &Interpreter,
        programs: &Arc<Programs>,
        doors: &Arc<Doors>,
    ) -> Result<(Arc<Self>, ShiftTasks)> {
        let (connector, incarnation) = (&membership.connector, membership.incarnation);
        let pool = Pool::new(connector, options.pool_size)?;
        if let Err(error) = maintenance::ensure_partitions(&pool).await {
            store_lock::log_foreign_locks(&pool, connector.schema(), &[]).await;
            return Err(error);
        }
        let mut writing = WriterOptions::default();
        if pool.is_single() {
            // Whoever asks for so few connections gets no second one for commits.
            writing.second_lane_min = None;
        }
        let (writer, writer_tasks) = CommitWriter::start(connector, incarnation, writing).await?;
        let (express, express_task) = Acceptor::start(connector, &pool, incarnation, false);
        let (durable, durable_task) = Acceptor::start(connector, &pool, incarnation, true);
        let OpenServices {
            wake,
            signal,
            notices,
            notices_task,
        } = options.services.open(connector, incarnation).await?;
        node::report_roles(&pool, incarnation, &options.tasks()).await?;
        let draining = CancellationToken::new();
        // Whoever stops hands on at once, and not when its last burst has ended.
        let (election, candidate) = election::start(membership, &pool, options.firing_mode(), draining.clone());
        let shift = Arc::new(Self {
            incarnation,
            pool,
            connector: connector.clone(),
            tidy: Tidy::default(),
            locks: options.services.instance_locks(&membership.locks),
            session: membership.locks.clone(),
            writer,
            express,
            durable,
            interpreter: interpreter.clone(),
            programs: Arc::clone(programs),
            capability: Capability::new(interpreter.catalogue()),
            doors: Arc::clone(doors),
            alarm: Arc::default(),
            node_id: options.node_id.clone(),
            firing: Firing::default(),
            wake: Wake::new(wake),
            signal,
            published: PublishedDefinitions::new(options.cache_bytes / 4),
            in_flight: Arc::default(),
            permits: Arc::new(Semaphore::new(options.workers)),
            looking: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            workers: options.workers,
            suspects: Arc::new(Semaphore::new(1)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            reports: membership.reports(),
            check_in: options.check_in,
            began: Instant::now(),
            taken_over: membership.taken_over(),
            inbox_lifetime: i64::try_from(options.inbox_lifetime.as_micros()).unwrap_or(i64::MAX),
            lock_class: connector.schema().lock_class(),
            schema: connector.schema().clone(),
            notices,
            draining,
            election,
            closing: CancellationToken::new(),
        });
        let tasks = ShiftTasks {
            writer: writer_tasks,
            express: express_task,
            durable: durable_task,
            notices: notices_task,
            candidate,
        };
        Ok((shift, tasks))
    }

    /// Nothing new is claimed from now on. Others are told to look at what comes.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
        self.wake.overflow();
    }

    /// The same, and the claiming task ends.
    pub(crate) fn close(&self) {
        self.draining.cancel();
        self.closing.cancel();
    }

    /// Returns when the shift closes. Cancellation safe.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// The database takes what bursts of this node would write, as far as is known. While it does not, what comes in is
    /// accepted, and waits for a probe or another node.
    pub(crate) fn takes_commits(&self) -> bool {
        !self.writer.breaker().is_open()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// The locks of instances that claiming has found elsewhere lately, where the server keeps them.
    pub(crate) fn missed(&self) -> Vec<(LockKey, InstanceId)> {
        let schema = self.schema.as_str();
        let missed = self.in_flight.missed(MOST_MISSED).into_iter();
        missed
            .map(|(tenant, instance)| (LockKey::instance(schema, &tenant, &instance), instance))
            .collect()
    }

    /// A burst takes claimed rows into its hands.
    pub(crate) fn hold(&self, key: &InstanceKey, rows: &[ClaimedRow]) -> Hold {
        self.in_flight.hold(key, rows.iter().map(|row| row.claim.clone()))
    }

    /// This node has committed a change of a definition: what it shows of it itself is new at once.
    pub(crate) fn definition_changed(&self, tenant: &TenantId, definition: &DefinitionId) {
        let key = (tenant.clone(), definition.clone());
        self.published.changed_here(&key);
        // Its schedules may be due before what the alarm is set for.
        self.firing.alarm.now();
        if !self.signal.sent_in_commit() {
            let (tenant, definition) = key;
            self.signal.notify(DefinitionChange {
                revision: None,
                tenant,
                definition,
            });
        }
    }

    /// Looks at instances again in a moment, not at once: somebody else has their locks, or a row of them.
    pub(crate) fn leave_alone(&self, keys: impl IntoIterator<Item = InstanceKey>) {
        let until = Instant::now() + ELSEWHERE.mul_f64(rand::random_range(0.5..1.5));
        // One look for all of them.
        if self.in_flight.leave_alone(keys, until) {
            self.alarm.at(until);
        }
    }

    /// Hands claimed rows back, and looks again when the pause is over.
    pub(crate) async fn give_back(&self, key: &InstanceKey, claims: &[Claim], how: Release<'_>) {
        if let Err(error) = claim::release(&self.pool, self.incarnation, key, claims, how).await {
            // The comparison of claims with memory finds them once the database is back.
            tracing::warn!(instance = %key.1, %error, "claimed rows could not be handed back yet");
        }
        if !how.pause.is_zero() {
            self.comes_due(Instant::now() + how.pause);
            return;
        }
        self.alarm.now();
        if self.is_draining() {
            self.wake.waits(&key.1);
        }
    }
}

/// Twice as long with each failure, and a little different each time.
pub(crate) fn pause(failures: i32) -> Duration {
    let doubled = Duration::from_millis(100) * 2u32.saturating_pow(u32::try_from(failures).unwrap_or(0).min(16));
    doubled.min(LONGEST_PAUSE).mul_f64(rand::random_range(0.75..1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_are_not_all_the_same() {
        for failures in 0..40 {
            let full = (Duration::from_millis(100) * 2u32.pow(failures.min(16))).min(LONGEST_PAUSE);
            let pauses: Vec<Duration> = (0..50).map(|_| pause(failures.cast_signed())).collect();
            let within = full.mul_f64(0.75)..=full.mul_f64(1.25);
            assert!(
                pauses.iter().all(|pause| within.contains(pause)),
                "{failures}: {pauses:?}"
            );
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{failures}: no jitter");
        }
        assert_eq!(pause(-1).as_secs(), 0);
    }
}
