//! Long scripts of all languages: the breakers count them, and an open one lets a version run one of them at a time.
//!
//! JavaScript's have slots and threads of their own, as a script goes on where it began. Those of a language that counts steps
//! begin again here, on a thread of the runtime for blocking work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mainspring_language::Steps;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::fair_queue::QueuePermits;
use super::pace::Pace;
use super::script_breaker::ScriptBreakers;
use super::script_owner::ScriptOwner;
use super::turns::Turns;
use crate::compute::half_of_processors;
use crate::expression::script::{EvaluationResult, ScriptError, ScriptErrorKind};
use crate::expression::script_options::ScriptOptions;

/// How long a script waits for a slot before its burst is deferred.
pub(in crate::expression) const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// The least time between two warnings that bursts are deferred.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// The long scripts of an engine.
pub(in crate::expression) struct LongScripts {
    pub(in crate::expression) breakers: ScriptBreakers,
    /// The time slices, which all languages share.
    pub(in crate::expression) turns: Arc<Turns>,
    /// How long one may run.
    time_limit: Duration,
    /// For scripts that count their steps: of all, and of each definition.
    slots: Arc<Semaphore>,
    own_slots: QueuePermits,
    /// The versions of those that run or wait for their turn.
    running: Mutex<Vec<String>>,
    /// The time of the last warning, in seconds since `began` plus [`WARNING_INTERVAL`].
    last_warning: AtomicU64,
    began: Instant,
}

impl LongScripts {
    pub(in crate::expression) fn new(options: &ScriptOptions) -> Self {
        let slots = options.slots();
        Self {
            breakers: ScriptBreakers::default(),
            turns: Arc::new(Turns::new(half_of_processors())),
            time_limit: options.time_limit,
            slots: Arc::new(Semaphore::new(slots)),
            own_slots: QueuePermits::new(slots / 4),
            running: Mutex::default(),
            last_warning: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of a version run.
    pub(in crate::expression) fn running_of(&self, version: &str) -> usize {
        self.running().iter().filter(|other| *other == version).count()
    }

    /// Counts one that runs from now on. None: the breaker of its version is open, and another one runs.
    pub(in crate::expression) fn admit(long: &Arc<Self>, owner: &ScriptOwner) -> Option<RunningScript> {
        let is_open = long.breakers.is_open(&owner.version);
        let mut running = long.running();
        if is_open && running.contains(&owner.version) {
            return None;
        }
        running.push(owner.version.clone());
        Some(RunningScript {
            long: Arc::clone(long),
            version: owner.version.clone(),
        })
    }

    /// No slot is free for a script, or its breaker is open: records that its burst is deferred, warns at most once in
    /// [`WARNING_INTERVAL`], and gives the error of the evaluation.
    pub(in crate::expression) fn defer(&self, owner: &ScriptOwner) -> ScriptError {
        self.breakers.record_deferred(owner);
        metrics::counter!("mainspring_scripts_deferred_total").increment(1);
        let now = self.began.elapsed().as_secs() + WARNING_INTERVAL.as_secs();
        let last = self.last_warning.load(Ordering::Relaxed);
        if now >= last + WARNING_INTERVAL.as_secs()
            && self
                .last_warning
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let slow = self.running().len();
            tracing::warn!(
                slow,
                "no slot for slow scripts is free; bursts that need one are deferred"
            );
        }
        ScriptError::new(ScriptErrorKind::Busy, "no slot for slow scripts is free now")
    }

    /// A slot for a script that counts its steps. One definition has few of them, so that many long scripts of one delay
    /// those of another by few.
    async fn slot(&self, owner: &ScriptOwner) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), ScriptError> {
        let own = self.own_slots.of(&owner.definition);
        let waiting = async {
            let own = own.acquire_owned().await?;
            Ok((own, Arc::clone(&self.slots).acquire_owned().await?))
        };
        match tokio::time::timeout(SLOT_TIMEOUT, waiting).await {
            Ok(slot) => slot.map_err(|_: AcquireError| closed()),
            Err(_) => Err(self.defer(owner)),
        }
    }

    /// Slots that are free.
    #[cfg(test)]
    pub(in crate::expression) fn free_slots(&self) -> usize {
        self.slots.available_permits()
    }

