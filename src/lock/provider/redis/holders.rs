//! Which registrations of the engine's cluster are live: the locks of one that is gone are taken over.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::owner::LockOwner;

/// How long a registration that was found living is not asked about again. Only that it lives is kept, never that it is gone.
const LIVING: Duration = Duration::from_millis(100);

/// Which registrations of the cluster live.
pub(super) struct Holders {
    owner: LockOwner,
    living: Mutex<HashMap<i64, Instant>>,
}

impl Holders {
    pub(super) fn new(owner: LockOwner) -> Self {
        Self {
            owner,
            living: Mutex::default(),
        }
    }

    /// The registration that has written a value; `None` if it belongs to another cluster, or to no engine.
    pub(super) fn incarnation_of(&self, value: &str) -> Option<i64> {
        let (holder, _) = value.rsplit_once(':')?;
        let (cluster, incarnation) = holder.rsplit_once('/')?;
        let incarnation = incarnation.parse().ok()?;
        (cluster == self.owner.cluster() && incarnation != self.owner.incarnation()).then_some(incarnation)
    }

    /// Which of these are gone. What cannot be read counts as living.
    pub(super) async fn gone(&self, incarnations: HashSet<i64>) -> HashSet<i64> {
        let now = Instant::now();
        let asked: Vec<i64> = {
            let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
            living.retain(|_, seen| now.duration_since(*seen) < LIVING);
            incarnations
                .into_iter()
                .filter(|one| !living.contains_key(one))
                .collect()
        };
        if asked.is_empty() {
            return HashSet::new();
        }
        let gone: HashSet<i64> = match self.owner.gone(asked.clone()).await {
            Ok(gone) => gone.into_iter().collect(),
            Err(error) => {
                tracing::debug!(%error, "cannot read whether the holders of locks are live");
                return HashSet::new();
            }
        };
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.extend(asked.iter().filter(|one| !gone.contains(one)).map(|one| (*one, now)));
        gone
    }
}
