//! What is left to do for an instance that was cancelled.

use postgres_types::ToSql;

use crate::Result;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId, WorkId};

const DELETE: &str = include_str!("../../sql/queries/work/delete_cancelled.sql");

/// Rows that one statement deletes, so that none of them takes long, however much is left.
const PAGE: i64 = 1_000;

/// Deletes a page of the instructions behind the row `after` that no node has claimed, and gives their rows in order. They
/// have met nothing, and stand as such in `unmet` if a caller may ask. None: nothing is left, or the instance has not ended.
pub(crate) async fn delete_page(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    after: WorkId,
) -> Result<Vec<WorkId>> {
    let params: [&(dyn ToSql + Sync); 4] = [&tenant.as_str(), &instance.as_str(), &after.0, &PAGE];
    let rows = pool.query(DELETE, &params).await?;
    Ok(rows.iter().map(|row| WorkId(row.get(0))).collect())
}
