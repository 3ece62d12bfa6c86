//! An issuer, as settings describe it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reqwest::Url;

use crate::{Error, Result};

/// The longest leeway.
const LONGEST_LEEWAY: Duration = Duration::from_secs(300);

/// The longest name of an issuer.
const LONGEST_NAME: usize = 40;

/// An OpenID Connect issuer whose tokens are taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IssuerOptions {
    /// A short name, unique in the settings, which is a part of URLs: letters, digits and hyphens.
    pub name: String,
    /// What people read on the button that signs in. Default: the name.
    pub display_name: Option<String>,
    /// The issuer: `iss` of its tokens, exactly, and where its document is, below `/.well-known/openid-configuration`.
    pub issuer: String,
    /// The values of `aud` that are taken; any one suffices.
    pub audiences: Vec<String>,
    /// By how much the clock of the issuer may differ from that of the database, at most 5 minutes. Default: 60 s.
    pub leeway: Duration,
    /// The claim with the name of a person, or the members that lead to it. Default: the first of `name`, `preferred_username`,
    /// `upn`, `email` and `sub` that is there.
    pub name_claim: Option<Vec<String>>,
    /// The tenant of all its users. Default: the default tenant.
    pub tenant: String,
    /// The claim with the tenant of a user, instead; a token without it is refused.
    pub tenant_claim: Option<Vec<String>>,
    /// What every user of this issuer may do.
    pub everyone: Vec<String>,
    /// What the claims of a token allow, besides.
    pub grants: Vec<ClaimGrant>,
    /// How Studio signs in with it. Default: it does not.
    pub sign_in: Option<CodeFlowOptions>,
}

/// Permissions that follow from a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimGrant {
    /// The claim, or the members that lead to it: `["realm_access", "roles"]`. Its value is a text or a list of texts; that of
    /// `scope` and `scp` may also be several with spaces.
    pub claim: Vec<String>,
    /// The permissions of each value. `None`: the values are permissions.
    pub values: Option<BTreeMap<String, Vec<String>>>,
}

impl ClaimGrant {
    /// What the values of a claim allow.
    pub fn new(claim: Vec<String>, values: Option<BTreeMap<String, Vec<String>>>) -> Self {
        Self { claim, values }
    }
}

/// Sign-in of Studio by the code flow with PKCE.
#[derive(Clone)]
#[non_exhaustive]
pub struct CodeFlowOptions {
    /// What the issuer calls this program.
    pub client_id: String,
    /// The secret of a confidential client.
    pub client_secret: Option<String>,
    /// What is asked for. Default: `openid`, `profile` and `offline_access`.
    pub scopes: Vec<String>,
    /// Further parameters of the request for a code, such as `audience` for Auth0.
    pub parameters: BTreeMap<String, String>,
    /// Which token requests are sent with. Default: the access token.
    pub bearer: BearerToken,
}

/// Which token of an answer is sent with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BearerToken {
    /// The access token, which has to be a signed one for an audience of the settings.
    #[default]
    Access,
    /// The identity token, for issuers whose access tokens only they can read. Its audience is the client.
    Identity,
}

impl CodeFlowOptions {
    /// A public client with this id.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            client_secret: None,
            scopes: ["openid", "profile", "offline_access"].map(str::to_owned).into(),
            parameters: BTreeMap::new(),
            bearer: BearerToken::Access,
        }
    }
}

impl fmt::Debug for CodeFlowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeFlowOptions")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

