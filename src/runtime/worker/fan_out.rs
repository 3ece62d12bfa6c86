//! Gives an event that many instances wait for to their bookmarks, page by page, until all fan-outs are finished.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;

use super::backoff::backoff;
use super::paging_job::{self, PagingJob};
use super::release::give_back;
use crate::Result;
use crate::id::FanOutId;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{ClaimedInstance, ClaimedRow, InstanceKey, Release, ReleaseCause};
use crate::store::fan_out::{self, FanOutError, FanOutPage, FanOutStep, PAGE_ROWS};
use crate::store::node::CheckIn;

/// How long a fan-out waits that has as many unclaimed rows as may be. The pauses double: at its end at most twice as many
/// rows are consumed as a page has, and the rest of them keeps the workers busy.
const FULL_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_FULL_PAUSE: Duration = Duration::from_millis(500);

/// How long a fan-out waits whose last step failed; the pauses double.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Stands for the steps that failed before they had locked a fan-out.
const NO_FAN_OUT: FanOutId = FanOutId(0);

/// A fan-out whose last step failed on this node.
struct Failing {
    page: FanOutPage,
    pause: Duration,
    until: Instant,
}

/// A fan-out with as many unclaimed rows as may be.
struct Full {
    pause: Duration,
    until: Instant,
}

/// Works on fan-outs until the incarnation stops or drains.
pub(crate) async fn run(node: Arc<NodeContext>) {
    let failing = HashMap::new();
    paging_job::run(&node, FanOuts { node: &node, failing }).await;
}

struct FanOuts<'a> {
    node: &'a NodeContext,
    failing: HashMap<FanOutId, Failing>,
}

impl PagingJob for FanOuts<'_> {
    fn accepted(&self) -> &Notify {
        &self.node.claims.fan_outs
    }

    fn is_left(&self, check_in: &CheckIn) -> bool {
        check_in.has_fan_outs
    }

    fn forget(&mut self) {
        self.failing.clear();
    }

    async fn write_pages(&mut self) {
        let (node, failing) = (self.node, &mut self.failing);
        // Others continue while one is full.
        let mut full: HashMap<FanOutId, Full> = HashMap::new();
        loop {
            let now = Instant::now();
            let failed = failing.iter().map(|(id, failing)| (*id, failing.until));
            let pauses = failed.chain(full.iter().map(|(id, full)| (*id, full.until)));
            let paused: Vec<FanOutId> = pauses.filter(|(_, until)| *until > now).map(|(id, _)| id).collect();
            let page = |id| {
                failing
                    .get(&id)
                    .map_or(FanOutPage::Rows(PAGE_ROWS), |failing| failing.page)
            };
            let database = &node.database;
            let from = node.lifecycle.reports.borrow().fan_outs_from;
            let step = fan_out::step(&database.pool, database.lock_class(), from, &paused, page).await;
            if step.is_ok() {
                failing.remove(&NO_FAN_OUT);
            }
            match step {
                Ok((_, FanOutStep::Idle)) => {
                    failing.retain(|_, failing| failing.until > now);
                    full.retain(|_, full| full.until > now);
                    let failed = failing.values().map(|failing| failing.until);
                    let Some(until) = failed.chain(full.values().map(|full| full.until)).min() else {
                        return;
                    };
                    // Both are cancellation safe.
                    tokio::select! {
                        () = tokio::time::sleep_until(until.into()) => {}
                        () = node.claims.fan_outs.notified() => {}
                    }
                }
                Ok((id, FanOutStep::Full | FanOutStep::Behind)) => {
                    if let Some(id) = id {
                        pause_full(&mut full, id);
                    }
                }
                Ok((id, FanOutStep::Turned(turn))) => {
                    if turn.is_given_up {
                        tracing::error!(
                            fan_out = id.map(|id| id.0),
                            "an event could not take its turn; it became a dead letter"
                        );
                    }
                    if let Some(id) = id {
                        failing.remove(&id);
                    }
                    for workflow in &turn.refused {
                        tracing::info!(
                            workflow,
                            "the activation strategy of the workflow refused a start by an event"
                        );
                    }
                    let rows = turn.started + turn.resumed;
                    if rows > 0 {
                        node.work_accepted(None, None, usize::try_from(rows).unwrap_or(usize::MAX));
                    }
                }
                Ok((id, FanOutStep::Paged { resumed, dead_letters })) => {
                    if dead_letters > 0 {
                        tracing::error!(
                            fan_out = id.map(|id| id.0),
                            "a bookmark could not be resumed; its event became a dead letter"
                        );
                    }
                    if let Some(id) = id {
                        full.remove(&id);
                        grow(failing, id);
                    }
                    if resumed > 0 {
                        node.work_accepted(None, None, usize::try_from(resumed).unwrap_or(usize::MAX));
                    }
                }
                Err(failed) => {
                    let is_of_none = failed.fan_out.is_none();
                    let until = after_failure(failing, failed);
                    // No fan-out can be left out of the next step: it would fail at once.
                    if is_of_none {
                        tokio::time::sleep_until(until.into()).await;
                    }
                }
            }
        }
    }
}

