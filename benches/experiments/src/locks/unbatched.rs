//! Advisory locks over one connection for each caller.

use mainspring::internals::Failure;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use crate::database::{Session, connect, failed};

const LOCK: &str = "SELECT pg_advisory_lock($1)";
const UNLOCK: &str = "SELECT pg_advisory_unlock($1) AS freed";
/// It protects nothing: the lower bound.
const BOTH: &str = "SELECT pg_advisory_lock($1), pg_advisory_unlock($1) AS freed";

/// How a pair of lock and unlock is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnbatchedForm {
    /// Two statements, each its own round trip: needed by a program that works in between.
    TwoTrips,
    /// Two statements sent together.
    Pipelined,
    /// Both calls in one statement.
    OneStatement,
}

/// One connection.
pub(super) struct UnbatchedLocks {
    session: Session,
    lock: Statement,
    unlock: Statement,
    both: Statement,
}

impl UnbatchedLocks {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let session = connect(url).await?;
        let prepare = async |statement: &str| session.client.prepare(statement).await.map_err(failed);
        let (lock, unlock, both) = (prepare(LOCK).await?, prepare(UNLOCK).await?, prepare(BOTH).await?);
        Ok(Self {
            session,
            lock,
            unlock,
            both,
        })
    }

    /// Takes and releases a key.
    pub(super) async fn pair(&self, form: UnbatchedForm, key: i64) -> Result<(), Failure> {
        match self.freed(form, key).await.map_err(failed)? {
            true => Ok(()),
            false => Err(Failure::failed("a lock that was just taken does not exist")),
        }
    }

    async fn freed(&self, form: UnbatchedForm, key: i64) -> Result<bool, tokio_postgres::Error> {
        let client = &self.session.client;
        Ok(match form {
            UnbatchedForm::TwoTrips => {
                client.query_one(&self.lock, &[&key]).await?;
                client.query_one(&self.unlock, &[&key]).await?.get("freed")
            }
            UnbatchedForm::Pipelined => {
                let parameters: [&(dyn ToSql + Sync); 1] = [&key];
                let (locked, freed) = futures_util::join!(
                    client.query_one(&self.lock, &parameters),
                    client.query_one(&self.unlock, &parameters),
                );
                locked?;
                freed?.get("freed")
            }
            UnbatchedForm::OneStatement => client.query_one(&self.both, &[&key]).await?.get("freed"),
        })
    }
}