impl IssuerOptions {
    /// An issuer whose tokens for an audience are taken, and allow nothing yet.
    pub fn new(name: impl Into<String>, issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            display_name: None,
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            leeway: Duration::from_secs(60),
            name_claim: None,
            tenant: String::new(),
            tenant_claim: None,
            everyone: Vec::new(),
            grants: Vec::new(),
            sign_in: None,
        }
    }

    /// What people call it.
    pub(crate) fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Whether an identity token is what requests are sent with.
    pub(crate) fn takes_identity_tokens(&self) -> bool {
        let bearer = self.sign_in.as_ref().map(|options| options.bearer);
        bearer == Some(BearerToken::Identity)
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// `invalid-settings`.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |problem: String| {
            let message = format!("the OpenID issuer {:?} cannot be used: {problem}", self.name);
            Err(Error::invalid("invalid-settings", message))
        };
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        if self.name.is_empty() || self.name.len() > LONGEST_NAME || !self.name.chars().all(is_plain) {
            return wrong(format!("its name needs 1 to {LONGEST_NAME} letters, digits or hyphens"));
        }
        if let Err(problem) = endpoint(&self.issuer, None) {
            return wrong(format!("its issuer {problem}"));
        }
        if self.issuer.contains(['?', '#', '{']) {
            return wrong(
                "its issuer has a query or a placeholder; give the exact URL of one tenant, as it is in `iss`"
                    .to_owned(),
            );
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            return wrong(
                "it has no audience, so a token for any other program would be taken; list the values of `aud`"
                    .to_owned(),
            );
        }
        if self.leeway > LONGEST_LEEWAY {
            return wrong(format!("its leeway is longer than {LONGEST_LEEWAY:?}"));
        }
        let paths = self.grants.iter().map(|grant| &grant.claim);
        let mut paths = paths.chain(&self.name_claim).chain(&self.tenant_claim);
        if paths.any(|path| path.is_empty() || path.iter().any(String::is_empty)) {
            return wrong("a claim has no name".to_owned());
        }
        if self.tenant_claim.is_some() && !self.tenant.is_empty() {
            return wrong("it has both a tenant and a claim with the tenant; give one of them".to_owned());
        }
        if let Some(sign_in) = &self.sign_in {
            if sign_in.client_id.is_empty() {
                return wrong("its sign-in has no client id".to_owned());
            }
            if !sign_in.scopes.iter().any(|scope| scope == "openid") {
                return wrong(
                    "its sign-in lacks the scope openid, without which there is no identity token".to_owned(),
                );
            }
            if let Some(name) = sign_in.parameters.keys().find(|name| RESERVED.contains(&name.as_str())) {
                return wrong(format!(
                    "its sign-in sets the parameter {name}, which the flow sets itself"
                ));
            }
        }
        Ok(())
    }
}

/// Parameters that the code flow sets itself.
const RESERVED: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "response_mode",
];

/// A URL of an issuer: over TLS, or of this machine, or as open as the issuer itself (`of`) is.
/// Errors: What is wrong with it, without quoting it.
pub(super) fn endpoint(text: &str, of: Option<&Url>) -> std::result::Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| url.has_host());
    let url = url.ok_or("is no URL with a host")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user or a password".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_matches(['[', ']']);
    let is_local = host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let is_open = is_local && of.is_none_or(|issuer| issuer.scheme() == "http");
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_open => Ok(url),
        _ => Err("does not begin with https://, so that others could read and change what it sends".to_owned()),
    }
}

/// Issuers that can be used: each is whole, and no two have one name or one URL.
#[derive(Clone, Debug, Default)]
pub struct IssuerList(Vec<IssuerOptions>);

impl IssuerList {
    /// Checks the issuers.
    ///
    /// # Errors
    /// `invalid-settings`, with the name of the issuer.
    pub fn new(issuers: Vec<IssuerOptions>) -> Result<Self> {
        for (place, issuer) in issuers.iter().enumerate() {
            issuer.check()?;
            let mut earlier = issuers.iter().take(place);
            if earlier.any(|other| other.name == issuer.name || other.issuer == issuer.issuer) {
                let message = format!(
                    "the OpenID issuer {:?} is there twice, by its name or its URL",
                    issuer.name
                );
                return Err(Error::invalid("invalid-settings", message));
            }
        }
        Ok(Self(issuers))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &IssuerOptions> {
        self.0.iter()
    }
}
