//! What `mainspring doctor` asks the database: probes, each one statement that returns a row for each fault it finds.
//!
//! # Invariants
//!
//! - A probe changes nothing, but for `write_probe`, whose table is temporary.
//! - A probe reads unfinished rows only, by an index, at most so many of them as its statement says: a database of any size is
//!   examined within seconds. `mainspring check` reads everything.
//! - A probe that fails is a finding, too; the others still run.
//!
//! # Layout
//!
//! - `server`, `tables`, `cluster`, `work`: the probes by what they look at. `indexes`: those of the schema, as its migrations
//!   make them. `plans`: whether hot statements find their rows by an index.

mod cluster;
mod indexes;
mod plans;
mod server;
mod tables;
#[cfg(test)]
mod tests;
mod work;

use std::error::Error as _;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde::Serialize;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, SchemaName, columns, find_column, within};
use crate::id::{InstanceId, TenantId};

const WRITE_PROBE: &str = include_str!("../../../sql/queries/doctor/write_probe.sql");
const LATE_INSTANCES: &str = include_str!("../../../sql/queries/doctor/late_instances.sql");

/// A commit that takes longer than this slows all of them down.
const SLOW_WRITE: Duration = Duration::from_millis(500);

/// How long a probe waits for a lock, and that it looks each row up by an index: a join by hash would read whole tables.
const OF_PROBES: &str =
    "SET lock_timeout = '300ms'; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FindingLevel {
    /// Work waits or may be lost.
    Problem,
    /// It will be one.
    Warning,
}

/// What `--fix` does about a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    ReleaseClaims,
    CreatePartitions,
    /// Of this table.
    Vacuum(String),
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorFinding {
    /// The name of the probe.
    pub(crate) check: &'static str,
    pub(crate) level: FindingLevel,
    /// What was found.
    pub(crate) what: String,
    /// What follows from it.
    pub(crate) means: &'static str,
    /// Since when, as far as that is known.
    pub(crate) since: Option<DateTime<Utc>>,
    /// The command that remedies it, or what to do.
    pub(crate) remedy: String,
    /// `--fix` remedies it.
    #[serde(serialize_with = "is_some")]
    #[serde(rename = "fixable")]
    pub(crate) fix: Option<Fix>,
}

fn is_some<S: serde::Serializer>(fix: &Option<Fix>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(fix.is_some())
}

/// What a statement is told.
#[derive(Clone, Copy)]
enum Given {
    /// How old a fault must be, in microseconds.
    OlderThan,
    /// What the names of the sessions of nodes begin with.
    SessionPrefix,
}

/// Which fix a finding of a probe has.
#[derive(Clone, Copy)]
enum ProbeFix {
    None,
    ReleaseClaims,
    CreatePartitions,
    /// Of the table in the column `object`.
    Vacuum,
}

/// A statement with the columns `what`, `since` and `remedy`, and what its rows mean.
struct Probe {
    name: &'static str,
    level: FindingLevel,
    sql: &'static str,
    given: &'static [Given],
    means: &'static str,
    /// Where the row has none.
    remedy: &'static str,
    fix: ProbeFix,
}

/// Runs all probes over one connection; `older_than` is how old a wait, a lock or a transaction must be to be found.
pub(crate) async fn examine(client: &Client, schema: &SchemaName, older_than: Duration) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    // A table that another session has locked is a finding, and must not hold up the probes of others.
    if let Err(error) = within(ANSWER_TIMEOUT, client.batch_execute(OF_PROBES)).await {
        findings.push(unexamined("session", &error));
    }
    findings.extend(indexes::missing(client).await);
    let probes = [server::PROBES, tables::PROBES, cluster::PROBES, work::PROBES];
    for probe in probes.into_iter().flatten() {
        let found = probe.run(client, schema, older_than).await;
        findings.extend(found.unwrap_or_else(|error| vec![unexamined(probe.name, &error)]));
    }
    findings.extend(plans::walks(client, schema).await);
    findings.extend(writes(client).await);
    findings
}

/// How many checks are made.
pub(crate) fn count() -> usize {
    server::PROBES.len() + tables::PROBES.len() + cluster::PROBES.len() + work::PROBES.len() + OTHERS.len()
}

/// The checks that are no probes, with what they find.
const OTHERS: [(&str, &str); 7] = [
    (
        "session",
        "a connection pooler, a server of another version, or a NOTIFY that comes late or never",
    ),
    ("schema", "a schema that this version of the program cannot use"),
    (
        "indexes",
        "an index of the schema that is missing or invalid, with the statement that makes it",
    ),
    (
        "plans",
        "a statement of each claim that reads a whole table, as the server plans it now",
    ),
    ("writes", "a disk that takes no more, or takes long to flush"),
    (
        "sequences",
        "sequences that have begun again, as after an upgrade by logical replication",
    ),
    ("foreign-locks", "a session of no node that holds a lock of the engine"),
];

