//! Work that keeps a processor busy for long, away from the threads that serve everybody's tasks.
//!
//! It runs on the runtime's threads for blocking work, as many at once as half of the processors, at least one. The one
//! that waits for it sees its end and its panic; dropped, the work goes on to its end, and keeps its place until then.

use std::sync::{Arc, LazyLock};
use std::thread;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::weight;
use crate::{Error, Result};

/// JSON text that is parsed where it is.
const SMALL_TEXT: usize = 64 << 10;

/// Parts of a JSON value that is worked on where it is.
const SMALL_VALUE: usize = 4_000;

static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new((processors / 2).max(1)))
});

/// Whether what is done with a value belongs to [`run`].
pub(crate) fn is_large(value: &Value) -> bool {
    weight::has_more_parts(value, SMALL_VALUE)
}

/// Runs `work`: here if it is short, else elsewhere, when there is a place. Cancellation safe.
pub(crate) async fn run<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if !is_long {
        return Ok(work());
    }
    let place = Arc::clone(&PLACES).acquire_owned().await;
    let place = place.map_err(|_| Error::internal("the places for long work are gone"))?;
    let done = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(place);
        result
    });
    done.await.map_err(|error| {
        if error.is_panic() {
            Error::internal("long work panicked").caused_by(error)
        } else {
            Error::unavailable("not-registered", "this node is about to end")
        }
    })
}

/// Parses JSON that another part of the engine has written.
pub(crate) async fn parse(text: Vec<u8>) -> Result<Value> {
    let is_long = text.len() > SMALL_TEXT;
    let parsed = run(is_long, move || serde_json::from_slice(&text)).await?;
    parsed.map_err(|error| Error::internal("stored JSON cannot be read").caused_by(error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn long_work_leaves_the_thread_of_the_tasks_free() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let long = tokio::spawn(run(true, move || held.recv_timeout(Duration::from_secs(60)).is_ok()));
        // This thread is the only one of the tasks.
        tokio::task::yield_now().await;
        release.send(()).unwrap();
        assert!(long.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_its_place_is_free_again() {
        for _ in 0..thread::available_parallelism().unwrap().get() + 1 {
            let error = run(true, || panic!("on purpose")).await.unwrap_err();
            assert_eq!(error.code(), "internal-error");
        }
        assert_eq!(run(true, || 7).await.unwrap(), 7);
    }
}
