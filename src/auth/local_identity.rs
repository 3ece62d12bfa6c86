//! The users and applications of the database: their tokens and keys.

use std::fmt;

use super::credential::{Credential, Refusal};
use crate::identity::Caller;
use crate::runtime::{Engine, TokenRefusal};

/// Checks tokens and keys that the cluster has given.
#[derive(Clone)]
pub(crate) struct LocalIdentity {
    engine: Engine,
}

impl LocalIdentity {
    /// Those of the database of an engine.
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// The user or application with this credential. `Ok(None)`: it is of another issuer, or no key of an application.
    pub(crate) async fn authenticate(&self, credential: Credential<'_>) -> Result<Option<Caller>, Refusal> {
        match credential {
            Credential::ApiKey(key) => self.engine.caller_of_key(key).await.map_err(Refusal::Unavailable),
            Credential::Bearer(token) => match self.engine.caller_of_token(token).await {
                Ok(Ok(caller)) => Ok(Some(caller)),
                Ok(Err(TokenRefusal::Foreign)) => Ok(None),
                Ok(Err(TokenRefusal::Expired)) => Err(Refusal::Expired),
                Ok(Err(TokenRefusal::WrongUse)) => Err(Refusal::WrongUse),
                Ok(Err(TokenRefusal::Wrong | TokenRefusal::Reused)) => Err(Refusal::Unknown),
                Err(error) => Err(Refusal::Unavailable(error)),
            },
        }
    }

    /// Whether there is or was a user or an application, so that a request needs a credential.
    pub(crate) async fn is_in_use(&self) -> Result<bool, Refusal> {
        self.engine.has_callers().await.map_err(Refusal::Unavailable)
    }
}

impl fmt::Debug for LocalIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalIdentity").finish_non_exhaustive()
    }
}
