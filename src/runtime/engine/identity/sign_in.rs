//! Signing in: a password for a pair of tokens, and a refresh token for another pair.

use std::time::Duration;

use uuid::Uuid;

use super::names;
use super::tokens::{self, TokenRefusal, TokenUse, UnverifiedToken};
use crate::id::TenantId;
use crate::identity::Caller;
use crate::refusals::Refusals;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::password_hasher::{self, Verified};
use crate::runtime::engine::Engine;
use crate::store::identity::IdentityChange;
use crate::store::identity::attempt::LoginAttempt;
use crate::store::identity::session::{self, IssuedTokens, NewTokens, RefreshUse};
use crate::store::identity::user::{self, SignInRow};
use crate::{Error, Result};

/// How long the use of a refresh token may be repeated: its answer may have been lost.
const GRACE: Duration = Duration::from_secs(30);

/// The longest name that is looked for, in bytes.
const LONGEST_NAME: usize = 255;

/// A password for tokens.
#[derive(Clone)]
pub(crate) struct SignInRequest {
    pub(crate) name: String,
    pub(crate) password: String,
    /// Where it comes from.
    pub(crate) client: Option<String>,
}

/// The tokens of a session.
#[derive(Clone)]
pub(crate) struct TokenPair {
    pub(crate) access: String,
    pub(crate) refresh: String,
    /// Of the user.
    pub(crate) name: String,
    pub(crate) tenant: TenantId,
}

/// What became of a password.
pub(crate) enum SignedInOutcome {
    Tokens(TokenPair),
    /// Name or password are wrong, or the user is disabled: an answer does not say which.
    Wrong,
    /// Too many attempts have failed; the next one may succeed after so long.
    TooMany(Duration),
}

enum CheckedPassword {
    Right(SignInRow),
    Wrong,
    TooMany(Duration),
}

/// Counts passwords and refresh tokens that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedSignIns(Refusals);

impl RefusedSignIns {
    fn note(&self, reason: &'static str, client: Option<&str>) {
        metrics::counter!("mainspring_sign_ins_refused_total", "reason" => reason).increment(1);
        if let Some(refused) = self.0.count() {
            let client = client.unwrap_or("unknown");
            tracing::warn!(
                client,
                reason,
                refused,
                "users could not sign in; the client is that of the last one"
            );
        }
    }
}

impl Engine {
    /// Signs in. Errors: `logins-busy`.
    pub(crate) async fn sign_in(&self, request: SignInRequest) -> Result<SignedInOutcome> {
        let node = self.accepting()?;
        // As Elsa does with both.
        let (name, password) = (request.name.trim(), request.password.trim());
        let client = request.client.as_deref();
        let checked = self.check_password(&node, name, password, client).await?;
        let opened = match checked {
            CheckedPassword::Right(user) => self.open_session(&node, &user).await?,
            CheckedPassword::Wrong => None,
            CheckedPassword::TooMany(left) => {
                self.inner.refused_sign_ins.note("too-many", client);
                return Ok(SignedInOutcome::TooMany(left));
            }
        };
        Ok(match opened {
            Some(tokens) => SignedInOutcome::Tokens(tokens),
            None => {
                self.inner.refused_sign_ins.note("wrong", client);
                SignedInOutcome::Wrong
            }
        })
    }

    /// Whether a user with this name has this password, as far as attempts are left.
    async fn check_password(
        &self,
        node: &NodeContext,
        name: &str,
        password: &str,
        client: Option<&str>,
    ) -> Result<CheckedPassword> {
        let pool = &node.database.pool;
        let is_possible = !name.is_empty() && name.len() <= LONGEST_NAME;
        if !is_possible || password.is_empty() || password.len() > names::LONGEST_PASSWORD {
            return Ok(CheckedPassword::Wrong);
        }
        let attempt = LoginAttempt::new(name, client);
        if let Some(left) = attempt.count(pool).await? {
            return Ok(CheckedPassword::TooMany(left));
        }
        let found = user::find_for_sign_in(pool, name)
            .await?
            .filter(|user| !user.is_disabled);
        let verified =
            password_hasher::verify(password, found.as_ref().map(|user| user.password_hash.as_str())).await?;
        let Some(mut user) = found.filter(|_| verified != Verified::Wrong) else {
            return Ok(CheckedPassword::Wrong);
        };
        if let Verified::Outdated(hash) = verified {
            user::rehash(pool, &user.id, &user.password_hash, &hash).await?;
            user.password_hash = hash;
        }
        // The password is right; only the count of failures is not taken back.
        if let Err(error) = attempt.succeeded(pool).await {
            tracing::debug!(%error, "the count of failed logins stays as it is");
        }
        Ok(CheckedPassword::Right(user))
    }

