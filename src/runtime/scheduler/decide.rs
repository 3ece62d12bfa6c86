//! Decides what a publish does to the schedules of a definition, and what fires. It is pure: rows in, rows out.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::execution::ScheduledTrigger;
use crate::id::{DefinitionId, InstanceId};
use crate::schedule::{Fire, OverlapDecision, OverlapPolicy, PlannedFire, Progress, Schedule, time_zone_database};
use crate::store::code::Overlap;
use crate::store::schedule::{FiringRow, PlanRow, Planner, ScheduleRow, StartRow, StoredSchedule};

/// How long a schedule is postponed that cannot be read, or whose rows the database refuses.
const POSTPONED: TimeDelta = TimeDelta::seconds(60);

/// From this lateness on a start is part of a backlog: those are spread, so that starts that are due now come in between.
const BACKLOG: TimeDelta = TimeDelta::seconds(5);

/// From this lateness on a fire counts as late.
const LATE: TimeDelta = TimeDelta::seconds(1);

/// The microseconds between two starts of a backlog: a millisecond, chosen without a measurement.
const SPREAD: i64 = 1_000;

/// The longest delay of a start in a backlog, in microseconds.
const LONGEST_SPREAD: i64 = 60_000_000;

/// The id of a schedule: the same as long as its definition has the activity.
pub(crate) fn schedule_id(definition: &DefinitionId, activity: &str) -> String {
    let definition = definition.as_str();
    short_hash(&format!("schedule|{}|{definition}|{activity}", definition.len()))
}

/// The id of the instance that an occurrence starts: the same whichever node fires it, and however often.
pub(crate) fn instance_id(schedule: &str, occurrence: &str) -> InstanceId {
    InstanceId::new(short_hash(&format!("{schedule}|{occurrence}")))
}

fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// The payload of the start of an occurrence, for its instance.
pub(crate) fn payload(schedule: &str, fire: &Fire, now: DateTime<Utc>) -> Value {
    json!({
        "scheduleId": schedule,
        "occurrence": rfc3339(fire.occurrence),
        "fireAt": rfc3339(fire.fire_at),
        "firedAt": rfc3339(now),
        "standsFor": fire.stands_for,
    })
}

/// The schedules of a version that is published.
pub(crate) struct PublishedSchedules<'a>(pub(crate) &'a [ScheduledTrigger]);

impl Planner for PublishedSchedules<'_> {
    fn ids(&self, definition: &DefinitionId) -> Vec<String> {
        let ids = self.0.iter();
        ids.map(|start| schedule_id(definition, start.activity_id.as_str()))
            .collect()
    }

    fn plan(&self, definition: &DefinitionId, existing: &[StoredSchedule], now: DateTime<Utc>) -> Vec<PlanRow> {
        let plans = self.0.iter().filter_map(|start| {
            let id = schedule_id(definition, start.activity_id.as_str());
            let spec = Value::Object(start.schedule.to_inputs());
            let before = existing.iter().find(|existing| existing.id == id);
            if before.is_some_and(|before| before.spec == spec && before.activity_type == start.activity_type) {
                return None;
            }
            let progress = Progress {
                id: &id,
                anchor: now,
                last_occurrence: before.and_then(|before| before.last_occurrence),
            };
            let next = start.schedule.next(&progress);
            Some(PlanRow {
                activity_id: start.activity_id.as_str().to_owned(),
                activity_type: start.activity_type.clone(),
                spec,
                overlap: overlap_number(start.schedule.overlap()),
                anchor: now,
                tz_version: time_zone_database().to_owned(),
                next_occurrence: next.map(|next| next.occurrence),
                next_fire: next.map(|next| next.fire_at),
                id,
            })
        });
        plans.collect()
    }
}

/// The schedules of a version that was published before. A computed one stays as it was published: "in an hour" means an hour
/// after the publish.
pub(crate) struct RefreshedSchedules<'a>(pub(crate) &'a [ScheduledTrigger]);

impl Planner for RefreshedSchedules<'_> {
    fn ids(&self, definition: &DefinitionId) -> Vec<String> {
        PublishedSchedules(self.0).ids(definition)
    }

    fn plan(&self, definition: &DefinitionId, existing: &[StoredSchedule], now: DateTime<Utc>) -> Vec<PlanRow> {
        let stays = |start: &&ScheduledTrigger| {
            let id = schedule_id(definition, start.activity_id.as_str());
            let before = existing.iter().find(|before| before.id == id);
            start.is_computed
                && before
                    .is_some_and(|before| before.activity_type == start.activity_type && has_kind_of(before, start))
        };
        let others: Vec<ScheduledTrigger> = self.0.iter().filter(|start| !stays(start)).cloned().collect();
        PublishedSchedules(&others).plan(definition, existing, now)
    }
}

/// Whether both are a cron expression, an interval or a point in time. A specification has one of these.
fn has_kind_of(before: &StoredSchedule, start: &ScheduledTrigger) -> bool {
    before.spec.get(start.schedule.kind_name()).is_some()
}

fn overlap_number(overlap: OverlapPolicy) -> i16 {
    let code = match overlap {
        OverlapPolicy::Allow => Overlap::Allow,
        OverlapPolicy::Skip => Overlap::Skip,
        OverlapPolicy::QueueOne => Overlap::Queue,
    };
    code.number()
}

