//! Observing instances: a caller at any node receives the commits of every node.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Engine;
use crate::id::InstanceId;
use crate::runtime::context::observed::{Changes, Observation, Observed};
use crate::store::activity_stats::{self, ActivityStats};
use crate::{Error, Result};

/// The most instances of one observer.
const MOST_INSTANCES: usize = 20;

/// Observes some instances. Dropping it ends that.
#[derive(Debug)]
pub struct InstanceObserver {
    observed: Arc<Observed>,
    changes: Arc<Changes>,
    observations: Vec<(InstanceId, Observation)>,
}

impl Engine {
    /// An observer of nothing yet.
    pub fn observer(&self) -> InstanceObserver {
        InstanceObserver {
            observed: Arc::clone(&self.inner.observed),
            changes: Arc::default(),
            observations: Vec::new(),
        }
    }
}

/// The executions of one activity of an observed instance (Elsa's `ActivityExecutionStats`).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedActivity {
    /// The activity.
    pub activity_id: String,
    /// Its place in the definition.
    pub activity_node_id: String,
    /// Executions that started.
    pub started_count: i64,
    /// Those that completed or were cancelled.
    pub completed_count: i64,
    /// The others.
    pub uncompleted_count: i64,
    /// Whether one waits.
    pub is_blocked: bool,
    /// Whether one faulted.
    pub is_faulted: bool,
    /// Always empty.
    pub metadata: Map<String, Value>,
}

impl Engine {
    /// How often each activity of an instance was executed; of at most 1,000. Cancellation safe.
    pub async fn observed_activities(&self, id: &InstanceId) -> Result<Vec<ObservedActivity>> {
        let rows = activity_stats::read(self.node()?.database.reads.by_key(), &self.inner.tenant, id).await?;
        let activity = |row: ActivityStats| ObservedActivity {
            activity_id: row.activity_id,
            activity_node_id: row.node_id,
            started_count: row.started,
            completed_count: row.completed,
            uncompleted_count: row.started - row.completed,
            is_blocked: row.is_blocked,
            is_faulted: row.is_faulted,
            metadata: Map::new(),
        };
        Ok(rows.into_iter().map(activity).collect())
    }
}

impl InstanceObserver {
    /// Observes one more instance, which need not exist yet. It counts as changed at once. More than twenty, or more than a
    /// thousand at this node: [`Error::is_unavailable`].
    pub fn observe(&mut self, id: &InstanceId) -> Result<()> {
        if self.observations.iter().any(|(observed, _)| observed == id) {
            return Ok(());
        }
        let observation = if self.observations.len() < MOST_INSTANCES {
            self.observed.observe(id, &self.changes)
        } else {
            None
        };
        let too_many = || Error::unavailable("too-many-observed", "too many instances are observed; observe fewer");
        self.observations.push((id.clone(), observation.ok_or_else(too_many)?));
        Ok(())
    }

    /// The instances that were changed since the last call: by a commit of any node, at the latest one check-in after it.
    /// Changes of an instance coalesce. Waits until there is one. Cancellation safe.
    pub async fn changed(&mut self) -> Vec<InstanceId> {
        self.changes.take().await
    }
}
