//! Locks among the processes of one host: the operating system's locks on files.
//!
//! # Invariants
//!
//! - A lock is a file named after its key, locked by the kernel while this process has it open. The locks of a process
//!   that ends, however it ends, are released.
//! - Files are never deleted: another process could lock a file that was just deleted. They are empty, one for each name
//!   that was ever used. They have mode 0600. A file of another user, or a symbolic link in its place, is refused: another
//!   user who can open a file can also lock it.
//! - A file that cannot be opened costs only its own lock: the provider continues, reports that it is away and why, and
//!   tries again.
//! - After it is locked, a file is compared with the one that its path names: a file deleted in the meantime excludes no
//!   other process.
//! - The kernel is only asked to try, on a thread that may block, one batch at a time. It does not report a free file, so a
//!   waiting process polls every few milliseconds.

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

use super::faults::{Faults, FileFault};
use crate::lock::LockProvider;
use crate::lock::handle::{self, LockHandle};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::request::{LockMode, LockRequest};
use crate::lock::shared_table::{BackendParts, FencingToken, SharedTable};
use crate::lock::stats::LockStats;
use crate::lock::table::{Backend, Batch, HeldLock};
use crate::{Error, Result, open_files, private_file};

/// Each directory has names of its own, so all use one namespace.
const NAMESPACE: &str = "file";

/// The most keys in one batch.
const BATCH: usize = 256;
/// The most files that are open at the same time: half of what a process usually may (1,024).
const FILES: usize = 512;
/// Between two polls of a file that another process has locked, at most.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Between two checks of what could not be opened: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Between two starts of the task.
const RESTART: Duration = Duration::from_secs(1);
/// The most bad files that are known.
const BAD: usize = 256;
/// How often a file is opened again that was replaced meanwhile.
const REPLACED: usize = 8;

/// Locks among the processes of one host that use the same directory. Cheap to clone; when the last clone is dropped,
/// every lock is free. Network file systems are not supported: their locks are not reliable.
///
/// At most 512 locks are held at a time, and no more than half the files that the process may open; additional requests
/// wait. While a file cannot be opened (no descriptors, a full disk, a removed directory) a try fails at once with
/// `lock-directory` and the cause, held locks stay held, and the file is retried until it can be opened.
#[derive(Clone)]
pub struct FileLocks {
    shared: Arc<Shared>,
}

struct Shared {
    directory: PathBuf,
    owner: u32,
    domain: Arc<str>,
    key_function: KeyFunction,
    faults: Arc<Faults>,
    opened: Mutex<Opened>,
}

/// The task that keeps the files, and its table.
struct Opened {
    table: Arc<SharedTable>,
    began: Instant,
    _task: AbortOnDropHandle<()>,
}

impl FileLocks {
    /// The maximum number of files that the locks of this process keep open: 512, and no more than half the files that it
    /// may open. A program that limits its connections leaves room for them.
    pub fn most_files() -> usize {
        open_files::limit().map_or(FILES, |limit| (limit / 2).clamp(1, FILES))
    }

    /// Uses this directory, and creates it if it is missing. Must be called within a tokio runtime; blocks while it creates
    /// the directory.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::with_key_function(directory.into(), LockKey::of)
    }

    pub(in crate::lock) fn with_key_function(directory: PathBuf, key_function: KeyFunction) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        let owner = made.and_then(|()| private_file::owner_in(&directory));
        let owner = owner.map_err(|error| unusable(&directory, error))?;
        let domain = domain(&directory);
        let faults = Arc::<Faults>::default();
        let opened = Mutex::new(start(&directory, owner, key_function, &faults));
        Ok(Self {
            shared: Arc::new(Shared {
                directory,
                owner,
                domain,
                key_function,
                faults,
                opened,
            }),
        })
    }

    /// Why the files of a request cannot be opened, if that is why it was not granted.
    fn fault_of(&self, request: LockRequest) -> Option<Error> {
        let faults = &self.shared.faults;
        if !faults.has_any() {
            return None;
        }
        let request = request.resolve(NAMESPACE, self.shared.key_function, false).ok()?;
        faults.error_of(request.keys.as_slice())
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.shared.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> Arc<SharedTable> {
        Arc::clone(&self.opened().table)
    }

    /// The table, or a new one if the task of the previous one has ended, at most one each second.
    fn open_table(&self) -> Arc<SharedTable> {
        let shared = &self.shared;
        let mut opened = self.opened();
        if opened.table.is_lost() && opened.began.elapsed() >= RESTART {
            *opened = start(&shared.directory, shared.owner, shared.key_function, &shared.faults);
        }
        Arc::clone(&opened.table)
    }
}

