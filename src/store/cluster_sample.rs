//! What counts the whole database: one node samples it, and all serve the sample.
//!
//! The sample is one row, of names and numbers: a node serves those that its own table of metrics has, so nodes of two versions
//! serve what both know. Beside it each second of the last hour keeps what is cheap to know.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::db::{Pool, columns};
use crate::id::Incarnation;
use crate::{Error, Result};

pub(super) const TAKE: &str = include_str!("../../sql/queries/cluster_sample/take.sql");
const READ: &str = include_str!("../../sql/queries/cluster_sample/read.sql");
const SECOND: &str = include_str!("../../sql/queries/cluster_sample/second.sql");

/// Tables of fewer bytes are counted: that takes some milliseconds, and they may have no statistics yet.
const COUNTED_BYTES: i64 = 16 << 20;

/// A sample of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSample {
    /// How old it was when it was read.
    pub(crate) age: Duration,
    /// How long it took.
    pub(crate) took: Duration,
    /// The numbers by name, or by `name/label`.
    pub(crate) numbers: BTreeMap<String, f64>,
}

/// Samples the cluster. `since`: no unclaimed row is due before it; `tables`: those whose sizes are kept. If the future is
/// dropped, the server finishes the sample.
pub(crate) async fn take(pool: &Pool, since: DateTime<Utc>, tables: &[&str]) -> Result<()> {
    pool.query(TAKE, &[&since, &COUNTED_BYTES, &tables]).await?;
    Ok(())
}

/// Reads the last sample; none before the first one, and after a crash of the server.
pub(crate) async fn read(pool: &Pool) -> Result<Option<ClusterSample>> {
    let Some(row) = pool.query_opt(READ, &[]).await? else {
        return Ok(None);
    };
    let at = columns!(row; body, age, took)?;
    let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or_default();
    let numbers: BTreeMap<String, Option<f64>> = serde_json::from_str(row.get(at.body))
        .map_err(|error| Error::internal("the sample of the cluster cannot be read").caused_by(error))?;
    Ok(Some(ClusterSample {
        age: seconds(row.get(at.age)),
        took: seconds(row.get(at.took)),
        numbers: numbers
            .into_iter()
            .filter_map(|(name, number)| Some((name, number?)))
            .collect(),
    }))
}

/// Keeps this second; false if another node samples by now.
pub(crate) async fn keep_second(pool: &Pool, own: Incarnation, since: DateTime<Utc>) -> Result<bool> {
    Ok(pool.query_opt(SECOND, &[&own.0, &since]).await?.is_some())
}
