//! The settings of a node.

use std::time::Duration;

use super::services::Services;
use super::setting_digests::SettingDigests;
use crate::cluster::election::FiringMode;
use crate::id::NodeId;
use crate::store::inbox::InboxBudget;
use crate::store::maintenance::Retention;
use crate::trace::Traces;
use crate::watchdog::HangReport;
#[cfg(feature = "http")]
use crate::webhook::{WebhookSink, WebhookSource};

/// What a node does in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It answers requests.
    Api,
    /// It runs workflows.
    Worker,
    /// It fires schedules.
    Scheduler,
}

impl Role {
    /// Its name in settings and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

/// What a program has set; see the methods of [`EngineBuilder`](crate::EngineBuilder).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) database_url: String,
    pub(crate) schema: String,
    pub(crate) node_id: NodeId,
    pub(crate) migrate: bool,
    pub(crate) workers: usize,
    pub(crate) pool_size: usize,
    pub(crate) read_pool_size: usize,
    pub(crate) check_in: Duration,
    pub(crate) tolerance: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) inbox_lifetime: Duration,
    pub(crate) inbox_budget: InboxBudget,
    pub(crate) retention: Retention,
    /// How long an attempt to deliver a webhook may take.
    #[cfg(feature = "http")]
    pub(crate) webhook_timeout: Duration,
    /// How long a delivered webhook is listed.
    #[cfg(feature = "http")]
    pub(crate) webhook_lifetime: Duration,
    /// The sinks of the settings; `None`: those of other nodes stay.
    #[cfg(feature = "http")]
    pub(crate) webhook_sinks: Option<Vec<WebhookSink>>,
    #[cfg(feature = "http")]
    pub(crate) webhook_sources: Vec<WebhookSource>,
    /// The password of the user `admin`, who is added if there is no user.
    #[cfg(feature = "http")]
    pub(crate) admin_password: Option<AdminPassword>,
    #[cfg(feature = "http")]
    pub(crate) token_lifetimes: TokenLifetimes,
    pub(crate) roles: Vec<Role>,
    pub(crate) single_scheduler: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) claimed_bytes: usize,
    pub(crate) services: Services,
    pub(crate) token_secret: Option<TokenSecret>,
    /// What the nodes of a cluster compare of who may do what.
    pub(crate) identity_settings: SettingDigests,
    pub(crate) public_url: Option<String>,
    /// Links begin with `https://`.
    pub(crate) require_https_links: bool,
    /// The node samples the whole database in its turn.
    pub(crate) samples_cluster: bool,
    pub(crate) on_hang: HangReport,
    /// Where spans go.
    pub(crate) traces: Option<Traces>,
}

impl Settings {
    /// The roles to write into the row of the node: `worker` only if `workers` is above 0.
    pub(crate) fn effective_roles(&self) -> Vec<&'static str> {
        let all = [Role::Api, Role::Worker, Role::Scheduler].into_iter();
        let has = |role: &Role| self.roles.contains(role) && (*role != Role::Worker || self.workers > 0);
        all.filter(has).map(Role::as_str).collect()
    }

    pub(crate) fn firing_mode(&self) -> FiringMode {
        match (self.roles.contains(&Role::Scheduler), self.single_scheduler) {
            (false, _) => FiringMode::Off,
            (true, false) => FiringMode::EveryNode,
            (true, true) => FiringMode::Leader,
        }
    }
}

/// The password of the first administrator.
#[cfg(feature = "http")]
#[derive(Clone)]
pub(crate) struct AdminPassword(pub(crate) String);

#[cfg(feature = "http")]
impl std::fmt::Debug for AdminPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminPassword(…)")
    }
}

/// How long the tokens of users are good.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLifetimes {
    pub(crate) access: Duration,
    pub(crate) refresh: Duration,
}

#[cfg(feature = "http")]
impl Default for TokenLifetimes {
    /// As in Elsa.
    fn default() -> Self {
        Self {
            access: Duration::from_secs(3600),
            refresh: Duration::from_secs(2 * 3600),
        }
    }
}

/// The program's own secret, without which the keys in the database sign neither links nor tokens.
#[derive(Clone)]
pub(crate) struct TokenSecret(pub(crate) Vec<u8>);

impl TokenSecret {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}
