//! The applications: programs with an API key.
//!
//! A key is `HEX(client id)-SECRET`, as Elsa's; the secret has 256 random bits, so a plain hash of the key is all that is kept.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::admin::{IdentityAdmin, added, check_roles};
use super::names;
use crate::elsa_json;
use crate::id::TenantId;
use crate::identity::Permissions;
use crate::store::identity::IdentityChange;
use crate::store::identity::application::{self, ApplicationRow, KeyHash, MOST_APPLICATIONS, NewApplication};
use crate::{Error, Result};

/// The characters of a client id.
const CLIENT_ID: usize = 16;
/// The characters of a secret: base64 of 32 bytes.
const SECRET: usize = 43;
/// The longest lifetime of a key.
const LONGEST_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);

/// An application, without its key.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationSummary {
    /// Its id.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
    /// The ids of its roles.
    pub(crate) roles: Vec<String>,
    /// Its tenant; empty for the default one.
    pub(crate) tenant_id: TenantId,
    /// What its key begins with, in hexadecimal.
    pub(crate) client_id: String,
    /// Until when its key is good; for ever, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// Its key is good no more.
    pub(crate) has_expired: bool,
    /// When it was added.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub(crate) created_at: DateTime<Utc>,
}

/// An application with its key, which is shown this once.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedApplication {
    #[serde(flatten)]
    pub(crate) application: ApplicationSummary,
    /// The end of the key.
    pub(crate) client_secret: String,
    /// The key, for the header `Authorization: ApiKey KEY`.
    pub(crate) api_key: String,
}

/// An application to add.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    /// `None`: for ever.
    pub(crate) lifetime: Option<Duration>,
}

/// The hash of a text that has the form of a key; any other one costs nothing.
pub(super) fn key_hash(text: &str) -> Option<KeyHash> {
    let (client, secret) = text.split_once('-')?;
    let is_key = client.len() == CLIENT_ID * 2 && secret.len() == SECRET;
    is_key.then(|| Sha256::digest(text.as_bytes()).into())
}

impl IdentityAdmin {
    /// The applications by their names.
    pub(crate) async fn applications(&self) -> Result<Vec<ApplicationSummary>> {
        let rows = application::list(&self.pool, &self.tenant).await?;
        Ok(rows.into_iter().map(|row| self.summary_of_application(row)).collect())
    }

    /// Adds an application with a key. Errors: `invalid-identity`, `role-not-found`, `more-than-own-permissions`,
    /// `application-exists`, `too-many-applications`.
    pub(crate) async fn add_application(&self, by: &Permissions, new: NewKey) -> Result<AddedApplication> {
        let is_too_long = |lifetime: &Duration| lifetime.is_zero() || *lifetime > LONGEST_LIFETIME;
        if new.lifetime.as_ref().is_some_and(is_too_long) {
            let wrong = "must be above zero, and at most ten years";
            return Err(Error::invalid("invalid-identity", format!("expiresIn {wrong}")).field("expiresIn", wrong));
        }
        let client_id: String = Uuid::new_v4().simple().to_string().chars().take(CLIENT_ID).collect();
        let client_secret = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let begin: String = client_id.bytes().map(|byte| format!("{byte:02X}")).collect();
        let api_key = format!("{begin}-{client_secret}");
        let row = NewApplication {
            id: Uuid::now_v7().simple().to_string(),
            name: names::name(&new.name)?.to_owned(),
            roles: names::roles(new.roles)?,
            client_id,
            key_hash: Sha256::digest(api_key.as_bytes()).into(),
            lifetime: new.lifetime,
        };
        let change = self.begin().await?;
        let done = add(&change, by, &row).await;
        let made = self.end(change, done).await?;
        tracing::info!(application = row.id, name = row.name, roles = ?row.roles, "an application was added");
        Ok(AddedApplication {
            application: self.summary_of_application(made),
            client_secret,
            api_key,
        })
    }

    /// Deletes an application: its key is good no more, at other nodes one check-in later. Errors: `application-not-found`,
    /// `more-than-own-permissions`.
    pub(crate) async fn delete_application(&self, by: &Permissions, id: &str) -> Result<()> {
        let change = self.begin().await?;
        let done = delete(&change, by, id).await;
        self.end(change, done).await?;
        tracing::info!(application = id, "an application was deleted");
        Ok(())
    }

    fn summary_of_application(&self, row: ApplicationRow) -> ApplicationSummary {
        ApplicationSummary {
            id: row.id,
            name: row.name,
            roles: row.roles,
            tenant_id: self.tenant.clone(),
            client_id: row.client_id,
            expires_at: row.expires_at,
            has_expired: row.has_expired,
            created_at: row.created_at,
        }
    }
}

async fn add(change: &IdentityChange, by: &Permissions, new: &NewApplication) -> Result<ApplicationRow> {
    check_roles(change, by, &new.roles).await?;
    let taken = || {
        let message = format!(
            "there is an application {:?} already; choose another name, or delete it",
            new.name
        );
        Error::conflict("application-exists", message).field("name", "is taken")
    };
    let full = || {
        let message = format!("there are {MOST_APPLICATIONS} applications already; delete some");
        Error::conflict("too-many-applications", message)
    };
    added(change.add_application(new).await?, taken, full)?;
    let made = change.application(&new.id).await?;
    made.ok_or_else(|| Error::internal("an application that was added is not found"))
}

async fn delete(change: &IdentityChange, by: &Permissions, id: &str) -> Result<()> {
    let not_found = || Error::not_found("application-not-found", format!("there is no application {id:?}"));
    let before = change.application(id).await?.ok_or_else(not_found)?;
    check_roles(change, by, &before.roles).await?;
    change.delete_application(id).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_of_the_form_of_a_key_is_hashed() {
        let key = format!("{}-{}", "A".repeat(32), "x".repeat(43));
        assert!(key_hash(&key).is_some());
        for other in [
            "",
            "s3cret",
            &key[1..],
            &key[..75],
            &format!("{key}x"),
            &key.replace('-', "_"),
        ] {
            assert!(key_hash(other).is_none(), "{other}");
        }
        assert_ne!(key_hash(&key), key_hash(&key.replace('x', "y")));
    }
}
