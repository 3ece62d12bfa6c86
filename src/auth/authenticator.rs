//! Who sends a request: its credential, asked of what can know it.

use std::sync::{Arc, Once};

use super::api_key::ApiKey;
use super::credential::{Credential, Refusal};
use super::issuers::Issuers;
use super::local_identity::LocalIdentity;
use crate::identity::Caller;

/// What can know a credential.
#[derive(Debug)]
enum Source {
    /// The key that the server was started with.
    StaticKey(ApiKey),
    /// Users and applications in the database.
    Local(LocalIdentity),
    /// OpenID providers.
    External(Issuers),
    /// The callers of a test, by their tokens.
    #[cfg(test)]
    Fixed(std::collections::HashMap<String, Caller>),
}

impl Source {
    /// `Ok(None)`: this source does not know the credential; another one may.
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Option<Caller>, Refusal> {
        match (self, credential) {
            (Self::StaticKey(key), Credential::ApiKey(text)) => Ok(key.is(text).then(Caller::static_key)),
            (Self::StaticKey(_), Credential::Bearer(_)) => Ok(None),
            (Self::Local(local), _) => local.authenticate(credential).await,
            (Self::External(issuers), Credential::Bearer(token)) => issuers.authenticate(token).await,
            (Self::External(_), Credential::ApiKey(_)) => Ok(None),
            #[cfg(test)]
            (Self::Fixed(_), Credential::Bearer("expired")) => Err(Refusal::Expired),
            #[cfg(test)]
            (Self::Fixed(known), Credential::Bearer(token)) => Ok(known.get(token).cloned()),
            #[cfg(test)]
            (Self::Fixed(_), Credential::ApiKey(_)) => Ok(None),
        }
    }

    /// Whether a request has to show a credential because of this source.
    async fn is_in_use(&self) -> Result<bool, Refusal> {
        match self {
            Self::StaticKey(_) | Self::External(_) => Ok(true),
            Self::Local(local) => local.is_in_use().await,
            #[cfg(test)]
            Self::Fixed(_) => Ok(true),
        }
    }
}

/// Finds out who sends a request. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticator {
    sources: Arc<Vec<Source>>,
}

impl Authenticator {
    /// The static key, the users and applications of the database, and OpenID providers, as far as there are any.
    pub(crate) fn new(key: Option<ApiKey>, local: Option<LocalIdentity>, issuers: Option<Issuers>) -> Self {
        let sources = [
            key.map(Source::StaticKey),
            local.map(Source::Local),
            issuers.map(Source::External),
        ];
        Self {
            sources: Arc::new(sources.into_iter().flatten().collect()),
        }
    }

    /// One that knows the callers of a test by their tokens, and the token `expired`.
    #[cfg(test)]
    pub(crate) fn of_callers(known: std::collections::HashMap<String, Caller>) -> Self {
        Self {
            sources: Arc::new(vec![Source::Fixed(known)]),
        }
    }

    /// Who has this credential. `Ok(None)`: no source knows it.
    pub(crate) async fn authenticate(&self, credential: Credential<'_>) -> Result<Option<Caller>, Refusal> {
        for source in self.sources.iter() {
            if let Some(caller) = source.authenticate(credential).await? {
                if matches!(source, Source::Local(_)) {
                    self.warn_of_static_key();
                }
                return Ok(Some(caller));
            }
        }
        Ok(None)
    }

    /// Once this process has met a user or an application, nothing needs the static key.
    fn warn_of_static_key(&self) {
        static WARNED: Once = Once::new();
        if self.sources.iter().any(|source| matches!(source, Source::StaticKey(_))) {
            WARNED.call_once(|| {
                tracing::warn!(
                    "the --api-key permits everything, and the audit does not tell who uses it; give each program a key of its \
                     own (`mainspring key add`), and start without it"
                );
            });
        }
    }

    /// Whether requests need a credential: there is a static key, a user, an application or a provider.
    pub(crate) async fn is_required(&self) -> Result<bool, Refusal> {
        for source in self.sources.iter() {
            if source.is_in_use().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    /// Whether a request with these headers has the static key.
    async fn has_key(values: &[&str]) -> bool {
        let authenticator = Authenticator::new(Some(ApiKey::new("s3cret")), None, None);
        match Credential::of(&headers(values)) {
            Ok(Some(credential)) => authenticator.authenticate(credential).await.unwrap().is_some(),
            Ok(None) | Err(_) => false,
        }
    }

    #[tokio::test]
    async fn only_the_whole_key_under_the_right_scheme_is_known() {
        for good in ["ApiKey s3cret", "apikey s3cret", "ApiKey  s3cret "] {
            assert!(has_key(&[good]).await, "{good}");
        }
        for bad in [
            "ApiKey s3cre",
            "ApiKey s3cret2",
            "ApiKey S3CRET",
            "Bearer s3cret",
            "s3cret",
            "ApiKey",
            "ApiKey ",
        ] {
            assert!(!has_key(&[bad]).await, "{bad}");
        }
        assert!(!has_key(&[]).await && !has_key(&["ApiKey wrong", "ApiKey s3cret"]).await);
    }

    #[tokio::test]
    async fn a_credential_is_needed_as_soon_as_there_is_one() {
        assert!(!Authenticator::default().is_required().await.unwrap());
        let with_key = Authenticator::new(Some(ApiKey::new("k")), None, None);
        assert!(with_key.is_required().await.unwrap());
    }
}
