//! The loop that fires schedules: see what is due, decide, and move it on with its starts in one statement.
//!
//! Every node with the role of scheduler fires, whether it has workers or not, and there is no leader: all see the same
//! rows, decide the same by the database's clock, and one of them wins. (Where one shall fire at a time, the others look at
//! nothing until they are elected.) It looks when the next one is due, when a definition changed, when an
//! instance ended while an occurrence waits for that, and whenever a check-in says that it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::runtime::context::node_context::Shift;
use crate::runtime::context::wake_timer::Alarm;
use crate::runtime::scheduler::decide::{self, Backlog, Tally, Turn};
use crate::schedule::time_zone_database;
use crate::store::schedule::{self, Fired, NewPlan, ScheduleRow};
use crate::{Error, Result, failpoint};

/// The most schedules in one statement.
const PAGE: i64 = 500;

/// The most starts in one statement, but for a schedule that has more of its own.
const STARTS: usize = 2_000;

/// How long a node waits that found everything in other hands; twice as long each time, as somebody may keep it.
const ELSEWHERE: Duration = Duration::from_millis(5);
const LONGEST_ELSEWHERE: Duration = Duration::from_secs(1);

/// How long a node waits before it looks again for schedules of older time zone data, if it could not.
const AGAIN: Duration = Duration::from_secs(10);

/// So many schedules are tried one by one that the database refuses for reasons of its own, before the rest waits, too.
const FAULTS: usize = 3;

/// How long a node waits after an error.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// When to fire next.
#[derive(Default)]
pub(crate) struct Firing {
    pub(crate) alarm: Alarm,
    /// Occurrences wait until an instance of their schedule has ended.
    queued: AtomicBool,
}

impl Firing {
    /// An instance has ended that kept others of its schedule from starting: an occurrence may wait for that, also one
    /// that this node has not heard of.
    pub(crate) fn freed(&self) {
        self.queued.store(true, Ordering::Relaxed);
        self.alarm.now();
    }
}

impl Shift {
    /// The same; a node that does not fire tells those that do.
    pub(crate) fn freed(&self) {
        self.firing.freed();
        if self.is_draining() || self.election.may_fire().is_none() {
            self.wake.freed();
        }
    }
}

/// Fires until the shift drains or stops; returns when it closes or stops.
pub(crate) async fn run(shift: Arc<Shift>) {
    // Dropped half-way, the other one has written each schedule or not.
    tokio::select! {
        () = rounds(&shift) => {}
        () = keep_zones(&shift) => {}
    }
    if shift.is_draining() {
        tokio::select! {
            () = shift.stop.cancelled() => {}
            () = shift.closed() => {}
        }
    }
}

async fn rounds(shift: &Arc<Shift>) {
    let mut reports = shift.reports.clone();
    let mut elections = shift.election.changes();
    let firing = &shift.firing;
    firing.alarm.now();
    let mut memory = Memory::default();
    while !shift.is_draining() && !shift.stop.is_cancelled() {
        // All five are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.draining.cancelled() => return,
            _ = firing.alarm.rings() => {}
            // Elected, or no more. None without an election: its task has ended, which ends this registration.
            Ok(()) = elections.changed() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.check_in.next_fire {
                    firing.alarm.due(report.received + due);
                }
                firing.queued.store(report.check_in.queued, Ordering::Relaxed);
                if report.check_in.queued {
                    firing.alarm.now();
                }
                continue;
            }
        }
        if let Err(error) = round(shift, &mut memory).await {
            tracing::warn!(%error, "schedules could not be fired");
            firing.alarm.at(Instant::now() + AFTER_ERROR);
        }
    }
}

/// What a node remembers from one look to the next.
#[derive(Default)]
struct Memory {
    backlog: Backlog,
    /// How often everything was in other hands.
    misses: u32,
}

