//! The locks of instances. Whatever a lock provider says, the fences of a commit decide who writes.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::BoxStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::Result;
use crate::id::{InstanceId, TenantId};
use crate::lock::{HeldLock, LockHandle, LockLoss, LockProvider, LockRequest, SessionLocks};
use crate::log::bounded_info;
use crate::store::claim::InstanceKey;
use crate::store::commit::CommitGuard;

/// The locks of a node.
pub(crate) struct NodeLocks {
    pub(crate) instances: InstanceLocks,
    /// The session of this registration, whichever provider keeps the locks of instances.
    pub(crate) session: SessionLocks,
}

/// What keeps the locks of instances.
#[derive(Clone)]
pub(crate) enum InstanceLocks {
    Session(SessionLocks),
    Provider(Arc<dyn LockProvider>),
}

impl InstanceLocks {
    /// Tries to take the lock of each instance, without waiting; `None` for one that is held. If the future is dropped
    /// halfway, the locks taken so far are released.
    pub(crate) async fn try_instances(&self, instances: &[InstanceKey]) -> Result<Vec<Option<LockHandle>>> {
        let began = Instant::now();
        let handles = match self {
            Self::Session(locks) => locks.try_instances(instances).await?,
            Self::Provider(locks) => {
                let each = instances.iter().map(|key| LockRequest::exclusive(name(key)));
                locks.try_acquire_many(each.collect()).await?
            }
        };
        let granted = handles.iter().flatten().count();
        metrics::histogram!("mainspring_lock_acquisition_seconds").record_many(began.elapsed(), granted);
        metrics::counter!("mainspring_lock_contended_total").increment((handles.len() - granted) as u64);
        Ok(handles)
    }

    /// Whether the program has a provider of its own, which may be away while the database is not.
    pub(crate) fn is_provided(&self) -> bool {
        matches!(self, Self::Provider(_))
    }

    /// Where they are kept.
    pub(crate) fn domain(&self) -> Option<String> {
        match self {
            Self::Session(_) => Some("postgres".to_owned()),
            Self::Provider(locks) => locks.domain(),
        }
    }

    /// Whether the server of the program's own provider is away.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Provider(locks) if locks.is_away())
    }

    /// Why it is away, if the provider knows.
    pub(crate) fn away_cause(&self) -> Option<String> {
        match self {
            Self::Session(_) => None,
            Self::Provider(locks) => locks.away_cause(),
        }
    }

    /// The names of locks that other processes release; none with the session, whose holders notify of the work itself.
    pub(crate) fn freed(&self) -> BoxStream<'static, Arc<str>> {
        match self {
            Self::Session(_) => Box::pin(futures_util::stream::pending()),
            Self::Provider(locks) => locks.freed(),
        }
    }

    /// The locks that the program's own provider holds in this process; none where the session keeps them.
    pub(crate) fn held_by_provider(&self) -> Vec<HeldLock> {
        match self {
            Self::Session(_) => Vec::new(),
            Self::Provider(locks) => locks.held(),
        }
    }
}

/// The name under which a provider keeps the lock of an instance: its id, behind that of a tenant which is not the default one.
/// Two instances with one name exclude each other, which costs time only.
fn name((tenant, instance): &InstanceKey) -> String {
    match tenant.as_str() {
        "" => instance.as_str().to_owned(),
        tenant => format!("{tenant}:{instance}"),
    }
}

/// The instances that can have this name.
pub(crate) fn instances_of(name: &str) -> impl Iterator<Item = InstanceKey> {
    let of_default = (TenantId::default(), InstanceId::new(name));
    let of_tenant = name.split_once(':');
    let of_tenant = of_tenant.map(|(tenant, id)| (TenantId::new(tenant), InstanceId::new(id)));
    [of_default].into_iter().chain(of_tenant)
}

/// The lock of an instance, held by a burst. Dropping it releases the lock. The log messages are those that users of Elsa
/// search for.
pub(crate) struct InstanceLock {
    instance: InstanceId,
    /// With the time of the grant.
    guard: Option<(LockHandle, Instant)>,
    is_contended: bool,
    /// The worker of the burst; `None` if it was released because the commit waits for a lock of another transaction.
    worker: Option<OwnedSemaphorePermit>,
}

impl CommitGuard for InstanceLock {
    fn contended(&mut self) {
        self.worker = None;
    }
}

impl InstanceLock {
    /// `is_contended`: another session held it a moment ago, which is logged at info.
    pub(crate) fn new(instance: &InstanceId, guard: LockHandle, is_contended: bool) -> Self {
        let mut lock = Self::not_needed(instance);
        lock.is_contended = is_contended;
        lock.hold(guard);
        lock
    }

    /// For an instance that does not exist before the first commit of the burst whose start is claimed: until then no other
    /// node can load it, and the claim alone decides. Saves two round trips for each start.
    pub(crate) fn not_needed(instance: &InstanceId) -> Self {
        Self {
            instance: instance.clone(),
            guard: None,
            is_contended: false,
            worker: None,
        }
    }

    /// Keeps the permit of the worker that runs the burst.
    pub(crate) fn keep_worker(&mut self, permit: OwnedSemaphorePermit) {
        self.worker = Some(permit);
    }

    /// Whether the burst still has its worker.
    pub(crate) fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Holds the lock of an instance that now exists.
    pub(crate) fn hold(&mut self, guard: LockHandle) {
        // A lock is taken before the burst has its span, and levels of one instance go by the field of a span.
        tracing::debug_span!("lock", instance = %self.instance).in_scope(|| match self.is_contended {
            true => bounded_info!("Acquired distributed lock for workflow instance {}", self.instance),
            false => tracing::debug!("Acquired distributed lock for workflow instance {}", self.instance),
        });
        self.guard = Some((guard, Instant::now()));
    }

    pub(crate) fn is_held(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether the session or the lease that held it has ended. A burst then stops before its next activity, and what is complete
    /// goes through the fences.
    pub(crate) fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(|(guard, _)| guard.is_lost())
    }

    /// What shows the same without borrowing the lock; none where no lock is held.
    pub(crate) fn loss(&self) -> Option<LockLoss> {
        self.guard.as_ref().map(|(guard, _)| guard.loss())
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        if let Some((guard, granted)) = self.guard.take() {
            drop(guard);
            metrics::histogram!("mainspring_lock_hold_seconds").record(granted.elapsed());
            tracing::debug_span!("lock", instance = %self.instance).in_scope(|| match self.is_contended {
                true => bounded_info!("Released distributed lock for workflow instance {}", self.instance),
                false => tracing::debug!("Released distributed lock for workflow instance {}", self.instance),
            });
        }
    }
}