/// The finding for a probe that could not be run.
pub(crate) fn unexamined(check: &'static str, error: &crate::Error) -> DoctorFinding {
    DoctorFinding {
        check,
        level: FindingLevel::Warning,
        what: format!("it could not be examined: {error}"),
        means: "What this check looks at is not known.",
        since: None,
        remedy: "for a missing right, run `mainspring doctor` as the role that the nodes log in as; for a lock, see \
                 table-locks"
            .to_owned(),
        fix: None,
    }
}

impl Probe {
    async fn run(&self, client: &Client, schema: &SchemaName, older_than: Duration) -> Result<Vec<DoctorFinding>> {
        let micros = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
        let prefix = format!("mainspring/{}/", schema.key());
        let each = self.given.iter().map(|given| match given {
            Given::OlderThan => &micros as &(dyn ToSql + Sync),
            Given::SessionPrefix => &prefix,
        });
        let given: Vec<&(dyn ToSql + Sync)> = each.collect();
        let rows = within(ANSWER_TIMEOUT, client.query(self.sql, &given)).await?;
        let at = columns!(rows; what, since, remedy)?;
        let object = find_column(&rows, "object");
        let finding = |row: &tokio_postgres::Row| DoctorFinding {
            check: self.name,
            level: self.level,
            what: row.get(at.what),
            means: self.means,
            since: row.get(at.since),
            remedy: row
                .get::<_, Option<String>>(at.remedy)
                .unwrap_or_else(|| self.remedy.to_owned()),
            fix: match self.fix {
                ProbeFix::None => None,
                ProbeFix::ReleaseClaims => Some(Fix::ReleaseClaims),
                ProbeFix::CreatePartitions => Some(Fix::CreatePartitions),
                ProbeFix::Vacuum => object.map(|object| Fix::Vacuum(row.get(object))),
            },
        };
        Ok(rows.iter().map(finding).collect())
    }
}

/// Writes some pages, and waits for their commit.
async fn writes(client: &Client) -> Option<DoctorFinding> {
    let began = Instant::now();
    let written = within(ANSWER_TIMEOUT, client.execute(WRITE_PROBE, &[])).await;
    let flushed = match written {
        // Roles of nodes need no right to make temporary tables.
        Err(error) if is_refused(&error) => Ok(()),
        Ok(_) => within(ANSWER_TIMEOUT, client.query(super::maintenance::FLUSH, &[]))
            .await
            .map(drop),
        Err(error) => Err(error),
    };
    let finding = |level, what| DoctorFinding {
        check: "writes",
        level,
        what,
        means: "Each burst is committed to the server's disk; what it does not take is repeated later.",
        since: None,
        remedy: "free space on the disk of the server, or look for what else uses that disk (`df -h`, `iostat -x 1`)"
            .to_owned(),
        fix: None,
    };
    match flushed {
        Err(error) => Some(finding(
            FindingLevel::Problem,
            format!("the server does not write: {error}"),
        )),
        Ok(()) if began.elapsed() > SLOW_WRITE => Some(finding(
            FindingLevel::Warning,
            format!(
                "the server took {} ms to write and flush less than a megabyte",
                began.elapsed().as_millis()
            ),
        )),
        Ok(()) => None,
    }
}

/// Whether the role lacks a right.
fn is_refused(error: &crate::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    cause.and_then(tokio_postgres::Error::code) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Instances whose work or timers are late, at most two thousand.
pub(crate) async fn late_instances(client: &Client, older_than: Duration) -> Result<Vec<(TenantId, InstanceId)>> {
    let micros = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
    let rows = within(ANSWER_TIMEOUT, client.query(LATE_INSTANCES, &[&micros])).await?;
    let at = columns!(rows; tenant_id, instance_id)?;
    let key = |row: &tokio_postgres::Row| {
        let (tenant, instance): (String, String) = (row.get(at.tenant_id), row.get(at.instance_id));
        (TenantId::from(tenant), InstanceId::from(instance))
    };
    Ok(rows.iter().map(key).collect())
}

/// Vacuums a table of the schema. Without the lock that truncating takes.
pub(crate) async fn vacuum(client: &Client, schema: &SchemaName, table: &str) -> Result<()> {
    let named = format!("{schema}.\"{}\"", table.replace('"', "\"\""));
    let vacuum = format!("SET statement_timeout = '10min'; VACUUM (TRUNCATE false) {named}");
    // Not in one message: a VACUUM runs in no transaction.
    for statement in vacuum.split("; ") {
        within(VACUUM_TIMEOUT, client.batch_execute(statement)).await?;
    }
    Ok(())
}

const VACUUM_TIMEOUT: Duration = Duration::from_secs(610);
