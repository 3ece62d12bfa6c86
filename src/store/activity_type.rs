//! The activity types that versions use, which of them a node does not know, and the work that no node can run.

use super::claim::VersionKey;
use crate::Result;
use crate::db::{Pool, column, columns};
use crate::id::{Incarnation, TenantId, VersionId};

const UNSURVEYED: &str = include_str!("../../sql/queries/activity_type/unsurveyed.sql");
const SURVEY: &str = include_str!("../../sql/queries/activity_type/survey.sql");
const UNSUPPORTED_VERSIONS: &str = include_str!("../../sql/queries/activity_type/unsupported_versions.sql");
const SET_MISSING: &str = include_str!("../../sql/queries/activity_type/set_missing.sql");
const COUNT_UNSUPPORTED: &str = include_str!("../../sql/queries/activity_type/count_unsupported.sql");

/// A page of published versions whose activity types are not recorded yet, after a given version.
pub(crate) async fn unsurveyed_versions(pool: &Pool, behind: &VersionKey) -> Result<Vec<VersionKey>> {
    let rows = pool
        .query(UNSURVEYED, &[&behind.0.as_str(), &behind.1.as_str()])
        .await?;
    let at = VersionColumns::of(&rows)?;
    Ok(rows.iter().map(|row| version(at, row)).collect())
}

columns!(struct VersionColumns { tenant_id, version_id });

fn version(at: VersionColumns, row: &tokio_postgres::Row) -> VersionKey {
    (
        TenantId::new(row.get::<_, String>(at.tenant_id)),
        VersionId::new(row.get::<_, String>(at.version_id)),
    )
}

/// Records the activity types of a version.
pub(crate) async fn record(pool: &Pool, key: &VersionKey, types: &[String]) -> Result<()> {
    pool.query(SURVEY, &[&key.0.as_str(), &key.1.as_str(), &types]).await?;
    Ok(())
}

/// The versions that use activity types other than the known ones, with those types.
pub(crate) async fn unsupported_versions(pool: &Pool, known: &[String]) -> Result<Vec<(VersionKey, Vec<String>)>> {
    let rows = pool.query(UNSUPPORTED_VERSIONS, &[&known]).await?;
    let (at, types) = (VersionColumns::of(&rows)?, column(&rows, "missing")?);
    Ok(rows.iter().map(|row| (version(at, row), row.get(types))).collect())
}

/// Records in the row of a node which activity types it does not know.
pub(crate) async fn report_missing(pool: &Pool, incarnation: Incarnation, missing: &[String]) -> Result<()> {
    pool.query(SET_MISSING, &[&incarnation.0, &missing]).await?;
    Ok(())
}

/// Work that no live node can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedWork {
    pub(crate) definition: String,
    pub(crate) version: i32,
    /// The activity types that no node knows.
    pub(crate) missing: Vec<String>,
    /// How many rows wait; counted up to a thousand.
    pub(crate) waiting: i64,
}

/// The work that no live node can run, by version.
pub(crate) async fn unsupported_work(pool: &Pool) -> Result<Vec<UnsupportedWork>> {
    let rows = pool.query(COUNT_UNSUPPORTED, &[]).await?;
    let at = columns!(rows; definition_id, version, missing, waiting)?;
    let row = |row: &tokio_postgres::Row| UnsupportedWork {
        definition: row.get(at.definition_id),
        version: row.get(at.version),
        missing: row.get(at.missing),
        waiting: row.get(at.waiting),
    };
    Ok(rows.iter().map(row).collect())
}
