//! OpenID issuers whose tokens are taken.

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::credential::Refusal;
use crate::Error;
use crate::identity::{Caller, CallerKind, Permissions};
use crate::openid::{DatabaseTime, ExternalUser, Issuer, IssuerList, TokenProblem, issuer_of};
use crate::outgoing::OutgoingClient;
use crate::refusals::Refusals;

/// The issuers of the settings. Clones are the same; the last one ends what reads their keys.
#[derive(Clone)]
pub(crate) struct Issuers(Arc<Shared>);

struct Shared {
    issuers: Vec<Arc<Issuer>>,
    refused: Refusals,
    /// What reads documents and keys.
    _readers: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.issuers).finish()
    }
}

impl Issuers {
    /// Begins to read the issuers. `None`: there are none. Call it within a runtime.
    pub(crate) fn start(list: &IssuerList, client: &OutgoingClient, time: &DatabaseTime) -> Option<Self> {
        let client = client.for_named_servers();
        let mut readers = JoinSet::new();
        let issuers: Vec<Arc<Issuer>> = list
            .iter()
            .map(|options| {
                let issuer = Arc::new(Issuer::new(options.clone(), client.clone(), Arc::clone(time)));
                readers.spawn(Arc::clone(&issuer).keep_read());
                issuer
            })
            .collect();
        (!issuers.is_empty()).then(|| {
            Self(Arc::new(Shared {
                issuers,
                refused: Refusals::default(),
                _readers: Mutex::new(readers),
            }))
        })
    }

    /// The caller with this token. `Ok(None)`: none of these issuers has made it.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Option<Caller>, Refusal> {
        let named = issuer_of(token);
        let issuer = self
            .0
            .issuers
            .iter()
            .find(|issuer| Some(issuer.url()) == named.as_deref());
        let Some(issuer) = issuer else { return Ok(None) };
        match issuer.user_of(token).await {
            Ok(user) => Ok(Some(caller(user))),
            Err(problem) => Err(self.refuse(issuer, problem)),
        }
    }

    /// The log says why, at intervals: the caller learns only that the token is not taken.
    fn refuse(&self, issuer: &Issuer, problem: TokenProblem) -> Refusal {
        if problem != TokenProblem::Expired
            && let Some(refused) = self.0.refused.count()
        {
            tracing::warn!(
                issuer = issuer.name(),
                refused,
                %problem,
                "tokens of an OpenID issuer were refused; the reason is that of the last one"
            );
        }
        match problem {
            TokenProblem::Expired => Refusal::Expired,
            TokenProblem::WrongUse(_) => Refusal::WrongUse,
            TokenProblem::Unavailable(problem) => {
                let message = format!("tokens of {} cannot be verified now: {problem}", issuer.name());
                Refusal::Unavailable(Error::unavailable("issuer-away", message))
            }
            _ => Refusal::Unknown,
        }
    }

    /// Those that a browser can sign in with.
    pub(crate) fn with_sign_in(&self) -> impl Iterator<Item = &Issuer> {
        let all = self.0.issuers.iter().map(Arc::as_ref);
        all.filter(|issuer| issuer.signs_in())
    }

    /// The issuer with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Issuer> {
        self.0
            .issuers
            .iter()
            .map(Arc::as_ref)
            .find(|issuer| issuer.name() == name)
    }

    /// The names of those that are away, and why.
    pub(crate) fn away(&self) -> impl Iterator<Item = (&str, String)> {
        let all = self.0.issuers.iter();
        all.filter_map(|issuer| Some((issuer.name(), issuer.problem()?)))
    }
}

fn caller(user: ExternalUser) -> Caller {
    Caller {
        kind: CallerKind::External { issuer: user.issuer },
        id: user.id,
        name: user.name,
        tenant: user.tenant,
        permissions: Permissions::of(user.permissions.into_iter()),
        session: user.session,
    }
}
