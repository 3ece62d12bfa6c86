//! Schedules for operators: list, pause, resume, trigger.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::Engine;
use crate::db::Pool;
use crate::elsa_json;
use crate::id::{ActivityId, DefinitionId, InstanceId, NodeId, TenantId};
use crate::runtime::context::request::{Idempotency, Listed, Page};
use crate::runtime::scheduler::decide::{self, ScheduleFiring, Tally};
use crate::schedule::{Fire, time_zone_database};
use crate::store::schedule::{self, NewPlan, ScheduleListFilter, ScheduleRow};
use crate::store::{instance, start as store_start};
use crate::wake::WakeNotification;
use crate::{Error, Result};

/// How often a change is tried while nodes keep firing the schedule.
const ATTEMPTS: usize = 10;

/// Which schedules to list: those that match all given criteria.
#[derive(Clone, Debug, Default)]
pub struct ScheduleFilter {
    /// Of this definition.
    pub definition_id: Option<DefinitionId>,
    /// Of activities of this type: `Elsa.Cron`.
    pub activity_type: Option<String>,
    /// In this state.
    pub state: Option<ScheduleState>,
}

/// The state of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ScheduleState {
    /// It fires when it is due.
    Waiting,
    /// It is due.
    Due,
    /// It does not fire until it is resumed.
    Paused,
    /// It has no more occurrences.
    Ended,
}

