//! Settings of the provider that keeps the locks of instances.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::harness::settings::duration;

/// What keeps the locks of instances.
#[derive(Debug, Args)]
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "Redis cannot be selected"))]
pub(crate) struct LockSettings {
    /// What keeps the locks of instances, the same on all nodes; PostgreSQL still decides what is committed
    #[arg(long, value_name = "NAME", default_value = "postgres", value_enum)]
    pub(crate) lock_provider: LockProviderName,
    /// The folder of --lock-provider file, for nodes on one host
    #[arg(long, value_name = "FOLDER")]
    pub(crate) lock_dir: Option<PathBuf>,
    /// The prefix of the keys of locks in Redis
    #[arg(long, value_name = "TEXT", default_value = "workflow:")]
    pub(crate) lock_prefix: String,
    /// How long a lock in Redis outlives a node that is gone; it is extended while it is held
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) lock_expiry: Duration,
}

/// A provider of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockProviderName {
    /// Advisory locks of the database
    Postgres,
    /// This process, for a single node
    Local,
    /// Files on this host
    File,
    /// A Redis server
    Redis,
}
