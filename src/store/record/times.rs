//! The times between which all records of instances are: those of the instances themselves, which a commit keeps around its
//! record even if the clock was stepped back. A statement on records is planned with them for each call, and then locks only
//! the partitions of these days: a prepared one would lock all.

use chrono::{DateTime, Utc};
use postgres_types::{ToSql, Type};
use tokio_postgres::Row;

use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, TenantId};

const OF_INSTANCE: &str = include_str!("../../../sql/queries/record/times.sql");
const DELETE: &str = include_str!("../../../sql/queries/record/delete.sql");

/// When the first of some instances was created, and the last of them updated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordTimes {
    pub(super) first: DateTime<Utc>,
    pub(super) last: DateTime<Utc>,
}

impl RecordTimes {
    /// Those of one instance, if it exists.
    pub(super) async fn of(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<Option<Self>> {
        let row = pool
            .query_opt(OF_INSTANCE, &[&tenant.as_str(), &instance.as_str()])
            .await?;
        let Some(row) = row else { return Ok(None) };
        let at = columns!(row; created_at, updated_at)?;
        Ok(Some(Self {
            first: row.get(at.created_at),
            last: row.get(at.updated_at),
        }))
    }

    /// Those of the instances that a statement has deleted; none if these were starts without a commit, which have no records.
    pub(crate) fn deleted(row: &Row) -> Result<Option<Self>> {
        let at = columns!(*row; first, last)?;
        let times: (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = (row.get(at.first), row.get(at.last));
        Ok(times.0.zip(times.1).map(|(first, last)| Self { first, last }))
    }

    /// Deletes the records of instances that the transaction of this connection deletes.
    pub(crate) async fn delete(
        self,
        client: &deadpool_postgres::Object,
        tenant: &TenantId,
        instances: &[&str],
    ) -> Result<()> {
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&tenant.as_str(), Type::TEXT),
            (&instances, Type::TEXT_ARRAY),
            (&self.first, Type::TIMESTAMPTZ),
            (&self.last, Type::TIMESTAMPTZ),
        ];
        client.query_typed(DELETE, &params).await?;
        Ok(())
    }
}