/// The schedule of a row; none if this node cannot read it.
pub(crate) fn schedule_of(row: &ScheduleRow) -> Option<Schedule> {
    let spec = row.spec.as_ref()?.as_object()?;
    Schedule::from_inputs(spec)
        .inspect_err(|error| tracing::error!(schedule = row.id, %error, "a schedule cannot be read"))
        .ok()
}

/// The next fire of a row, by the time zone data of this node.
pub(crate) fn next_of(row: &ScheduleRow, schedule: &Schedule, last: Option<DateTime<Utc>>) -> Option<PlannedFire> {
    schedule.next(&Progress {
        id: &row.id,
        anchor: row.anchor,
        last_occurrence: last,
    })
}

/// What a decision adds to the metrics, once this node has fired it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) due: u64,
    pub(crate) late: u64,
    pub(crate) misfired: u64,
    pub(crate) skipped: u64,
}

/// What becomes of a schedule, and what it starts.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleFiring {
    pub(crate) row: FiringRow,
    pub(crate) starts: Vec<StartRow>,
    pub(crate) tally: Tally,
}

/// The number of starts of the backlog so far.
#[derive(Debug, Default)]
pub(crate) struct Backlog(i64);

impl Backlog {
    fn delay(&mut self, lateness: TimeDelta) -> i64 {
        if lateness < BACKLOG {
            return 0;
        }
        let delay = (self.0 * SPREAD).min(LONGEST_SPREAD);
        self.0 += 1;
        delay
    }
}

/// A row that changes nothing but the version.
pub(crate) fn unchanged(row: &ScheduleRow, no: usize) -> FiringRow {
    FiringRow {
        no: i32::try_from(no).unwrap_or(i32::MAX),
        tenant_id: row.tenant.as_str().to_owned(),
        id: row.id.clone(),
        version: row.version,
        tz_version: time_zone_database().to_owned(),
        last_occurrence: row.last_occurrence,
        next_occurrence: row.next_occurrence,
        next_fire: row.next_fire,
        queued: row.queued.clone(),
        misfired: 0,
        skipped: 0,
        lateness: None,
    }
}

/// Postpones a schedule, with all that is due of it.
pub(crate) fn postpone(row: &ScheduleRow, no: usize) -> FiringRow {
    FiringRow {
        next_fire: row.next_fire.and(row.now.checked_add_signed(POSTPONED)),
        ..unchanged(row, no)
    }
}

/// Decides about a schedule that is due, or of which an occurrence is queued.
pub(crate) fn decide(row: &ScheduleRow, no: usize, backlog: &mut Backlog) -> ScheduleFiring {
    let Some(schedule) = schedule_of(row) else {
        return ScheduleFiring {
            row: postpone(row, no),
            starts: Vec::new(),
            tally: Tally::default(),
        };
    };
    let progress = Progress {
        id: &row.id,
        anchor: row.anchor,
        last_occurrence: row.last_occurrence,
    };
    let due = schedule.due(&progress, row.now);
    let mut decision = ScheduleFiring {
        row: FiringRow {
            last_occurrence: due.last_occurrence,
            next_occurrence: due.next.map(|next| next.occurrence),
            next_fire: due.next.map(|next| next.fire_at),
            misfired: i64::try_from(due.misfired).unwrap_or(i64::MAX),
            ..unchanged(row, no)
        },
        starts: Vec::new(),
        tally: Tally {
            due: due.fire.len() as u64 + due.skipped,
            late: 0,
            misfired: due.misfired,
            skipped: due.skipped,
        },
    };
    let mut running = u64::from(row.is_running);
    // A queued occurrence starts before those that are due now.
    if running == 0
        && let Some(payload) = decision.row.queued.take()
    {
        let occurrence = payload.get("occurrence").and_then(Value::as_str);
        let instance = instance_id(&row.id, occurrence.unwrap_or_default());
        decision.start(row, instance, payload, 0);
        running = 1;
    }
    for fire in &due.fire {
        let waiting = u64::from(decision.row.queued.is_some());
        let lateness = row.now - fire.fire_at;
        match schedule.overlap().decide(running, waiting) {
            OverlapDecision::Start => {
                running += 1;
                decision.tally.late += u64::from(lateness >= LATE);
                decision.row.lateness = lateness.num_microseconds();
                let instance = instance_id(&row.id, &rfc3339(fire.occurrence));
                decision.start(row, instance, payload(&row.id, fire, row.now), backlog.delay(lateness));
            }
            OverlapDecision::Queue => decision.row.queued = Some(payload(&row.id, fire, row.now)),
            OverlapDecision::Drop => decision.tally.skipped += 1,
        }
    }
    decision.row.skipped = i64::try_from(decision.tally.skipped).unwrap_or(i64::MAX);
    decision
}

impl ScheduleFiring {
    pub(crate) fn start(&mut self, row: &ScheduleRow, instance: InstanceId, payload: Value, delay: i64) {
        self.starts.push(StartRow {
            no: self.row.no,
            instance_id: instance.into(),
            activity_id: row.activity_id.as_str().to_owned(),
            payload,
            delay,
        });
    }
}
