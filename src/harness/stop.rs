//! Ctrl-C and SIGTERM: the first one asks for an end in good order, the second one ends at once. The end of standard
//! input can ask for an end, too.

use std::io::Read;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::activity::{Console, Stdout};

/// A signal that follows another one so soon is the same one.
const ECHO: Duration = Duration::from_secs(1);

/// Listens from now on; the token is cancelled by the first signal.
pub(crate) fn on_signals() -> Result<CancellationToken, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        stop.cancel();
        let asked = Instant::now();
        // One Ctrl-C may come twice: by the terminal, and by a program that started us and passes it on.
        while asked.elapsed() < ECHO {
            either(&mut interrupt, &mut terminate).await;
        }
        eprintln!("mainspring: stopped at once");
        // The process ends here: this thread has nothing else to do.
        Stdout.flush(Duration::from_millis(50));
        // Nothing that is accepted is lost by this; another node or the next start goes on with it.
        std::process::exit(1);
    });
    Ok(token)
}

/// Cancels the token when standard input ends: whoever started this process is gone, or wants it to stop.
pub(crate) fn with_stdin(stop: &CancellationToken) {
    let stop = stop.clone();
    // A thread of its own, which nobody waits for: the runtime would wait for a read that never returns.
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
