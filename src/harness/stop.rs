//! Ctrl-C and SIGTERM: the first signal starts the shutdown, the second one exits at once. The end of standard input can
//! start the shutdown, too.

use std::io::Read;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::activity::{Console, Stdout};

/// A signal within this time after the first one is a duplicate of it.
const DUPLICATE_SIGNAL: Duration = Duration::from_secs(1);

/// Handles signals from now on. The first one cancels the token.
pub(crate) fn on_signals() -> Result<CancellationToken, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        stop.cancel();
        let first = Instant::now();
        // One Ctrl-C can arrive twice: from the terminal, and forwarded by the parent process.
        while first.elapsed() < DUPLICATE_SIGNAL {
            either(&mut interrupt, &mut terminate).await;
        }
        eprintln!("mainspring: stopped at once");
        // Blocking is fine here: the process exits.
        Stdout.flush(Duration::from_millis(50));
        // Accepted work is in the database: another node, or the next start, continues it.
        std::process::exit(1);
    });
    Ok(token)
}

/// Cancels the token when standard input ends: the parent process is gone, or stops this one.
pub(crate) fn on_stdin_end(stop: &CancellationToken) {
    let stop = stop.clone();
    // A detached thread: the runtime's shutdown would wait for a blocking read that never returns.
    std::thread::spawn(move || {
        let (mut stdin, mut bytes) = (std::io::stdin().lock(), [0; 64]);
        while matches!(stdin.read(&mut bytes), Ok(length) if length > 0) {}
        stop.cancel();
    });
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// The result of `work`, or a failure when `stop` is cancelled before.
pub(crate) async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        outcome = work => outcome,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    }
}
