//! `mainspring doctor`: examines a cluster through its database, over a connection of its own, and mends what is safe to mend.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_postgres::Client;

use super::{connector, lone_pool};
use crate::Result;
use crate::db::{Connector, SchemaName, direct, migrate};
use crate::id::NodeId;
use crate::lock::LockKey;
use crate::store::doctor::{self, DoctorFinding, FindingLevel, Fix};
use crate::store::lock as store_lock;
use crate::store::maintenance;
use crate::store::node::removal::{self, RemovalCause};

/// How long two connections and a notification may take before caches are noticeably stale.
const SLOW_SESSION: Duration = Duration::from_secs(2);

/// What an examination has found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Examination {
    /// Nothing was found.
    pub(crate) ok: bool,
    /// Problems first.
    pub(crate) findings: Vec<DoctorFinding>,
    /// What `--fix` has mended.
    pub(crate) fixed: Vec<String>,
    /// How many checks were made.
    pub(crate) checks: usize,
    pub(crate) elapsed_ms: u64,
}

/// Examines a schema; what is younger than `older_than` is not found. With `fix` it mends what can be mended without harm, and
/// examines again.
///
/// # Errors
/// If there is no database. A pooler, a server that is too old and a schema that cannot be used are findings.
pub(crate) async fn examine(database_url: &str, schema: &str, older_than: Duration, fix: bool) -> Result<Examination> {
    let began = Instant::now();
    let connector = connector(database_url, schema)?;
    let (mut findings, mut fixed) = (Vec::new(), Vec::new());
    let before = before_all(&connector).await?;
    if before.is_usable {
        let session = connector.open().await?;
        findings = of_schema(&session.client, &connector, older_than).await;
        if fix && findings.iter().any(|finding| finding.fix.is_some()) {
            fixed = mend(&session.client, database_url, connector.schema(), &findings).await?;
            findings = of_schema(&session.client, &connector, older_than).await;
        }
    }
    findings.extend(before.findings);
    findings.sort_by_key(|finding| finding.level);
    Ok(Examination {
        ok: findings.is_empty(),
        findings,
        fixed,
        checks: doctor::count(),
        elapsed_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// What is found before any table is read.
struct Before {
    findings: Vec<DoctorFinding>,
    /// The tables can be read.
    is_usable: bool,
}

/// Whether the URL leads to sessions that nodes can use, how long they take, and whether this version of the program can use the
/// schema.
async fn before_all(connector: &Connector) -> Result<Before> {
    let began = Instant::now();
    let mut findings = Vec::new();
    if let Err(error) = direct::verify(connector).await {
        let remedy = "give the address of PostgreSQL itself, version 14 to 18, with --direct-database-url";
        let (means, remedy, is_usable) = match error.code() {
            "pooled-connection" => (
                "Behind a pooler, locks, notifications and settings of sessions are lost without an error.",
                remedy,
                false,
            ),
            "unsupported-server" => ("The statements of the engine fail on it.", remedy, false),
            // As with a queue of notifications that is full, or where too many sessions are open.
            _ if error.is_database_fault() => (
                "A session and a notification are what each node needs first.",
                "see the other findings, such as notify-queue; without any, end sessions that are not needed, or raise the limit that the \
                 message names",
                true,
            ),
            _ => return Err(error),
        };
        findings.push(finding("session", &error.to_string(), means, remedy));
        if !is_usable {
            return Ok(Before { findings, is_usable });
        }
    }
    let took = began.elapsed();
    if took > SLOW_SESSION {
        let what = format!("two connections and a notification took {} ms", took.as_millis());
        let means = "Hints come late, caches are stale for so long, and check-ins may miss their time.";
        let remedy = "look at the load of the server, at old-snapshots, and at the network between";
        findings.push(DoctorFinding {
            level: FindingLevel::Warning,
            ..finding("session", &what, means, remedy)
        });
    }
    let version = match of_version(connector).await {
        // No further session is let in.
        Err(_) if !findings.is_empty() => {
            return Ok(Before {
                findings,
                is_usable: false,
            });
        }
        version => version?,
    };
    let is_usable = version.is_none();
    findings.extend(version);
    Ok(Before { findings, is_usable })
}

/// Whether this version of the program can use the schema.
async fn of_version(connector: &Connector) -> Result<Option<DoctorFinding>> {
    let Err(error) = migrate::verify(connector).await else {
        return Ok(None);
    };
    let remedy = match error.code() {
        "schema-outdated" => "mainspring migrate",
        "database-newer" => "install the version of mainspring that migrated it",
        "database-unreleased" => "use another schema (--schema NAME)",
        _ => return Err(error),
    };
    let means = "Nodes of this version do not start on it.";
    Ok(Some(finding("schema", &error.to_string(), means, remedy)))
}

fn finding(check: &'static str, what: &str, means: &'static str, remedy: &str) -> DoctorFinding {
    DoctorFinding {
        check,
        level: FindingLevel::Problem,
        what: what.to_owned(),
        means,
        since: None,
        remedy: remedy.to_owned(),
        fix: None,
    }
}

async fn of_schema(client: &Client, connector: &Connector, older_than: Duration) -> Vec<DoctorFinding> {
    let mut findings = doctor::examine(client, connector.schema(), older_than).await;
    match migrate::are_sequences_behind(client).await {
        Ok(false) => {}
        Ok(true) => findings.push(finding(
            "sequences",
            "sequences are behind the ids in the tables, as after an upgrade by logical replication",
            "Ids would be given twice.",
            "mainspring migrate",
        )),
        Err(error) => findings.push(doctor::unexamined("sequences", &error)),
    }
    match foreign_locks(client, connector.schema(), older_than).await {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(doctor::unexamined("foreign-locks", &error)),
    }
    findings
}

/// Locks of the schema that sessions of no node hold: those by which nodes exclude each other, and those of instances whose work
/// is late.
async fn foreign_locks(client: &Client, schema: &SchemaName, older_than: Duration) -> Result<Vec<DoctorFinding>> {
    let late = doctor::late_instances(client, older_than).await?;
    let key = |(tenant, instance): &_| LockKey::instance(schema.as_str(), tenant, instance).0;
    let keys: Vec<i64> = late.iter().map(key).collect();
    let held = store_lock::foreign_locks_over(client, schema, &keys).await?;
    let found = held.into_iter().map(|lock| {
        let of = late.iter().find(|of| lock.class.is_none() && key(of) == lock.key);
        let name = of.map_or_else(|| lock.key_name(), |(_, instance)| format!("instance:{instance}"));
        let application = match lock.application.as_str() {
            "" => "no name",
            name => name,
        };
        let what = format!(
            "session {} of role {} ({application}) holds the lock {name}, and belongs to no node",
            lock.process_id, lock.user
        );
        let means = "Bursts of the instance, a publish or the start of a node wait for the lock.";
        let remedy = format!(
            "psql \"$MAINSPRING_DATABASE_URL\" -c \"SELECT pg_terminate_backend({})\"",
            lock.process_id
        );
        finding("foreign-locks", &what, means, &remedy)
    });
    Ok(found.collect())
}

/// Mends what can be mended without harm; returns what was done.
async fn mend(
    client: &Client,
    database_url: &str,
    schema: &SchemaName,
    findings: &[DoctorFinding],
) -> Result<Vec<String>> {
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in findings.iter().filter_map(|finding| finding.fix.as_ref()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    let mut done = Vec::new();
    for fix in fixes {
        done.push(match fix {
            Fix::ReleaseClaims => release_claims(client).await?,
            Fix::CreatePartitions => {
                maintenance::ensure_partitions(&lone_pool(database_url, schema.as_str()).await?).await?;
                "created the partitions of the next week".to_owned()
            }
            Fix::Vacuum(table) => {
                doctor::vacuum(client, schema, table).await?;
                format!("vacuumed {table}")
            }
        });
    }
    Ok(done)
}

/// As nodes do it every ten seconds: a node that registers meanwhile keeps its claims, as the incarnations are read first.
async fn release_claims(client: &Client) -> Result<String> {
    let mut released = 0;
    for incarnation in removal::orphaned(client).await? {
        released += removal::remove(client, incarnation, &NodeId::from("doctor"), RemovalCause::Replaced).await?;
    }
    Ok(format!("released {released} claims"))
}

impl Examination {
    /// What people read, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.fixed.iter().map(|done| format!("fixed: {done}")).collect();
        for finding in &self.findings {
            let level = match finding.level {
                FindingLevel::Problem => "problem",
                FindingLevel::Warning => "warning",
            };
            let since = finding
                .since
                .map(|at| format!(" (since {})", at.format("%Y-%m-%dT%H:%M:%SZ")));
            lines.push(format!(
                "{level}: {}: {}{}",
                finding.check,
                finding.what,
                since.unwrap_or_default()
            ));
            lines.push(format!("  means: {}", finding.means));
            lines.push(format!("  remedy: {}", finding.remedy));
        }
        let seconds = Duration::from_millis(self.elapsed_ms).as_secs_f64();
        lines.push(match self.findings.len() {
            0 => format!("ok: {} checks found nothing in {seconds:.1} s", self.checks),
            1 => format!("1 finding of {} checks in {seconds:.1} s", self.checks),
            count => format!("{count} findings of {} checks in {seconds:.1} s", self.checks),
        });
        lines
    }
}
