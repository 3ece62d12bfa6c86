//! Locks among the processes of one host: the operating system's locks on files.
//!
//! # Invariants
//!
//! - A lock is a file named after its key, locked by the kernel while this process has it open. The locks of a process
//!   that ends, however it ends, are released.
//! - Files are never deleted: another process could lock a file that was just deleted. They are empty, one for each name
//!   that was ever used. They have mode 0600. A file of another user, or a symbolic link in its place, is refused:
//!   another user who can open a file can lock it, too.
//! - The kernel is only asked to try, on a thread that may block, one batch at a time. It does not notify of a free file,
//!   so a waiting process polls every few milliseconds.

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

use crate::lock::LockProvider;
use crate::lock::frontend::{BackendParts, FencingToken, Frontend};
use crate::lock::handle::{self, LockHandle};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::request::{LockMode, LockRequest};
use crate::lock::stats::LockStats;
use crate::lock::table::{Backend, Batch, HeldLock};
use crate::{Error, Result, private_file};

/// The most keys in one batch.
const BATCH: usize = 256;
/// The most files that are open at the same time: half of what a process usually may (1,024).
const FILES: usize = 512;
/// Between two polls of a file that another process has locked, at most.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Locks among the processes of one host that use the same directory. Cheap to clone; when the last clone is dropped,
/// every lock is free. Network file systems are not supported: their locks are not reliable.
///
/// At most 512 locks are held at a time; further requests wait.
#[derive(Clone)]
pub struct FileLocks {
    frontend: Arc<Frontend>,
    domain: Arc<str>,
    _task: Arc<AbortOnDropHandle<()>>,
}

impl FileLocks {
    /// Uses this directory, and makes it if it is missing. Must be called within a tokio runtime; blocks while it makes
    /// the directory.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::with_key_function(directory.into(), LockKey::of)
    }

    pub(in crate::lock) fn with_key_function(directory: PathBuf, key_function: KeyFunction) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        let owner = made.and_then(|()| private_file::owner_in(&directory));
        let owner = owner.map_err(|error| unusable(&directory, error))?;
        // Each directory has names of its own, so all use one namespace.
        let parts = Frontend::open(Backend::Polled(FILES), "file", key_function);
        let frontend = Arc::clone(&parts.frontend);
        let domain = domain(&directory);
        let task = tokio::spawn(run(directory, owner, parts));
        Ok(Self {
            frontend,
            domain,
            _task: Arc::new(AbortOnDropHandle::new(task)),
        })
    }
}

/// The host and the directory.
fn domain(directory: &Path) -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    format!("file {} {}", host.trim(), directory.display()).into()
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(
        "lock-directory",
        format!("the lock directory {} cannot be used", path.display()),
    )
    .caused_by(error)
}

async fn run(directory: PathBuf, owner: u32, parts: BackendParts) {
    let BackendParts {
        frontend,
        mut tokens,
        end,
    } = parts;
    let mut files = Files {
        directory,
        owner,
        open: HashMap::new(),
    };
    // Dropped before the files: a handle is lost before its file is unlocked.
    let _end = end;
    loop {
        while let Some(batch) = frontend.batch(BATCH) {
            // The files move to the thread and back; if it panics they are closed, and every lock is lost.
            let visited = tokio::task::spawn_blocking(move || {
                let missed = files.apply(&batch);
                (files, batch, missed)
            });
            match visited.await {
                Ok((back, batch, Ok(missed))) => {
                    files = back;
                    frontend.step(|table, step| table.complete(&batch, &missed, false, step));
                }
                Ok((_, _, Err(error))) => {
                    tracing::warn!(%error, "every file lock of this process is lost");
                    return;
                }
                Err(_) => return,
            }
        }
        // Without notifications a missed file is polled soon, whatever the table would wait.
        let poll = async {
            match frontend.next_retry() {
                Some(_) => tokio::time::sleep(POLL_INTERVAL.mul_f64(rand::random_range(0.2..1.0))).await,
                None => std::future::pending().await,
            }
        };
        // All are cancellation safe.
        tokio::select! {
            () = frontend.batch_ready() => {}
            Some(request) = tokens.recv() => {
                let path = files.directory.join("tokens");
                let drawn = tokio::task::spawn_blocking(move || next_token(&path, owner)).await;
                let drawn = drawn.map_err(|_| Error::internal("a fencing token could not be drawn"));
                let _ = request.reply.send(drawn.and_then(|token| token));
            }
            () = poll => frontend.step(|table, step| table.retry_all(step)),
        }
    }
}

struct Files {
    directory: PathBuf,
    /// The user that all files must belong to.
    owner: u32,
    open: HashMap<LockKey, File>,
}

impl Files {
    fn apply(&mut self, batch: &Batch) -> Result<HashSet<LockKey>> {
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
        let file = private_file::open(&path, self.owner).map_err(|error| unusable(&path, error))?;
        let taken = match mode {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(&path, error)),
        }
    }
}

/// Increments a number in a file, which is locked meanwhile, and synced before the number is returned.
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
        // Of fixed length, so that a crash in the middle leaves no shorter number.
        write!(file, "{:020}", last + 1)?;
        file.sync_data()?;
        Ok(last + 1)
    };
    count().map(FencingToken).map_err(|error| unusable(path, error))
}

provide_from_frontend!(FileLocks);
