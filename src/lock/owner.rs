//! A registration of an engine, as a lock provider sees it.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::Result;

/// Reads which of these incarnations are registered, or are being removed. The others are gone.
type FindLiving = Arc<dyn Fn(Vec<i64>) -> BoxFuture<'static, Result<Vec<i64>>> + Send + Sync>;

/// The registration of an engine that takes locks: if a provider names it in what it writes, the remaining nodes can take
/// over the locks of a killed process as soon as the cluster has removed it.
#[derive(Clone)]
pub struct LockOwner {
    cluster: Arc<str>,
    incarnation: i64,
    living: FindLiving,
}

impl LockOwner {
    pub(crate) fn new(
        cluster: impl Into<Arc<str>>,
        incarnation: i64,
        living: impl Fn(Vec<i64>) -> BoxFuture<'static, Result<Vec<i64>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            cluster: cluster.into(),
            incarnation,
            living: Arc::new(living),
        }
    }

    /// The cluster, different for each schema of each database; incarnations of other clusters are not known here.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The number of the registration, which is never used twice in this cluster.
    pub fn incarnation(&self) -> i64 {
        self.incarnation
    }

    /// Which of these incarnations of this cluster are gone: neither registered nor being removed, so none of their work is
    /// committed any longer. Call this after their locks were seen, and do not cache the answer: an incarnation that has
    /// just registered would count as gone.
    ///
    /// # Errors
    /// Those of an unreachable database.
    pub async fn gone(&self, incarnations: Vec<i64>) -> Result<Vec<i64>> {
        let living: HashSet<i64> = (self.living)(incarnations.clone()).await?.into_iter().collect();
        let gone = incarnations.into_iter().filter(|one| !living.contains(one));
        Ok(gone.collect())
    }
}

impl std::fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockOwner({}/{})", self.cluster, self.incarnation)
    }
}