/// The fan-out is left out until bursts have consumed some of its rows.
fn pause_full(full: &mut HashMap<FanOutId, Full>, id: FanOutId) {
    let now = Instant::now();
    let state = full.entry(id).or_insert(Full {
        pause: FULL_PAUSE,
        until: now,
    });
    state.until = now + state.pause;
    state.pause = (state.pause * 2).min(LONGEST_FULL_PAUSE);
}

/// A page was written: the next one may be larger.
fn grow(failing: &mut HashMap<FanOutId, Failing>, id: FanOutId) {
    let Some(state) = failing.get_mut(&id) else {
        return;
    };
    state.until = Instant::now();
    match state.page {
        FanOutPage::Rows(rows) if rows * 2 >= PAGE_ROWS => {
            failing.remove(&id);
        }
        FanOutPage::Rows(rows) => state.page = FanOutPage::Rows(rows * 2),
        FanOutPage::RowOrDeadLetter => state.page = FanOutPage::Rows(1),
    }
}

/// A page that fails for a reason of its own is halved, down to the bookmark that cannot be resumed. One that takes too long is
/// halved, too, but makes no dead letter: that may be the server's fault. A turn that fails as often for a reason of its own, with
/// pauses that double, is given up. Returns until when the fan-out, or without one this node, makes a pause.
fn after_failure(failing: &mut HashMap<FanOutId, Failing>, failed: FanOutError) -> Instant {
    let FanOutError {
        fan_out,
        at_page,
        error,
    } = failed;
    tracing::warn!(fan_out = fan_out.map(|id| id.0), %error, "a step of a fan-out failed; it is retried");
    // Without an id the database did not answer at all: the pauses are those of this node.
    let state = failing.entry(fan_out.unwrap_or(NO_FAN_OUT)).or_insert(Failing {
        page: FanOutPage::Rows(PAGE_ROWS),
        pause: SHORTEST_PAUSE,
        until: Instant::now(),
    });
    let is_own = fan_out.is_some() && !error.is_transient();
    let is_slow = at_page && matches!(error.code(), "database-timeout" | "database-busy");
    let mut pause = state.pause;
    match state.page {
        FanOutPage::Rows(rows) if rows > 1 && (is_own || is_slow) => {
            state.page = FanOutPage::Rows(rows / 2);
            if at_page {
                pause = SHORTEST_PAUSE;
            }
        }
        FanOutPage::Rows(_) if is_own => {
            state.page = FanOutPage::RowOrDeadLetter;
            if at_page {
                pause = SHORTEST_PAUSE;
            }
        }
        // Not even a dead letter can be written: it is not for this bookmark.
        FanOutPage::RowOrDeadLetter if is_own => state.page = FanOutPage::Rows(1),
        _ => {}
    }
    state.until = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
    state.pause = (state.pause * 2).min(LONGEST_PAUSE);
    state.until
}

/// Gives claimed rows of fan-outs their payloads, which a node reads once for each fan-out. Where that fails, all rows of an
/// instance with such a row are given back.
pub(super) async fn fill_payloads(node: &NodeContext, found: &mut HashMap<InstanceKey, ClaimedInstance>) {
    let rows = found.values().flat_map(|instance| &instance.rows);
    let ids: BTreeSet<FanOutId> = rows.filter_map(fan_out_of).collect();
    if ids.is_empty() {
        return;
    }
    let payloads = match read_payloads(node, &ids).await {
        Ok(payloads) => payloads,
        Err(error) => {
            tracing::warn!(%error, "the payloads of fan-outs cannot be read; their rows are released");
            let reason = error.to_string();
            let of_fan_outs =
                |instance: &&mut ClaimedInstance| instance.rows.iter().any(|row| fan_out_of(row).is_some());
            for (key, instance) in found.iter_mut().filter(|(_, instance)| of_fan_outs(instance)) {
                let rows = std::mem::take(&mut instance.rows).into_iter();
                let (failed, others): (Vec<ClaimedRow>, Vec<_>) = rows.partition(|row| fan_out_of(row).is_some());
                let failures = failed.iter().map(|row| row.failures).max().unwrap_or(0);
                let how = Release::after(&error, &reason, backoff(failures));
                give_back(node, key, &failed, how).await;
                let cause = ReleaseCause::None;
                give_back(node, key, &others, Release { cause, ..how }).await;
            }
            return;
        }
    };
    for instance in found.values_mut() {
        let (mut rows, mut unreadable) = (Vec::with_capacity(instance.rows.len()), Vec::new());
        for mut row in std::mem::take(&mut instance.rows) {
            let payload = fan_out_of(&row).map(|id| payloads.get(&id));
            match (
                payload,
                row.instruction.as_mut().and_then(|(_, body)| body.as_object_mut()),
            ) {
                (Some(Some(payload)), Some(body)) => {
                    body.insert("payload".to_owned(), (**payload).clone());
                    rows.push(row);
                }
                (Some(None), _) => unreadable.push((row.claim, row.had_begun)),
                _ => rows.push(row),
            }
        }
        instance.rows = rows;
        instance.unreadable.append(&mut unreadable);
    }
}