/// One look: fires a page of what is due, and sets the alarm for what comes next.
async fn round(shift: &Shift, memory: &mut Memory) -> Result<()> {
    if shift.election.may_fire().is_none() {
        // The next check-in rings again.
        return Ok(());
    }
    shift.firing.alarm.ask_anew();
    let due = schedule::due(&shift.pool, PAGE).await?;
    let full = i64::try_from(due.len()).unwrap_or(i64::MAX) >= PAGE;
    let found = !due.is_empty();
    let mut won = fire(shift, &due, &mut memory.backlog).await?;
    let looks = shift.firing.queued.load(Ordering::Relaxed);
    if looks {
        let queued = schedule::queued(&shift.pool, PAGE).await?;
        won += fire(shift, &queued, &mut memory.backlog).await?;
    }
    if !full {
        memory.backlog = Backlog::default();
    }
    let (next, queued) = schedule::next(&shift.pool).await?;
    shift.firing.queued.store(queued, Ordering::Relaxed);
    if queued && !looks {
        // What it waits for may have ended since we saw that it runs, and has told of that before anything waited.
        shift.firing.alarm.now();
    }
    memory.misses = if found && won == 0 { memory.misses + 1 } else { 0 };
    if let Some(next) = next {
        let mut at = Instant::now() + Duration::from_micros(u64::try_from(next).unwrap_or(0));
        if memory.misses > 0 {
            let pause = ELSEWHERE * 2u32.saturating_pow((memory.misses - 1).min(16));
            at += pause.min(LONGEST_ELSEWHERE).mul_f64(rand::random_range(0.2..1.0));
        }
        shift.firing.alarm.due(at);
    }
    Ok(())
}

/// Fires as many of these as fit into a statement; how many schedules were ours.
async fn fire(shift: &Shift, rows: &[ScheduleRow], backlog: &mut Backlog) -> Result<usize> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut starts = 0;
    for (no, row) in rows.iter().enumerate() {
        let turn = decide::decide(row, no, backlog);
        starts += turn.starts.len();
        if starts > STARTS && !turns.is_empty() {
            break;
        }
        turns.push(turn);
    }
    if turns.is_empty() {
        return Ok(0);
    }
    match send(shift, &turns).await {
        Ok(fired) => Ok(settle(shift, rows, &turns, &fired)),
        Err(error) if error.is_unavailable() && error.code() != "database-busy" && !error.is_database_fault() => {
            Err(error)
        }
        // A rival start took an activation key in the same moment, or one of them is poisoned: it hurts only itself.
        Err(_) => {
            let (mut won, mut faults) = (0, Vec::new());
            for (turn, row) in turns.iter().zip(rows) {
                match send(shift, std::slice::from_ref(turn)).await {
                    Ok(fired) => won += settle(shift, rows, std::slice::from_ref(turn), &fired),
                    Err(error) if error.code() == "database-busy" => {}
                    // Of the database, unless others are fired.
                    Err(error) if error.is_database_fault() && (won > 0 || faults.len() < FAULTS) => {
                        faults.push((row, error));
                    }
                    Err(error) if error.is_unavailable() => return Err(error),
                    Err(error) => postpone(shift, row, &error).await?,
                }
            }
            if won == 0
                && let Some((_, error)) = faults.pop()
            {
                return Err(error);
            }
            for (row, error) in faults {
                postpone(shift, row, &error).await?;
            }
            Ok(won)
        }
    }
}

/// A schedule that fails alone is left alone for a while.
async fn postpone(shift: &Shift, row: &ScheduleRow, error: &Error) -> Result<()> {
    tracing::error!(schedule = row.id, %error, "a schedule cannot be fired; it is tried again later");
    let later = [decide::postpone(row, 0)];
    schedule::fire(&shift.pool, &shift.node_id, &later, &[], false).await?;
    Ok(())
}

