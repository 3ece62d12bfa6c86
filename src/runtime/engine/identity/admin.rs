//! Changes of users, roles and applications.
//!
//! # Invariants
//!
//! - No caller gives away what it lacks, by any route: the roles of a user or an application before and after a change, and the
//!   permissions of a role before and after it, are all within what the caller may do. So no caller sets the password of a greater
//!   user either. It is decided within the transaction of the change.
//! - Nothing that is answered has a hash. A password or a key that was made is answered once.

use std::sync::Arc;

use uuid::Uuid;

use super::names;
use crate::db::Pool;
use crate::id::TenantId;
use crate::identity::{Caller, CallerKind, Permissions, RequestOrigin};
use crate::runtime::context::known_callers::KnownCallers;
use crate::runtime::context::settings::AdminPassword;
use crate::runtime::engine::{Engine, connector};
use crate::store::audit::RequestNote;
use crate::store::identity::{Added, IdentityChange};
use crate::{Error, Result, db};

/// The name and the role of the user that settings add.
const ADMINISTRATOR: &str = "admin";

/// What manages the users, roles and applications of a tenant.
#[derive(Clone)]
pub(crate) struct IdentityAdmin {
    pub(super) pool: Pool,
    pub(super) tenant: TenantId,
    /// What the node remembers of callers; `None` without a node.
    known: Option<Arc<KnownCallers>>,
    /// Who sends the request; `None` without one.
    caller: Option<Arc<Caller>>,
}

impl Engine {
    /// Manages the users, roles and applications of the tenant.
    pub(crate) fn identity(&self) -> Result<IdentityAdmin> {
        let node = self.accepting()?;
        Ok(IdentityAdmin {
            pool: self.changes(&node),
            tenant: self.tenant.clone(),
            known: Some(Arc::clone(&self.inner.known_callers)),
            caller: self.origin.as_ref().map(|origin| Arc::clone(&origin.caller)),
        })
    }
}

impl Engine {
    /// Adds the user `admin` if the settings have a password for it and there is no user.
    pub(in crate::runtime::engine) async fn add_first_administrator(&self) -> Result<()> {
        let Some(AdminPassword(password)) = &self.inner.settings.admin_password else {
            return Ok(());
        };
        let is_added = self
            .identity()?
            .add_first_user(ADMINISTRATOR, password, ADMINISTRATOR)
            .await?;
        if is_added {
            tracing::info!(
                user = ADMINISTRATOR,
                "the first administrator was added; its password is that of the settings"
            );
        }
        Ok(())
    }
}

impl IdentityAdmin {
    /// The same without a node: nodes know of a change when they have checked in. The audit notes a change as one of this
    /// command, such as `mainspring user add`, with this target.
    /// Errors: `invalid-identity` for the name of a tenant that is none, and those of a connection.
    pub(crate) async fn connect(
        database_url: &str,
        schema: &str,
        tenant: &str,
        command: &str,
        target: &str,
    ) -> Result<Self> {
        names::check_tenant(tenant)?;
        let connector = connector(database_url, schema)?;
        db::migrate::verify(&connector).await?;
        let tenant = TenantId::from(tenant);
        let mut origin = RequestOrigin::new(Arc::new(Caller::command()), None, "", command);
        target.clone_into(&mut origin.target);
        let note = RequestNote::new(&Arc::new(origin), &tenant, None);
        Ok(Self {
            pool: Pool::new(&connector, 1)?.beside(Arc::new(note)),
            tenant,
            known: None,
            caller: None,
        })
    }

    pub(super) async fn begin(&self) -> Result<IdentityChange> {
        let change = IdentityChange::begin(&self.pool, &self.tenant).await?;
        // Without a node it may be the first change of its tenant: a caller of the API is of a tenant that has roles.
        if self.known.is_none() {
            change.copy_first_roles().await?;
        }
        match self.check_caller(&change).await {
            Ok(()) => Ok(change),
            Err(error) => self.end(change, Err(error)).await,
        }
    }

    /// Fails unless the caller may still do what it could when its request began, whose body may have come long after: no other
    /// change is under way now.
    async fn check_caller(&self, change: &IdentityChange) -> Result<()> {
        let Some(caller) = &self.caller else { return Ok(()) };
        let now = match (&caller.kind, &caller.session) {
            (CallerKind::User, Some(session)) => change.permissions_now(Uuid::parse_str(session).ok(), None).await?,
            (CallerKind::Application, _) => change.permissions_now(None, Some(&caller.id)).await?,
            _ => return Ok(()),
        };
        let now = now.map(|now| Permissions::of(now.into_iter()));
        match now.is_some_and(|now| now.covers(&caller.permissions)) {
            true => Ok(()),
            false => Err(Error::forbidden(
                "caller-changed",
                "what this credential may do was changed while the request came in; send it again",
            )),
        }
    }

    /// Commits what was done, or rolls it back where that failed.
    pub(super) async fn end<T>(&self, change: IdentityChange, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) => {
                let revision = change.commit().await?;
                if let Some(known) = &self.known {
                    known.heard_of(revision);
                }
                Ok(done)
            }
            Err(error) => {
                if let Err(error) = change.roll_back().await {
                    tracing::debug!(%error, "a change of users was not rolled back; its connection is closed");
                }
                Err(error)
            }
        }
    }
}

/// Fails unless all these roles exist, and `by` has all that they permit.
pub(super) async fn check_roles(change: &IdentityChange, by: &Permissions, roles: &[String]) -> Result<()> {
    let found = change.permissions_of(roles).await?;
    if let Some(unknown) = found.unknown.first() {
        let message = format!("there is no role {unknown:?}; GET /identity/roles lists them");
        return Err(Error::invalid("role-not-found", message).field("roles", "names a role that does not exist"));
    }
    check_covered(by, found.permissions)
}

/// Fails unless `by` has all these permissions.
pub(super) fn check_covered(by: &Permissions, permissions: Vec<String>) -> Result<()> {
    let missing = permissions.into_iter().find(|permission| {
        let one = Permissions::of(std::iter::once(permission.clone()));
        !by.covers(&one)
    });
    match missing {
        None => Ok(()),
        Some(missing) => Err(Error::forbidden(
            "more-than-own-permissions",
            format!("this needs all permissions that it gives, changes or takes; the caller does not have {missing:?}"),
        )),
    }
}

/// The error of what was not added.
pub(super) fn added(added: Added, taken: impl FnOnce() -> Error, full: impl FnOnce() -> Error) -> Result<()> {
    match added {
        Added::Now => Ok(()),
        Added::Taken => Err(taken()),
        Added::Full => Err(full()),
    }
}