    /// Gives a user another password, who shows the one that is good: no permission is needed for that. `Some`: too many
    /// attempts have failed, for so long. Errors: `wrong-password`, `invalid-identity`, `logins-busy`.
    pub(crate) async fn change_own_password(
        &self,
        by: &Caller,
        current: &str,
        password: &str,
    ) -> Result<Option<Duration>> {
        names::check_password(password)?;
        let node = self.accepting()?;
        let checked = self
            .check_password(&node, &by.name, current.trim(), Some(&by.id))
            .await?;
        let is_changed = match checked {
            CheckedPassword::TooMany(left) => return Ok(Some(left)),
            CheckedPassword::Right(user) if user.id == by.id => {
                let admin = self.identity()?;
                admin.set_password(by, &user.password_hash, password).await?
            }
            _ => false,
        };
        match is_changed {
            true => Ok(None),
            false => {
                let error = Error::forbidden("wrong-password", "the current password is another one");
                Err(error.field("currentPassword", "is another one"))
            }
        }
    }

    /// `None`: the user was changed meanwhile.
    async fn open_session(&self, node: &NodeContext, user: &SignInRow) -> Result<Option<TokenPair>> {
        let new = self.new_tokens(Uuid::new_v4())?;
        let opened = session::open(&node.database.pool, &user.id, &user.password_hash, new).await?;
        match opened {
            Some(tokens) => self.write_tokens(tokens).await.map(Some),
            None => Ok(None),
        }
    }

    fn new_tokens(&self, session: Uuid) -> Result<NewTokens> {
        Ok(NewTokens {
            session,
            refresh: Uuid::new_v4(),
            signed_by: self.inner.token_keys.signing()?.id,
            lifetime: self.inner.settings.token_lifetimes.refresh,
        })
    }

    async fn write_tokens(&self, tokens: IssuedTokens) -> Result<TokenPair> {
        let key = self.known_key(tokens.signed_by).await?.ok_or_else(|| {
            Error::unavailable(
                "no-token-key",
                "the key that signs these tokens was ended just now; try again",
            )
        })?;
        let (access, refresh) = tokens::write_pair(&key, &tokens, self.inner.settings.token_lifetimes)?;
        Ok(TokenPair {
            access,
            refresh,
            name: tokens.of.name,
            tenant: tokens.of.tenant,
        })
    }

    /// Uses a refresh token, once. A repeat within 30 s gets the same pair; a later one ends the session, as one of two who have the
    /// token is not its owner.
    pub(crate) async fn refresh_tokens(
        &self,
        token: &str,
        client: Option<&str>,
    ) -> Result<Result<TokenPair, TokenRefusal>> {
        let refreshed = self.refresh(token, client).await?;
        if let Err(refusal) = &refreshed {
            let reason = match refusal {
                TokenRefusal::Foreign | TokenRefusal::Wrong => "wrong",
                TokenRefusal::Expired => "expired",
                TokenRefusal::WrongUse => "wrong-use",
                TokenRefusal::Reused => "reused",
            };
            self.inner.refused_sign_ins.note(reason, client);
        }
        Ok(refreshed)
    }

    async fn refresh(&self, token: &str, client: Option<&str>) -> Result<Result<TokenPair, TokenRefusal>> {
        let claims = match self.read_user_token(token, TokenUse::Refresh).await? {
            Ok(claims) => claims,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let node = self.accepting()?;
        let pool = &node.database.pool;
        let used = session::rotate(pool, claims.jti, self.new_tokens(claims.sid)?, GRACE).await?;
        Ok(match used {
            RefreshUse::Issued { tokens, is_repeat } => {
                tracing::debug!(session = %tokens.session, is_repeat, "a refresh token was used");
                Ok(self.write_tokens(tokens).await?)
            }
            RefreshUse::Expired => Err(TokenRefusal::Expired),
            RefreshUse::Ended => Err(TokenRefusal::Wrong),
            RefreshUse::Reused { user, tenant } => {
                tracing::warn!(user, "a refresh token was used a second time; its session is ended");
                self.for_tenant(tenant.clone()).note_reuse(&user, client).await;
                self.end_session_of(&tenant, claims.sid).await?;
                Err(TokenRefusal::Reused)
            }
        })
    }

    /// Signs out: the tokens of the session are good no more, at other nodes one check-in later. One that has ended stays so.
    pub(crate) async fn sign_out(&self, session: &str) -> Result<()> {
        match Uuid::parse_str(session) {
            Ok(session) => self.end_session_of(&self.tenant, session).await,
            Err(_) => Ok(()),
        }
    }

    async fn end_session_of(&self, tenant: &TenantId, session: Uuid) -> Result<()> {
        let change = IdentityChange::begin(&self.changes(&*self.accepting()?), tenant).await?;
        if !change.end_session(session).await? {
            // Nothing is to be heard of at any node.
            return change.roll_back().await;
        }
        let revision = change.commit().await?;
        self.inner.known_callers.heard_of(revision);
        Ok(())
    }

    /// What a token of this cluster says.
    pub(super) async fn read_user_token(
        &self,
        text: &str,
        token_use: TokenUse,
    ) -> Result<Result<tokens::Claims, TokenRefusal>> {
        let Some(token) = UnverifiedToken::parse(text) else {
            return Ok(Err(TokenRefusal::Foreign));
        };
        // Neither a forged token nor one of an ended key costs a statement.
        let Some(key) = self.known_key(token.key).await? else {
            return Ok(Err(TokenRefusal::Wrong));
        };
        token.read(&key, token_use, self.node()?.database_now())
    }
}
