//! Password hashes: argon2id on threads of their own, behind a bound.
//!
//! A hash takes tens of milliseconds and 19 MiB. The threads are half of the processors and have a low priority, so a flood of
//! logins delays neither a check-in nor the scripts of workflows; beyond [`MOST_WAITING`] a login is refused at once.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::oneshot;

use crate::compute::half_of_processors;
use crate::{Error, Result};

/// The most hashes that wait: with one thread, some seconds.
const MOST_WAITING: usize = 64;

/// OWASP's second choice of parameters for argon2id: 19 MiB, two rounds, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const ROUNDS: u32 = 2;
const LANES: u32 = 1;

/// Between the priority of the other threads and the lowest one: a login on a full node still takes less than a second.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// What a password is compared with where there is no user, so that the answer takes as long. No password has this hash.
const NO_USER: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The threads of this process.
static HASHER: LazyLock<Threads> = LazyLock::new(|| Threads::start(half_of_processors(), MOST_WAITING));

type Job = Box<dyn FnOnce() + Send>;

struct Threads {
    jobs: SyncSender<Job>,
}

impl Threads {
    fn start(count: usize, waiting: usize) -> Self {
        let (jobs, received) = sync_channel(waiting);
        let received = Arc::new(Mutex::new(received));
        for number in 0..count {
            let received = Arc::clone(&received);
            let thread = thread::Builder::new().name(format!("password-{number}"));
            if let Err(error) = thread.spawn(move || serve(&received)) {
                tracing::error!(%error, "a thread for password hashes cannot be started");
            }
        }
        Self { jobs }
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // Its caller may have gone.
            if !answer.is_closed() {
                drop(answer.send(work()));
            }
        });
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Error::unavailable("logins-busy", "too many logins are under way; try again"),
            TrySendError::Disconnected(_) => Error::internal("no thread computes password hashes"),
        })?;
        answered
            .await
            .map_err(|_| Error::internal("the computation of a password hash ended"))
    }
}

fn serve(jobs: &Mutex<Receiver<Job>>) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS) {
        tracing::debug!(%error, "the priority of a thread for password hashes cannot be lowered");
    }
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A panic is a defect of the library; the caller has its error, and the thread goes on.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
    }
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, ROUNDS, LANES, None)
        .map_err(|error| Error::internal(format!("argon2 does not take its parameters: {error}")))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash_now(password: &[u8]) -> Result<String> {
    let salt: [u8; 16] = rand::random();
    let hash = argon2()?.hash_password_with_salt(password, &salt);
    hash.map(|hash| hash.to_string())
        .map_err(|error| Error::internal(format!("a password cannot be hashed: {error}")))
}

/// The hash of a password, as a PHC string with parameters and salt. Errors: `logins-busy`.
pub(crate) async fn hash(password: &str) -> Result<String> {
    let password = password.to_owned();
    HASHER.run(move || hash_now(password.as_bytes())).await?
}

/// Whether a password has been right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    Wrong,
    Right,
    /// It is right, and was hashed with other parameters than those of today: this is its hash with these.
    Outdated(String),
}

/// Compares a password with a hash; without one it takes as long. Errors: `logins-busy`.
pub(crate) async fn verify(password: &str, hash: Option<&str>) -> Result<Verified> {
    let (password, hash) = (password.to_owned(), hash.map(str::to_owned));
    HASHER.run(move || verify_now(&password, hash.as_deref())).await?
}

fn verify_now(password: &str, hash: Option<&str>) -> Result<Verified> {
    let parsed = PasswordHash::new(hash.unwrap_or(NO_USER))
        .map_err(|error| Error::internal(format!("a password hash cannot be read: {error}")))?;
    let is_right = argon2()?.verify_password(password.as_bytes(), &parsed).is_ok();
    if !is_right || hash.is_none() {
        return Ok(Verified::Wrong);
    }
    let params = Params::try_from(&parsed).ok();
    let is_current =
        params.is_some_and(|params| (params.m_cost(), params.t_cost(), params.p_cost()) == (MEMORY_KIB, ROUNDS, LANES));
    if is_current && parsed.algorithm.as_str() == "argon2id" {
        return Ok(Verified::Right);
    }
    hash_now(password.as_bytes()).map(Verified::Outdated)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_password_has_many_hashes_and_each_verifies_it_alone() {
        let (one, two) = (
            hash("correct horse").await.unwrap(),
            hash("correct horse").await.unwrap(),
        );
        assert_ne!(one, two);
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_eq!(verify("correct horse", Some(&one)).await.unwrap(), Verified::Right);
        for wrong in ["correct hors", "Correct horse", "", "correct horse "] {
            assert_eq!(verify(wrong, Some(&one)).await.unwrap(), Verified::Wrong, "{wrong}");
        }
        assert_eq!(verify("correct horse", None).await.unwrap(), Verified::Wrong);
        assert!(verify("x", Some("no hash")).await.is_err());
    }

    #[tokio::test]
    async fn an_outdated_hash_is_replaced_when_its_password_is_known() {
        let cheap = Argon2::new(
            Algorithm::Argon2id,
            Version::V0x13,
            Params::new(64, 1, 1, None).unwrap(),
        );
        let old = cheap
            .hash_password_with_salt(b"secret word", &[7; 16])
            .unwrap()
            .to_string();
        assert_eq!(verify("another", Some(&old)).await.unwrap(), Verified::Wrong);
        let Verified::Outdated(new) = verify("secret word", Some(&old)).await.unwrap() else {
            panic!("it has other parameters");
        };
        assert_eq!(verify("secret word", Some(&new)).await.unwrap(), Verified::Right);
    }

    #[tokio::test]
    async fn more_than_the_bound_are_refused_at_once_and_abandoned_ones_are_not_computed() {
        let threads = Threads::start(1, 2);
        let (release, held) = mpsc::channel::<()>();
        let (began, begun) = oneshot::channel();
        let first = threads.run(move || {
            let _ = began.send(());
            held.recv_timeout(Duration::from_secs(60)).is_ok()
        });
        let mut first = Box::pin(first);
        assert!(futures_util::poll!(&mut first).is_pending());
        begun.await.unwrap();
        let (computed, count) = mpsc::channel();
        let mut waiting: Vec<_> = (0..2)
            .map(|number| {
                let computed = computed.clone();
                Box::pin(threads.run(move || computed.send(number).is_ok()))
            })
            .collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert_eq!(threads.run(|| ()).await.unwrap_err().code(), "logins-busy");
        drop(waiting.remove(0));
        release.send(()).unwrap();
        assert!(first.await.unwrap());
        assert!(waiting.remove(0).await.unwrap());
        assert_eq!(count.try_iter().collect::<Vec<_>>(), [1]);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_caller() {
        let threads = Threads::start(1, 1);
        assert!(threads.run(|| panic!("on purpose")).await.map(|(): ()| ()).is_err());
        assert_eq!(threads.run(|| 7).await.unwrap(), 7);
    }
}
