//! Ctrl-C and SIGTERM: the first one asks for an end in good order, the second one ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;

/// Listens from now on; the token is cancelled by the first signal.
pub(super) fn on_signals() -> Result<CancellationToken, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        stop.cancel();
        either(&mut interrupt, &mut terminate).await;
        eprintln!("mainspring: stopped at once");
        // Nothing that is accepted is lost by this; another node or the next start goes on with it.
        std::process::exit(1);
    });
    Ok(token)
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
