//! Settings of users and keys: those of `serve`, and the commands.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::secret_file::secret_file;
use crate::harness::secret::Secret;
use crate::harness::settings::duration;

/// Users, and their tokens.
#[derive(Debug, Args)]
pub(crate) struct IdentitySettings {
    /// A file with the password of the user `admin`, an administrator who is added when a node starts and there is no user
    #[arg(long, value_name = "FILE", value_parser = secret_file)]
    admin_password_file: Option<Secret>,
    /// How long an access token of a user is good
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) access_token_lifetime: Duration,
    /// How long a refresh token is good, which is used once: how long a user stays signed in without a request
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = duration)]
    pub(crate) refresh_token_lifetime: Duration,
}

impl IdentitySettings {
    /// The password of the first administrator.
    pub(crate) fn admin_password(&self) -> Option<&str> {
        self.admin_password_file.as_ref().map(Secret::reveal)
    }
}

/// The tenant of the users and keys of a command.
#[derive(Debug, Args)]
pub(crate) struct TenantOf {
    /// The tenant; without it the default one. A tenant without roles gets those of the default tenant with its first user or key
    #[arg(long, value_name = "TENANT", global = true)]
    tenant: Option<String>,
}

impl TenantOf {
    /// Its name; empty for the default tenant.
    pub(crate) fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }
}

/// Commands on users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; its password is made and printed, unless it is given
    Add(UserAdd),
    /// Print the users with their roles
    List,
    /// Let a user sign in no more, and end its sessions
    Disable(UserName),
    /// Let a disabled user sign in again
    Enable(UserName),
    /// Set the password of a user to the first line of standard input, and end its sessions
    Password(UserName),
}

/// A user to add.
#[derive(Debug, Args)]
pub(crate) struct UserAdd {
    /// What the user signs in with
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The id of a role, such as admin, author, operator or reader; can be repeated, or contain several separated by commas
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) role: Vec<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// A user by its name.
#[derive(Debug, Args)]
pub(crate) struct UserName {
    /// The name of the user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Commands on the keys of applications.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key for a program, and print it; it is not shown again
    Add(KeyAdd),
    /// Print the names of the keys, with their roles
    List,
    /// End a key
    Revoke(KeyName),
}

/// A key to make.
#[derive(Debug, Args)]
pub(crate) struct KeyAdd {
    /// What the program is called
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The id of a role, such as admin, author, operator or reader; can be repeated, or contain several separated by commas
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) role: Vec<String>,
    /// How long the key is good; for ever by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
}

/// A key by its name.
#[derive(Debug, Args)]
pub(crate) struct KeyName {
    /// The name of the program
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
