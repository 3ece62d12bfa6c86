//! Advisory locks, batched over the one session connection of a node.
//!
//! # Invariants
//!
//! - The session only ever tries. A session that waited for a lock would make every other request of the node wait
//!   behind it.
//! - Requests that arrive while a round trip is in flight go out together in the next one.
//! - A session may take its own lock again, so the table of held keys, which only this actor writes, is what keeps two
//!   bursts of one process apart; the database keeps processes apart.
//! - A batch that fails or times out may have locked some of its keys: all of them are in doubt, so the session is
//!   dropped, and every guard with it is lost. An unlock of what was not locked shows that the table is wrong: the
//!   same.
//! - Guards are dropped anywhere, also where nothing can be awaited: they leave their key in a list, which is bounded by
//!   the number of keys held.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_postgres::Statement;
use tokio_util::task::AbortOnDropHandle;

use super::LockKey;
use crate::db::{ANSWER_TIMEOUT, Connector, Session, within};
use crate::{Error, Result};

const TRY: &str = include_str!("../../sql/queries/lock_try.sql");
const RELEASE: &str = include_str!("../../sql/queries/lock_release.sql");

/// The most keys in one round trip.
const BATCH: usize = 512;

struct Request {
    keys: Vec<LockKey>,
    reply: oneshot::Sender<Vec<Option<LockGuard>>>,
}

/// Keys whose guards were dropped and that the database still holds for us.
#[derive(Default)]
struct Returned {
    keys: Mutex<Vec<LockKey>>,
    arrived: Notify,
}

impl Returned {
    fn add(&self, keys: impl IntoIterator<Item = LockKey>) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
        self.arrived.notify_one();
    }

    fn take(&self) -> Vec<LockKey> {
        std::mem::take(&mut self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The locks of a node. Cheap to clone; the session ends when [`SessionTask`] is dropped.
#[derive(Clone)]
pub(crate) struct SessionLocks {
    sender: mpsc::Sender<Request>,
    lost: watch::Receiver<bool>,
}

/// Owns the actor and its connection.
pub(crate) struct SessionTask(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

/// A held lock. Dropping it gives the lock back.
#[derive(Debug)]
pub(crate) struct LockGuard {
    key: LockKey,
    returned: Arc<Returned>,
    lost: watch::Receiver<bool>,
}

impl std::fmt::Debug for Returned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Returned")
    }
}

impl LockGuard {
    /// Whether the session that held it has ended: somebody else may have the lock by now.
    pub(crate) fn is_lost(&self) -> bool {
        *self.lost.borrow() || self.lost.has_changed().is_err()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.returned.add([self.key]);
    }
}

impl SessionLocks {
    /// Opens the session and takes `first`, which nobody else may hold.
    pub(crate) async fn start(connector: &Connector, first: LockKey) -> Result<(Self, SessionTask)> {
        let session = connector.open().await?;
        within(
            ANSWER_TIMEOUT,
            session.client.batch_execute("SET idle_session_timeout = 0"),
        )
        .await?;
        let attempt = within(ANSWER_TIMEOUT, session.client.prepare(TRY)).await?;
        let release = within(ANSWER_TIMEOUT, session.client.prepare(RELEASE)).await?;
        let got = within(ANSWER_TIMEOUT, session.client.query(&attempt, &[&vec![first.0]])).await?;
        if !got.first().is_some_and(|row| row.get(1)) {
            return Err(Error::conflict(
                "liveness-lock-taken",
                "another session holds the liveness lock of this node",
            ));
        }
        let (sender, queue) = mpsc::channel(BATCH);
        let (ended, lost) = watch::channel(false);
        let returned = Arc::new(Returned::default());
        let actor = Actor {
            session,
            attempt,
            release,
            held: HashSet::from([first]),
            returned,
            lost: lost.clone(),
        };
        let task = tokio::spawn(async move {
            if let Err(error) = actor.run(queue).await {
                tracing::warn!(%error, "the lock session ended; every lock of this node is lost");
            }
            ended.send_replace(true);
        });
        Ok((Self { sender, lost }, SessionTask(AbortOnDropHandle::new(task))))
    }

    /// Tries to take each key, at once; one that somebody has is answered with none. Dropped half-way, what was taken
    /// is given back.
    pub(crate) async fn try_lock(&self, keys: Vec<LockKey>) -> Result<Vec<Option<LockGuard>>> {
        let lost = || Error::lost_lock("the lock session of this node ended; it registers anew");
        let (reply, answer) = oneshot::channel();
        self.sender.send(Request { keys, reply }).await.map_err(|_| lost())?;
        answer.await.map_err(|_| lost())
    }

    /// Turns true when the session has ended. Cancellation safe.
    pub(crate) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }
}

