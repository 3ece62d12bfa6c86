//! The loop that fires schedules: it polls for due schedules, decides, and advances each with its starts in one statement.
//!
//! Every node with the role of scheduler fires, whether it has workers or not. No leader is needed: all nodes read the same
//! rows and decide the same by the database's clock, and one of them wins. (If one node at a time is elected, the others do
//! not poll.) The loop polls when the next schedule is due, when a definition has changed, when an instance for which an
//! occurrence is queued has ended, and whenever a check-in reports a due schedule.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::decide::{self, Backlog, ScheduleFiring, Tally};
use crate::log::bounded_info;
use crate::runtime::context::node_context::{Database, NodeContext};
use crate::schedule::time_zone_database;
use crate::store::schedule::{self, Fired, NewPlan, ScheduleRow};
use crate::{Error, Result, failpoint};

/// The most schedules in one statement.
const PAGE: i64 = 500;

/// The most starts in one statement, except for a schedule that has more of its own.
const STARTS: usize = 2_000;

/// The backoff of a node that found every schedule fired by another one; doubled each time, as another transaction may hold
/// one.
const BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// The pause before schedules of older time zone data are read again after an error.
const TIME_ZONE_RETRY: Duration = Duration::from_secs(10);

/// So many schedules are fired one by one that fail by a fault of the database, before the rest is postponed as well.
const FAULTS: usize = 3;

/// The pause after an error.
const RETRY: Duration = Duration::from_millis(500);

/// Fires until the incarnation drains or stops; returns when it closes or stops.
pub(crate) async fn run(node: Arc<NodeContext>) {
    // The other future may be dropped halfway: it has written each schedule or not.
    tokio::select! {
        () = fire_when_due(&node) => {}
        () = update_time_zones(&node) => {}
    }
    node.lifecycle.drained().await;
}

async fn fire_when_due(node: &NodeContext) {
    let (lifecycle, schedules) = (&node.lifecycle, &node.schedules);
    let mut reports = lifecycle.reports.clone();
    let mut elections = schedules.election.changes();
    schedules.timer.wake_now();
    let mut state = FireState::default();
    while !lifecycle.is_draining() && !lifecycle.stop.is_cancelled() {
        // All five are cancellation safe.
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = lifecycle.draining.cancelled() => return,
            _ = schedules.timer.wait() => {}
            // Elected, or no longer. None without an election: its task has ended, which ends this registration.
            Ok(()) = elections.changed() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.check_in.next_fire {
                    schedules.timer.row_due(report.received + due);
                }
                schedules.queued.store(report.check_in.queued, Ordering::Relaxed);
                if report.check_in.queued {
                    schedules.timer.wake_now();
                }
                continue;
            }
        }
        if let Err(error) = fire_page(node, &mut state).await {
            tracing::warn!(%error, "schedules could not be fired");
            schedules.timer.wake_at(Instant::now() + RETRY);
        }
    }
}

/// What is kept from one poll to the next.
#[derive(Default)]
struct FireState {
    backlog: Backlog,
    /// How many polls in a row found every schedule fired by another node.
    misses: u32,
}

