//! Locks among the processes of one host: the operating system's locks on files.
//!
//! # Invariants
//!
//! - A lock is a file named after its key, locked by the kernel for as long as our descriptor is open. A process that
//!   dies, however it dies, frees its locks.
//! - Files are never deleted: between looking at a file and locking it somebody else could lock a deleted one. They are
//!   empty, one for each name that was ever used. They have mode 0600, and one of another user, or a symbolic link in
//!   its place, is refused: another user who may open a file may lock it, too.
//! - The kernel is only tried, on a thread that may block; one batch at a time. Nobody tells that a file is free, so a
//!   waiting process asks again every few milliseconds.

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

use super::LockProvider;
use super::front::{Behind, Front};
use super::handle::{FencingToken, LockHandle};
use super::key::{Keying, LockKey};
use super::request::{LockMode, LockRequest};
use super::stats::LockStats;
use super::table::{Back, Batch, HeldLock};
use crate::{Error, Result, private_file};

/// The most keys in one visit to the kernel.
const BATCH: usize = 256;
/// Files that are open at the same time: half of what a process may usually have (1,024).
const FILES: usize = 512;
/// Between two looks at a file that another process has locked.
const LOOK: Duration = Duration::from_millis(5);

/// Locks among the processes of one host that use the same directory. Cheap to clone; when the last clone is dropped,
/// every lock is free. Network file systems are not supported: their locks are not what they seem.
///
/// At most 512 locks are held at a time; who asks for more waits in line.
#[derive(Clone)]
pub struct FileLocks {
    front: Arc<Front>,
    _task: Arc<AbortOnDropHandle<()>>,
}

impl FileLocks {
    /// Uses this directory, and makes it if need be. Must be called within a tokio runtime; blocks for the moment that
    /// making a directory takes.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::with_keying(directory.into(), LockKey::of)
    }

    pub(super) fn with_keying(directory: PathBuf, keying: Keying) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        let owner = made.and_then(|()| private_file::owner_in(&directory));
        let owner = owner.map_err(|error| broken(&directory, error))?;
        // The directory is the space of names, so nothing needs to be mixed in.
        let behind = Front::open(Back::Silent(FILES), "file", keying);
        let front = Arc::clone(&behind.front);
        let task = tokio::spawn(run(directory, owner, behind));
        Ok(Self {
            front,
            _task: Arc::new(AbortOnDropHandle::new(task)),
        })
    }
}

fn broken(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(
        "lock-directory",
        format!("the lock directory {} cannot be used", path.display()),
    )
    .caused_by(error)
}

/// Tells everybody, also when the task is aborted.
struct Ended(Arc<Front>, tokio::sync::watch::Sender<bool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.send_replace(true);
        self.0.end();
    }
}

async fn run(directory: PathBuf, owner: u32, behind: Behind) {
    let Behind {
        front,
        mut tokens,
        ended,
    } = behind;
    let ended = Ended(Arc::clone(&front), ended);
    let mut files = Files {
        directory,
        owner,
        open: HashMap::new(),
    };
    loop {
        while let Some(batch) = front.batch(BATCH) {
            // The files go along to the thread and come back; if it panicked they are closed, and all is lost.
            let visited = tokio::task::spawn_blocking(move || {
                let missed = files.visit(&batch);
                (files, batch, missed)
            });
            match visited.await {
                Ok((back, batch, Ok(missed))) => {
                    files = back;
                    front.answer(&batch, &missed, false);
                }
                Ok((_, _, Err(error))) => {
                    tracing::warn!(%error, "every lock of this process is lost");
                    return drop(ended);
                }
                Err(_) => return drop(ended),
            }
        }
        // Without hints a miss is looked at again soon, whatever the table would wait.
        let look = async {
            match front.next_retry() {
                Some(_) => tokio::time::sleep(LOOK.mul_f64(rand::random_range(0.2..1.0))).await,
                None => std::future::pending().await,
            }
        };
        // All are cancellation safe.
        tokio::select! {
            () = front.rung() => {}
            Some(request) = tokens.recv() => {
                let path = files.directory.join("tokens");
                let drawn = tokio::task::spawn_blocking(move || next_token(&path, owner)).await;
                let drawn = drawn.map_err(|_| Error::internal("a token could not be drawn"));
                let _ = request.send(drawn.and_then(|token| token));
            }
            () = look => front.retry_all(),
        }
    }
}

struct Files {
    directory: PathBuf,
    /// The user that all files have to belong to.
    owner: u32,
    open: HashMap<LockKey, File>,
}

impl Files {
    fn visit(&mut self, batch: &Batch) -> Result<HashSet<LockKey>> {
        for (key, _) in &batch.free {
            // Closing it unlocks it.
            drop(self.open.remove(key));
        }
        let mut missed = HashSet::new();
        for (key, mode) in &batch.take {
            match self.take(*key, *mode)? {
                Some(file) => drop(self.open.insert(*key, file)),
                None => drop(missed.insert(*key)),
            }
        }
        Ok(missed)
    }

    fn take(&self, key: LockKey, mode: LockMode) -> Result<Option<File>> {
        let path = self.directory.join(format!("{key}.lock"));
        let file = private_file::open(&path, self.owner).map_err(|error| broken(&path, error))?;
        let taken = match mode {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(broken(&path, error)),
        }
    }
}

/// Counts up a number in a file, which is locked for that moment and synced before anybody sees the number.
fn next_token(path: &Path, owner: u32) -> Result<FencingToken> {
    let count = || -> std::io::Result<u64> {
        let mut file = private_file::open(path, owner)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let last: u64 = if text.is_empty() {
            0
        } else {
            text.trim().parse().map_err(std::io::Error::other)?
        };
        file.rewind()?;
        // Always as long as before, so that a crash in the middle leaves no shorter number.
        write!(file, "{:020}", last + 1)?;
        file.sync_data()?;
        Ok(last + 1)
    };
    count().map(FencingToken).map_err(|error| broken(path, error))
}

impl LockProvider for FileLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(self.front.acquire(request, timeout))
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(self.front.try_acquire(request))
    }

    fn stats(&self) -> LockStats {
        self.front.stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.front.held()
    }
}
