//! Who shows a key or a token.

use super::applications::key_hash;
use super::tokens::{TokenRefusal, TokenUse};
use crate::Result;
use crate::identity::Caller;
use crate::runtime::engine::Engine;

impl Engine {
    /// The application that has this key. `None`: none has it, or it has expired.
    pub(crate) async fn caller_of_key(&self, key: &str) -> Result<Option<Caller>> {
        let Some(hash) = key_hash(key) else { return Ok(None) };
        let node = self.node()?;
        self.hear_of_callers()?;
        let holder = self.inner.known_callers.of_key(&node.database.pool, &hash).await?;
        let is_good = |until: Option<_>| until.is_none_or(|until| until > node.database_now());
        Ok(holder
            .filter(|holder| is_good(holder.expires_at))
            .map(|holder| Caller::clone(&holder.caller)))
    }

    /// The user whose access token this is, if it is good and its session has not ended.
    pub(crate) async fn caller_of_token(&self, token: &str) -> Result<Result<Caller, TokenRefusal>> {
        let claims = match self.read_user_token(token, TokenUse::Access).await? {
            Ok(claims) => claims,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let node = self.node()?;
        self.hear_of_callers()?;
        let caller = self
            .inner
            .known_callers
            .of_session(&node.database.pool, claims.sid)
            .await?;
        // A session is that of one user for ever.
        let caller = caller.filter(|caller| caller.id == claims.sub);
        Ok(caller.map(|caller| Caller::clone(&caller)).ok_or(TokenRefusal::Wrong))
    }

    /// Whether requests need a credential because there is, or was, a user or an application.
    pub(crate) async fn has_callers(&self) -> Result<bool> {
        let node = self.node()?;
        self.hear_of_callers()?;
        self.inner.known_callers.is_in_use(&node.database.pool).await
    }

    /// Forgets what the last check-in has shown to be outdated.
    fn hear_of_callers(&self) -> Result<()> {
        let revision = self.node()?.lifecycle.reports.borrow().check_in.identity;
        self.inner.known_callers.heard_of(revision);
        Ok(())
    }
}
