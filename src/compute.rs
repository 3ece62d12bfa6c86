//! Long computations, off the threads that run tasks.
//!
//! They run on the runtime's blocking threads, as many at once as half of the processors, and at least one; the checks of
//! publishes have as many places of their own. The caller receives the result, or an error after a panic. A dropped caller
//! does not stop the computation, which keeps its permit until it ends.

use std::sync::{Arc, LazyLock};
use std::thread;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::weight;
use crate::{Error, Result};

/// In bytes: JSON text up to this size is parsed on the caller's thread.
const SMALL_TEXT: usize = 64 << 10;

/// In parts: a JSON value up to this size is handled on the caller's thread.
const SMALL_VALUE: usize = 4_000;

static PERMITS: Permits = LazyLock::new(|| Arc::new(Semaphore::new(half_of_processors())));

/// Those of the checks of publishes, which other long work does not wait for.
static CHECKS: Permits = LazyLock::new(|| Arc::new(Semaphore::new(half_of_processors())));

type Permits = LazyLock<Arc<Semaphore>>;

/// What runs for long has no more than these: half of the processors, at least one.
pub(crate) fn half_of_processors() -> usize {
    (thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

/// Whether work on this value is long.
pub(crate) fn is_large(value: &Value) -> bool {
    weight::has_at_least(value, SMALL_VALUE)
}

/// Whether a text of this value is long, which may be JSON itself.
#[cfg(feature = "http")]
pub(crate) fn has_large_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > SMALL_TEXT,
        Value::Array(items) => items.iter().any(has_large_text),
        Value::Object(fields) => fields.values().any(has_large_text),
        _ => false,
    }
}

/// Runs `work`: on the caller's thread if it is short, else with a permit on another one. Cancellation safe.
pub(crate) async fn run<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    run_with(&PERMITS, is_long, work).await
}

/// Runs the check of a publish: like [`run`], and with permits of its own, as the check of a large definition takes long.
pub(crate) async fn check<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    run_with(&CHECKS, is_long, work).await
}

async fn run_with<T: Send + 'static>(
    permits: &Permits,
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if !is_long {
        return Ok(work());
    }
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(|_| Error::internal("the permits for long work are closed"))?;
    let done = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    });
    done.await.map_err(|error| {
        if error.is_panic() {
            Error::internal("long work panicked").caused_by(error)
        } else {
            Error::unavailable("not-registered", "this node is shutting down")
        }
    })
}

/// Parses stored JSON.
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
    async fn long_work_does_not_block_the_runtime() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let long = tokio::spawn(run(true, move || held.recv_timeout(Duration::from_secs(60)).is_ok()));
        // The runtime of this test has one thread.
        tokio::task::yield_now().await;
        release.send(()).unwrap();
        assert!(long.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn work_does_not_wait_for_checks() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let checks: Vec<_> = (0..half_of_processors())
            .map(|_| {
                let held = Arc::clone(&held);
                tokio::spawn(check(true, move || {
                    held.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_ok()
                }))
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(run(true, || 7).await.unwrap(), 7);
        for check in checks {
            release.send(()).unwrap();
            assert!(check.await.unwrap().unwrap(), "the check was over before the work");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_its_permit_is_returned() {
        for _ in 0..thread::available_parallelism().unwrap().get() + 1 {
            let error = run(true, || panic!("on purpose")).await.unwrap_err();
            assert_eq!(error.code(), "internal-error");
        }
        assert_eq!(run(true, || 7).await.unwrap(), 7);
    }
}
