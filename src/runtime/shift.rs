//! Everything that works under one incarnation. When the incarnation is over, so is its shift: bursts that have not
//! reached the writer are dropped, those that have wait for their verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::alarm::Alarm;
use super::capability::Capability;
use super::doors::Doors;
use super::firing::Firing;
use super::hints::Wake;
use super::in_flight::{Hold, InFlight};
use super::instance_lock::InstanceLock;
use super::options::Options;
use super::programs::Programs;
use super::published::PublishedDefinitions;
use super::services::{InstanceLocks, OpenServices};
use super::tidy::Tidy;
use crate::Result;
use crate::cluster::election::{self, Election};
use crate::cluster::{CheckInReport, Membership};
use crate::db::{Connector, Notifier, NotifierTask, Pool, SchemaName};
use crate::execution::Interpreter;
use crate::id::{DefinitionId, Incarnation, InstanceId, NodeId, TenantId};
use crate::lock::{LockKey, SessionLocks};
use crate::signal::{CacheSignal, DefinitionChange};
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release};
use crate::store::commit::{Claim, CommitWriter, WriterOptions, WriterTasks};
use crate::store::start::Acceptor;
use crate::store::{lock as store_lock, maintenance, node};

/// How long an instance is left alone whose lock somebody else has; jittered. Whoever holds it looks for more after the
/// release, so this is only for lost wake-ups.
const ELSEWHERE: Duration = Duration::from_millis(100);

/// The longest pause before a burst that failed is tried again.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The most locks that are asked about because claiming has found them elsewhere.
const MOST_MISSED: usize = 256;

// With its jitter.
const _: () = assert!(LONGEST_PAUSE.as_secs() * 5 / 4 < maintenance::LONGEST_WAIT.as_secs());

/// One incarnation at work.
pub(super) struct Shift {
    pub(super) incarnation: Incarnation,
    pub(super) pool: Pool,
    /// For what takes longer than others may wait for a connection of the pool.
    pub(super) connector: Connector,
    pub(super) tidy: Tidy,
    pub(super) locks: InstanceLocks,
    /// The session of this registration, whoever keeps the locks of instances.
    pub(super) session: SessionLocks,
    pub(super) writer: CommitWriter<InstanceLock>,
    /// Starts that will be run at once.
    pub(super) express: Acceptor,
    /// Starts that somebody will run.
    pub(super) durable: Acceptor,
    pub(super) interpreter: Interpreter,
    pub(super) programs: Arc<Programs>,
    /// What it can run.
    pub(super) capability: Capability,
    /// Whether it may fire schedules.
    pub(super) election: Election,
    pub(super) doors: Arc<Doors>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) node_id: NodeId,
    pub(super) firing: Firing,
    pub(super) wake: Wake,
    pub(super) signal: Arc<dyn CacheSignal>,
    pub(super) published: PublishedDefinitions,
    pub(super) in_flight: Arc<InFlight>,
    /// One permit per burst that may run at once.
    pub(super) permits: Arc<Semaphore>,
    /// How many of them the look has in hands that is under way, for what it may find.
    pub(super) looking: AtomicUsize,
    /// The last look has not shown all there is to do.
    pub(super) crowded: AtomicBool,
    pub(super) workers: usize,
    /// The one permit to run a row that has been in the hands of two processes that died.
    pub(super) suspects: Arc<Semaphore>,
    /// All work of this incarnation must end.
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) reports: watch::Receiver<CheckInReport>,
    /// How often every node checks in.
    pub(super) check_in: Duration,
    /// When it began to work.
    pub(super) began: Instant,
    /// Changes when this node has taken over from another one.
    pub(super) taken_over: watch::Receiver<u64>,
    /// In microseconds.
    pub(super) inbox_lifetime: i64,
    pub(super) lock_class: i32,
    pub(super) notices: Notifier,
    pub(super) schema: SchemaName,
    /// Nothing new is claimed.
    pub(super) draining: CancellationToken,
    /// The claim loop may end.
    closing: CancellationToken,
}

/// The tasks behind a shift's handles, for its owner.
pub(super) struct ShiftTasks {
    pub(super) writer: WriterTasks,
    pub(super) express: AbortOnDropHandle<()>,
    pub(super) durable: AbortOnDropHandle<()>,
    pub(super) notices: NotifierTask,
    /// The candidate task of the leader election.
    pub(super) candidate: AbortOnDropHandle<()>,
}

impl Shift {
    /// Opens the connections of an incarnation and sets it to work.
    pub(super) async fn start(
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
            writing.many = None;
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
    pub(super) fn drain(&self) {
        self.draining.cancel();
        self.wake.overflow();
    }

    /// The same, and the claiming task ends.
    pub(super) fn close(&self) {
        self.draining.cancel();
        self.closing.cancel();
    }

    /// Returns when the shift closes. Cancellation safe.
    pub(super) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// The database takes what bursts of this node would write, as far as is known. While it does not, what comes in is
    /// accepted, and waits for a probe or another node.
    pub(super) fn takes_commits(&self) -> bool {
        !self.writer.breaker().is_open()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// The locks of instances that claiming has found elsewhere lately, where the server keeps them.
    pub(super) fn missed(&self) -> Vec<(LockKey, InstanceId)> {
        let schema = self.schema.as_str();
        let missed = self.in_flight.missed(MOST_MISSED).into_iter();
        missed
            .map(|(tenant, instance)| (LockKey::instance(schema, &tenant, &instance), instance))
            .collect()
    }

    /// A burst takes claimed rows into its hands.
    pub(super) fn hold(&self, key: &InstanceKey, rows: &[ClaimedRow]) -> Hold {
        self.in_flight.hold(key, rows.iter().map(|row| row.claim.clone()))
    }

    /// This node has committed a change of a definition: what it shows of it itself is new at once.
    pub(super) fn definition_changed(&self, tenant: &TenantId, definition: &DefinitionId) {
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
    pub(super) fn leave_alone(&self, keys: impl IntoIterator<Item = InstanceKey>) {
        let until = Instant::now() + ELSEWHERE.mul_f64(rand::random_range(0.5..1.5));
        // One look for all of them.
        if self.in_flight.leave_alone(keys, until) {
            self.alarm.at(until);
        }
    }

    /// Hands claimed rows back, and looks again when the pause is over.
    pub(super) async fn give_back(&self, key: &InstanceKey, claims: &[Claim], how: Release<'_>) {
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
pub(super) fn pause(failures: i32) -> Duration {
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
