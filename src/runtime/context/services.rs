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
    /// Owns the connection for NOTIFY. Requests for lock reports and levels of the log always use it.
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
    pub(crate) async fn open(
        &self,
        connector: &Connector,
        incarnation: Incarnation,
        cluster: &str,
    ) -> Result<OpenServices> {
        let wake_notifications = self.wake.is_none().then_some(Channel::WakeNotifications);
        let signals = self.signal.is_none().then_some(Channel::Signals);
        let channels: Vec<Channel> = wake_notifications
            .into_iter()
            .chain(signals)
            .chain([Channel::LockReports, Channel::LogLevels])
            .collect();
        let (notifier, notifier_task) = Notifier::start(connector, &channels).await?;
        let wake = || Arc::new(PostgresWake::new(&notifier, &incarnation.to_string(), None)) as Arc<_>;
        let signal = || Arc::new(PostgresSignal::new(&notifier, None)) as Arc<_>;
        Ok(OpenServices {
            wake: match &self.wake {
                Some(own) => own.in_cluster(cluster).unwrap_or_else(|| Arc::clone(own)),
                None => wake(),
            },
            signal: match &self.signal {
                Some(own) => own.in_cluster(cluster).unwrap_or_else(|| Arc::clone(own)),
                None => signal(),
            },
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
        domains(locks, self.signal.domain(), self.wake.domain())
    }
}

/// These services as nodes compare them.
pub(crate) fn domains(locks: Option<String>, signal: Option<String>, wake: Option<String>) -> ServiceDomains {
    ServiceDomains {
        locks: locks.unwrap_or_default(),
        signal: signal.unwrap_or_default(),
        wake: wake.unwrap_or_default(),
    }
}

/// What two nodes have in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference<'a> {
    pub(crate) service: &'static str,
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
    pub(crate) setting: &'static str,
}

impl<'a> Difference<'a> {
    /// The first one between two nodes.
    pub(crate) fn between(ours: &'a ServiceDomains, theirs: &'a ServiceDomains) -> Option<Self> {
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
        let mut different = each.into_iter().filter(|(_, ours, theirs, _)| differ(ours, theirs));
        let (service, ours, theirs, setting) = different.next()?;
        Some(Self {
            service,
            ours,
            theirs,
            setting,
        })
    }

    /// Whether the settings are alike, and a server has another nonce: another server, or nodes that agree on one just now.
    pub(crate) fn is_of_servers(&self) -> bool {
        self.ours != self.theirs && place(self.ours) == place(self.theirs)
    }
}

/// Without the nonce of its server, which is unknown until the server has answered.
fn place(domain: &str) -> &str {
    domain.rsplit_once(" #").map_or(domain, |(place, _)| place)
}

fn differ(ours: &str, theirs: &str) -> bool {
    let is_known = !ours.is_empty() && !theirs.is_empty();
    is_known && ours != theirs && place(ours) != theirs && place(theirs) != ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(locks: &str, signal: &str, wake: &str) -> ServiceDomains {
        let some = |text: &str| Some(text.to_owned());
        super::domains(some(locks), some(signal), some(wake))
    }

    #[test]
    fn services_differ_where_both_nodes_name_them() {
        let ours = domains("redis workflow:", "redis", "");
        assert_eq!(Difference::between(&ours, &ours.clone()), None);
        assert_eq!(Difference::between(&ours, &domains("", "redis", "postgres")), None);
        let theirs = domains("postgres", "postgres", "");
        let found = Difference::between(&ours, &theirs).unwrap();
        assert_eq!((found.ours, found.theirs), ("redis workflow:", "postgres"));
        assert_eq!(found.setting, "--lock-provider");
        let theirs = domains("redis workflow:", "postgres", "");
        assert_eq!(Difference::between(&ours, &theirs).unwrap().setting, "--signal");
    }

    #[test]
    fn a_server_that_has_not_answered_is_compared_without_its_nonce() {
        let (unknown, one) = (domains("redis a:", "", ""), domains("redis a: #1", "", ""));
        let (two, other) = (domains("redis a: #2", "", ""), domains("redis b: #1", "", ""));
        assert_eq!(Difference::between(&unknown, &one), None);
        assert_eq!(Difference::between(&one, &unknown), None);
        assert!(Difference::between(&one, &two).unwrap().is_of_servers());
        assert!(!Difference::between(&one, &other).unwrap().is_of_servers());
        assert!(!Difference::between(&unknown, &other).unwrap().is_of_servers());
    }
}