/// One poll: fires a page of what is due, and sets the timer for what comes next.
async fn fire_page(node: &NodeContext, state: &mut FireState) -> Result<()> {
    let (pool, schedules) = (&node.database.pool, &node.schedules);
    if schedules.election.may_fire().is_none() {
        // The next check-in wakes again.
        return Ok(());
    }
    schedules.timer.clear_due();
    let due = schedule::due(pool, PAGE).await?;
    let full = i64::try_from(due.len()).unwrap_or(i64::MAX) >= PAGE;
    let found = !due.is_empty();
    let mut won = fire(node, &due, &mut state.backlog).await?;
    let reads_queued = schedules.queued.load(Ordering::Relaxed);
    if reads_queued {
        let queued = schedule::queued(pool, PAGE).await?;
        won += fire(node, &queued, &mut state.backlog).await?;
    }
    if !full {
        state.backlog = Backlog::default();
    }
    let (next, queued) = schedule::next(pool).await?;
    schedules.queued.store(queued, Ordering::Relaxed);
    if queued && !reads_queued {
        // The instance that it waits for may have ended, and notified, before the occurrence was queued.
        schedules.timer.wake_now();
    }
    state.misses = if found && won == 0 { state.misses + 1 } else { 0 };
    if let Some(next) = next {
        let mut at = Instant::now() + Duration::from_micros(u64::try_from(next).unwrap_or(0));
        if state.misses > 0 {
            let pause = BACKOFF * 2u32.saturating_pow((state.misses - 1).min(16));
            at += pause.min(LONGEST_BACKOFF).mul_f64(rand::random_range(0.2..1.0));
        }
        schedules.timer.row_due(at);
    }
    Ok(())
}

/// Fires as many of these as fit into a statement; returns how many schedules this node has fired.
async fn fire(node: &NodeContext, rows: &[ScheduleRow], backlog: &mut Backlog) -> Result<usize> {
    let database = &node.database;
    let mut decisions: Vec<ScheduleFiring> = Vec::new();
    let mut starts = 0;
    for (no, row) in rows.iter().enumerate() {
        let decision = decide::decide(row, no, backlog);
        starts += decision.starts.len();
        if starts > STARTS && !decisions.is_empty() {
            break;
        }
        decisions.push(decision);
    }
    if decisions.is_empty() {
        return Ok(0);
    }
    match send(database, &decisions).await {
        Ok(fired) => Ok(record(node, rows, &decisions, &fired)),
        Err(error) if error.is_unavailable() && error.code() != "database-busy" && !error.is_database_fault() => {
            Err(error)
        }
        // A competing start took an activation key in the same moment, or the database refuses one of them: each is fired
        // alone, so that one affects no other.
        Err(_) => {
            let (mut won, mut faults) = (0, Vec::new());
            for (decision, row) in decisions.iter().zip(rows) {
                match send(database, std::slice::from_ref(decision)).await {
                    Ok(fired) => won += record(node, rows, std::slice::from_ref(decision), &fired),
                    Err(error) if error.code() == "database-busy" => {}
                    // A fault of the database, unless others are fired.
                    Err(error) if error.is_database_fault() && (won > 0 || faults.len() < FAULTS) => {
                        faults.push((row, error));
                    }
                    Err(error) if error.is_unavailable() => return Err(error),
                    Err(error) => postpone(database, row, &error).await?,
                }
            }
            if won == 0
                && let Some((_, error)) = faults.pop()
            {
                return Err(error);
            }
            for (row, error) in faults {
                postpone(database, row, &error).await?;
            }
            Ok(won)
        }
    }
}

/// Postpones a schedule that fails alone.
async fn postpone(database: &Database, row: &ScheduleRow, error: &Error) -> Result<()> {
    tracing::error!(schedule = row.id, %error, "a schedule cannot be fired; it is postponed");
    let later = [decide::postpone(row, 0)];
    schedule::fire(&database.pool, &database.node_id, &later, &[], false).await?;
    Ok(())
}

async fn send(database: &Database, decisions: &[ScheduleFiring]) -> Result<Vec<Fired>> {
    let rows: Vec<_> = decisions.iter().map(|decision| decision.row.clone()).collect();
    let starts = decisions.iter().flat_map(|decision| decision.starts.iter().cloned());
    let starts: Vec<_> = starts.collect();
    schedule::fire(&database.pool, &database.node_id, &rows, &starts, false).await
}

