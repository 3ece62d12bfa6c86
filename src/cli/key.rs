//! `mainspring key add | list | revoke`: the keys of applications, through the database alone.

use super::settings::{Common, KeyCommand, TenantOf};
use crate::activity::printable;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::identity::Permissions;
use crate::runtime::{ApplicationSummary, IdentityAdmin, NewKey};

pub(super) async fn run(common: &Common, of: &TenantOf, command: &KeyCommand) -> Result<(), Failure> {
    let (words, name) = match command {
        KeyCommand::Add(key) => ("mainspring key add", key.name.as_str()),
        KeyCommand::List => ("mainspring key list", ""),
        KeyCommand::Revoke(key) => ("mainspring key revoke", key.name.as_str()),
    };
    let admin = IdentityAdmin::connect(&common.database_url()?, &common.schema, of.tenant(), words, name).await?;
    match command {
        KeyCommand::Add(key) => {
            let new = NewKey {
                name: key.name.clone(),
                roles: key.role.clone(),
                lifetime: key.expires,
            };
            let added = admin.add_application(&Permissions::everything(), new).await?;
            // Alone in its line, for scripts.
            print_line(&added.api_key);
        }
        KeyCommand::List => {
            for application in admin.applications().await? {
                print_line(&line(&application));
            }
        }
        KeyCommand::Revoke(key) => {
            let name = key.name.trim();
            let all = admin.applications().await?;
            let found = all
                .into_iter()
                .find(|application| application.name.eq_ignore_ascii_case(name));
            let found = found.ok_or_else(|| {
                Failure::failed(format!("there is no key {name:?}; `mainspring key list` lists them"))
            })?;
            admin.delete_application(&Permissions::everything(), &found.id).await?;
            print_line(&format!("revoked {}", line(&found)));
        }
    }
    Ok(())
}

fn line(application: &ApplicationSummary) -> String {
    let roles = match application.roles.as_slice() {
        [] => "no role".to_owned(),
        roles => roles.join(", "),
    };
    let until = match (application.expires_at, application.has_expired) {
        (None, _) => String::new(),
        (Some(at), false) => format!(", until {}", at.format("%Y-%m-%d %H:%M:%S UTC")),
        (Some(at), true) => format!(", expired {}", at.format("%Y-%m-%d %H:%M:%S UTC")),
    };
    printable(&format!("{} ({roles}{until})", application.name)).to_string()
}
