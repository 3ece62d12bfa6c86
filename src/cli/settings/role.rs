//! The names of roles.

use clap::ValueEnum;

use crate::runtime::Role;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Answers requests
    Api,
    /// Runs workflows
    Worker,
    /// Fires schedules
    Scheduler,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Api => Self::Api,
            RoleName::Worker => Self::Worker,
            RoleName::Scheduler => Self::Scheduler,
        }
    }
}