/// Counts and logs what this node has fired, and wakes pollers for its starts.
fn record(node: &NodeContext, rows: &[ScheduleRow], decisions: &[ScheduleFiring], fired: &[Fired]) -> usize {
    let mut made = 0;
    for fired in fired {
        let Some(decision) = decisions.iter().find(|decision| decision.row.no == fired.no) else {
            continue;
        };
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        made += count(fired.accepted);
        let refused = count(fired.requested - fired.accepted);
        meter(&decision.tally, count(fired.accepted), refused, decision.row.lateness);
        let row = usize::try_from(fired.no).ok().and_then(|no| rows.get(no));
        if let Some(row) = row {
            bounded_info!(
                node = %node.database.node_id,
                schedule = row.id,
                definition = %row.definition_id,
                occurrence = ?row.next_occurrence,
                made = fired.accepted,
                refused,
                skipped = decision.tally.skipped,
                "a schedule has fired"
            );
        }
    }
    if made > 0 {
        node.work_accepted(None, None, usize::try_from(made).unwrap_or(usize::MAX));
    }
    fired.len()
}

/// Counts what became of a schedule; `lateness` in microseconds.
fn meter(tally: &Tally, made: u64, refused: u64, lateness: Option<i64>) {
    metrics::counter!("mainspring_schedules_due_total").increment(tally.due);
    metrics::counter!("mainspring_schedules_fired_total").increment(made);
    metrics::counter!("mainspring_schedules_late_total").increment(tally.late);
    metrics::counter!("mainspring_schedules_misfired_total").increment(tally.misfired);
    metrics::counter!("mainspring_schedules_skipped_total").increment(tally.skipped + refused);
    if let Some(lateness) = lateness {
        metrics::histogram!("mainspring_schedule_lateness_seconds").record(lateness as f64 / 1e6);
    }
}

/// Recomputes schedules with the time zone data of this node, once. Never returns.
async fn update_time_zones(node: &NodeContext) {
    while let Err(error) = recompute_stale(node).await {
        tracing::warn!(%error, "schedules could not be recomputed with new time zone data");
        tokio::time::sleep(TIME_ZONE_RETRY).await;
    }
    std::future::pending().await
}

/// Recomputes schedules that were computed with a time zone database older than that of this node.
async fn recompute_stale(node: &NodeContext) -> Result<()> {
    let pool = &node.database.pool;
    let ours = time_zone_database();
    let mut after = (String::new(), String::new());
    loop {
        let page = schedule::stale(pool, ours, (&after.0, &after.1), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = (last.tenant.as_str().to_owned(), last.id.clone());
        for (row, paused) in &page {
            failpoint::hit("fire.computed").await?;
            let Some(schedule) = decide::schedule_of(row) else {
                continue;
            };
            let next = decide::next_of(row, &schedule, row.last_occurrence);
            let plan = NewPlan {
                paused: *paused,
                tz_version: ours,
                last_occurrence: row.last_occurrence,
                next_occurrence: next.map(|next| next.occurrence),
                next_fire: next.map(|next| next.fire_at),
            };
            // A node that changed it meanwhile has computed it with its data.
            if schedule::set(pool, row, plan).await? {
                node.schedules.timer.wake_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, meter};
    use crate::testing::metrics::Recorded;

    #[test]
    fn fired_late_misfired_and_skipped_schedules_are_counted() {
        let recorded = Recorded::default();
        let tally = Tally {
            due: 7,
            late: 5,
            misfired: 3,
            skipped: 2,
        };
        metrics::with_local_recorder(&recorded, || {
            meter(&tally, 4, 1, Some(2_500_000));
            meter(&Tally::default(), 1, 0, None);
        });
        let counted = [
            ("mainspring_schedules_due_total", 7),
            ("mainspring_schedules_fired_total", 5),
            ("mainspring_schedules_late_total", 5),
            ("mainspring_schedules_misfired_total", 3),
            ("mainspring_schedules_skipped_total", 3),
        ];
        assert_eq!(
            recorded.counters(),
            counted.map(|(name, count)| (name.to_owned(), count))
        );
        let lateness = ("mainspring_schedule_lateness_seconds".to_owned(), vec![2.5]);
        assert_eq!(recorded.histograms(), [lateness]);
    }
}
