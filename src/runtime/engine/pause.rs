//! Pauses and resumes the whole cluster: from any node, or from a program without one.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Engine, lone_pool};
use crate::db::Pool;
use crate::elsa_json;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{NO_CONTROLS, is_plain};
use crate::store::node;
use crate::store::pause::{self, PauseMode, PauseRow};
use crate::wake::WakeNotification;
use crate::{Error, Result};

/// The longest reason, and the longest name of the client that requests, in characters.
const LONGEST_REASON: usize = 500;
const LONGEST_NAME: usize = 200;

/// How long a drain waits until no burst is under way: an activity that runs is not ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two reads of the bursts that are under way.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// What accepts or claims, as Elsa lists ingress sources.
const SOURCES: [&str; 7] = ["starts", "events", "resumes", "work", "timers", "schedules", "fan-outs"];

/// Whether the cluster accepts and runs work.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatus {
    /// The pause.
    pub state: RuntimeState,
    /// What accepts or claims.
    pub sources: Vec<RuntimeSource>,
    /// Instances with a burst under way, on all nodes.
    pub active_execution_cycle_count: u64,
}

/// The pause of the cluster, in Elsa's words.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RuntimeState {
    /// `None`, `AdministrativePause`, or `AdministrativePause, Drain`.
    pub reason: &'static str,
    /// It is not paused.
    pub is_accepting_new_work: bool,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub paused_at: Option<DateTime<Utc>>,
    /// Since when bursts stop before their next activity.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub drain_started_at: Option<DateTime<Utc>>,
    /// The reason, in the words of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_reason_text: Option<String>,
    /// Who changed it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_requested_by: Option<String>,
    /// The number of changes.
    pub generation_id: String,
}

/// Something that accepts or claims.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSource {
    /// Its name.
    pub name: &'static str,
    /// `Running` or `Paused`.
    pub state: &'static str,
    /// Always `None`: a pause of the cluster fails or holds as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was paused; `None` while it runs.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub last_transition_at: Option<DateTime<Utc>>,
}

/// The result of a drain.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DrainOutcome {
    /// `Forced`: no burst is under way. `TimedOut`: some activities are still running.
    pub overall_result: &'static str,
    /// When it began.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub started_at: DateTime<Utc>,
    /// When it was answered.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub completed_at: DateTime<Utc>,
    /// The time until nothing was accepted or claimed any longer, as `hh:mm:ss.fffffff`.
    pub pause_phase_duration: String,
    /// The time until no burst was under way.
    pub wait_phase_duration: String,
    /// What accepts or claims.
    pub sources: Vec<RuntimeSource>,
    /// Instances with a burst under way when it began, including those whose burst ended by itself.
    pub execution_cycles_force_cancelled_count: u64,
    /// Always empty: no instance is interrupted, and each continues where its burst stopped.
    pub force_cancelled_instance_ids: Vec<String>,
}

/// A change of the pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Pause,
    Drain,
    Resume,
}

impl Change {
    fn mode(self) -> PauseMode {
        match self {
            Self::Pause => PauseMode::Paused,
            Self::Drain => PauseMode::Draining,
            Self::Resume => PauseMode::Running,
        }
    }
}

impl Engine {
    /// Whether the cluster is paused, by whom and why. Cancellation safe.
    pub async fn runtime_status(&self) -> Result<RuntimeStatus> {
        status(self.node()?.database.reads.by_key()).await
    }

    /// Pauses the cluster: when this returns, no node accepts a start, dispatch, event, resume or replay, and none claims
    /// work except for cancels. Bursts under way end; due timers and accepted work wait. A paused cluster stays as it is,
    /// with its first reason.
    pub async fn pause_runtime(&self, reason: Option<&str>, requested_by: &str) -> Result<RuntimeStatus> {
        let node = self.node()?;
        change_from(&node, &self.changes(&node), Change::Pause, reason, requested_by).await?;
        status(&node.database.pool).await
    }

    /// Pauses the cluster, and stops each burst before its next activity: completed activities are committed, and the rest
    /// continues after the resume, without a failure. Returns when no burst is under way, or after ten seconds.
    pub async fn drain_runtime(&self, reason: Option<&str>, requested_by: &str) -> Result<DrainOutcome> {
        let node = self.node()?;
        let pool = &node.database.pool;
        let (started_at, began) = (Utc::now(), Instant::now());
        let bursts = active(pool).await?;
        change_from(&node, &self.changes(&node), Change::Drain, reason, requested_by).await?;
        let paused = began.elapsed();
        let is_done = drained(pool).await?;
        Ok(DrainOutcome {
            overall_result: if is_done { "Forced" } else { "TimedOut" },
            started_at,
            completed_at: Utc::now(),
            pause_phase_duration: time_span(paused),
            wait_phase_duration: time_span(began.elapsed() - paused),
            sources: status(pool).await?.sources,
            execution_cycles_force_cancelled_count: bursts,
            force_cancelled_instance_ids: Vec::new(),
        })
    }

    /// Ends a pause or a drain: accepted work, due timers and schedules run, the latter by their misfire policies.
    pub async fn resume_runtime(&self, requested_by: &str) -> Result<RuntimeStatus> {
        let node = self.node()?;
        change_from(&node, &self.changes(&node), Change::Resume, None, requested_by).await?;
        status(&node.database.pool).await
    }
}

