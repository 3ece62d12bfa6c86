//! Failpoints: named points in the code at which a test makes a process stop, wait or fail.
//!
//! Without the feature `failpoints` a point does nothing. With it, and in the tests of this crate, the variable
//! `MAINSPRING_FAILPOINTS` is a list `name=action[@n];…`. `action` is one of
//!
//! - `abort`: end the process at once, as `kill -9` does;
//! - `panic`: panic, each time from now on;
//! - `stall:PATH`: write `PATH.reached`, then wait until the file `PATH` exists;
//! - `hang:PATH`: once the file `PATH` exists, never continue;
//! - `block:PATH`: while the file `PATH` exists, keep the thread;
//! - `error`: make the step fail, as with a lost connection, each time from now on;
//! - `cut`: the same, only once.
//!
//! `@n` skips the first `n - 1` passages. A unit test can also record the points that a future passes (`watched`), and make
//! one fail for it (`failing`).

/// Does nothing without the feature `failpoints`.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline]
pub(crate) async fn hit(_name: &'static str) -> crate::Result<()> {
    Ok(())
}

/// Does nothing without the feature `failpoints`.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline]
pub(crate) async fn hit_of(_prefix: &'static str, _name: &str) -> crate::Result<()> {
    Ok(())
}

/// False without the feature `failpoints`.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline]
pub(crate) fn armed(_prefix: &str) -> bool {
    false
}

#[cfg(any(test, feature = "failpoints"))]
pub(crate) use armed::{armed, hit, hit_of};
#[cfg(test)]
pub(crate) use armed::{failing, watched};

#[cfg(any(test, feature = "failpoints"))]
mod armed {
    use std::collections::HashMap;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use crate::{Error, Result};

    enum Action {
        Abort,
        Panic,
        Stall(PathBuf),
        Hang(PathBuf),
        Block(PathBuf),
        Error,
        Cut,
    }

    struct Point {
        action: Action,
        from: u64,
        passed: AtomicU64,
    }

    fn points() -> &'static HashMap<String, Point> {
        static POINTS: OnceLock<HashMap<String, Point>> = OnceLock::new();
        POINTS.get_or_init(|| parse(&std::env::var("MAINSPRING_FAILPOINTS").unwrap_or_default()))
    }

    fn parse(text: &str) -> HashMap<String, Point> {
        let mut points = HashMap::new();
        for entry in text.split(';').filter(|entry| !entry.is_empty()) {
            let Some((name, action)) = entry.split_once('=') else {
                continue;
            };
            let (action, from) = match action.rsplit_once('@') {
                Some((action, n)) => (action, n.parse().unwrap_or(1)),
                None => (action, 1),
            };
            let action = match action.split_once(':') {
                Some(("stall", path)) => Action::Stall(PathBuf::from(path)),
                Some(("hang", path)) => Action::Hang(PathBuf::from(path)),
                Some(("block", path)) => Action::Block(PathBuf::from(path)),
                _ if action == "abort" => Action::Abort,
                _ if action == "panic" => Action::Panic,
                _ if action == "cut" => Action::Cut,
                _ => Action::Error,
            };
            points.insert(
                name.to_owned(),
                Point {
                    action,
                    from,
                    passed: AtomicU64::new(0),
                },
            );
        }
        points
    }

    #[cfg(test)]
    tokio::task_local! {
        static PASSED: tokio::sync::mpsc::UnboundedSender<String>;
        static FAILING: &'static str;
    }

    /// Sends the points that a future passes, in order, while it runs on the task that awaits this.
    #[cfg(test)]
    pub(crate) async fn watched<F: Future>(passed: tokio::sync::mpsc::UnboundedSender<String>, of: F) -> F::Output {
        PASSED.scope(passed, of).await
    }

    /// Runs a future in which a point fails, while it runs on the task that awaits this.
    #[cfg(test)]
    pub(crate) async fn failing<F: Future>(name: &'static str, of: F) -> F::Output {
        FAILING.scope(name, of).await
    }

    /// Whether a test has set any point with this prefix.
    pub(crate) fn armed(prefix: &str) -> bool {
        points().keys().any(|name| name.starts_with(prefix))
    }

    /// Passes the point `prefix` followed by `name`: a point for one instance alone.
    pub(crate) async fn hit_of(prefix: &'static str, name: &str) -> Result<()> {
        if points().is_empty() {
            return Ok(());
        }
        hit(&format!("{prefix}{name}")).await
    }

    /// Passes the point `name`, or runs the action that a test has set for it.
    pub(crate) async fn hit(name: &str) -> Result<()> {
        #[cfg(test)]
        let _ = PASSED.try_with(|passed| passed.send(name.to_owned()));
        #[cfg(test)]
        if FAILING.try_with(|failing| *failing == name) == Ok(true) {
            return Err(Error::unavailable("failpoint", format!("failpoint {name}")));
        }
        let Some(point) = points().get(name) else { return Ok(()) };
        let passage = point.passed.fetch_add(1, Ordering::SeqCst) + 1;
        if passage < point.from {
            return Ok(());
        }
        match &point.action {
            Action::Abort => std::process::abort(),
            Action::Panic => panic!("failpoint {name}"),
            Action::Cut if passage > point.from => Ok(()),
            Action::Error | Action::Cut => Err(Error::unavailable("failpoint", format!("failpoint {name}"))),
            Action::Stall(path) => {
                let _ = std::fs::write(path.with_extension("reached"), name);
                while !path.exists() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(())
            }
            Action::Hang(path) => {
                if path.exists() {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
            Action::Block(path) => {
                while path.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }
        }
    }
}
