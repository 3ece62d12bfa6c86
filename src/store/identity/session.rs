//! The sessions: which refresh token of a sign-in is good.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use uuid::Uuid;

use super::IdentityChange;
use crate::db::{Pool, columns};
use crate::id::TenantId;
use crate::{Error, Result};

const OPEN: &str = include_str!("../../../sql/queries/identity/session_open.sql");
const ROTATE: &str = include_str!("../../../sql/queries/identity/session_rotate.sql");
const FIND: &str = include_str!("../../../sql/queries/identity/session_find.sql");
const END: &str = include_str!("../../../sql/queries/identity/session_end.sql");
const PURGE: &str = include_str!("../../../sql/queries/identity/purge.sql");

/// How many rows of a table one statement purges.
const PURGE_BATCH: i64 = 1_000;

/// A user whose session is good.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) user: String,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) permissions: Vec<String>,
}

/// What tokens are made of: the same again for the same refresh token.
#[derive(Clone, Debug)]
pub(crate) struct IssuedTokens {
    pub(crate) of: SignedIn,
    pub(crate) session: Uuid,
    /// The id of the refresh token.
    pub(crate) refresh: Uuid,
    pub(crate) issued_at: DateTime<Utc>,
    /// The number of the key that signs them.
    pub(crate) signed_by: i32,
}

/// The session to open, or the refresh token to issue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTokens {
    pub(crate) session: Uuid,
    pub(crate) refresh: Uuid,
    pub(crate) signed_by: i32,
    /// How long the refresh token is good.
    pub(crate) lifetime: Duration,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Opens a session for a user whose password was verified against this hash; `None` if that has changed since, or the user was
/// disabled or deleted.
pub(crate) async fn open(pool: &Pool, user: &str, verified: &str, new: NewTokens) -> Result<Option<IssuedTokens>> {
    let params: [&(dyn ToSql + Sync); 6] = [
        &user,
        &verified,
        &new.session,
        &new.refresh,
        &new.signed_by,
        &micros(new.lifetime),
    ];
    let Some(row) = pool.query_opt(OPEN, &params).await? else {
        return Ok(None);
    };
    let at = columns!(row; user_id, tenant_id, name, roles, permissions, issued_at)?;
    Ok(Some(IssuedTokens {
        of: SignedIn {
            user: row.get(at.user_id),
            tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
            name: row.get(at.name),
            roles: row.get(at.roles),
            permissions: row.get(at.permissions),
        },
        session: new.session,
        refresh: new.refresh,
        issued_at: row.get(at.issued_at),
        signed_by: new.signed_by,
    }))
}

/// What became of a refresh token that was used.
#[derive(Clone, Debug)]
pub(crate) enum RefreshUse {
    /// These tokens are good now; `is_repeat`: they were issued to an earlier use of the same one.
    Issued {
        tokens: IssuedTokens,
        is_repeat: bool,
    },
    Expired,
    /// It was used before: one of the two who have it is not its owner.
    Reused {
        user: String,
        tenant: TenantId,
    },
    /// The session was ended, or its user may not sign in any more.
    Ended,
}

/// Uses a refresh token. One that was used gets the same answer for `grace`.
pub(crate) async fn rotate(pool: &Pool, used: Uuid, new: NewTokens, grace: Duration) -> Result<RefreshUse> {
    let params: [&(dyn ToSql + Sync); 6] = [
        &new.session,
        &used,
        &new.refresh,
        &new.signed_by,
        &micros(new.lifetime),
        &micros(grace),
    ];
    let Some(row) = pool.query_opt(ROTATE, &params).await? else {
        return Ok(RefreshUse::Ended);
    };
    let at = columns!(row; verdict, current, issued_at, signed_by, user_id, tenant_id, name, roles, permissions)?;
    let (user, tenant) = (row.get(at.user_id), TenantId::new(row.get::<_, String>(at.tenant_id)));
    let verdict: &str = row.get(at.verdict);
    let is_repeat = match verdict {
        "rotated" => false,
        "repeated" => true,
        "expired" => return Ok(RefreshUse::Expired),
        "reused" => return Ok(RefreshUse::Reused { user, tenant }),
        _ => {
            return Err(Error::internal(
                "the use of a refresh token came to nothing that is known",
            ));
        }
    };
    let of = SignedIn {
        user,
        tenant,
        name: row.get(at.name),
        roles: row.get(at.roles),
        permissions: row.get(at.permissions),
    };
    let tokens = IssuedTokens {
        of,
        session: new.session,
        refresh: row.get(at.current),
        issued_at: row.get(at.issued_at),
        signed_by: row.get(at.signed_by),
    };
    Ok(RefreshUse::Issued { tokens, is_repeat })
}

/// Whose session this is, if it is good, at this revision.
pub(crate) async fn find(pool: &Pool, session: Uuid) -> Result<(i64, Option<SignedIn>)> {
    let row = pool.query_one(FIND, &[&session]).await?;
    let at = columns!(row; revision, user_id, tenant_id, name, roles, permissions)?;
    let user: Option<String> = row.get(at.user_id);
    let signed_in = user.map(|user| SignedIn {
        user,
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        name: row.get(at.name),
        roles: row.get(at.roles),
        permissions: row.get(at.permissions),
    });
    Ok((row.get(at.revision), signed_in))
}

impl IdentityChange {
    /// Ends a session; false: it has ended.
    pub(crate) async fn end_session(&self, session: Uuid) -> Result<bool> {
        Ok(!self.query(END, &[&session]).await?.is_empty())
    }
}

/// Deletes sessions and counts of attempts that have expired, batch by batch.
pub(crate) async fn purge(pool: &Pool) -> Result<()> {
    while pool.query_one(PURGE, &[&PURGE_BATCH]).await?.get::<_, i64>("purged") == PURGE_BATCH {}
    Ok(())
}
