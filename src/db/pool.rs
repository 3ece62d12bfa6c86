//! The pool for ordinary statements.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, QueueMode, RecyclingMethod, Runtime};
use postgres_types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Connector, within};
use crate::{Error, Result};

/// How long a statement waits for a free connection before its caller gets 503.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a pool is bounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolBounds {
    /// In metrics.
    pub(super) name: &'static str,
    /// The most callers that wait for a connection.
    pub(super) queue: usize,
    /// How long each of them waits.
    pub(super) wait: Duration,
    /// How long the answer to a statement is awaited.
    pub(super) answer: Duration,
    /// For a caller without a connection.
    pub(super) busy: fn() -> Error,
    /// For a statement that takes longer than its session allows; `None` means as for any other statement.
    pub(super) slow: Option<fn() -> Error>,
    /// A connection rests for as long as its statement took: it uses half of a processor at most.
    pub(super) rests: bool,
}

impl PoolBounds {
    /// Of ordinary statements.
    const ORDINARY: Self = Self {
        name: "work",
        queue: usize::MAX,
        wait: WAIT_TIMEOUT,
        answer: ANSWER_TIMEOUT,
        busy: || {
            let message = "no connection to the database is free; try again";
            Error::unavailable("database-unavailable", message)
        },
        slow: None,
        rests: false,
    };
}

/// Connects for the pool through the [`Connector`]; the configuration of the pool is unused.
struct PoolConnect(Connector);

type PooledClient = (tokio_postgres::Client, tokio::task::JoinHandle<()>);

impl Connect for PoolConnect {
    fn connect(
        &self,
        _config: &tokio_postgres::Config,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<PooledClient, tokio_postgres::Error>> + Send + '_>> {
        Box::pin(async move {
            let (client, connection) = self.0.connect().await?;
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection of the pool ended");
                }
            });
            Ok((client, driver))
        })
    }
}

/// A statement that is written in the transaction of a change, such as an entry of the audit.
pub(crate) trait Companion: Send + Sync {
    /// Its text, a constant.
    fn sql(&self) -> &'static str;
    /// Its parameters.
    fn params(&self) -> Vec<&(dyn ToSql + Sync)>;
    /// Whether a transaction has written it: of several one does.
    fn is_written(&self) -> bool;
    /// The transaction that has written it is committed.
    fn written(&self);
}

/// Begins the transaction of a change with a companion: its end follows at once, or the connection is lost.
const BEGIN_CHANGE: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s'";

/// Connections for statements that stand alone. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool {
    pool: Arc<deadpool_postgres::Pool>,
    bounds: PoolBounds,
    /// Is written beside changes.
    companion: Option<Arc<dyn Companion>>,
}

impl Pool {
    pub(crate) fn new(connector: &Connector, size: usize) -> Result<Self> {
        Self::bounded(connector, size, PoolBounds::ORDINARY)
    }

    pub(super) fn bounded(connector: &Connector, size: usize, bounds: PoolBounds) -> Result<Self> {
        let manager = Manager::from_connect(
            tokio_postgres::Config::new(),
            PoolConnect(connector.clone()),
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(bounds.wait))
            .create_timeout(Some(CONNECT_TIMEOUT))
            // Few callers use the same few connections, whose statements are planned and whose caches are warm.
            .queue_mode(QueueMode::Lifo)
            .build()
            .map_err(|error| Error::internal("the connection pool cannot be built").caused_by(error))?;
        let pool = Arc::new(pool);
        Ok(Self {
            pool,
            bounds,
            companion: None,
        })
    }

    /// The same connections, for a change that has a companion in its transaction.
    pub(crate) fn beside(&self, companion: Arc<dyn Companion>) -> Self {
        Self {
            companion: Some(companion),
            ..self.clone()
        }
    }

    /// Whether it has no more than one connection.
    pub(crate) fn is_single(&self) -> bool {
        self.pool.status().max_size <= 1
    }

