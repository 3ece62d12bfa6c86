//! The services that keep the locks of instances and carry hints and signals between nodes: Postgres' own, or those
//! that the program brings.

use std::sync::Arc;

use crate::Result;
use crate::db::{Channel, Connector, Notifier, NotifierTask};
use crate::id::Incarnation;
use crate::lock::{HeldLock, LockHandle, LockProvider, LockRequest, SessionLocks};
use crate::signal::{CacheSignal, PostgresSignal};
use crate::store::claim::InstanceKey;
use crate::wake::{PostgresWake, WakeTransport};

/// What the program brings in the place of advisory locks and NOTIFY. All nodes of a cluster must bring the same.
#[derive(Clone, Default)]
pub(crate) struct Services {
    pub(crate) wake: Option<Arc<dyn WakeTransport>>,
    pub(crate) signal: Option<Arc<dyn CacheSignal>>,
    pub(crate) locks: Option<Arc<dyn LockProvider>>,
}

/// Who keeps the locks of instances. Whatever it says, the fences of a commit decide who writes.
#[derive(Clone)]
pub(crate) enum InstanceLocks {
    Session(SessionLocks),
    Brought(Arc<dyn LockProvider>),
}

impl InstanceLocks {
    /// Tries to take the lock of each instance, at once; one that somebody has is answered with none. Dropped half-way,
    /// what was taken is given back.
    pub(crate) async fn try_instances(&self, instances: &[InstanceKey]) -> Result<Vec<Option<LockHandle>>> {
        match self {
            Self::Session(locks) => locks.try_instances(instances).await,
            Self::Brought(locks) => {
                let name = |(tenant, instance): &InstanceKey| format!("instance:{tenant}:{instance}");
                let each = instances
                    .iter()
                    .map(|key| locks.try_acquire(LockRequest::exclusive(name(key))));
                futures_util::future::try_join_all(each).await
            }
        }
    }
}

impl InstanceLocks {
    /// What the program's provider holds in this process; nothing if there is none.
    pub(crate) fn brought(&self) -> Vec<HeldLock> {
        match self {
            Self::Session(_) => Vec::new(),
            Self::Brought(locks) => locks.held(),
        }
    }
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |brought: bool| if brought { "the program's" } else { "Postgres" };
        f.debug_struct("Services")
            .field("wake", &of(self.wake.is_some()))
            .field("signal", &of(self.signal.is_some()))
            .field("locks", &of(self.locks.is_some()))
            .finish()
    }
}

/// The services of one registration.
pub(crate) struct OpenServices {
    pub(crate) wake: Arc<dyn WakeTransport>,
    pub(crate) signal: Arc<dyn CacheSignal>,
    pub(crate) notices: Notifier,
    /// The connection for NOTIFY. Operators' questions go over it, whatever the program has brought.
    pub(crate) notices_task: NotifierTask,
}

impl Services {
    /// The program's lock provider, or the session of the registration.
    pub(crate) fn instance_locks(&self, session: &SessionLocks) -> InstanceLocks {
        match &self.locks {
            Some(locks) => InstanceLocks::Brought(Arc::clone(locks)),
            None => InstanceLocks::Session(session.clone()),
        }
    }

    /// Opens what the program has not brought, over one connection.
    pub(crate) async fn open(&self, connector: &Connector, incarnation: Incarnation) -> Result<OpenServices> {
        let hints = self.wake.is_none().then_some(Channel::WakeUps);
        let signals = self.signal.is_none().then_some(Channel::Signals);
        // Operators' questions go over it, whatever the program has brought.
        let channels: Vec<Channel> = hints.into_iter().chain(signals).chain([Channel::LockReports]).collect();
        let (notices, task) = Notifier::start(connector, &channels).await?;
        let wake = || Arc::new(PostgresWake::new(&notices, &incarnation.to_string(), None)) as Arc<_>;
        let signal = || Arc::new(PostgresSignal::new(&notices, None)) as Arc<_>;
        let (wake, signal) = (
            self.wake.clone().unwrap_or_else(wake),
            self.signal.clone().unwrap_or_else(signal),
        );
        Ok(OpenServices {
            wake,
            signal,
            notices,
            notices_task: task,
        })
    }
}
