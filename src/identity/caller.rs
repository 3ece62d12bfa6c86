//! The caller of a request: what a credential, or its absence, comes to.

use super::permission::{Permission, Permissions};
use crate::id::TenantId;

/// What vouches for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// No credential is configured: each request may do everything.
    Anonymous,
    /// The static key of the server.
    ApiKey,
    /// The key of an application.
    Application,
    /// A token that the cluster gave to a user.
    User,
    /// A command of the program, which has the database.
    Command,
    /// A token of another issuer, by its URL.
    External {
        /// The `iss` of the token.
        issuer: String,
    },
}

impl CallerKind {
    /// The issuer of the token; empty of what is of this cluster.
    pub(crate) fn issuer(&self) -> &str {
        match self {
            Self::External { issuer } => issuer,
            _ => "",
        }
    }

    /// The word for it in the audit.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::ApiKey => "api-key",
            Self::Application => "application",
            Self::User => "user",
            Self::Command => "command",
            Self::External { .. } => "external",
        }
    }
}

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) kind: CallerKind,
    /// The id of the user or application, or the `sub` of a token; empty for the others.
    pub(crate) id: String,
    /// The name that people know the caller by.
    pub(crate) name: String,
    /// The tenant whose rows the caller reads and writes. It comes from the credential only.
    pub(crate) tenant: TenantId,
    pub(crate) permissions: Permissions,
    /// The family of tokens that the caller signed in with.
    pub(crate) session: Option<String>,
}

impl Caller {
    /// The caller of a server without any credential configured.
    pub(crate) fn anonymous() -> Self {
        Self::with_everything(CallerKind::Anonymous, "")
    }

    /// The holder of the static key.
    pub(crate) fn static_key() -> Self {
        Self::with_everything(CallerKind::ApiKey, "API key")
    }

    /// A command of the program.
    pub(crate) fn command() -> Self {
        Self::with_everything(CallerKind::Command, "command")
    }

    fn with_everything(kind: CallerKind, name: &str) -> Self {
        Self {
            kind,
            id: String::new(),
            name: name.to_owned(),
            tenant: TenantId::default(),
            permissions: Permissions::everything(),
            session: None,
        }
    }

    /// Whether the caller has one of these permissions, and is of the tenant that can use it.
    pub(crate) fn may(&self, any_of: &[Permission]) -> bool {
        let is_usable = |one: &Permission| !one.is_cluster_wide() || self.tenant == TenantId::default();
        let mut has = any_of.iter().filter(|one| is_usable(one));
        has.any(|one| self.permissions.allows(&[*one]))
    }

    /// Whether no credential is configured.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.kind == CallerKind::Anonymous
    }
}