impl ScheduleState {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Waiting, "waiting"),
        (Self::Due, "due"),
        (Self::Paused, "paused"),
        (Self::Ended, "ended"),
    ];

    /// The state with that name in JSON.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(state, _)| *state)
    }

    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(known, _)| *known == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A schedule: starts instances of a published definition when it is due.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSummary {
    /// Its id: the same as long as the definition has the activity.
    pub id: String,
    /// Its definition.
    pub definition_id: DefinitionId,
    /// The activity at which its instances begin.
    pub activity_id: ActivityId,
    /// Its type.
    pub activity_type: String,
    /// All inputs, written out.
    pub schedule: Value,
    /// Its state.
    pub state: ScheduleState,
    /// The next occurrence.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub next_occurrence: Option<DateTime<Utc>>,
    /// When that fires: the same plus jitter.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub next_fire_at: Option<DateTime<Utc>>,
    /// The last occurrence that fired or was skipped.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub last_occurrence: Option<DateTime<Utc>>,
    /// When it last started an instance.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub last_fired_at: Option<DateTime<Utc>>,
    /// How late that was, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_lateness_ms: Option<f64>,
    /// The node that fired it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_node_id: Option<NodeId>,
    /// The last instance that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_instance_id: Option<InstanceId>,
    /// An occurrence is queued until the running instance has ended.
    pub is_queued: bool,
    /// How many instances it has started.
    pub fired: u64,
    /// How many occurrences misfired, by its misfire policy.
    pub misfired: u64,
    /// How many occurrences were due and started nothing.
    pub skipped: u64,
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// A stored schedule with its times as responses have them. A publish compares the stored text, which stays as it is.
fn shown(mut spec: Value) -> Value {
    for name in ["dateTime", "startAt", "endAt"] {
        if let Some(Value::String(text)) = spec.get_mut(name)
            && let Some(utc) = text.strip_suffix('Z')
        {
            *text = format!("{utc}+00:00");
        }
    }
    spec
}

fn summary(row: schedule::ScheduleListRow) -> ScheduleSummary {
    ScheduleSummary {
        id: row.id,
        definition_id: row.definition_id,
        activity_id: row.activity_id,
        activity_type: row.activity_type,
        schedule: shown(row.spec),
        state: ScheduleState::named(&row.state).unwrap_or(ScheduleState::Waiting),
        next_occurrence: row.next_occurrence,
        next_fire_at: row.next_fire,
        last_occurrence: row.last_occurrence,
        last_fired_at: row.last_fired_at,
        last_lateness_ms: row.last_lateness.map(|micros| micros as f64 / 1e3),
        last_node_id: row.last_node,
        last_instance_id: row.last_instance,
        is_queued: row.queued.is_some(),
        fired: unsigned(row.fired),
        misfired: unsigned(row.misfired),
        skipped: unsigned(row.skipped),
    }
}

fn changing() -> Error {
    Error::conflict("schedule-changing", "the schedule keeps changing; try again")
}

fn not_found(id: &str) -> Error {
    Error::not_found("schedule-not-found", format!("no schedule has the id {id:?}"))
}

impl Engine {
    /// Lists the schedules of all published definitions: the next one due comes first, paused ones come last. Cancellation
    /// safe.
    pub async fn schedules(&self, filter: &ScheduleFilter, page: Page) -> Result<Listed<ScheduleSummary>> {
        let (limit, offset) = page.window();
        let filter = ScheduleListFilter {
            id: None,
            definition_id: filter.definition_id.as_ref().map(DefinitionId::as_str),
            activity_type: filter.activity_type.as_deref(),
            state: filter.state.map(ScheduleState::as_str),
            limit,
            offset,
        };
        let (total_count, rows) = schedule::list(self.node()?.database.reads.lists(), &self.tenant, &filter).await?;
        let items = rows.into_iter().map(summary).collect();
        Ok(Listed { items, total_count })
    }

    /// One schedule; [`Error::is_not_found`] if it is unknown. Cancellation safe.
    pub async fn schedule(&self, id: &str) -> Result<ScheduleSummary> {
        let filter = ScheduleListFilter {
            id: Some(id),
            limit: 1,
            ..ScheduleListFilter::default()
        };
        let (_, rows) = schedule::list(self.node()?.database.reads.lists(), &self.tenant, &filter).await?;
        rows.into_iter().next().map(summary).ok_or_else(|| not_found(id))
    }

    /// Pauses a schedule: it does not fire until it is resumed. Publishing its definition again does not resume it.
    pub async fn pause_schedule(&self, id: &str) -> Result<ScheduleSummary> {
        self.change_schedule(id, |row, paused| {
            let plan = NewPlan {
                paused: true,
                tz_version: time_zone_database(),
                last_occurrence: row.last_occurrence,
                next_occurrence: row.next_occurrence,
                next_fire: row.next_fire,
            };
            (!paused).then_some(plan)
        })
        .await
    }

    /// Resumes a paused schedule from now on: missed occurrences are skipped, whatever its misfire policy is.
    pub async fn resume_schedule(&self, id: &str) -> Result<ScheduleSummary> {
        let resumed = self
            .change_schedule(id, |row, paused| {
                let settled = row.last_occurrence.map_or(row.now, |last| last.max(row.now));
                let schedule = decide::schedule_of(row);
                let next = schedule.and_then(|schedule| decide::next_of(row, &schedule, Some(settled)));
                let plan = NewPlan {
                    paused: false,
                    tz_version: time_zone_database(),
                    last_occurrence: Some(settled),
                    next_occurrence: next.map(|next| next.occurrence),
                    next_fire: next.map(|next| next.fire_at),
                };
                paused.then_some(plan)
            })
            .await?;
        let node = self.node()?;
        node.schedules.timer.wake_now();
        // It may be due before the other nodes poll next.
        node.notifications.wake.notify([WakeNotification::Schedules]);
        Ok(resumed)
    }

    async fn change_schedule(
        &self,
        id: &str,
        change: impl for<'a> Fn(&'a ScheduleRow, bool) -> Option<NewPlan<'static>>,
    ) -> Result<ScheduleSummary> {
        for _ in 0..ATTEMPTS {
            let node = self.node()?;
            let found = schedule::find(&node.database.pool, &self.tenant, id).await?;
            let (row, paused) = found.ok_or_else(|| not_found(id))?;
            let done = match change(&row, paused) {
                Some(plan) => schedule::set(&self.changes(&node), &row, plan).await?,
                None => true,
            };
            if done {
                return self.schedule(id).await;
            }
        }
        Err(changing())
    }

    /// Starts an instance now, in addition to the occurrences of the schedule, which do not change; this also works for a
    /// paused schedule. The same idempotency key starts one instance. [`Error::is_conflict`] while an earlier instance runs
    /// and the schedule's `overlap` is not `Allow`, or if the workflow's activation strategy refuses it.
    pub async fn trigger_schedule(&self, id: &str, idempotency: Option<Idempotency>) -> Result<InstanceId> {
        let key = idempotency.map_or_else(|| InstanceId::random().into(), |given| given.key);
        let instance = decide::instance_id(id, &format!("triggered|{key}"));
        for _ in 0..ATTEMPTS {
            let node = self.accepting()?;
            let (pool, tenant) = (&node.database.pool, &self.tenant);
            let (row, _) = schedule::find(pool, tenant, id).await?.ok_or_else(|| not_found(id))?;
            if started(pool, tenant, &instance).await? {
                return Ok(instance);
            }
            if row.is_running {
                return Err(schedule::is_running());
            }
            let fire = Fire {
                occurrence: row.now,
                fire_at: row.now,
                stands_for: 0,
            };
            let mut decision = ScheduleFiring {
                row: decide::unchanged(&row, 0),
                starts: Vec::new(),
                tally: Tally::default(),
            };
            decision.row.lateness = Some(0);
            let payload = decide::payload(&row.id, &fire, row.now);
            decision.start(&row, instance.clone(), payload, 0);
            let changes = self.changes_of(&node, &instance);
            let fired = schedule::fire(
                &changes,
                &node.database.node_id,
                &[decision.row],
                &decision.starts,
                true,
            )
            .await?;
            let Some(fired) = fired.first() else { continue };
            if fired.accepted == 0 {
                // Refused; or another request has started this instance meanwhile.
                return match started(pool, tenant, &instance).await? {
                    true => Ok(instance),
                    false => Err(store_start::cannot_start()),
                };
            }
            node.work_accepted(Some(&instance), None, 1);
            return Ok(instance);
        }
        Err(changing())
    }
}

/// Whether an instance was started: it is pending or has run. In this order, because its first commit turns one into the
/// other.
async fn started(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<bool> {
    Ok(instance::pending(pool, tenant, instance).await?.is_some()
        || instance::find(pool, tenant, instance).await?.is_some())
}
