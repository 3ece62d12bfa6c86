//! The thread of the watchdog: it asks, step by step, and reports a hang.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;

use super::part::{Part, PartState};
use super::state::{Hang, Watchdog};
use crate::failpoint;
use crate::{Error, Result};

/// How long the report of a hang may take in the database, a little longer than its own deadline.
const REPORT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long its log may take: what reads it may have stopped.
const LOG_TIMEOUT: Duration = Duration::from_millis(200);

type OnHang = Arc<dyn Fn(&Hang) + Send + Sync>;

/// What the program does when its node hangs; nothing by default.
#[derive(Clone, Default)]
pub(crate) struct HangReport(Option<OnHang>);

impl HangReport {
    pub(crate) fn new(on_hang: impl Fn(&Hang) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(on_hang)))
    }
}

impl fmt::Debug for HangReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HangReport").field(&self.0.is_some()).finish()
    }
}

/// How a watchdog is started.
#[derive(Debug)]
pub(crate) struct WatchdogOptions {
    /// How long a part may take to answer.
    pub(crate) tolerance: Duration,
    /// For how long a burst may keep its thread.
    pub(crate) longest_burst: Duration,
    pub(crate) on_hang: HangReport,
}

/// Owns the thread; dropping it ends the watch.
pub(crate) struct WatchdogThread(#[allow(dead_code, reason = "held for its drop")] mpsc::Sender<()>);

/// Watches the threads of the current runtime, and the parts that are added.
pub(crate) fn start(options: WatchdogOptions) -> Result<(Watchdog, WatchdogThread)> {
    let watchdog = Watchdog::new(options.tolerance, options.longest_burst);
    let runtime = Handle::current();
    let probes = Probes {
        threads: runtime.metrics().num_workers(),
        runtime,
        part: watchdog.watch(Part::Runtime, None).state,
        left: Arc::default(),
        watchdog: watchdog.clone(),
    };
    let (stop, stopped) = mpsc::channel();
    let shared = watchdog.clone();
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            while stopped.recv_timeout(shared.step_length()) == Err(RecvTimeoutError::Timeout) {
                let step = AssertUnwindSafe(|| {
                    probes.send();
                    if let Some(hang) = shared.step() {
                        report(&shared, &hang, &options.on_hang);
                    }
                });
                if catch_unwind(step).is_err() {
                    // Not on this thread: what reads the log may have stopped.
                    let _ = thread::Builder::new().spawn(|| tracing::error!("a step of the watchdog panicked"));
                }
            }
        })
        .map_err(|error| Error::internal("the watchdog cannot be started").caused_by(error))?;
    Ok((watchdog, WatchdogThread(stop)))
}

/// The tasks that answer for the threads of a runtime: one for each, so that one that hangs leaves the others theirs. They
/// also wake a thread for the I/O of the runtime, which waits behind a thread that hangs until another one is woken.
struct Probes {
    runtime: Handle,
    threads: usize,
    part: Arc<PartState>,
    /// How many of them have not run yet.
    left: Arc<AtomicUsize>,
    watchdog: Watchdog,
}

impl Probes {
    /// Sends the next ones once all have answered.
    fn send(&self) {
        if self.left.load(Ordering::Acquire) > 0 {
            return;
        }
        self.left.store(self.threads, Ordering::Release);
        for _ in 0..self.threads {
            let (part, left) = (Arc::clone(&self.part), Arc::clone(&self.left));
            let steps = self.watchdog.steps().clone();
            self.runtime.spawn(async move {
                let _ = failpoint::hit_of("watchdog.answer.", Part::Runtime.label()).await;
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    part.hear(&steps);
                }
            });
        }
    }
}

/// Reports a hang: in the log, in a metric, by the check-in thread in the database, and to the program.
fn report(watchdog: &Watchdog, hang: &Hang, on_hang: &HangReport) {
    let (done, logged) = mpsc::channel::<()>();
    let (part, said) = (hang.part().label(), hang.to_string());
    let log = thread::Builder::new().name("watchdog-log".to_owned()).spawn(move || {
        metrics::counter!("mainspring_hangs_total", "part" => part).increment(1);
        tracing::error!("this node hangs: {said}; its check-ins stop, and other nodes take over");
        drop(done);
    });
    watchdog.wait_for_reports(REPORT_TIMEOUT);
    if log.is_ok() {
        let _ = logged.recv_timeout(LOG_TIMEOUT);
    }
    if let Some(on_hang) = &on_hang.0 {
        on_hang(hang);
    }
    // Not before: a process that is about to end would register again, and claim what its end counts as its crash.
    watchdog.set_reported();
}