async fn send(shift: &Shift, turns: &[Turn]) -> Result<Vec<Fired>> {
    let rows: Vec<_> = turns.iter().map(|turn| turn.row.clone()).collect();
    let starts: Vec<_> = turns.iter().flat_map(|turn| turn.starts.iter().cloned()).collect();
    schedule::fire(&shift.pool, &shift.node_id, &rows, &starts, false).await
}

/// Counts what was ours, and rings for what it started.
fn settle(shift: &Shift, rows: &[ScheduleRow], turns: &[Turn], fired: &[Fired]) -> usize {
    let mut made = 0;
    for fired in fired {
        let Some(turn) = turns.iter().find(|turn| turn.row.no == fired.no) else {
            continue;
        };
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        made += count(fired.made);
        let refused = count(fired.asked - fired.made);
        meter(&turn.tally, count(fired.made), refused, turn.row.lateness);
        let row = usize::try_from(fired.no).ok().and_then(|no| rows.get(no));
        if let Some(row) = row {
            tracing::debug!(
                schedule = row.id,
                definition = %row.definition_id,
                occurrence = ?row.next_occurrence,
                made = fired.made,
                refused,
                skipped = turn.tally.skipped,
                "a schedule has fired"
            );
        }
    }
    if made > 0 {
        shift.accepted(None, None, usize::try_from(made).unwrap_or(usize::MAX));
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

/// Takes up the time zone data of this node, once. Never returns.
async fn keep_zones(shift: &Shift) {
    while let Err(error) = compute_again(shift).await {
        tracing::warn!(%error, "schedules could not be looked at for new time zone data");
        tokio::time::sleep(AGAIN).await;
    }
    std::future::pending().await
}

/// Schedules that were computed with an older time zone database than ours are computed again.
async fn compute_again(shift: &Shift) -> Result<()> {
    let ours = time_zone_database();
    let mut after = (String::new(), String::new());
    loop {
        let page = schedule::stale(&shift.pool, ours, (&after.0, &after.1), PAGE).await?;
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
            // Who changed it meanwhile computed it, too.
            if schedule::set(&shift.pool, row, plan).await? {
                shift.firing.alarm.now();
            }
        }
    }
}

/// The error for a schedule that keeps changing while somebody asks for something.
pub(crate) fn changing() -> Error {
    Error::conflict("schedule-changing", "the schedule keeps changing; try again")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};

    use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::{Tally, meter};

    #[derive(Default)]
    struct Noted {
        counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
        lateness: Arc<Values>,
    }

    #[derive(Default)]
    struct Values(Mutex<Vec<f64>>);

    impl HistogramFn for Values {
        fn record(&self, value: f64) {
            self.0.lock().unwrap().push(value);
        }
    }

    impl Recorder for Noted {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let mut counters = self.counters.lock().unwrap();
            Counter::from_arc(Arc::clone(counters.entry(key.name().to_owned()).or_default()))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            assert_eq!(key.name(), "mainspring_schedule_lateness_seconds");
            Histogram::from_arc(Arc::clone(&self.lateness))
        }
    }

    #[test]
    fn what_became_of_schedules_is_counted_by_name() {
        let noted = Noted::default();
        let tally = Tally {
            due: 7,
            late: 5,
            misfired: 3,
            skipped: 2,
        };
        metrics::with_local_recorder(&noted, || {
            meter(&tally, 4, 1, Some(2_500_000));
            meter(&Tally::default(), 1, 0, None);
        });
        let counters = noted.counters.lock().unwrap();
        let counted: Vec<(&str, u64)> = counters
            .iter()
            .map(|(name, count)| (name.as_str(), count.load(Relaxed)))
            .collect();
        assert_eq!(
            counted,
            [
                ("mainspring_schedules_due_total", 7),
                ("mainspring_schedules_fired_total", 5),
                ("mainspring_schedules_late_total", 5),
                ("mainspring_schedules_misfired_total", 3),
                ("mainspring_schedules_skipped_total", 3),
            ]
        );
        assert_eq!(*noted.lateness.0.lock().unwrap(), [2.5]);
    }
}
