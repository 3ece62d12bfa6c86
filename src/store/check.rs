//! The invariants of the schema, as one statement.

use serde::Serialize;
use tokio_postgres::Client;

use crate::Result;
use crate::db::{columns, within};

const CHECK: &str = include_str!("../../sql/queries/check/invariants.sql");

/// A scan of a large database takes minutes.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(600);

/// An invariant that does not hold.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: String,
    /// How many rows violate it.
    pub count: i64,
    /// One of these rows.
    pub sample: Option<String>,
}

/// Checks the invariants; an empty list means that all hold.
pub(crate) async fn check(client: &Client) -> Result<Vec<Violation>> {
    within(DEADLINE, client.batch_execute("SET statement_timeout = 0")).await?;
    let rows = within(DEADLINE, client.query(CHECK, &[])).await?;
    let at = columns!(rows; invariant, count, sample)?;
    Ok(rows
        .iter()
        .map(|row| Violation {
            invariant: row.get(at.invariant),
            count: row.get(at.count),
            sample: row.get(at.sample),
        })
        .collect())
}
