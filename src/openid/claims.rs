//! What the claims of a verified token come to: a user with permissions.

use serde_json::{Map, Value};

use super::options::IssuerOptions;
use super::token_problem::TokenProblem;
use crate::id::TenantId;

/// The longest id or name of a user, in bytes.
const LONGEST: usize = 500;

/// Claims with the name of a person, the best first.
const NAMES: [&str; 5] = ["name", "preferred_username", "upn", "email", "sub"];

/// Claims whose one text is a list with spaces (RFC 8693, and Entra).
const SPACED: [&str; 2] = ["scope", "scp"];

/// Values of the claim `typ` of tokens that are not for requests, as Keycloak writes them.
const OTHER_USES: [&str; 4] = ["refresh", "offline", "logout", "id"];

/// A user of an issuer, as a token shows one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalUser {
    /// `iss`.
    pub(crate) issuer: String,
    /// `sub`, which is unique at the issuer.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) tenant: TenantId,
    /// Names of permissions, in the order of the settings.
    pub(crate) permissions: Vec<String>,
    /// `sid`: the session at the issuer.
    pub(crate) session: Option<String>,
}

impl ExternalUser {
    /// Reads the claims of a token whose signature, audience and times are good.
    pub(super) fn of(options: &IssuerOptions, claims: &Map<String, Value>) -> Result<Self, TokenProblem> {
        check_use(options, claims)?;
        let id = text(claims, "sub")?.ok_or_else(|| TokenProblem::malformed("the claim `sub` is missing"))?;
        let tenant = match &options.tenant_claim {
            None => options.tenant.clone(),
            Some(path) => match find(claims, path) {
                // The default tenant has what all others share: no claim leads there by being empty.
                Some(Value::String(tenant)) if tenant.trim().is_empty() || tenant.trim() != tenant => {
                    return Err(wrong_type(path, "empty, or has white space around it"));
                }
                Some(Value::String(tenant)) => plain(tenant, path)?,
                Some(_) => return Err(wrong_type(path, "no text")),
                None => return Err(TokenProblem::malformed(format!("the claim {} is missing", shown(path)))),
            },
        };
        Ok(Self {
            issuer: options.issuer.clone(),
            name: name(options, claims)?.unwrap_or_else(|| id.clone()),
            id,
            tenant: TenantId::from(tenant),
            permissions: permissions(options, claims)?,
            session: text(claims, "sid")?,
        })
    }
}

/// Refuses a token of another kind: what signs a person in is not what requests are sent with, unless the settings say so.
fn check_use(options: &IssuerOptions, claims: &Map<String, Value>) -> Result<(), TokenProblem> {
    let kind = claims.get("typ").and_then(Value::as_str).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let of_identity = kind == "id" || claims.contains_key("at_hash") || claims.contains_key("c_hash");
    if of_identity && options.takes_identity_tokens() {
        return Ok(());
    }
    if of_identity || OTHER_USES.contains(&kind.as_str()) || claims.contains_key("events") {
        let problem = "it is an identity, refresh or logout token, and no access token";
        return Err(TokenProblem::WrongUse(problem.to_owned()));
    }
    Ok(())
}

fn permissions(options: &IssuerOptions, claims: &Map<String, Value>) -> Result<Vec<String>, TokenProblem> {
    let mut all: Vec<String> = options.everyone.clone();
    for grant in &options.grants {
        for value in values(claims, &grant.claim)? {
            match &grant.values {
                None => all.push(value.to_owned()),
                Some(table) => all.extend(table.get(value).into_iter().flatten().cloned()),
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|one| seen.insert(one.clone()));
    Ok(all)
}

/// The values of a claim; none if it is absent.
fn values<'c>(claims: &'c Map<String, Value>, path: &[String]) -> Result<Vec<&'c str>, TokenProblem> {
    let is_spaced = matches!(path, [name] if SPACED.contains(&name.as_str()));
    match find(claims, path) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) if is_spaced => Ok(text.split_whitespace().collect()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(items)) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| wrong_type(path, "a list of other things than texts"))
        }
        Some(_) => Err(wrong_type(path, "neither a text nor a list of texts")),
    }
}

/// What is at the end of a path of members; null counts as absent.
fn find<'c>(claims: &'c Map<String, Value>, path: &[String]) -> Option<&'c Value> {
    let (first, rest) = path.split_first()?;
    let mut value = claims.get(first)?;
    for name in rest {
        value = value.get(name)?;
    }
    (!value.is_null()).then_some(value)
}

fn name(options: &IssuerOptions, claims: &Map<String, Value>) -> Result<Option<String>, TokenProblem> {
    if let Some(path) = &options.name_claim {
        return match find(claims, path) {
            Some(Value::String(name)) => plain(name, path).map(Some),
            Some(_) => Err(wrong_type(path, "no text")),
            None => Ok(None),
        };
    }
    let found = NAMES.iter().find_map(|name| text(claims, name).transpose());
    found.transpose()
}

/// A claim that is a text; an empty one counts as absent.
fn text(claims: &Map<String, Value>, name: &str) -> Result<Option<String>, TokenProblem> {
    let path = [name.to_owned()];
    match find(claims, &path) {
        None => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => plain(text, &path).map(Some),
        Some(_) => Err(wrong_type(&path, "no text")),
    }
}

/// A text that may be written to rows and logs.
fn plain(text: &str, path: &[String]) -> Result<String, TokenProblem> {
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(wrong_type(path, "too long, or has control characters"));
    }
    Ok(text.to_owned())
}

fn wrong_type(path: &[String], what: &str) -> TokenProblem {
    TokenProblem::malformed(format!("the claim {} is {what}", shown(path)))
}

fn shown(path: &[String]) -> String {
    format!("`{}`", path.join("."))
}
