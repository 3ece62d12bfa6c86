//! Applications and sessions, as this process knows them.
//!
//! # Invariants
//!
//! - What is kept is good for one revision. Each check-in reads the newest one, and a change at this node makes it known at once: so a key
//!   or session that was ended, and a role that was changed, is known everywhere one check-in later.
//! - All applications are read together, so a key that is unknown costs a lookup in a map. It may be newer than what is known: then they
//!   are read again, at most once per [`UNKNOWN_PAUSE`], whatever is tried.
//! - Sessions are read one by one when they are shown first, after their token was verified: a forged one costs no statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::db::Pool;
use crate::identity::{Caller, CallerKind, Permissions};
use crate::store::identity::application::{self, KeyHash, KnownApplication};
use crate::store::identity::session::{self, SignedIn};
use crate::{Error, Result};

/// The least time between two reads because of a key that is unknown.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(200);
/// How long a request waits for the read of another one.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The most sessions that are kept.
const MOST_SESSIONS: usize = 20_000;

/// An application and until when its key is good.
#[derive(Debug)]
pub(crate) struct KeyHolder {
    pub(crate) caller: Arc<Caller>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

#[derive(Debug)]
struct Applications {
    revision: i64,
    is_in_use: bool,
    by_key: HashMap<KeyHash, Arc<KeyHolder>>,
}

/// Sessions by their ids; `None`: it is not good.
#[derive(Debug, Default)]
struct Sessions {
    revision: i64,
    callers: HashMap<Uuid, Option<Arc<Caller>>>,
}

/// The callers that this process has seen.
#[derive(Debug, Default)]
pub(crate) struct KnownCallers {
    /// The newest revision that was heard of.
    newest: AtomicI64,
    applications: RwLock<Option<Arc<Applications>>>,
    /// One read at a time.
    reading: tokio::sync::Mutex<()>,
    /// When applications were read last because of a key that was unknown.
    asked_at: Mutex<Option<Instant>>,
    sessions: Mutex<Sessions>,
}

impl KnownCallers {
    /// Users, roles and applications have this revision.
    pub(crate) fn heard_of(&self, revision: i64) {
        self.newest.fetch_max(revision, SeqCst);
    }

    /// Whether there ever was a user or an application.
    pub(crate) async fn is_in_use(&self, pool: &Pool) -> Result<bool> {
        Ok(self.applications(pool).await?.is_in_use)
    }

    /// Who has this key.
    pub(crate) async fn of_key(&self, pool: &Pool, key: &KeyHash) -> Result<Option<Arc<KeyHolder>>> {
        let known = self.applications(pool).await?;
        let found = known.by_key.get(key).cloned();
        if found.is_some() || !self.may_ask() {
            return Ok(found);
        }
        Ok(self.read(pool).await?.by_key.get(key).cloned())
    }

    fn may_ask(&self) -> bool {
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let may = asked_at.is_none_or(|asked| now.saturating_duration_since(asked) >= UNKNOWN_PAUSE);
        if may {
            *asked_at = Some(now);
        }
        may
    }

    fn current(&self) -> Option<Arc<Applications>> {
        let known = self.applications.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.revision >= self.newest.load(SeqCst))
    }

    async fn applications(&self, pool: &Pool) -> Result<Arc<Applications>> {
        if let Some(known) = self.current() {
            return Ok(known);
        }
        // Where a read takes long, the others do not wait for one after another.
        let _one = tokio::time::timeout(READ_TIMEOUT, self.reading.lock())
            .await
            .map_err(|_| {
                Error::unavailable(
                    "credential-unchecked",
                    "the credential cannot be checked now, as the database answers slowly; try again",
                )
            })?;
        match self.current() {
            Some(known) => Ok(known),
            None => self.read(pool).await,
        }
    }

    async fn read(&self, pool: &Pool) -> Result<Arc<Applications>> {
        let read = application::known(pool).await?;
        self.heard_of(read.revision);
        let known = Arc::new(Applications {
            revision: read.revision,
            is_in_use: read.is_in_use,
            by_key: read.applications.into_iter().map(holder).collect(),
        });
        let mut kept = self.applications.write().unwrap_or_else(PoisonError::into_inner);
        // Two reads may come in another order than they were sent.
        if kept.as_ref().is_none_or(|kept| kept.revision <= known.revision) {
            *kept = Some(Arc::clone(&known));
        }
        Ok(known)
    }

    /// The sessions, without what is outdated.
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.newest.load(SeqCst);
        if sessions.revision < newest || sessions.callers.len() >= MOST_SESSIONS {
            sessions.callers.clear();
            sessions.revision = newest;
        }
        sessions
    }

    /// Whose session this is, if it is good.
    pub(crate) async fn of_session(&self, pool: &Pool, id: Uuid) -> Result<Option<Arc<Caller>>> {
        if let Some(known) = self.sessions().callers.get(&id) {
            return Ok(known.clone());
        }
        let (revision, found) = session::find(pool, id).await?;
        self.heard_of(revision);
        let caller = found.map(|signed_in| Arc::new(user(id, signed_in)));
        let mut sessions = self.sessions();
        // What was read before a change is not kept after it.
        if sessions.revision == revision {
            sessions.callers.insert(id, caller.clone());
        }
        Ok(caller)
    }
}

fn holder(application: KnownApplication) -> (KeyHash, Arc<KeyHolder>) {
    let caller = Caller {
        kind: CallerKind::Application,
        id: application.id,
        name: application.name,
        tenant: application.tenant,
        permissions: Permissions::of(application.permissions.into_iter()),
        session: None,
    };
    let expires_at = application.expires_at;
    let caller = Arc::new(caller);
    (application.key_hash, Arc::new(KeyHolder { caller, expires_at }))
}

fn user(session: Uuid, signed_in: SignedIn) -> Caller {
    Caller {
        kind: CallerKind::User,
        id: signed_in.user,
        name: signed_in.name,
        tenant: signed_in.tenant,
        permissions: Permissions::of(signed_in.permissions.into_iter()),
        session: Some(session.to_string()),
    }
}
