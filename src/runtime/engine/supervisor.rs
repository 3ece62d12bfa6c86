//! Keeps one shift at work: registers, and when the registration is over, registers anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Result;
use crate::cluster::{Membership, MembershipOptions};
use crate::db::Connector;
use crate::execution::Interpreter;
use crate::id::Incarnation;
use crate::runtime::context::definition_cache;
use crate::runtime::context::hints;
use crate::runtime::context::node_context::{Shift, ShiftTasks};
use crate::runtime::context::program_cache::Programs;
use crate::runtime::context::replies::Doors;
use crate::runtime::engine::builder::Options;
use crate::runtime::engine::lock_reports;
use crate::runtime::scheduler::fire;
use crate::runtime::worker::poll;
use crate::runtime::worker::unsupported;
use crate::runtime::worker::vacuum;
use crate::store::claim::{self, Release};
use crate::store::node;

/// How long an ended shift may wait for verdicts that are in doubt.
const VERDICTS: Duration = Duration::from_secs(70);

/// How long the connections of an ended shift stay after that: whoever wonders whether the process lives, as its lock
/// session is gone, sees them. Longer than anybody looks, and shorter than anybody minds.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// The longest pause between two attempts to register.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What the supervisor works with.
pub(crate) struct Supervisor {
    pub(crate) base: Connector,
    pub(crate) options: Options,
    pub(crate) interpreter: Interpreter,
    pub(crate) programs: Arc<Programs>,
    pub(crate) doors: Arc<Doors>,
    pub(crate) current: watch::Sender<Option<Arc<Shift>>>,
    /// The engine is about to shut down: a shift that begins now claims nothing.
    pub(crate) leaving: CancellationToken,
    /// The engine is shutting down.
    pub(crate) closing: CancellationToken,
    /// Whether the last attempt to register failed for the credentials.
    pub(crate) refused: Arc<AtomicBool>,
    /// How long bursts may go on then.
    pub(crate) patience: Arc<OnceLock<Duration>>,
}

/// A registration with its shift.
pub(crate) struct OnDuty {
    membership: Membership,
    shift: Arc<Shift>,
    tasks: ShiftTasks,
    claiming: AbortOnDropHandle<()>,
    firing: AbortOnDropHandle<()>,
    housekeeping: AbortOnDropHandle<()>,
    lock_reports: AbortOnDropHandle<()>,
    hints: AbortOnDropHandle<()>,
    signals: AbortOnDropHandle<()>,
    capability: AbortOnDropHandle<()>,
}

impl Supervisor {
    /// Registers and sets a shift to work.
    pub(crate) async fn register(&self, previous: Option<Incarnation>) -> Result<OnDuty> {
        let options = MembershipOptions {
            node_id: self.options.node_id.clone(),
            check_in: self.options.check_in,
            tolerance: self.options.tolerance,
            dead_letter_lifetime: self.options.letter_lifetime,
        };
        let membership = Membership::join(&self.base, &options, previous).await?;
        let (shift, tasks) = Shift::start(
            &membership,
            &self.options,
            &self.interpreter,
            &self.programs,
            &self.doors,
        )
        .await?;
        if self.leaving.is_cancelled() {
            shift.drain();
        }
        // Before the first look: nothing falls between the two.
        let heard = shift.wake.subscribe();
        let hints = AbortOnDropHandle::new(tokio::spawn(hints::follow(Arc::clone(&shift), heard)));
        let heard = shift.signal.subscribe();
        let signals = AbortOnDropHandle::new(tokio::spawn(definition_cache::follow(Arc::clone(&shift), heard)));
        let heard = shift.signal.subscribe();
        // The first look for work shall leave out what others must do; the rest of the list can wait.
        unsupported::refresh(&shift).await?;
        let capability = AbortOnDropHandle::new(tokio::spawn(unsupported::follow(Arc::clone(&shift), heard)));
        self.current.send_replace(Some(Arc::clone(&shift)));
        let claiming = AbortOnDropHandle::new(tokio::spawn(poll::run(Arc::clone(&shift))));
        let firing = AbortOnDropHandle::new(tokio::spawn(fire::run(Arc::clone(&shift))));
        let (comparing, tidying) = (poll::keep_house(Arc::clone(&shift)), vacuum::run(Arc::clone(&shift)));
        let housekeeping = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::join!(comparing, tidying);
        }));
        let lock_reports = AbortOnDropHandle::new(tokio::spawn(lock_reports::answer(Arc::clone(&shift))));
        Ok(OnDuty {
            membership,
            shift,
            tasks,
            claiming,
            firing,
            housekeeping,
            lock_reports,
            hints,
            signals,
            capability,
        })
    }

    /// Runs until the engine closes.
    pub(crate) async fn run(self, mut duty: OnDuty) {
        let mut told = false;
        loop {
            let incarnation = duty.shift.incarnation;
            let reason = tokio::select! {
                // First: a drain ends the claim loop, which is no failure then.
                biased;
                () = self.closing.cancelled() => {
                    self.close(duty).await;
                    return;
                }
                () = self.leaving.cancelled(), if !told => {
                    told = true;
                    tell_that_it_drains(&duty.shift).await;
                    continue;
                }
                reason = watch_over(&mut duty) => reason,
            };
            tracing::warn!(%incarnation, reason, "this registration is over; all its work stops");
            self.current.send_replace(None);
            retire(duty);
            let Some(next) = self.register_again(incarnation).await else {
                return;
            };
            duty = next;
        }
    }

    /// Tries until it works, or the engine closes.
    async fn register_again(&self, previous: Incarnation) -> Option<OnDuty> {
        let mut pause = Duration::from_millis(50);
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return None,
                outcome = self.register(Some(previous)) => match outcome {
                    Ok(duty) => {
                        self.refused.store(false, Ordering::Relaxed);
                        return Some(duty);
                    }
                    Err(error) => {
                        self.refused.store(error.code() == "database-refused", Ordering::Relaxed);
                        tracing::warn!(%error, "this node cannot register yet");
                    }
                },
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.75..1.25))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Finishes what runs, within the deadline; hands back what does not finish; leaves.
    async fn close(&self, duty: OnDuty) {
        let OnDuty {
            membership,
            shift,
            tasks,
            mut claiming,
            mut firing,
            housekeeping,
            lock_reports,
            hints,
            signals,
            capability,
        } = duty;
        shift.close();
        tell_that_it_drains(&shift).await;
        let finished = async {
            // It ends after its round: what that has claimed is run.
            let _ = (&mut claiming).await;
            let _ = (&mut firing).await;
            shift.tasks.close();
            shift.tasks.wait().await;
        };
        let patience = self.patience.get().copied().unwrap_or(self.options.drain_timeout);
        if tokio::time::timeout(patience, finished).await.is_err() {
            tracing::warn!("some bursts did not end in time; they are handed back");
        }
        shift.stop.cancel();
        drop((claiming, firing));
        shift.tasks.close();
        // Those that have reached the writer still get their verdict.
        let _ = tokio::time::timeout(Duration::from_secs(5), shift.tasks.wait()).await;
        let left = async {
            for (key, claim) in claim::claimed_by(&shift.pool, shift.incarnation).await? {
                claim::release(&shift.pool, shift.incarnation, &key, &[claim], Release::IMMEDIATE).await?;
                shift.wake.waits(&key.1);
            }
            membership.leave(&shift.pool).await
        };
        match left.await {
            Ok(()) => tracing::info!("left in good order"),
            Err(error) => tracing::warn!(%error, "this node could not leave in good order; the next start cleans up"),
        }
        self.current.send_replace(None);
        drop((tasks, housekeeping, lock_reports, hints, signals, capability));
        shift.pool.close();
    }
}