/// The same as [`Engine::runtime_status`], without a node.
pub async fn cluster_status(database_url: &str, schema: &str) -> Result<RuntimeStatus> {
    status(&lone_pool(database_url, schema).await?).await
}

/// The same as [`Engine::pause_runtime`] or, with `drains`, [`Engine::drain_runtime`], without a node: bursts stop when their
/// nodes have checked in.
pub async fn pause_cluster(
    database_url: &str,
    schema: &str,
    reason: Option<&str>,
    requested_by: &str,
    drains: bool,
) -> Result<RuntimeStatus> {
    let pool = lone_pool(database_url, schema).await?;
    let how = if drains { Change::Drain } else { Change::Pause };
    change(&pool, how, reason, requested_by).await?;
    if drains {
        drained(&pool).await?;
    }
    status(&pool).await
}

/// The same as [`Engine::resume_runtime`], without a node: nodes continue when they have checked in.
pub async fn resume_cluster(database_url: &str, schema: &str, requested_by: &str) -> Result<RuntimeStatus> {
    let pool = lone_pool(database_url, schema).await?;
    change(&pool, Change::Resume, None, requested_by).await?;
    status(&pool).await
}

async fn change_from(
    node: &NodeContext,
    pool: &Pool,
    how: Change,
    reason: Option<&str>,
    requested_by: &str,
) -> Result<()> {
    let changed = change(pool, how, reason, requested_by).await;
    // Also after a timeout, for which the mode is changed.
    node.notifications.wake.notify([WakeNotification::PauseChanged]);
    node.pause.read_again();
    changed
}

async fn change(pool: &Pool, how: Change, reason: Option<&str>, requested_by: &str) -> Result<()> {
    check("reason", reason.unwrap_or_default(), LONGEST_REASON)?;
    check("requestedBy", requested_by, LONGEST_NAME)?;
    let is_changed = pause::set(pool, how.mode(), reason.filter(|text| !text.is_empty()), requested_by).await?;
    if is_changed {
        let reason = reason.unwrap_or_default();
        match how {
            Change::Pause => tracing::warn!(requested_by, reason, "the cluster is paused"),
            Change::Drain => tracing::warn!(requested_by, reason, "the cluster is paused and drains"),
            Change::Resume => tracing::warn!(requested_by, "the cluster was resumed"),
        }
    }
    Ok(())
}

fn check(field: &str, text: &str, longest: usize) -> Result<()> {
    let wrong = if text.chars().count() > longest {
        format!("must have at most {longest} characters")
    } else if !is_plain(text) {
        NO_CONTROLS.to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid("invalid-field", format!("{field} {wrong}")).field(field, wrong))
}

/// Waits until no burst is under way; returns false if some still are after the timeout.
async fn drained(pool: &Pool) -> Result<bool> {
    let began = Instant::now();
    while active(pool).await? > 0 {
        if began.elapsed() >= DRAIN_TIMEOUT {
            return Ok(false);
        }
        tokio::time::sleep(DRAIN_INTERVAL).await;
    }
    Ok(true)
}

/// Instances with a burst under way: of which nodes have claimed rows.
async fn active(pool: &Pool) -> Result<u64> {
    let nodes = node::list(pool).await?;
    Ok(nodes.iter().map(|node| u64::try_from(node.running).unwrap_or(0)).sum())
}

async fn status(pool: &Pool) -> Result<RuntimeStatus> {
    let row = pause::read(pool).await?;
    let sources = sources(&row);
    Ok(RuntimeStatus {
        sources,
        active_execution_cycle_count: active(pool).await?,
        state: state(row),
    })
}

fn sources(row: &PauseRow) -> Vec<RuntimeSource> {
    let source = |name| RuntimeSource {
        name,
        state: if row.pause.mode == PauseMode::Running {
            "Running"
        } else {
            "Paused"
        },
        last_error: None,
        last_transition_at: row.paused_at,
    };
    SOURCES.into_iter().map(source).collect()
}

fn state(row: PauseRow) -> RuntimeState {
    RuntimeState {
        reason: match row.pause.mode {
            PauseMode::Running => "None",
            PauseMode::Paused => "AdministrativePause",
            PauseMode::Draining => "AdministrativePause, Drain",
        },
        is_accepting_new_work: row.pause.mode == PauseMode::Running,
        paused_at: row.paused_at,
        drain_started_at: row.drain_started_at,
        pause_reason_text: row.reason,
        pause_requested_by: row.requested_by,
        generation_id: row.pause.generation.to_string(),
    }
}

/// A duration as .NET writes it.
fn time_span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = duration.subsec_nanos() / 100;
    format!("{hours:02}:{minutes:02}:{:02}.{fraction:07}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_dotnet_writes_them() {
        assert_eq!(time_span(Duration::from_micros(61_000_250)), "00:01:01.0002500");
    }

    #[test]
    fn a_reason_is_bounded_and_plain() {
        assert!(check("reason", &"é".repeat(LONGEST_REASON), LONGEST_REASON).is_ok());
        assert!(check("reason", &"é".repeat(LONGEST_REASON + 1), LONGEST_REASON).is_err());
        assert_eq!(
            check("reason", "a\nb", LONGEST_REASON).unwrap_err().fields()[0].0,
            "reason"
        );
    }
}