    /// Runs a script that counts its steps on a thread of its own, in turns with the others, within the time limit. It waits
    /// for a slot before its work is prepared, and has a stack of so many bytes, or that of any thread.
    ///
    /// Cancellation safe: a dropped future stops the script.
    ///
    /// # Errors
    /// `Busy`: the breaker of its version is open and another one runs, or no slot was free for [`SLOT_TIMEOUT`]. `Closed`:
    /// the node is shutting down.
    pub(in crate::expression) async fn run<W>(
        long: &Arc<Self>,
        owner: ScriptOwner,
        language: &'static str,
        stack: Option<usize>,
        prepare: impl FnOnce() -> W,
    ) -> EvaluationResult
    where
        W: FnOnce(&dyn Steps) -> EvaluationResult + Send + 'static,
    {
        let Some(running) = Self::admit(long, &owner) else {
            return Err(long.defer(&owner));
        };
        let slot = long.slot(&owner).await?;
        let work = prepare();
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let (turns, limit) = (Arc::clone(&long.turns), long.time_limit);
        let done = tokio::task::spawn_blocking(move || {
            let paced = || Some(work(&Pace::begin(&turns, language, &stop, limit)?));
            let ended = match stack {
                Some(bytes) => on_stack_of(bytes, paced).flatten(),
                None => paced(),
            };
            drop((slot, running));
            ended
        });
        let ended = done.await.ok().flatten().ok_or_else(closed)?;
        match &ended {
            Err(error) if error.kind == ScriptErrorKind::Timeout => long.breakers.timed_out(&owner),
            Err(error) if error.kind == ScriptErrorKind::Closed => {}
            _ => long.breakers.succeeded(&owner),
        }
        ended
    }
}

fn closed() -> ScriptError {
    ScriptError::new(ScriptErrorKind::Closed, "the node is shutting down")
}

/// A long script, while it runs.
pub(in crate::expression) struct RunningScript {
    long: Arc<LongScripts>,
    version: String,
}

impl Drop for RunningScript {
    fn drop(&mut self) {
        let mut running = self.long.running();
        if let Some(place) = running.iter().position(|other| *other == self.version) {
            running.swap_remove(place);
        }
    }
}

/// Works on a stack of so many bytes. None: the thread cannot be started, or it panicked.
pub(in crate::expression) fn on_stack_of<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
        started.ok()?.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::expression::script::Evaluated;

    fn owner(version: &str) -> ScriptOwner {
        ScriptOwner {
            definition: String::new(),
            version: version.to_owned(),
            instance: String::new(),
        }
    }

    #[tokio::test]
    async fn an_open_breaker_lets_one_run_at_a_time() {
        let long = Arc::new(LongScripts::new(&ScriptOptions::default()));
        for _ in 0..5 {
            long.breakers.timed_out(&owner("bad"));
        }
        let run = |version: &str, work: fn() -> EvaluationResult| {
            let (long, owner) = (Arc::clone(&long), owner(version));
            async move { LongScripts::run(&long, owner, "L", None, || move |_: &dyn Steps| work()).await }
        };
        let first = LongScripts::admit(&long, &owner("bad")).unwrap();
        assert!(run("good", || Ok(Evaluated::default())).await.is_ok());
        let busy = run("bad", || Ok(Evaluated::default())).await.unwrap_err();
        assert_eq!(busy.kind, ScriptErrorKind::Busy);
        drop(first);
        let fails = || Err(ScriptError::new(ScriptErrorKind::Timeout, "late"));
        assert!(run("bad", fails).await.is_err());
        assert!(long.breakers.is_open("bad"));
        assert!(run("bad", || Ok(Evaluated::default())).await.is_ok());
        assert!(!long.breakers.is_open("bad"), "closed");
        assert_eq!(long.running_of("bad"), 0);
    }

    #[tokio::test]
    async fn one_definition_does_not_take_all_slots() {
        let long = LongScripts::new(&ScriptOptions::default());
        let of = |definition: &str| ScriptOwner {
            definition: definition.to_owned(),
            ..owner("v")
        };
        let greedy = of("greedy");
        let mut taken = Vec::new();
        for _ in 0..ScriptOptions::default().slots() / 4 {
            taken.push(long.slot(&greedy).await.unwrap());
        }
        let mut waiting = Box::pin(long.slot(&greedy));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        assert!(long.slot(&of("modest")).await.is_ok());
        taken.pop();
        assert!(waiting.await.is_ok());
        drop(taken);
        assert_eq!(long.free_slots(), ScriptOptions::default().slots());
    }

    #[tokio::test]
    async fn a_script_that_nothing_awaits_is_stopped() {
        let long = Arc::new(LongScripts::new(&ScriptOptions::default()));
        let (sender, reports) = mpsc::channel();
        let work = move |steps: &dyn Steps| {
            sender.send(()).unwrap();
            while steps.check().is_ok() {}
            sender.send(()).unwrap();
            Ok(Evaluated::default())
        };
        let mut running = Box::pin(LongScripts::run(&long, owner("v"), "L", Some(1 << 20), || work));
        assert!(futures_util::poll!(running.as_mut()).is_pending());
        assert_eq!(long.running_of("v"), 1);
        reports.recv_timeout(Duration::from_secs(30)).expect("begun");
        drop(running);
        reports.recv_timeout(Duration::from_secs(30)).expect("stopped");
    }
}
