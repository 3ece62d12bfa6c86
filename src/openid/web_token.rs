//! A signed token (RFC 7515, 7519): its parts, and what is checked of them before its claims count.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::token_problem::TokenProblem;
use super::web_key::SignatureAlgorithm;

/// The longest token, in bytes. Larger ones do not pass most servers either.
const LONGEST: usize = 16 << 10;

/// Kinds of tokens in the header that may be sent with a request, or be an identity token. A logout token is neither.
const KINDS: [&str; 2] = ["jwt", "at+jwt"];

/// A signed token whose signature is still to be verified.
pub(super) struct WebToken<'t> {
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// What is signed.
    pub(super) message: &'t str,
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct HeaderFields {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that a reader must understand: here there are none.
    crit: Option<Value>,
    /// The payload is not encoded: an extension as well.
    b64: Option<Value>,
}

/// When a token is valid, and for whom.
pub(super) struct TokenRules<'r> {
    pub(super) audiences: &'r [String],
    /// In seconds.
    pub(super) leeway: i64,
    /// In seconds since 1970.
    pub(super) now: i64,
}

/// The issuer that a token names, before anything of it is verified. `None`: it is no signed token.
pub(crate) fn issuer_of(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, payload) = (parts.next()?, parts.next()?);
    if token.len() > LONGEST || parts.count() != 1 {
        return None;
    }
    match decoded(payload)?.get("iss")? {
        Value::String(issuer) => Some(issuer.clone()),
        _ => None,
    }
}

impl<'t> WebToken<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, TokenProblem> {
        let malformed = |problem: &str| TokenProblem::malformed(problem);
        if token.len() > LONGEST {
            return Err(malformed("it has more than 16 KiB"));
        }
        let (message, signature) = token.rsplit_once('.').ok_or_else(|| malformed("it has no parts"))?;
        let (header, payload) = message.split_once('.').ok_or_else(|| malformed("it has two parts"))?;
        if payload.contains('.') {
            return Err(malformed("it has more than three parts, as encrypted tokens have"));
        }
        let header = decoded(header).ok_or_else(|| malformed("its header is no object"))?;
        let header = HeaderFields::deserialize(Value::Object(header));
        let header = header.map_err(|_| malformed("its header lacks `alg`, or has a member of a wrong type"))?;
        if header.crit.is_some() || header.b64.is_some() {
            return Err(malformed("its header has an extension that is not known here"));
        }
        if let Some(kind) = &header.typ {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if !KINDS.contains(&kind) {
                return Err(TokenProblem::WrongUse(format!(
                    "its header says that it is a {kind:.20}"
                )));
            }
        }
        let algorithm = SignatureAlgorithm::named(&header.alg);
        let algorithm = algorithm.ok_or_else(|| malformed("its algorithm is none of a public key"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature);
        Ok(Self {
            algorithm,
            key_id: header.kid,
            claims: decoded(payload).ok_or_else(|| malformed("its payload is no object"))?,
            message,
            signature: signature.map_err(|_| malformed("its signature is no base64url"))?,
        })
    }

    /// Checks audience and times. Precondition: the signature is verified.
    pub(super) fn check(&self, rules: &TokenRules<'_>) -> Result<(), TokenProblem> {
        if !self.is_for(rules.audiences)? {
            return Err(TokenProblem::WrongAudience);
        }
        let expires = self.seconds("exp")?;
        let expires = expires.ok_or_else(|| TokenProblem::malformed("the claim `exp` is missing"))?;
        if expires.saturating_add(rules.leeway) <= rules.now {
            return Err(TokenProblem::Expired);
        }
        for name in ["nbf", "iat"] {
            let begins = self.seconds(name)?;
            if begins.is_some_and(|begins| begins.saturating_sub(rules.leeway) > rules.now) {
                return Err(TokenProblem::NotYetValid);
            }
        }
        Ok(())
    }

    fn is_for(&self, audiences: &[String]) -> Result<bool, TokenProblem> {
        let listed = |value: &Value| value.as_str().is_some_and(|one| audiences.iter().any(|own| own == one));
        match self.claims.get("aud") {
            Some(one @ Value::String(_)) => Ok(listed(one)),
            Some(Value::Array(all)) if all.iter().all(Value::is_string) => Ok(all.iter().any(listed)),
            None => Ok(false),
            Some(_) => Err(TokenProblem::malformed(
                "the claim `aud` is neither a text nor a list of texts",
            )),
        }
    }

    /// A time in seconds; a fraction is cut off.
    fn seconds(&self, name: &str) -> Result<Option<i64>, TokenProblem> {
        let wrong = || TokenProblem::malformed(format!("the claim `{name}` is no time"));
        match self.claims.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => {
                let whole = number.as_i64();
                // Times beyond what a double tells apart from its neighbour are no times.
                let fraction = || number.as_f64().filter(|number| (0.0..1e15).contains(number));
                let seconds = whole.or_else(|| fraction().map(|seconds| seconds.trunc() as i64));
                seconds.map(Some).ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }
}

fn decoded(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    match serde_json::from_slice(&bytes).ok()? {
        Value::Object(members) => Some(members),
        _ => None,
    }
}