/// For those who look at the cluster; nothing depends on it, so nothing waits long for it.
async fn tell_that_it_drains(shift: &Shift) {
    let telling = node::drain(&shift.pool, shift.incarnation);
    if !matches!(tokio::time::timeout(Duration::from_secs(1), telling).await, Ok(Ok(()))) {
        tracing::debug!("nobody could be told that this node drains");
    }
}

/// Returns when a shift must end, and why.
async fn watch_over(duty: &mut OnDuty) -> &'static str {
    let tasks = &mut duty.tasks;
    // Waiting for a task is cancellation safe, and a task that ended on its own has failed. In this order, as a cause
    // has consequences.
    tokio::select! {
        biased;
        reason = duty.membership.ended() => reason,
        () = duty.shift.stop.cancelled() => "one of its commits was refused",
        _ = &mut tasks.writer.first => "its commit writer ended",
        _ = &mut tasks.writer.second => "its second commit writer ended",
        _ = &mut tasks.writer.contended => "its commit writer for stragglers ended",
        _ = &mut tasks.express => "its acceptor ended",
        _ = &mut tasks.durable => "its acceptor ended",
        _ = &mut duty.claiming => "its claim loop ended",
        _ = &mut duty.firing => "its firing of schedules ended",
        _ = &mut duty.housekeeping => "its housekeeping ended",
        _ = &mut duty.lock_reports => "its reporting of locks ended",
        _ = &mut duty.signals => "its listening to changes ended",
        _ = &mut duty.capability => "its list of what it cannot run is kept no more",
        _ = &mut tasks.candidate => "its candidacy as scheduler ended",
        _ = &mut duty.hints => "its listening to other nodes ended",
        _ = &mut tasks.notices => "its connection for notifications is kept no more",
    }
}

/// Ends a shift: bursts stop, verdicts in doubt are waited for in the background, then its connections close.
fn retire(duty: OnDuty) {
    let OnDuty {
        membership,
        shift,
        tasks,
        claiming,
        firing,
        housekeeping,
        lock_reports,
        hints,
        signals,
        capability,
    } = duty;
    shift.stop.cancel();
    shift.tasks.close();
    // Its session and its check-ins end now: others may take over.
    drop(membership);
    tokio::spawn(async move {
        let _ = tokio::time::timeout(VERDICTS, shift.tasks.wait()).await;
        drop((claiming, firing, housekeeping, lock_reports, hints, signals, capability));
        tokio::time::sleep(SIGN_OF_LIFE).await;
        drop(tasks);
        shift.pool.close();
    });
}
