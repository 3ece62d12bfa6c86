//! Settings of OpenID issuers: a file with those whose tokens are taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::secret_file::secret_file;
use crate::api::{BearerToken, ClaimGrant, CodeFlowOptions, IssuerList, IssuerOptions};
use crate::db;
use crate::harness::failure::Failure;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Issuers of tokens.
#[derive(Debug, Args)]
pub(crate) struct OpenIdSettings {
    /// A JSON file with the OpenID Connect `issuers` whose tokens are taken, and how Studio signs in with them
    #[arg(long, value_name = "FILE")]
    openid_file: Option<PathBuf>,
}

impl OpenIdSettings {
    /// Whether tokens of issuers are taken, so that a request needs a credential.
    pub(crate) fn is_given(&self) -> bool {
        self.openid_file.is_some()
    }

    /// What nodes compare of the file, however it is laid out.
    pub(crate) fn compared(&self) -> (&'static str, String) {
        let text = self.openid_file.as_ref().and_then(|path| text_of(path).ok());
        let read = |text: String| serde_json::from_str(&text).map_or(text, |file: serde_json::Value| file.to_string());
        ("openid-file", text.map(read).unwrap_or_default())
    }

    /// Reads the file.
    /// Errors: Wrong usage, without a secret.
    pub(crate) fn read(&self) -> Result<IssuerList, Failure> {
        let Some(path) = &self.openid_file else {
            return Ok(IssuerList::default());
        };
        let refused = |problem: String| Failure::usage(format!("the openid-file {}: {problem}", path.display()));
        let text = text_of(path).map_err(refused)?;
        let fields = parsed(&text).map_err(refused)?;
        let has_secret = fields.issuers.iter().any(IssuerFields::has_secret);
        if has_secret && let Some(readers) = db::readers(path) {
            tracing::warn!(
                "the file {} contains secrets and can be read by {readers}: chmod 600 it",
                path.display()
            );
        }
        // An empty list would leave a node open that is thought to ask for tokens.
        if fields.issuers.is_empty() {
            return Err(refused("it has no issuer".to_owned()));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        list(fields, folder).map_err(refused)
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileFields {
    issuers: Vec<IssuerFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IssuerFields {
    name: String,
    display_name: Option<String>,
    issuer: String,
    audiences: Vec<String>,
    leeway_seconds: Option<u64>,
    name_claim: Option<ClaimPath>,
    tenant: Option<String>,
    tenant_claim: Option<ClaimPath>,
    #[serde(default)]
    everyone: Vec<String>,
    #[serde(default)]
    grants: Vec<GrantFields>,
    sign_in: Option<SignInFields>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClaimPath {
    Name(String),
    Members(Vec<String>),
}

impl From<ClaimPath> for Vec<String> {
    fn from(path: ClaimPath) -> Self {
        match path {
            ClaimPath::Name(name) => vec![name],
            ClaimPath::Members(names) => names,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantFields {
    claim: ClaimPath,
    values: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignInFields {
    client_id: String,
    client_secret: Option<String>,
    /// Relative to the file.
    client_secret_file: Option<PathBuf>,
    scopes: Option<Vec<String>>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    #[serde(default)]
    bearer: BearerFields,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum BearerFields {
    #[default]
    Access,
    Identity,
}

impl IssuerFields {
    fn has_secret(&self) -> bool {
        self.sign_in
            .as_ref()
            .is_some_and(|fields| fields.client_secret.is_some())
    }
}

/// Errors: What is wrong, in one line and without a value: it may be a secret.
fn parsed(text: &str) -> Result<FileFields, String> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let problem = match error.classify() {
            serde_json::error::Category::Data => "a field is unknown, missing or of a wrong type",
            _ => "it is not valid JSON",
        };
        format!("{problem} at line {line}, column {column}; docs/reference/sign-in.md shows a file")
    })
}

fn list(fields: FileFields, folder: &Path) -> Result<IssuerList, String> {
    let issuers = fields.issuers.into_iter().map(|fields| issuer(fields, folder));
    let issuers = issuers.collect::<Result<Vec<_>, _>>()?;
    IssuerList::new(issuers).map_err(|error| error.message().to_owned())
}

fn issuer(fields: IssuerFields, folder: &Path) -> Result<IssuerOptions, String> {
    let of = format!("the issuer {:?}", fields.name);
    let mut issuer = IssuerOptions::new(fields.name, fields.issuer, "");
    issuer.audiences = fields.audiences;
    issuer.display_name = fields.display_name;
    if let Some(seconds) = fields.leeway_seconds {
        issuer.leeway = Duration::from_secs(seconds);
    }
    issuer.name_claim = fields.name_claim.map(Vec::from);
    issuer.tenant = fields.tenant.unwrap_or_default();
    issuer.tenant_claim = fields.tenant_claim.map(Vec::from);
    issuer.everyone = fields.everyone;
    let grants = fields.grants.into_iter();
    issuer.grants = grants
        .map(|grant| ClaimGrant::new(grant.claim.into(), grant.values))
        .collect();
    let sign_in = fields.sign_in.map(|fields| sign_in(&of, fields, folder));
    issuer.sign_in = sign_in.transpose()?;
    Ok(issuer)
}

fn sign_in(of: &str, fields: SignInFields, folder: &Path) -> Result<CodeFlowOptions, String> {
    let mut options = CodeFlowOptions::new(fields.client_id);
    options.client_secret = match (fields.client_secret, fields.client_secret_file) {
        (Some(_), Some(_)) => return Err(format!("{of} has both a clientSecret and a clientSecretFile; give one")),
        (None, Some(file)) => {
            let file = folder.join(file);
            let read = secret_file(&file.to_string_lossy());
            let read = read.map_err(|error| format!("{of}: the clientSecretFile {}: {error}", file.display()))?;
            Some(read.reveal().to_owned())
        }
        (secret, None) => secret,
    };
    if let Some(scopes) = fields.scopes {
        options.scopes = scopes;
    }
    options.parameters = fields.parameters;
    options.bearer = match fields.bearer {
        BearerFields::Access => BearerToken::Access,
        BearerFields::Identity => BearerToken::Identity,
    };
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<IssuerList, String> {
        list(parsed(text)?, Path::new("/nowhere"))
    }

    #[test]
    fn a_file_has_issuers_with_grants_and_a_sign_in() {
        let text = r#"{"issuers": [{
            "name": "company", "displayName": "Company account", "issuer": "https://sso.example/realms/main",
            "audiences": ["mainspring"], "leewaySeconds": 30, "nameClaim": "email", "tenantClaim": ["org", "id"],
            "everyone": ["read:*"],
            "grants": [{"claim": ["realm_access", "roles"], "values": {"admin": ["*"]}}, {"claim": "permissions"}],
            "signIn": {"clientId": "studio", "clientSecret": "s3cret", "scopes": ["openid"],
                       "parameters": {"audience": "mainspring"}, "bearer": "identity"}
        }]}"#;
        let issuers = read(text).unwrap();
        let issuer = issuers.iter().next().unwrap();
        assert_eq!(issuer.leeway, Duration::from_secs(30));
        assert_eq!(issuer.name_claim.as_deref(), Some(&["email".to_owned()][..]));
        assert_eq!(issuer.grants[0].claim, ["realm_access", "roles"]);
        assert!(issuer.grants[1].values.is_none());
        let sign_in = issuer.sign_in.as_ref().unwrap();
        assert_eq!(sign_in.bearer, BearerToken::Identity);
        assert_eq!(sign_in.parameters["audience"], "mainspring");
        assert!(!format!("{issuers:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_is_said_without_a_secret() {
        let issuer = |url: &str, more: &str| {
            format!(r#"{{"issuers": [{{"name": "a", "issuer": "{url}", "audiences": ["m"]{more}}}]}}"#)
        };
        let sign_in = |more: &str| {
            issuer(
                "https://a.example",
                &format!(r#", "signIn": {{"clientId": "c"{more}}}"#),
            )
        };
        for (text, part) in [
            ("{".to_owned(), "not valid JSON"),
            (issuer("https://a.example", r#", "secrett": "s3cret""#), "unknown"),
            (issuer("http://a.example", ""), "https://"),
            (issuer("https://u:s3cret@a.example", ""), "a user or a password"),
            (issuer("https://login.example/{tenantid}/v2.0", ""), "placeholder"),
            (issuer("https://a.example", "").replace(r#"["m"]"#, "[]"), "no audience"),
            (issuer("https://a.example", r#", "leewaySeconds": 3600"#), "leeway"),
            (issuer("https://a.example", r#", "grants": [{"claim": []}]"#), "no name"),
            (
                issuer("https://a.example", "").replace(r#""a""#, r#""a/b""#),
                "letters, digits",
            ),
            (sign_in(r#", "scopes": ["profile"]"#), "openid"),
            (sign_in(r#", "parameters": {"state": "x"}"#), "the flow sets itself"),
            (sign_in(r#", "clientSecretFile": "missing""#), "clientSecretFile"),
            (
                sign_in(r#", "clientSecret": "s3cret", "clientSecretFile": "missing""#),
                "both",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(part) && !error.contains("s3cret"), "{text}: {error}");
        }
        let twice = issuer("https://a.example", "").replace(
            r#"["m"]}"#,
            r#"["m"]}, {"name": "b", "issuer": "https://a.example", "audiences": ["m"]}"#,
        );
        assert!(read(&twice).unwrap_err().contains("twice"));
    }
}
