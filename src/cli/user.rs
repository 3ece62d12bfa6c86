//! `mainspring user add | list | disable | enable | password`: the users, through the database alone.

use std::io::Read;

use super::settings::{Common, TenantOf, UserCommand};
use crate::activity::printable;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::identity::{Caller, Permissions};
use crate::runtime::{IdentityAdmin, NewUser, UserChange, UserSummary};

/// The longest password that is read from standard input, with the line break at its end.
const LONGEST: u64 = 4096;

pub(super) async fn run(common: &Common, of: &TenantOf, command: &UserCommand) -> Result<(), Failure> {
    let (words, name) = match command {
        UserCommand::Add(user) => ("mainspring user add", user.name.as_str()),
        UserCommand::List => ("mainspring user list", ""),
        UserCommand::Disable(user) => ("mainspring user disable", user.name.as_str()),
        UserCommand::Enable(user) => ("mainspring user enable", user.name.as_str()),
        UserCommand::Password(user) => ("mainspring user password", user.name.as_str()),
    };
    let admin = IdentityAdmin::connect(&common.database_url()?, &common.schema, of.tenant(), words, name).await?;
    match command {
        UserCommand::Add(user) => {
            let new = NewUser {
                name: user.name.clone(),
                password: user.password_stdin.then(password).transpose()?,
                roles: user.role.clone(),
            };
            let added = admin.add_user(&Permissions::everything(), new).await?;
            match added.password {
                Some(password) => print_line(&format!("added {}, with the password {password}", line(&added.user))),
                None => print_line(&format!("added {}", line(&added.user))),
            }
        }
        UserCommand::List => {
            for user in admin.users().await? {
                print_line(&line(&user));
            }
        }
        UserCommand::Disable(user) => print_line(&line(&changed(&admin, &user.name, disabled(true)).await?)),
        UserCommand::Enable(user) => print_line(&line(&changed(&admin, &user.name, disabled(false)).await?)),
        UserCommand::Password(user) => {
            let change = UserChange {
                password: Some(password()?),
                ..UserChange::default()
            };
            print_line(&format!(
                "changed the password of {}",
                line(&changed(&admin, &user.name, change).await?)
            ));
        }
    }
    Ok(())
}

fn disabled(is_disabled: bool) -> UserChange {
    UserChange {
        is_disabled: Some(is_disabled),
        ..UserChange::default()
    }
}

async fn changed(admin: &IdentityAdmin, name: &str, change: UserChange) -> Result<UserSummary, Failure> {
    let user = admin.user_named(name).await?;
    // Who has the database may do everything.
    Ok(admin.change_user(&Caller::command(), &user.id, change).await?)
}

/// The first line of standard input.
fn password() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| Failure::failed(format!("the password cannot be read from standard input: {error}")))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::usage("write the password to standard input, in one line")),
    }
}

fn line(user: &UserSummary) -> String {
    let state = if user.is_disabled { ", disabled" } else { "" };
    let roles = if user.roles.is_empty() {
        "no role".to_owned()
    } else {
        user.roles.join(", ")
    };
    printable(&format!("{} ({roles}{state})", user.name)).to_string()
}