impl LockProvider for FileLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(async move {
            let asked = request.clone();
            let acquired = handle::acquire(&self.open_table(), request, timeout).await;
            match acquired {
                Err(error) if error.code() == "lock-timeout" => Err(self.fault_of(asked).unwrap_or(error)),
                acquired => acquired,
            }
        })
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move {
            let table = self.open_table();
            self.shared.faults.check()?;
            let asked = request.clone();
            match handle::try_acquire(&table, request).await? {
                None => self.fault_of(asked).map_or(Ok(None), Err),
                granted => Ok(granted),
            }
        })
    }

    fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
        Box::pin(async move {
            let table = self.open_table();
            self.shared.faults.check()?;
            let handles = handle::try_acquire_many(&table, requests).await?;
            // One bad file keeps only its own lock from being granted.
            if handles.iter().all(Option::is_none) {
                self.shared.faults.check()?;
            }
            Ok(handles)
        })
    }

    fn domain(&self) -> Option<String> {
        Some(self.shared.domain.to_string())
    }

    fn is_away(&self) -> bool {
        self.shared.faults.has_any() || self.table().is_lost()
    }

    fn away_cause(&self) -> Option<String> {
        let ended = || Some("the task that keeps the lock files has ended; it is started again".to_owned());
        let error = self.shared.faults.error().map(|error| error.message().to_owned());
        error.or_else(|| self.table().is_lost().then(ended).flatten())
    }

    fn stats(&self) -> LockStats {
        self.table().stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.table().held()
    }
}