    /// Sets the gauges of its connections.
    pub(crate) fn report(&self) {
        let (status, pool) = (self.pool.status(), self.bounds.name);
        let used = status.size.saturating_sub(status.available);
        metrics::gauge!("mainspring_pool_connections", "pool" => pool).set(status.size as f64);
        metrics::gauge!("mainspring_pool_connections_used", "pool" => pool).set(used as f64);
        metrics::gauge!("mainspring_pool_connections_limit", "pool" => pool).set(status.max_size as f64);
        metrics::gauge!("mainspring_pool_waiting", "pool" => pool).set(status.waiting as f64);
    }

    /// A connection for what needs more than one statement.
    pub(crate) async fn exclusive(&self) -> Result<Exclusive> {
        Ok(Exclusive {
            client: Some(self.client().await?),
            companion: self.companion.clone(),
        })
    }

    async fn client(&self) -> Result<Object> {
        if self.pool.status().waiting >= self.bounds.queue {
            return Err((self.bounds.busy)());
        }
        // Boxed, as it contains the future of a new connection.
        Box::pin(self.pool.get()).await.map_err(|error| match error {
            deadpool_postgres::PoolError::Backend(error) => Error::from(error),
            error => (self.bounds.busy)().caused_by(error),
        })
    }

    /// Runs one statement and returns its rows. The text must be a constant: it is prepared once per connection. If the
    /// future is dropped, the server still finishes the statement.
    pub(crate) async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let client = self.client().await?;
        let began = Instant::now();
        let answer = within(self.bounds.answer, async {
            // Boxed, as it is rarely more than a look-up, and larger than all the rest.
            let statement = Box::pin(client.prepare_cached(sql)).await?;
            client.query(&statement, params).await
        })
        .await;
        self.settle(client, answer, began.elapsed())
    }

    /// Runs one statement that is planned for its parameters, with the given types; some parameters may be unused. `settings`
    /// is empty, or begins a transaction for the statement and sets what holds in it (`BEGIN; SET LOCAL …`).
    pub(crate) async fn query_planned(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
        settings: &'static str,
    ) -> Result<Vec<Row>> {
        // Dropped within the transaction, the connection closes.
        let mut connection = self.exclusive().await?;
        let client = connection.client()?;
        let began = Instant::now();
        let answer = within(self.bounds.answer, async {
            if settings.is_empty() {
                return client.query_typed(sql, params).await;
            }
            client.batch_execute(settings).await?;
            let rows = client.query_typed(sql, params).await;
            client.batch_execute("ROLLBACK").await?;
            rows
        })
        .await;
        match connection.client.take() {
            Some(client) => self.settle(client, answer, began.elapsed()),
            None => answer,
        }
    }

    fn settle(&self, client: Object, answer: Result<Vec<Row>>, took: Duration) -> Result<Vec<Row>> {
        metrics::histogram!("mainspring_query_seconds", "pool" => self.bounds.name).record(took);
        // In doubt, or on a server that was demoted: the next statement gets a new connection.
        let is_in_doubt = |error: &Error| ["database-timeout", "database-read-only"].contains(&error.code());
        if answer.as_ref().is_err_and(is_in_doubt) {
            discard(client);
        } else if self.bounds.rests {
            // The answer does not wait for it, and a runtime that stops only closes the connection earlier.
            tokio::spawn(async move {
                tokio::time::sleep(took).await;
                drop(client);
            });
        }
        let Err(error) = answer else { return answer };
        match self.bounds.slow {
            Some(slow) if error.has_timed_out() => Err(slow().caused_by(error)),
            _ => Err(error),
        }
    }

    /// Runs one statement that may change something, with the companion of this pool in the same transaction if its rows say
    /// that it has. Without a companion it is [`Pool::query`]. If the future is dropped, all of it has happened or nothing.
    pub(crate) async fn change(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        is_change: fn(&[Row]) -> bool,
    ) -> Result<Vec<Row>> {
        if self.companion.is_none() {
            return self.query(sql, params).await;
        }
        let connection = self.exclusive().await?;
        let answer = within(self.bounds.answer, async {
            let statement = Box::pin(connection.client()?.prepare_cached(sql)).await?;
            connection.change(&statement, params, is_change).await
        })
        .await?;
        connection.give_back();
        answer
    }

    /// The first row of [`Pool::change`].
    pub(crate) async fn change_opt(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        is_change: fn(&[Row]) -> bool,
    ) -> Result<Option<Row>> {
        Ok(self.change(sql, params, is_change).await?.into_iter().next())
    }

    /// The same of a statement that always gives a row.
    pub(crate) async fn change_one(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        is_change: fn(&[Row]) -> bool,
    ) -> Result<Row> {
        let row = self.change_opt(sql, params, is_change).await?;
        row.ok_or_else(|| Error::internal("a statement returned no row where one was expected"))
    }

    /// Runs one statement of which at most one row is wanted.
    pub(crate) async fn query_opt(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs one statement that always gives a row.
    pub(crate) async fn query_one(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Row> {
        self.query_opt(sql, params)
            .await?
            .ok_or_else(|| Error::internal("a statement returned no row where one was expected"))
    }

    /// Closes all connections; a caller that waits for one gets an error.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// Removes a connection in doubt from the pool.
fn discard(client: Object) {
    drop(Object::take(client));
}

/// A pooled connection for more than one statement. Dropped anywhere in between (an error, a future that is not polled
/// any more) it closes, and its transaction with it; only [`Exclusive::give_back`] returns it to the pool.
pub(crate) struct Exclusive {
    client: Option<Object>,
    companion: Option<Arc<dyn Companion>>,
}

impl Exclusive {
    /// Returns it, once nothing is open on it.
    pub(crate) fn give_back(mut self) {
        drop(self.client.take());
    }

    /// The connection.
    pub(crate) fn client(&self) -> Result<&Object> {
        self.client
            .as_ref()
            .ok_or_else(|| Error::internal("a connection was used after it was returned"))
    }

    /// What is to be written beside the change of its transaction.
    pub(crate) fn companion(&self) -> Option<&Arc<dyn Companion>> {
        self.companion.as_ref().filter(|companion| !companion.is_written())
    }

    /// Executes a statement in a transaction of its own, with the companion if the rows say that something has changed. The inner
    /// error is that of the statement, after which the connection is as before.
    pub(crate) async fn change(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        is_change: fn(&[Row]) -> bool,
    ) -> Result<Result<Vec<Row>>> {
        let client = self.client()?;
        // One round trip: `join!` polls in this order, so the statements are sent in this order.
        let (begun, changed) = futures_util::join!(client.batch_execute(BEGIN_CHANGE), client.query(statement, params));
        begun?;
        let rows = match changed {
            Ok(rows) => rows,
            Err(error) if error.is_closed() => return Err(error.into()),
            Err(error) => {
                client.batch_execute("ROLLBACK").await?;
                return Ok(Err(error.into()));
            }
        };
        if is_change(&rows) {
            self.commit().await?;
        } else {
            client.batch_execute("COMMIT").await?;
        }
        Ok(Ok(rows))
    }

    /// Commits the change of the transaction that is open, with its companion.
    pub(crate) async fn commit(&self) -> Result<()> {
        let client = self.client()?;
        let Some(companion) = self.companion() else {
            return Ok(client.batch_execute("COMMIT").await?);
        };
        let statement = client.prepare_cached(companion.sql()).await?;
        let params = companion.params();
        // One round trip; where the first fails, the second rolls back.
        let (noted, committed) = futures_util::join!(client.query(&statement, &params), client.batch_execute("COMMIT"));
        noted?;
        committed?;
        companion.written();
        Ok(())
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            discard(client);
        }
    }
}
