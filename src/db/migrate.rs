//! Migrates the schema to the version of this binary, once, however many nodes start at the same time.

use std::time::{Duration, Instant};

use super::{ANSWER_TIMEOUT, Connector, SchemaName, columns, within};
use crate::{Error, Result};

mod embedded {
    refinery::embed_migrations!("sql/migrations");
}

/// How long a node waits for another one that migrates.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long the sequences may take: the numbers of all bookmarks are read.
const SEQUENCES_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the missing migrations, and raises sequences that have begun again. Any number of processes may call it at once: one migrates, the others retry until a timeout.
/// None waits in the lock queue of the server, where a waiter holds back the vacuum of the whole database.
pub(crate) async fn run(connector: &Connector) -> Result<Vec<String>> {
    let mut session = connector.open().await?;
    let schema = connector.schema();
    // The usual case. The lock is only for a migration: nodes that start together would queue for it.
    let before = applied(&session.client).await?;
    if is_current(&before) {
        raise_sequences(&session.client).await?;
        return Ok(Vec::new());
    }
    refuse_unreleased(schema, &before)?;
    let began = Instant::now();
    loop {
        let got = within(
            ANSWER_TIMEOUT,
            session.client.query_one(TRY_LOCK, &[&schema.lock_class()]),
        )
        .await?;
        if got.get::<_, bool>("taken") {
            break;
        }
        if began.elapsed() > TIMEOUT {
            return Err(Error::unavailable(
                "migration-busy",
                "another process has been migrating this schema for two minutes; check that process, then start again",
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A migration may take longer than an ordinary statement.
    within(
        ANSWER_TIMEOUT,
        session.client.batch_execute("SET statement_timeout = 0"),
    )
    .await?;
    // A role without CREATE on the database can use an existing schema.
    let exists: bool = within(
        ANSWER_TIMEOUT,
        session.client.query_one(SCHEMA_EXISTS, &[&schema.as_str()]),
    )
    .await?
    .get("exists");
    let create = if exists {
        String::new()
    } else {
        format!("CREATE SCHEMA {schema}")
    };
    within(ANSWER_TIMEOUT, session.client.batch_execute(&create))
        .await
        .map_err(|error| {
            Error::unavailable(
                "schema-missing",
                format!(
                    "the schema {schema} cannot be created: grant the database user CREATE on the database, or \
                     create it"
                ),
            )
            .caused_by(error)
        })?;
    refuse_unknown(schema, &session.client).await?;
    let report = embedded::migrations::runner()
        .run_async(&mut session.client)
        .await
        .map_err(|error| Error::unavailable("migration-failed", "a migration failed").caused_by(error))?;
    raise_sequences(&session.client).await?;
    Ok(report
        .applied_migrations()
        .iter()
        .map(|migration| migration.to_string())
        .collect())
}

/// Raises the sequences that have begun again: an upgrade of the server by logical replication copies the rows without them.
/// Any number of processes may do so at once. Cheap unless there are such sequences.
async fn raise_sequences(client: &tokio_postgres::Client) -> Result<()> {
    if !are_sequences_behind(client).await? {
        return Ok(());
    }
    within(ANSWER_TIMEOUT, client.batch_execute("SET statement_timeout = 0")).await?;
    let targets = within(SEQUENCES_TIMEOUT, client.query(SEQUENCE_TARGETS, &[])).await?;
    let at = columns!(targets; name, target)?;
    for row in &targets {
        let (name, target): (&str, i64) = (row.get(at.name), row.get(at.target));
        // Each in a transaction of its own, so that no other one waits for two of them.
        let raised: bool = within(ANSWER_TIMEOUT, client.query_one(RAISE_SEQUENCE, &[&name, &target]))
            .await?
            .get("raised");
        if raised {
            tracing::warn!(sequence = name, target, "a sequence had begun again, and was raised");
        }
    }
    Ok(())
}

/// Whether sequences have begun again.
pub(crate) async fn are_sequences_behind(client: &tokio_postgres::Client) -> Result<bool> {
    let row = within(ANSWER_TIMEOUT, client.query_one(SEQUENCES_BEHIND, &[])).await?;
    Ok(row.get("behind"))
}

/// The text of all migrations, in their order.
#[cfg(feature = "cli")]
pub(crate) fn text() -> String {
    let runner = embedded::migrations::runner();
    let mut all: Vec<(i32, &str)> = runner
        .get_migrations()
        .iter()
        .map(|migration| (migration.version(), migration.sql().unwrap_or_default()))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, text)| format!("{text}\n")).collect()
}

/// Drops the schema with all its content. Only for a program that created it for itself.
#[cfg(feature = "cli")]
pub(crate) async fn drop_schema(connector: &Connector) -> Result<()> {
    let session = connector.open().await?;
    let drop = format!(
        "SET statement_timeout = 0; DROP SCHEMA IF EXISTS {} CASCADE",
        connector.schema()
    );
    within(TIMEOUT, session.client.batch_execute(&drop)).await
}

/// Checks that the schema is that of this binary, for a node that must not migrate.
pub(crate) async fn verify(connector: &Connector) -> Result<()> {
    let session = connector.open().await?;
    let applied = refuse_unknown(connector.schema(), &session.client).await?;
    if applied < newest() {
        return Err(Error::unavailable(
            "schema-outdated",
            format!(
                "the schema {} is at migration {applied}, this binary needs {}: run `mainspring migrate`",
                connector.schema(),
                newest()
            ),
        ));
    }
    Ok(())
}

const TRY_LOCK: &str = include_str!("../../sql/queries/migrate/try_lock.sql");
const APPLIED: &str = include_str!("../../sql/queries/migrate/applied.sql");
const SCHEMA_EXISTS: &str = include_str!("../../sql/queries/migrate/schema_exists.sql");
const SEQUENCES_BEHIND: &str = include_str!("../../sql/queries/migrate/sequences_behind.sql");
const SEQUENCE_TARGETS: &str = include_str!("../../sql/queries/migrate/sequence_targets.sql");
const RAISE_SEQUENCE: &str = include_str!("../../sql/queries/migrate/raise_sequence.sql");
const HISTORY: &str = include_str!("../../sql/queries/migrate/history.sql");

fn newest() -> i32 {
    embedded::migrations::runner()
        .get_migrations()
        .iter()
        .map(|migration| migration.version())
        .max()
        .unwrap_or(0)
}

/// A migration that was applied.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Applied {
    version: i32,
    name: String,
    /// Of its text.
    checksum: String,
}

/// The applied migrations in order; none if there is no schema.
async fn applied(client: &tokio_postgres::Client) -> Result<Vec<Applied>> {
    let exists: bool = within(ANSWER_TIMEOUT, client.query_one(HISTORY, &[]))
        .await?
        .get("exists");
    if !exists {
        return Ok(Vec::new());
    }
    let rows = within(ANSWER_TIMEOUT, client.query(APPLIED, &[])).await?;
    let at = columns!(rows; version, name, checksum)?;
    let read = |row: &tokio_postgres::Row| Applied {
        version: row.get(at.version),
        name: row.get(at.name),
        checksum: row.get(at.checksum),
    };
    Ok(rows.iter().map(read).collect())
}

/// Whether they are exactly those of this binary, unchanged.
fn is_current(applied: &[Applied]) -> bool {
    let runner = embedded::migrations::runner();
    let mut known: Vec<Applied> = runner
        .get_migrations()
        .iter()
        .map(|migration| Applied {
            version: migration.version(),
            name: migration.name().to_owned(),
            checksum: migration.checksum().to_string(),
        })
        .collect();
    known.sort_unstable();
    known == applied
}

/// The name of the first migration of all builds before the first release, whose migrations are one since.
const UNRELEASED: &str = "trunk";

/// Fails for a schema that a build before the first release migrated: there is no upgrade from it.
fn refuse_unreleased(schema: &SchemaName, applied: &[Applied]) -> Result<()> {
    let is_unreleased = |first: &Applied| first.version == 1 && first.name == UNRELEASED;
    if applied.first().is_some_and(is_unreleased) {
        return Err(Error::conflict(
            "database-unreleased",
            format!(
                "the schema {schema} was created by a build of mainspring from before the first release, and cannot be \
                 upgraded: drop it (DROP SCHEMA {schema} CASCADE deletes its data), or use a new schema or database"
            ),
        ));
    }
    Ok(())
}

/// The number of the newest migration that was applied. Fails for a schema that this binary cannot migrate.
async fn refuse_unknown(schema: &SchemaName, client: &tokio_postgres::Client) -> Result<i32> {
    let applied = applied(client).await?;
    refuse_unreleased(schema, &applied)?;
    let applied = applied.last().map_or(0, |last| last.version);
    if applied > newest() {
        return Err(Error::conflict(
            "database-newer",
            format!(
                "the database is at migration {applied}, but this binary knows only {}: install the newer \
                 mainspring that migrated it",
                newest()
            ),
        ));
    }
    Ok(applied)
}
