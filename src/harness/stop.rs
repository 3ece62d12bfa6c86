//! Ctrl-C and SIGTERM: the first signal starts the shutdown, the second one exits at once. The end of standard input can
//! also start the shutdown.
//!
//! A separate thread waits for both, so that the process ends whatever state its other threads are in: at the latest when
//! the time for the shutdown is over.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::activity::{Console, Stdout};

/// A signal within this time after the first one is a duplicate of it.
const DUPLICATE_SIGNAL: Duration = Duration::from_secs(1);

/// How long the last message of a process may take: what reads it may have stopped.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long the exit itself may take: it writes what standard output still holds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The shutdown of a program. Cheap to clone.
#[derive(Clone)]
pub struct Shutdown {
    requested: CancellationToken,
    /// How long the shutdown may take, from its request on; `None` means without a limit.
    limit: Arc<watch::Sender<Option<Duration>>>,
}

impl Shutdown {
    /// Waits until the shutdown starts. Cancellation safe.
    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Starts the shutdown, as a signal does.
    pub(crate) fn request(&self) {
        self.requested.cancel();
    }

    /// The process ends after this time, counted from the request.
    pub(crate) fn limit(&self, time: Duration) {
        self.limit.send_replace(Some(time));
    }

    /// The same, if the threads of the runtime do their work: else the shorter limit remains.
    pub(crate) async fn extend_limit(&self, time: Duration) {
        if tokio::spawn(async {}).await.is_ok() {
            self.limit(time);
        }
    }
}

/// Handles signals from now on. The first one starts the shutdown.
pub fn on_signals() -> Result<Shutdown, Failure> {
    let failed = |error| Failure::failed(format!("cannot listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let (interrupt, terminate) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).map_err(failed);
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    let stop = Shutdown {
        requested: CancellationToken::new(),
        limit: Arc::default(),
    };
    let handled = stop.clone();
    let thread = thread::Builder::new().name("signals".to_owned());
    let thread = thread.spawn(move || {
        let message = runtime.block_on(handle(&handled, interrupt, terminate));
        // Accepted work is in the database: another node, or the next start, continues it.
        end_process(1, message);
    });
    thread.map_err(failed)?;
    Ok(stop)
}

/// Returns when the process must end, and why.
async fn handle(stop: &Shutdown, mut interrupt: Signal, mut terminate: Signal) -> &'static str {
    tokio::select! {
        () = either(&mut interrupt, &mut terminate) => stop.requested.cancel(),
        () = stop.requested() => {}
    }
    let (began, mut limits) = (Instant::now(), stop.limit.subscribe());
    loop {
        let limit = *limits.borrow_and_update();
        let is_over = async {
            match limit {
                Some(limit) => tokio::time::sleep_until((began + limit).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // One Ctrl-C can arrive twice: from the terminal, and forwarded by the parent process.
            () = either(&mut interrupt, &mut terminate) => if began.elapsed() >= DUPLICATE_SIGNAL {
                return "stopped at once";
            },
            () = is_over => return "the shutdown took too long and is ended; other nodes take over what was running",
            // The sender is part of `stop`.
            _ = limits.changed() => {}
        }
    }
}

/// Starts the shutdown when standard input ends: the parent process is gone, or stops this one.
pub(crate) fn on_stdin_end(stop: &Shutdown) {
    let stop = stop.clone();
    // A detached thread: the runtime's shutdown would wait for a blocking read that never returns.
    thread::spawn(move || {
        let (mut stdin, mut bytes) = (std::io::stdin().lock(), [0; 64]);
        while matches!(stdin.read(&mut bytes), Ok(length) if length > 0) {}
        stop.requested.cancel();
    });
}

/// Ends the process, whatever its threads do: nothing is waited for without a limit.
pub(crate) fn end_process(code: u8, message: impl Into<String>) -> ! {
    let (done, written) = mpsc::channel::<()>();
    let message = message.into();
    let writer = thread::Builder::new().spawn(move || {
        eprintln!("mainspring: {message}");
        Stdout.flush(MESSAGE_TIMEOUT / 4);
        drop(done);
    });
    if writer.is_ok() {
        let _ = written.recv_timeout(MESSAGE_TIMEOUT);
    }
    let _ = thread::Builder::new().spawn(|| {
        thread::sleep(EXIT_TIMEOUT);
        std::process::abort();
    });
    std::process::exit(i32::from(code));
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// The result of `work`, or a failure when the shutdown starts before.
pub async fn unless_stopped<T>(stop: &Shutdown, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        outcome = work => outcome,
        () = stop.requested() => Err(Failure::failed("stopped before the end")),
    }
}
