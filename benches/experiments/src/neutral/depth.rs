//! What the database has: the depths of the queue, and the tables of the engine.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mainspring::internals::Failure;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls, Row};
use tokio_util::task::AbortOnDropHandle;

use crate::measures::Measures;
use crate::settings::Settings;

/// Each reading scans the queue, which is empty unless the load is too much.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a reading may take.
const TIMEOUT: Duration = Duration::from_secs(10);

const DEPTHS: &str = "SELECT count(*) FILTER (WHERE claimed_by IS NULL) AS queued,
                             count(*) FILTER (WHERE claimed_by IS NOT NULL) AS running
                      FROM mainspring.work";

/// The tables that a job writes; the journal has one for each day.
const EVENT_TABLES: &str = "SELECT n.nspname || '.' || c.relname AS name
                            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                            WHERE n.nspname = 'mainspring' AND c.relkind = 'r'
                              AND (c.relname IN ('work', 'instance', 'node') OR c.relname LIKE 'burst\\_record\\_%')
                            ORDER BY array_position(ARRAY['work', 'instance'], c.relname::text), c.relname";

/// A connection beside those of the engine.
pub(crate) struct DepthReader {
    client: Client,
    _driver: AbortOnDropHandle<()>,
}

impl DepthReader {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            client,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    /// The tables that the harness watches, the queue first: that one its readers scan.
    pub(crate) async fn event_tables(&self) -> Result<Vec<String>, Failure> {
        let rows = self.client.query(EVENT_TABLES, &[]).await.map_err(failed)?;
        rows.iter().map(|row| row.try_get("name").map_err(failed)).collect()
    }

    async fn read(&self, measures: &Measures) -> Result<(), Failure> {
        let reading = tokio::time::timeout(TIMEOUT, self.client.query_one(DEPTHS, &[]));
        let row = reading
            .await
            .map_err(|_| Failure::failed("the depth of the queue was not read in time"))?
            .map_err(failed)?;
        measures.queued.store(number(&row, "queued")?, Relaxed);
        measures.running.store(number(&row, "running")?, Relaxed);
        Ok(())
    }
}

/// Reads the depths until the process ends. A server that restarts leaves the last ones.
pub(crate) async fn run(first: DepthReader, settings: Arc<Settings>, measures: Arc<Measures>) -> Result<(), Failure> {
    let mut reader = first;
    loop {
        if let Err(failure) = reader.read(&measures).await {
            eprintln!("mainspring-neutral: {}", failure.redacted());
            if let Ok(next) = DepthReader::connect(&settings.database_url).await {
                reader = next;
            }
        }
        sleep(INTERVAL).await;
    }
}

fn number(row: &Row, column: &str) -> Result<u64, Failure> {
    let value: i64 = row.try_get(column).map_err(failed)?;
    Ok(u64::try_from(value).unwrap_or(0))
}

fn failed(error: tokio_postgres::Error) -> Failure {
    let message = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::failed(format!("a statement of the adapter failed: {message}"))
}