fn start(directory: &Path, owner: u32, key_function: KeyFunction, faults: &Arc<Faults>) -> Opened {
    let parts = SharedTable::open(Backend::Polled(FileLocks::most_files()), NAMESPACE, key_function);
    let table = Arc::clone(&parts.table);
    let files = Arc::new(Mutex::new(Files::new(directory.to_owned(), owner)));
    let task = tokio::spawn(run(files, parts, Arc::clone(faults)));
    Opened {
        table,
        began: Instant::now(),
        _task: AbortOnDropHandle::new(task),
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

/// Runs `work` with the files on a thread that may block. `None` if it has panicked; the files stay open.
async fn with_files<T: Send + 'static>(
    files: &Arc<Mutex<Files>>,
    work: impl FnOnce(&mut Files) -> T + Send + 'static,
) -> Option<T> {
    let files = Arc::clone(files);
    let visit = move || work(&mut files.lock().unwrap_or_else(PoisonError::into_inner));
    tokio::task::spawn_blocking(visit).await.ok()
}

async fn run(files: Arc<Mutex<Files>>, parts: BackendParts, faults: Arc<Faults>) {
    let BackendParts { table, mut tokens, end } = parts;
    // Dropped before the files: a handle is lost before its file is unlocked.
    let _end = end;
    let mut pause = RETRY.0;
    let mut next_check = tokio::time::Instant::now();
    loop {
        while let Some(batch) = table.batch(BATCH) {
            let batch = Arc::new(batch);
            let asked = Arc::clone(&batch);
            let missed = match with_files(&files, move |files| files.apply(&asked)).await {
                Some((missed, failed)) => {
                    faults.note(failed);
                    missed
                }
                None => {
                    faults.note(vec![FileFault::of_directory(
                        "a thread that opens lock files has panicked".to_owned(),
                    )]);
                    let asked = Arc::clone(&batch);
                    with_files(&files, move |files| files.close_batch(&asked)).await;
                    batch.take.iter().map(|(key, _)| *key).collect()
                }
            };
            table.step(|table, step| table.complete(&batch, &missed, false, step));
        }
        // Without notifications a missed file is polled soon, whatever the table would wait; not while none can be opened.
        let waits = table.next_retry().is_some() && faults.check().is_ok();
        let poll = async {
            if !waits {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(POLL_INTERVAL.mul_f64(rand::random_range(0.2..1.0))).await;
        };
        if !faults.has_any() {
            pause = RETRY.0;
            next_check = tokio::time::Instant::now() + pause;
        }
        // All are cancellation safe.
        tokio::select! {
            () = table.batch_ready() => {}
            Some(request) = tokens.recv() => {
                let drawn = with_files(&files, |files| files.next_token()).await;
                let drawn = drawn.ok_or_else(|| Error::internal("a fencing token could not be drawn"));
                let _ = request.reply.send(drawn.and_then(|token| token));
            }
            () = poll => table.step(|table, step| table.retry_all(step)),
            () = tokio::time::sleep_until(next_check), if faults.has_any() => {
                pause = (pause * 2).min(RETRY.1);
                next_check = tokio::time::Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
                if let Some((failed, replaced)) = with_files(&files, Files::check).await {
                    faults.replace(failed);
                    // Their handles are lost before they are closed.
                    table.lose(&replaced);
                    with_files(&files, move |files| files.close(replaced.iter())).await;
                }
                if faults.check().is_ok() {
                    table.step(|table, step| table.retry_all(step));
                }
            }
        }
    }
}

struct Files {
    directory: PathBuf,
    /// The user that all files must belong to.
    owner: u32,
    open: HashMap<LockKey, File>,
    /// The files that could not be opened, though others can; they are not asked for until a check has opened them.
    bad: HashSet<LockKey>,
}

impl Files {
    fn new(directory: PathBuf, owner: u32) -> Self {
        Self {
            directory,
            owner,
            open: HashMap::new(),
            bad: HashSet::new(),
        }
    }

    fn path(&self, key: LockKey) -> PathBuf {
        self.directory.join(format!("{key}.lock"))
    }

    /// Returns what was not taken, and why files could not be opened.
    fn apply(&mut self, batch: &Batch) -> (HashSet<LockKey>, Vec<FileFault>) {
        self.close(batch.free.iter().map(|(key, _)| key));
        let (mut missed, mut failed) = (HashSet::new(), Vec::new());
        for (key, mode) in &batch.take {
            let taken = match self.bad.contains(key) {
                true => Ok(None),
                false => self.take(*key, *mode),
            };
            match taken {
                Ok(Some(file)) => drop(self.open.insert(*key, file)),
                Ok(None) => drop(missed.insert(*key)),
                Err(error) => {
                    missed.insert(*key);
                    failed.push((*key, error));
                }
            }
        }
        let faults = self.faults_of(failed);
        (missed, faults)
    }

    /// Unlocks what a batch has taken.
    fn close_batch(&mut self, batch: &Batch) {
        self.close(batch.free.iter().chain(&batch.take).map(|(key, _)| key));
    }

    /// Closing a file unlocks it.
    fn close<'k>(&mut self, keys: impl Iterator<Item = &'k LockKey>) {
        for key in keys {
            drop(self.open.remove(key));
        }
    }

    /// Whether only these files are bad, or none can be opened.
    fn faults_of(&mut self, failed: Vec<(LockKey, Error)>) -> Vec<FileFault> {
        if failed.is_empty() {
            return Vec::new();
        }
        if let Err(error) = private_file::owner_in(&self.directory) {
            return vec![FileFault::of_directory(unusable(&self.directory, error).to_string())];
        }
        let mut faults = Vec::new();
        for (key, error) in failed.into_iter().take(BAD.saturating_sub(self.bad.len())) {
            self.bad.insert(key);
            faults.push(FileFault::of_file(key, error.to_string()));
        }
        faults
    }

    /// Tries again what failed. Returns what still fails, and the held keys whose files another process can no longer open.
    fn check(&mut self) -> (Vec<FileFault>, Vec<LockKey>) {
        let bad = std::mem::take(&mut self.bad);
        let mut failed = Vec::new();
        if let Err(error) = private_file::owner_in(&self.directory) {
            return (
                vec![FileFault::of_directory(unusable(&self.directory, error).to_string())],
                Vec::new(),
            );
        }
        for key in bad {
            let path = self.path(key);
            if let Err(error) = private_file::open(&path, self.owner) {
                failed.push((key, unusable(&path, error)));
            }
        }
        let replaced = self
            .open
            .iter()
            .filter(|(key, file)| !is_named(&self.path(**key), file));
        let replaced: Vec<LockKey> = replaced.map(|(key, _)| *key).collect();
        (self.faults_of(failed), replaced)
    }

    fn take(&self, key: LockKey, mode: LockMode) -> Result<Option<File>> {
        let path = self.path(key);
        for _ in 0..REPLACED {
            let file = private_file::open(&path, self.owner).map_err(|error| unusable(&path, error))?;
            let taken = match mode {
                LockMode::Exclusive => file.try_lock(),
                LockMode::Shared => file.try_lock_shared(),
            };
            match taken {
                // One that was deleted after it was opened excludes no other process.
                Ok(()) if !is_named(&path, &file) => {}
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(unusable(&path, error)),
            }
        }
        Ok(None)
    }

    fn next_token(&self) -> Result<FencingToken> {
        next_token(&self.directory.join("tokens"), self.owner)
    }
}

/// Whether the path names this file.
pub(in crate::lock) fn is_named(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(opened)) = (std::fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    (named.dev(), named.ino()) == (opened.dev(), opened.ino())
}

/// Increments a number in a file, which is locked during that, and synced before the number is returned.
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
