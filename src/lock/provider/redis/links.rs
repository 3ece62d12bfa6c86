//! Where the scripts run: on one server, or on the masters of a cluster.

use std::collections::HashMap;
use std::sync::Arc;

use super::calls::{CallAnswer, CallForm, ScriptCall};
use super::cluster::{ClusterLink, MasterNumber};
use super::link::{LinkTarget, RedisLink};
use crate::lock::request::LockRequest;
use crate::redis_server::{Availability, HashSlot, RedisServer};
use crate::{Error, Result};

/// The links to a server or a cluster. One task keeps them ([`RedisLinks::keep`]).
pub(super) enum RedisLinks {
    Single(Box<RedisLink>),
    Cluster(Box<ClusterLink>),
}

impl RedisLinks {
    pub(super) fn new(server: RedisServer, form: Arc<CallForm>) -> Self {
        if server.is_cluster() {
            Self::Cluster(Box::new(ClusterLink::new(server, form)))
        } else {
            let target = LinkTarget::Server(Availability::of_locks());
            Self::Single(Box::new(RedisLink::new(server, target, form)))
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Connects, and again after each failure. Never returns.
    pub(super) async fn keep(&self) {
        match self {
            Self::Single(link) => link.keep().await,
            Self::Cluster(link) => link.keep().await,
        }
    }

    /// Waits for the end of the first try to connect.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) async fn first_try(&self) -> Result<()> {
        match self {
            Self::Single(link) => link.first_try().await,
            Self::Cluster(link) => link.first_try().await,
        }
    }

    /// Whether a server does not answer, of a cluster any master.
    pub(super) fn is_away(&self) -> bool {
        match self {
            Self::Single(link) => link.is_away(),
            Self::Cluster(link) => link.is_away(),
        }
    }

    /// Why it is away.
    pub(super) fn cause(&self) -> Option<String> {
        match self {
            Self::Single(link) => link.cause(),
            Self::Cluster(link) => link.cause(),
        }
    }

    /// An error while nothing can be locked; at once.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Single(link) => link.check(),
            Self::Cluster(link) => link.check(),
        }
    }

    /// An error while what is requested cannot be locked; at once.
    pub(super) fn check_request(&self, prefix: &str, request: &LockRequest) -> Result<()> {
        match self {
            Self::Single(link) => link.check(),
            // The slots of a semaphore are at several masters.
            Self::Cluster(link) if request.slots().is_some() => link.check(),
            Self::Cluster(link) => {
                let slot_of = |name: &str| HashSlot::of(&format!("{prefix}{name}"));
                request.names().try_for_each(|(name, _)| link.check_slot(slot_of(name)))
            }
        }
    }

    /// The same for several: an error while none of them can be locked.
    pub(super) fn check_requests(&self, prefix: &str, requests: &[LockRequest]) -> Result<()> {
        self.check()?;
        let mut away: Option<Error> = None;
        for request in requests {
            match self.check_request(prefix, request) {
                Ok(()) => return Ok(()),
                Err(error) => away = Some(error),
            }
        }
        away.map_or(Ok(()), Err)
    }

    /// The error of a call that has not run.
    pub(super) fn failed(&self) -> Error {
        match self {
            Self::Single(link) => link.failed_call(),
            Self::Cluster(link) => link.failed_call(),
        }
    }

    /// Who has this key.
    pub(super) fn master_of(&self, key: &str) -> MasterNumber {
        match self {
            Self::Single(_) => MasterNumber::default(),
            Self::Cluster(link) => link.number_of(HashSlot::of(key)),
        }
    }

    /// Whether there is a connection to this master.
    pub(super) fn is_open(&self, master: MasterNumber) -> bool {
        match self {
            Self::Single(link) => link.is_open(),
            Self::Cluster(link) => link.is_open(master),
        }
    }

    /// Runs each call.
    pub(super) async fn run(&self, calls: &[ScriptCall]) -> Vec<CallAnswer> {
        match self {
            Self::Single(link) => {
                let mut answers = Vec::with_capacity(calls.len());
                for call in calls {
                    answers.push(link.run(call).await);
                }
                answers
            }
            Self::Cluster(link) => link.run(calls).await,
        }
    }
}

/// These by who has their key, in their order.
pub(super) fn by_master<T>(
    links: &RedisLinks,
    each: Vec<T>,
    key: impl Fn(&T) -> &str,
) -> HashMap<MasterNumber, Vec<T>> {
    let mut of_masters: HashMap<MasterNumber, Vec<T>> = HashMap::new();
    for one in each {
        let master = links.master_of(key(&one));
        of_masters.entry(master).or_default().push(one);
    }
    of_masters
}
