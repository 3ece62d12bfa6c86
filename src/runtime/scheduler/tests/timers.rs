//! Schedules in a database, and one poll of them as on each node.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::execution::ScheduledTrigger;
use crate::id::{NodeId, TenantId, VersionId};
use crate::runtime::scheduler::decide::{Backlog, PublishedSchedules, ScheduleFiring, decide};
use crate::schedule::Schedule;
use crate::store::definition::{self, NewDefinition, StartSources};
use crate::store::schedule::{self, Fired, FiringRow, ScheduleRow, StartRow};
use crate::testing::store::{Fixture, Writer, execute};

pub(super) struct Timers {
    pub(super) fixture: Fixture,
    pub(super) writer: Writer,
}

/// The row of a schedule.
#[derive(Debug)]
pub(super) struct ScheduleRecord {
    pub(super) id: String,
    pub(super) version: i64,
    pub(super) anchor: DateTime<Utc>,
    pub(super) last: Option<DateTime<Utc>>,
    pub(super) next: Option<DateTime<Utc>>,
    pub(super) fired: i64,
    pub(super) misfired: i64,
    pub(super) skipped: i64,
    pub(super) is_queued: bool,
}

impl Timers {
    pub(super) async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        Self { fixture, writer }
    }

    /// Publishes a definition with these schedules, by their activities.
    pub(super) async fn publish(&self, schedules: &[(&str, Value)]) {
        self.publish_with(json!({}), schedules).await;
    }

    /// With a schedule `a` that has been due since the last hour.
    pub(super) async fn hourly() -> Self {
        let timers = Self::new().await;
        timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
        timers.sleep_since(3_610.0).await;
        timers
    }

    pub(super) async fn publish_with(&self, body: Value, schedules: &[(&str, Value)]) {
        let starts: Vec<ScheduledTrigger> = schedules
            .iter()
            .map(|(activity, inputs)| ScheduledTrigger {
                activity_id: (*activity).into(),
                activity_type: "Elsa.Timer".to_owned(),
                schedule: Schedule::from_inputs(inputs.as_object().unwrap()).unwrap(),
                is_computed: false,
            })
            .collect();
        let new = NewDefinition {
            tenant: TenantId::default(),
            version_id: Some(VersionId::random()),
            definition_id: "d".into(),
            version: 0,
            first_version: 1,
            name: None,
            description: None,
            is_readonly: false,
            is_system: false,
            activity_type: None,
            references: Vec::new(),
            adds_version: false,
            guards_readonly: false,
            body: body.into(),
        };
        let class = self.fixture.base.schema().lock_class();
        let starts = StartSources {
            triggers: &[],
            schedules: &PublishedSchedules(&starts),
        };
        definition::save(&self.writer.pool, class, &new, Some(starts))
            .await
            .unwrap();
    }

    /// What a node would do now.
    pub(super) async fn decisions(&self) -> Vec<ScheduleFiring> {
        decide_all(&schedule::due(&self.writer.pool, 500).await.unwrap())
    }

    pub(super) async fn fire(&self, decisions: &[ScheduleFiring]) -> Vec<Fired> {
        let (rows, starts) = parts(decisions);
        schedule::fire(&self.writer.pool, &NodeId::new("test"), &rows, &starts, false)
            .await
            .unwrap()
    }

    /// One poll; how many schedules were advanced, and how many instances will start.
    pub(super) async fn fire_due(&self) -> (usize, i64) {
        self.fire_counted(&self.decisions().await).await
    }

    /// The same for queued occurrences.
    pub(super) async fn poll_queued(&self) -> (usize, i64) {
        let queued = schedule::queued(&self.writer.pool, 500).await.unwrap();
        self.fire_counted(&decide_all(&queued)).await
    }

    async fn fire_counted(&self, decisions: &[ScheduleFiring]) -> (usize, i64) {
        let fired = self.fire(decisions).await;
        (fired.len(), fired.iter().map(|fired| fired.accepted).sum())
    }

    /// A downtime of all nodes: the schedules have been due since so many seconds ago.
    pub(super) async fn sleep_since(&self, seconds: f64) {
        let sql = "UPDATE schedule SET version = version + 1, anchor = now() - $1 * interval '1 second',
                   last_occurrence = NULL, next_occurrence = now() - $1 * interval '1 second',
                   next_fire = now() - $1 * interval '1 second'";
        self.fixture.admin.client.execute(sql, &[&seconds]).await.unwrap();
    }

    pub(super) async fn schedule(&self, activity: &str) -> ScheduleRecord {
        let sql = "SELECT id, version, anchor, last_occurrence, next_occurrence, fired, misfired, skipped,
                   queued IS NOT NULL FROM schedule WHERE activity_id = $1";
        let row = self.fixture.admin.client.query_one(sql, &[&activity]).await.unwrap();
        ScheduleRecord {
            id: row.get(0),
            version: row.get(1),
            anchor: row.get(2),
            last: row.get(3),
            next: row.get(4),
            fired: row.get(5),
            misfired: row.get(6),
            skipped: row.get(7),
            is_queued: row.get(8),
        }
    }

    /// The payloads of the pending starts, in their order.
    pub(super) async fn starts(&self) -> Vec<(String, Value)> {
        let sql = "SELECT instance_id, body->'payload' FROM work WHERE kind = 0 ORDER BY id";
        let rows = self.fixture.admin.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Runs statements as an operator would.
    pub(super) async fn execute(&self, sql: &str) {
        execute(&self.fixture.admin, sql).await;
    }

    pub(super) async fn is_sound(&self) {
        self.fixture.is_sound().await;
    }
}

fn decide_all(rows: &[ScheduleRow]) -> Vec<ScheduleFiring> {
    let mut backlog = Backlog::default();
    let rows = rows.iter().enumerate();
    rows.map(|(no, row)| decide(row, no, &mut backlog)).collect()
}

pub(super) fn parts(decisions: &[ScheduleFiring]) -> (Vec<FiringRow>, Vec<StartRow>) {
    let rows = decisions.iter().map(|firing| firing.row.clone()).collect();
    let starts = decisions
        .iter()
        .flat_map(|firing| firing.starts.iter().cloned())
        .collect();
    (rows, starts)
}
