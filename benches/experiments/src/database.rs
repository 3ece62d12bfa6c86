//! Sessions of an experiment, and their failures.

use mainspring::internals::{Failure, ScratchDatabase};
use tokio_postgres::{Client, NoTls};
use tokio_util::task::AbortOnDropHandle;

/// A session, whose connection closes when it is dropped.
pub(crate) struct Session {
    pub(crate) client: Client,
    _driver: AbortOnDropHandle<()>,
}

/// A session in the schema of an experiment, without timeouts. Its own commits are not flushed.
pub(crate) async fn open(scratch: &ScratchDatabase) -> Result<Session, Failure> {
    let session = connect(&scratch.url).await?;
    let settings = format!(
        "SET search_path = {}; SET statement_timeout = 0; SET lock_timeout = 0;
         SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off",
        scratch.schema
    );
    execute(&session.client, &settings).await?;
    Ok(session)
}

/// A session as the server gives it.
pub(crate) async fn connect(url: &str) -> Result<Session, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok(Session {
        client,
        _driver: AbortOnDropHandle::new(driver),
    })
}

pub(crate) async fn execute(database: &Client, statements: &str) -> Result<(), Failure> {
    database.batch_execute(statements).await.map_err(failed)
}

/// The value of a query with one row and the column `count`.
pub(crate) async fn count(database: &Client, query: &str) -> Result<i64, Failure> {
    let row = database.query_one(query, &[]).await.map_err(failed)?;
    row.try_get("count").map_err(failed)
}

/// How many bookmarks wait for an event.
pub(crate) async fn waiting(database: &Client) -> Result<usize, Failure> {
    let waiting = count(database, "SELECT count(*) FROM bookmark b WHERE b.publishable").await?;
    Ok(usize::try_from(waiting).unwrap_or(0))
}

pub(crate) fn failed(error: tokio_postgres::Error) -> Failure {
    let message = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::failed(format!("a statement of the experiment failed: {message}"))
}
