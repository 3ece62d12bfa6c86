//! Settings of the services of a node: locks, cache notifications and wake notifications, and the servers that carry them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{LockProviderName, LockSettings};
use crate::harness::secret::Secret;
use crate::harness::settings::duration_or_none;

/// The services of a node. PostgreSQL provides each of them unless another provider is selected.
#[derive(Debug, Args)]
pub(crate) struct ServiceSettings {
    #[command(flatten)]
    pub(crate) locks: LockSettings,
    /// What notifies other nodes that a definition has changed, the same on all nodes; a lost notification costs at most one check-in
    #[arg(long, value_name = "NAME", default_value = "postgres", value_enum)]
    pub(crate) signal: SignalName,
    /// What notifies other nodes that work is ready, the same on all nodes; a lost notification costs at most one check-in
    #[arg(long, value_name = "NAME", default_value = "postgres", value_enum)]
    pub(crate) wake: WakeName,
    #[command(flatten)]
    pub(crate) redis: RedisSettings,
    #[command(flatten)]
    pub(crate) rabbitmq: RabbitSettings,
    /// How long to wait at startup for an unavailable server that a service needs; with 0s the node exits at once with exit
    /// code 3
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_or_none)]
    pub(crate) service_wait: Duration,
}

impl ServiceSettings {
    /// Whether a selected service needs Redis.
    pub(crate) fn uses_redis(&self) -> bool {
        self.locks.lock_provider == LockProviderName::Redis || self.signal == SignalName::Redis
    }

    /// Whether a selected service uses RabbitMQ.
    pub(crate) fn uses_rabbitmq(&self) -> bool {
        self.signal == SignalName::Rabbitmq || self.wake == WakeName::Rabbitmq
    }
}

/// Where RabbitMQ is.
#[derive(Debug, Args)]
#[cfg_attr(not(feature = "rabbitmq"), allow(dead_code, reason = "RabbitMQ cannot be selected"))]
pub(crate) struct RabbitSettings {
    /// The broker of --signal rabbitmq and --wake rabbitmq, as amqp://user:password@host:port/virtual-host (amqps:// with
    /// TLS; commas separate several hosts). A URL alone selects nothing
    #[arg(long, value_name = "URL")]
    pub(crate) rabbitmq_url: Option<Secret>,
    /// A file with this URL, read again for each connection
    #[arg(long, value_name = "FILE")]
    pub(crate) rabbitmq_url_file: Option<PathBuf>,
    /// The prefix of the names of this cluster's exchanges and queues in RabbitMQ; by default the name of the schema
    #[arg(long, value_name = "TEXT")]
    pub(crate) rabbitmq_prefix: Option<String>,
}

/// Where Redis is.
#[derive(Debug, Args)]
pub(crate) struct RedisSettings {
    /// The server of --lock-provider redis and --signal redis, as redis://user:password@host:port/database (rediss:// with TLS),
    /// redis-sentinel://…, redis-cluster://host1,host2 or `host:6379,password=…`. A URL alone selects nothing
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<Secret>,
    /// A file with this URL, read again for each connection
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_url_file: Option<PathBuf>,
    /// A file with the certificates, in PEM, of the authorities that sign the certificate of Redis; by default those of the
    /// system
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_ca_file: Option<PathBuf>,
    /// A file with the certificate, in PEM, that this node shows to Redis
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_cert_file: Option<PathBuf>,
    /// A file with the key of this certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_key_file: Option<PathBuf>,
}

/// What carries cache notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignalName {
    /// NOTIFY of the database
    Postgres,
    /// This process, for a single node
    Local,
    /// A Redis server
    Redis,
    /// A RabbitMQ server
    Rabbitmq,
}

/// What carries wake notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WakeName {
    /// NOTIFY of the database
    Postgres,
    /// This process, for a single node
    Local,
    /// A RabbitMQ server
    Rabbitmq,
}
