//! Observing instances: a caller at any node receives the commits of every node.

use std::sync::Arc;

use super::Engine;
use crate::id::{InstanceId, TenantId};
use crate::runtime::context::observed::{Changes, Observation, Observed};
use crate::{Error, Result};

/// The most instances of one observer.
const MOST_INSTANCES: usize = 20;

/// Observes some instances, until it is dropped.
#[derive(Debug)]
pub struct InstanceObserver {
    observed: Arc<Observed>,
    tenant: TenantId,
    changes: Arc<Changes>,
    observations: Vec<(InstanceId, Observation)>,
}

impl Engine {
    /// An observer of instances of this engine's tenant, which does not observe anything yet.
    pub fn observer(&self) -> InstanceObserver {
        InstanceObserver {
            observed: Arc::clone(&self.inner.observed),
            tenant: self.tenant.clone(),
            changes: Arc::default(),
            observations: Vec::new(),
        }
    }
}

impl InstanceObserver {
    /// Observes one more instance, which need not exist yet. It counts as changed at once. [`Error::is_unavailable`] for
    /// more than twenty, or more than a thousand at this node.
    pub fn observe(&mut self, id: &InstanceId) -> Result<()> {
        if self.observations.iter().any(|(observed, _)| observed == id) {
            return Ok(());
        }
        let observation = if self.observations.len() < MOST_INSTANCES {
            self.observed.observe((self.tenant.clone(), id.clone()), &self.changes)
        } else {
            None
        };
        let too_many = || Error::unavailable("too-many-observed", "too many instances are observed; observe fewer");
        self.observations.push((id.clone(), observation.ok_or_else(too_many)?));
        Ok(())
    }

    /// The instances that were changed since the last call by a commit of any node, at the latest one check-in after it.
    /// Changes of an instance coalesce. Waits until at least one has changed. Cancellation safe.
    pub async fn changed(&mut self) -> Vec<InstanceId> {
        self.changes.take().await
    }
}
