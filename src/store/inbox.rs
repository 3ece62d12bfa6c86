//! The bytes of the kept events in the inbox, by tenant and by stimulus.

use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{StimulusHash, TenantId};

pub(super) const WEIGH: &str = include_str!("../../sql/queries/inbox/weigh.sql");

/// How many bytes of events may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InboxBudget {
    /// By all events of a tenant.
    pub(crate) tenant: u64,
    /// By all events of one stimulus, which is that of one event name.
    pub(crate) stimulus: u64,
}

/// The kept events of a tenant, or of one stimulus that has used up its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InboxWeight {
    pub(crate) tenant: TenantId,
    /// `None` means all stimuli of the tenant.
    pub(crate) hash: Option<StimulusHash>,
    pub(crate) bytes: u64,
    pub(crate) is_full: bool,
}

/// Weighs the inbox: a row for each tenant, and one for each stimulus that has used up its budget, of these at most a thousand.
/// An event weighs 256 bytes, its payload and its correlation id.
pub(crate) async fn weigh(pool: &Pool, budget: InboxBudget) -> Result<Vec<InboxWeight>> {
    let [tenant, stimulus] = [budget.tenant, budget.stimulus].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let rows = pool.query(WEIGH, &[&tenant, &stimulus]).await?;
    let at = columns!(rows; tenant_id, hash, bytes, is_full)?;
    let row = |row: &tokio_postgres::Row| InboxWeight {
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        hash: row
            .get::<_, Option<Vec<u8>>>(at.hash)
            .and_then(|hash| hash.try_into().ok())
            .map(StimulusHash),
        bytes: u64::try_from(row.get::<_, i64>(at.bytes)).unwrap_or(0),
        is_full: row.get(at.is_full),
    };
    Ok(rows.iter().map(row).collect())
}
