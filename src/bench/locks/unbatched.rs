//! Advisory locks over one connection for each caller: the baseline of the benchmark.

use tokio_postgres::Statement;

use crate::db::{ANSWER_TIMEOUT, Connector, DatabaseUrl, SchemaName, Session, within};
use crate::{Error, Result};

const LOCK: &str = include_str!("../../../sql/queries/bench/lock.sql");
const UNLOCK: &str = include_str!("../../../sql/queries/bench/unlock.sql");
const BOTH: &str = include_str!("../../../sql/queries/bench/lock_unlock.sql");

/// How a pair of lock and unlock is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnbatchedForm {
    /// Two statements, each its own round trip: needed by a program that works in between.
    TwoTrips,
    /// Two statements sent together.
    Pipelined,
    /// Both calls in one statement.
    OneStatement,
}

/// One connection.
pub(crate) struct UnbatchedLocks {
    session: Session,
    lock: Statement,
    unlock: Statement,
    both: Statement,
}

impl UnbatchedLocks {
    pub(crate) async fn connect(database_url: &str, schema: &str) -> Result<Self> {
        let connector = Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)?;
        let session = connector.open().await?;
        let client = &session.client;
        let lock = within(ANSWER_TIMEOUT, client.prepare(LOCK)).await?;
        let unlock = within(ANSWER_TIMEOUT, client.prepare(UNLOCK)).await?;
        let both = within(ANSWER_TIMEOUT, client.prepare(BOTH)).await?;
        Ok(Self {
            session,
            lock,
            unlock,
            both,
        })
    }

    /// Takes and releases a key.
    pub(crate) async fn pair(&self, form: UnbatchedForm, key: i64) -> Result<()> {
        let client = &self.session.client;
        let freed = within(ANSWER_TIMEOUT, async {
            Ok::<_, tokio_postgres::Error>(match form {
                UnbatchedForm::TwoTrips => {
                    client.query_one(&self.lock, &[&key]).await?;
                    client.query_one(&self.unlock, &[&key]).await?.get("freed")
                }
                UnbatchedForm::Pipelined => {
                    let params: [&(dyn postgres_types::ToSql + Sync); 1] = [&key];
                    let (locked, freed) = futures_util::join!(
                        client.query_one(&self.lock, &params),
                        client.query_one(&self.unlock, &params),
                    );
                    locked?;
                    freed?.get("freed")
                }
                UnbatchedForm::OneStatement => client.query_one(&self.both, &[&key]).await?.get("freed"),
            })
        })
        .await?;
        if freed {
            Ok(())
        } else {
            Err(Error::lost_lock("a lock that was just taken was not there"))
        }
    }
}
