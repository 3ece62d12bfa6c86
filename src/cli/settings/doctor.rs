//! Settings of `doctor` and `migrate`.

use std::time::Duration;

use clap::Args;

use crate::harness::settings::duration_or_none;

/// Settings of `doctor`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorSettings {
    /// Print {ok, findings: [{check, level, what, means, since, remedy, fixable}], fixed, checks, elapsedMs}
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Also remedy what is safe: release orphaned claims, make partitions, vacuum
    #[arg(long)]
    pub(in crate::cli) fix: bool,
    /// How old a wait, a lock or an open transaction must be to be reported
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_or_none)]
    pub(in crate::cli) older_than: Duration,
}

/// Settings of `migrate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct MigrateSettings {
    /// Also make read-only views by the names of Elsa's and Quartz's tables: elsa.workflow_instances, elsa.bookmarks,
    /// qrtz_triggers, qrtz_fired_triggers, qrtz_scheduler_state
    #[arg(long)]
    pub(in crate::cli) elsa_views: bool,
}
