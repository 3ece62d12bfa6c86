//! How often each activity of an instance was executed.

use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, TenantId};

const STATS: &str = include_str!("../../sql/queries/record/activity_stats.sql");

/// The most activities that are counted.
const MOST: i64 = 1_000;

/// The executions of one activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActivityStats {
    pub(crate) activity_id: String,
    pub(crate) node_id: String,
    pub(crate) started: i64,
    pub(crate) completed: i64,
    pub(crate) is_blocked: bool,
    pub(crate) is_faulted: bool,
}

/// Counts the executions by place in the definition.
pub(crate) async fn read(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Vec<ActivityStats>> {
    let rows = pool.query(STATS, &[&tenant.as_str(), &id.as_str(), &MOST]).await?;
    let at = columns!(rows; node_id, activity_id, started, completed, blocked, faulted)?;
    let stats = rows.iter().map(|row| ActivityStats {
        activity_id: row.get(at.activity_id),
        node_id: row.get(at.node_id),
        started: row.get(at.started),
        completed: row.get(at.completed),
        is_blocked: row.get(at.blocked),
        is_faulted: row.get(at.faulted),
    });
    Ok(stats.collect())
}
