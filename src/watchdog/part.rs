//! The parts of a node that the watchdog asks.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::polled::Steps;
use crate::failpoint;
use crate::id::Incarnation;

/// How long one step of a part may wait for the database: longer than all its statements together, each of which has a
/// deadline of its own.
const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// A part without which a node does no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The threads that run the tasks.
    Runtime,
    Poller,
    /// A lane of the commit writer.
    CommitWriter,
    LockSession,
    Supervisor,
    Scheduler,
    /// What accepts starts.
    Acceptor,
    /// A burst that keeps its thread for longer than any call of an activity may take.
    Burst,
}

impl Part {
    /// In metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Poller => "poller",
            Self::CommitWriter => "commit_writer",
            Self::LockSession => "lock_session",
            Self::Supervisor => "supervisor",
            Self::Scheduler => "scheduler",
            Self::Acceptor => "acceptor",
            Self::Burst => "burst",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runtime => "the threads of the runtime have",
            Self::Poller => "the poller has",
            Self::CommitWriter => "the commit writer has",
            Self::LockSession => "the lock session has",
            Self::Supervisor => "the supervisor has",
            Self::Scheduler => "the scheduler has",
            Self::Acceptor => "the acceptor of starts has",
            Self::Burst => "a burst that keeps a thread of the runtime has",
        })
    }
}

/// What the watchdog knows of a part.
#[derive(Debug)]
pub(super) struct PartState {
    pub(super) part: Part,
    /// The registration that it ends with; `None` if it belongs to the process.
    pub(super) incarnation: Option<Incarnation>,
    /// The step in which it was heard last.
    heard: AtomicU64,
    asked: Notify,
}

impl PartState {
    pub(super) fn new(part: Part, incarnation: Option<Incarnation>, steps: &Steps) -> Self {
        Self {
            part,
            incarnation,
            heard: AtomicU64::new(steps.now()),
            asked: Notify::new(),
        }
    }

    pub(super) fn ask(&self) {
        self.asked.notify_one();
    }

    pub(super) fn hear(&self, steps: &Steps) {
        self.heard.store(steps.now(), Ordering::Relaxed);
    }

    /// For how many steps it has not answered.
    pub(super) fn unanswered(&self, now: u64) -> u64 {
        now.saturating_sub(self.heard.load(Ordering::Relaxed))
    }
}

/// A watched part, in the task that answers for it. The watchdog asks it until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct WatchedPart {
    pub(super) state: Arc<PartState>,
    pub(super) steps: Steps,
}

impl WatchedPart {
    /// A session of locks that no watchdog asks: without the liveness lock it is no part of a node.
    pub(crate) fn unwatched() -> Self {
        let steps = Steps::default();
        Self {
            state: Arc::new(PartState::new(Part::LockSession, None, &steps)),
            steps,
        }
    }

    /// Awaits what may take any time, and answers meanwhile. As cancellation safe as `work`.
    pub(crate) async fn idle<F: Future>(&self, work: F) -> F::Output {
        self.answer_during(work, || true).await
    }

    /// Awaits one step of work that waits for the database, and answers meanwhile, for three minutes at most. As
    /// cancellation safe as `work`.
    pub(crate) async fn wait<F: Future>(&self, work: F) -> F::Output {
        let began = Instant::now();
        self.answer_during(work, || began.elapsed() < LONGEST_WAIT).await
    }

    pub(super) async fn answer_during<F: Future>(&self, work: F, answers: impl Fn() -> bool) -> F::Output {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.state.hear(&self.steps);
                    return done;
                }
                () = self.state.asked.notified() => {
                    let _ = failpoint::hit_of("watchdog.answer.", self.state.part.label()).await;
                    if answers() {
                        self.state.hear(&self.steps);
                    }
                }
            }
        }
    }
}
