//! The pluggable services: locks of instances, wake notifications and cache signals. PostgreSQL provides each of them
//! unless the program has its own provider.

use std::sync::Arc;

use super::locks::InstanceLocks;
use crate::Result;
use crate::db::{Channel, Connector, Notifier, NotifierTask};
use crate::id::Incarnation;
use crate::lock::{LockOwner, LockProvider, SessionLocks};
use crate::signal::{CacheSignal, PostgresSignal};
use crate::store::node::ServiceDomains;
use crate::wake::{PostgresWake, WakeTransport};

/// The program's own providers, in the place of advisory locks and NOTIFY. All nodes of a cluster must have the same.
#[derive(Clone, Default)]
pub(crate) struct Services {
    pub(crate) wake: Option<Arc<dyn WakeTransport>>,
    pub(crate) signal: Option<Arc<dyn CacheSignal>>,
    pub(crate) locks: Option<Arc<dyn LockProvider>>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |is_own: bool| if is_own { "the program's" } else { "Postgres" };
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
    pub(crate) notifier: Notifier,
    /// Owns the connection for NOTIFY. Requests for lock reports always use it.
    pub(crate) notifier_task: NotifierTask,
}

impl Services {
    /// The program's lock provider, as this registration uses it, or the session of the registration.
    pub(crate) fn instance_locks(&self, session: &SessionLocks, owner: impl FnOnce() -> LockOwner) -> InstanceLocks {
        match &self.locks {
            Some(locks) => {
                let registered = locks.registered(owner());
                InstanceLocks::Provider(registered.unwrap_or_else(|| Arc::clone(locks)))
            }
            None => InstanceLocks::Session(session.clone()),
        }
    }

    /// Opens the services for which the program has no provider of its own, over one connection.
    pub(crate) async fn open(&self, connector: &Connector, incarnation: Incarnation) -> Result<OpenServices> {
        let wake_notifications = self.wake.is_none().then_some(Channel::WakeNotifications);
        let signals = self.signal.is_none().then_some(Channel::Signals);
        let channels: Vec<Channel> = wake_notifications
            .into_iter()
            .chain(signals)
            .chain([Channel::LockReports])
            .collect();
        let (notifier, notifier_task) = Notifier::start(connector, &channels).await?;
        let wake = || Arc::new(PostgresWake::new(&notifier, &incarnation.to_string(), None)) as Arc<_>;
        let signal = || Arc::new(PostgresSignal::new(&notifier, None)) as Arc<_>;
        Ok(OpenServices {
            wake: self.wake.clone().unwrap_or_else(wake),
            signal: self.signal.clone().unwrap_or_else(signal),
            notifier,
            notifier_task,
        })
    }
}

impl OpenServices {
    /// The services as nodes compare them.
    pub(crate) fn domains(&self, services: &Services) -> ServiceDomains {
        let locks = match &services.locks {
            Some(locks) => locks.domain(),
            None => Some("postgres".to_owned()),
        };
        ServiceDomains {
            locks: locks.unwrap_or_default(),
            signal: self.signal.domain().unwrap_or_default(),
            wake: self.wake.domain().unwrap_or_default(),
        }
    }
}

/// What two nodes have in different places: the service, where it is for each, and the setting.
pub(crate) fn difference<'a>(
    ours: &'a ServiceDomains,
    theirs: &'a ServiceDomains,
) -> Option<(&'static str, &'a str, &'a str, &'static str)> {
    let each = [
        ("keeps locks in", &ours.locks, &theirs.locks, "--lock-provider"),
        (
            "sends cache notifications over",
            &ours.signal,
            &theirs.signal,
            "--signal",
        ),
        ("sends wake notifications over", &ours.wake, &theirs.wake, "--wake"),
    ];
    let mut different = each
        .into_iter()
        .filter(|(_, ours, theirs, _)| !ours.is_empty() && !theirs.is_empty() && ours != theirs);
    let (service, ours, theirs, setting) = different.next()?;
    Some((service, ours, theirs, setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(locks: &str, signal: &str, wake: &str) -> ServiceDomains {
        ServiceDomains {
            locks: locks.to_owned(),
            signal: signal.to_owned(),
            wake: wake.to_owned(),
        }
    }

    #[test]
    fn services_differ_where_both_nodes_tell() {
        let ours = domains("redis workflow:", "redis", "");
        assert_eq!(difference(&ours, &ours.clone()), None);
        assert_eq!(difference(&ours, &domains("", "redis", "postgres")), None);
        let theirs = domains("postgres", "postgres", "");
        let (_, here, there, setting) = difference(&ours, &theirs).unwrap();
        assert_eq!(
            (here, there, setting),
            ("redis workflow:", "postgres", "--lock-provider")
        );
        let theirs = domains("redis workflow:", "postgres", "");
        assert_eq!(difference(&ours, &theirs).unwrap().3, "--signal");
    }
}
