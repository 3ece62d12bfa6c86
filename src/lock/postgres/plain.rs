//! Advisory locks the plain way, one connection for each who locks: what the provider is compared with.

use tokio_postgres::Statement;

use crate::db::{ANSWER_TIMEOUT, Connector, DatabaseUrl, SchemaName, Session, within};
use crate::{Error, Result};

const LOCK: &str = include_str!("../../../sql/queries/bench/lock.sql");
const UNLOCK: &str = include_str!("../../../sql/queries/bench/unlock.sql");
const BOTH: &str = include_str!("../../../sql/queries/bench/lock_unlock.sql");

/// How a pair travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainForm {
    /// Two statements, each its own round trip: what a program that does something in between needs.
    TwoTrips,
    /// Two statements sent together.
    Pipelined,
    /// Both calls in one statement.
    OneStatement,
}

/// One connection.
pub(crate) struct PlainLocks {
    session: Session,
    lock: Statement,
    unlock: Statement,
    both: Statement,
}

impl PlainLocks {
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

    /// Takes and frees a key.
    pub(crate) async fn pair(&self, form: PlainForm, key: i64) -> Result<()> {
        let client = &self.session.client;
        let freed = within(ANSWER_TIMEOUT, async {
            Ok::<_, tokio_postgres::Error>(match form {
                PlainForm::TwoTrips => {
                    client.query_one(&self.lock, &[&key]).await?;
                    client.query_one(&self.unlock, &[&key]).await?.get(0)
                }
                PlainForm::Pipelined => {
                    let params: [&(dyn postgres_types::ToSql + Sync); 1] = [&key];
                    let (locked, freed) = futures_util::join!(
                        client.query_one(&self.lock, &params),
                        client.query_one(&self.unlock, &params),
                    );
                    locked?;
                    freed?.get(0)
                }
                PlainForm::OneStatement => client.query_one(&self.both, &[&key]).await?.get(1),
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
