//! Users, roles, applications and sessions.
//!
//! # Invariants
//!
//! - Each transaction that changes users, roles or applications, or ends sessions, is an [`IdentityChange`]: it locks `revision`
//!   first, so such changes come one after the other. What it reads is what holds when it commits, and the decision of its caller
//!   (what may be given away) rests on that.
//! - A change that would leave a tenant without a user who may do everything, and there was one, is refused.
//! - What nodes remember of callers is good for one revision, which each check-in reads.
//! - A refresh token is good once: the session names the one that is. Passwords are kept as argon2id, keys as SHA-256, names and
//!   clients of attempts as hashes.
//!
//! # Layout
//!
//! `user`, `role`, `application`: what clients list and change · `session`: sign-ins, and the use of refresh tokens · `attempt`:
//! counts attempts to sign in.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod role;
pub(crate) mod session;
pub(crate) mod user;

use postgres_types::ToSql;
use tokio_postgres::Row;

use crate::db::{ANSWER_TIMEOUT, Exclusive, Pool, within};
use crate::id::TenantId;
use crate::{Error, Result};

const REVISE: &str = include_str!("../../../sql/queries/identity/revise.sql");
const ADMINISTRATORS: &str = include_str!("../../../sql/queries/identity/administrators.sql");

/// How long a change waits for another one.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '5s'";

/// What became of a row that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Now,
    /// Another one has its id or its name.
    Taken,
    /// There are as many as there may be.
    Full,
}

impl Added {
    fn of(made: bool, has_room: bool) -> Self {
        match (made, has_room) {
            (true, _) => Self::Now,
            (false, true) => Self::Taken,
            (false, false) => Self::Full,
        }
    }
}

/// A transaction that changes users, roles or applications of a tenant, or ends sessions. Dropped before its end it changes
/// nothing.
pub(crate) struct IdentityChange {
    connection: Exclusive,
    tenant: TenantId,
    revision: i64,
    /// The users of the tenant that may do everything, when it began.
    administrators: i64,
}

impl IdentityChange {
    /// Waits until no other change is under way.
    pub(crate) async fn begin(pool: &Pool, tenant: &TenantId) -> Result<Self> {
        let connection = pool.exclusive().await?;
        within(ANSWER_TIMEOUT, connection.client()?.batch_execute(BEGIN)).await?;
        let mut change = Self {
            connection,
            tenant: tenant.clone(),
            revision: 0,
            administrators: 0,
        };
        change.revision = change.query_one(REVISE, &[]).await?.get("identity");
        // A statement of its own, whose snapshot is newer than the change before.
        change.administrators = change.administrators_now().await?;
        Ok(change)
    }

    async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let client = self.connection.client()?;
        within(ANSWER_TIMEOUT, async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, params).await
        })
        .await
    }

    async fn query_one(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Row> {
        let row = self.query(sql, params).await?.into_iter().next();
        row.ok_or_else(|| Error::internal("a statement returned no row where one was expected"))
    }

    async fn administrators_now(&self) -> Result<i64> {
        let row = self.query_one(ADMINISTRATORS, &[&self.tenant.as_str()]).await?;
        Ok(row.get("administrators"))
    }

    /// Makes it durable; returns the revision from which on it is known. Errors: `last-administrator`, and nothing is changed.
    pub(crate) async fn commit(self) -> Result<i64> {
        if self.administrators > 0 && self.administrators_now().await? == 0 {
            self.roll_back().await?;
            return Err(last_administrator());
        }
        within(ANSWER_TIMEOUT, self.connection.commit()).await?;
        self.connection.give_back();
        Ok(self.revision)
    }

    /// Ends it without a change, and keeps the connection.
    pub(crate) async fn roll_back(self) -> Result<()> {
        within(ANSWER_TIMEOUT, self.connection.client()?.batch_execute("ROLLBACK")).await?;
        self.connection.give_back();
        Ok(())
    }
}

fn last_administrator() -> Error {
    Error::conflict(
        "last-administrator",
        "this would leave no user who may do everything (`*`): give another user such a role first",
    )
}