struct Actor {
    session: Session,
    attempt: Statement,
    release: Statement,
    held: HashSet<LockKey>,
    returned: Arc<Returned>,
    lost: watch::Receiver<bool>,
}

impl Actor {
    async fn run(mut self, mut queue: mpsc::Receiver<Request>) -> Result<()> {
        let mut ended = self.session.lost();
        let mut requests = Vec::new();
        loop {
            // All three are cancellation safe: recv_many leaves nothing behind when it was not ready.
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => return Err(Error::lost_lock("its connection was closed")),
                () = self.returned.arrived.notified() => {}
                count = queue.recv_many(&mut requests, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                }
            }
            self.serve(std::mem::take(&mut requests)).await?;
        }
    }

    fn guard(&self, key: LockKey) -> LockGuard {
        LockGuard {
            key,
            returned: Arc::clone(&self.returned),
            lost: self.lost.clone(),
        }
    }

    /// One round trip: give back what was dropped, then try what is wanted.
    async fn serve(&mut self, requests: Vec<Request>) -> Result<()> {
        let back = self.returned.take();
        back.iter().for_each(|key| {
            self.held.remove(key);
        });
        let mut wanted: Vec<i64> = Vec::new();
        for key in requests.iter().flat_map(|request| &request.keys) {
            // Marked as held while it is asked for, so that nobody else of this process asks as well.
            if self.held.insert(*key) {
                wanted.push(key.0);
            }
        }
        let back: Vec<i64> = back.iter().map(|key| key.0).collect();
        let client = &self.session.client;
        let release_params: [&(dyn postgres_types::ToSql + Sync); 1] = [&back];
        let attempt_params: [&(dyn postgres_types::ToSql + Sync); 1] = [&wanted];
        let (freed, taken) = within(ANSWER_TIMEOUT, async {
            Ok::<_, tokio_postgres::Error>(match (back.is_empty(), wanted.is_empty()) {
                (true, true) => (Vec::new(), Vec::new()),
                (false, true) => (client.query(&self.release, &release_params).await?, Vec::new()),
                (true, false) => (Vec::new(), client.query(&self.attempt, &attempt_params).await?),
                (false, false) => {
                    let (freed, taken) = futures_util::join!(
                        client.query(&self.release, &release_params),
                        client.query(&self.attempt, &attempt_params),
                    );
                    (freed?, taken?)
                }
            })
        })
        .await?;
        if freed.iter().any(|row| !row.get::<_, bool>(1)) {
            return Err(Error::lost_lock("a lock that we gave back was not ours"));
        }
        let mut got: HashSet<LockKey> = HashSet::new();
        for row in &taken {
            let key = LockKey(row.get(0));
            if row.get(1) {
                got.insert(key);
            } else {
                self.held.remove(&key);
            }
        }
        for request in requests {
            // The first who asked for a key in this batch gets it. If whoever asked went away meanwhile, the guards are
            // dropped here, or in the channel, and give their keys back.
            let answer = request
                .keys
                .iter()
                .map(|key| got.remove(key).then(|| self.guard(*key)))
                .collect();
            let _ = request.reply.send(answer);
        }
        Ok(())
    }
}