/// The fan-out that has the payload of a row.
fn fan_out_of(row: &ClaimedRow) -> Option<FanOutId> {
    let (_, body) = row.instruction.as_ref()?;
    body.get("fanOut")?.as_i64().map(FanOutId)
}

async fn read_payloads(node: &NodeContext, ids: &BTreeSet<FanOutId>) -> Result<HashMap<FanOutId, Arc<Value>>> {
    let (mut payloads, missing) = node.claims.payloads.find(ids);
    if !missing.is_empty() {
        for (id, payload) in fan_out::payloads(&node.database.pool, &missing).await? {
            let payload = Arc::new(payload.unwrap_or(Value::Null));
            node.claims.payloads.insert(id, Arc::clone(&payload));
            payloads.insert(id, payload);
        }
    }
    Ok(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const ID: FanOutId = FanOutId(7);

    /// The page after so many failures of one kind.
    fn page_after(failures: usize, at_page: bool, error: impl Fn() -> Error) -> FanOutPage {
        let mut failing = HashMap::new();
        for _ in 0..failures {
            let failed = FanOutError {
                fan_out: Some(ID),
                at_page,
                error: error(),
            };
            after_failure(&mut failing, failed);
        }
        failing.remove(&ID).unwrap().page
    }

    #[test]
    fn a_page_that_the_database_refuses_is_halved_down_to_one_bookmark_which_is_given_up() {
        let refused = || Error::internal("refused");
        assert_eq!(page_after(1, true, refused), FanOutPage::Rows(250));
        assert_eq!(page_after(8, true, refused), FanOutPage::Rows(1));
        assert_eq!(page_after(9, true, refused), FanOutPage::RowOrDeadLetter);
        // If not even that can be written, the bookmark is tried again.
        assert_eq!(page_after(10, true, refused), FanOutPage::Rows(1));
    }

    #[test]
    fn only_a_page_that_is_refused_makes_a_dead_letter() {
        for code in ["database-timeout", "database-busy"] {
            assert_eq!(
                page_after(50, true, || Error::unavailable(code, "slow")),
                FanOutPage::Rows(1)
            );
        }
        let unreachable = || Error::unavailable("database-unavailable", "gone");
        assert_eq!(page_after(50, true, unreachable), FanOutPage::Rows(PAGE_ROWS));
        assert_eq!(page_after(50, false, unreachable), FanOutPage::Rows(PAGE_ROWS));
    }

    #[test]
    fn a_turn_that_the_database_refuses_is_given_up_after_some_seconds() {
        let refused = || Error::internal("refused");
        assert_eq!(page_after(8, false, refused), FanOutPage::Rows(1));
        assert_eq!(page_after(9, false, refused), FanOutPage::RowOrDeadLetter);
        let mut failing = HashMap::new();
        for _ in 0..9 {
            let failed = FanOutError {
                fan_out: Some(ID),
                at_page: false,
                error: refused(),
            };
            after_failure(&mut failing, failed);
        }
        assert_eq!(failing[&ID].pause, LONGEST_PAUSE);
    }

    #[test]
    fn while_the_database_is_away_the_pauses_between_steps_double() {
        let mut failing = HashMap::new();
        let pauses = (0..10).map(|_| {
            let failed = FanOutError {
                fan_out: None,
                at_page: false,
                error: Error::unavailable("database-unavailable", "gone"),
            };
            let before = Instant::now();
            after_failure(&mut failing, failed) - before
        });
        let pauses: Vec<Duration> = pauses.collect();
        assert!(pauses[0] >= SHORTEST_PAUSE / 2, "{pauses:?}");
        assert!(
            pauses[9] >= LONGEST_PAUSE / 2 && pauses[9] <= LONGEST_PAUSE * 2,
            "{pauses:?}"
        );
    }

    #[test]
    fn a_page_grows_again_once_it_is_written() {
        let mut failing = HashMap::from([(
            ID,
            Failing {
                page: FanOutPage::RowOrDeadLetter,
                pause: SHORTEST_PAUSE,
                until: Instant::now(),
            },
        )]);
        let mut pages = Vec::new();
        while let Some(state) = failing.get(&ID) {
            pages.push(match state.page {
                FanOutPage::Rows(rows) => rows,
                FanOutPage::RowOrDeadLetter => 0,
            });
            grow(&mut failing, ID);
        }
        assert_eq!(pages, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]);
    }
}
