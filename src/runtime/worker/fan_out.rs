//! Gives events that many instances wait for to their bookmarks, page by page, until all fan-outs are finished.
//!
//! Any node writes the next page of any fan-out. This loop runs when this node has accepted one, and when a check-in shows that
//! some are unfinished.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::release::{backoff, release_claims};
use crate::Result;
use crate::id::FanOutId;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{ClaimedInstance, ClaimedRow, InstanceKey, Release};
use crate::store::commit::Claim;
use crate::store::fan_out::{self, FanOutError, FanOutPage, FanOutStep, PAGE_ROWS};

/// How long a fan-out waits that has as many unclaimed rows as may be. The pauses double: at its end at most twice as many
/// rows are consumed as a page has, and the rest of them keeps the workers busy.
const FULL_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_FULL_PAUSE: Duration = Duration::from_millis(500);

/// How long a fan-out waits whose last step failed; the pauses double.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A fan-out whose last step failed on this node.
struct Failing {
    /// The bookmarks of its next page; none: not even one could be written, for this reason.
    page: Result<i64, String>,
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
    let mut reports = node.lifecycle.reports.clone();
    let mut failing: HashMap<FanOutId, Failing> = HashMap::new();
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.lifecycle.draining.cancelled() => break,
            () = node.claims.fan_outs.notified() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    break;
                }
                if !reports.borrow_and_update().check_in.has_fan_outs {
                    failing.clear();
                    continue;
                }
            }
        }
        // Dropped half-way, a step is not done.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.lifecycle.draining.cancelled() => break,
            () = finish_all(&node, &mut failing) => {}
        }
    }
    // Other nodes go on. The owner of this task takes its end for a failure.
    node.lifecycle.stop.cancelled().await;
}

/// Steps until nothing is left that this node can do.
async fn finish_all(node: &NodeContext, failing: &mut HashMap<FanOutId, Failing>) {
    // Others go on while one is full.
    let mut full: HashMap<FanOutId, Full> = HashMap::new();
    loop {
        let now = Instant::now();
        let failed = failing.iter().map(|(id, failing)| (*id, failing.until));
        let pauses = failed.chain(full.iter().map(|(id, full)| (*id, full.until)));
        let paused: Vec<FanOutId> = pauses.filter(|(_, until)| *until > now).map(|(id, _)| id).collect();
        let page = |id| match failing.get(&id).map(|failing| &failing.page) {
            None => FanOutPage::Rows(PAGE_ROWS),
            Some(Ok(rows)) => FanOutPage::Rows(*rows),
            Some(Err(reason)) => FanOutPage::DeadLetter(reason.clone()),
        };
        let database = &node.database;
        match fan_out::step(&database.pool, database.lock_class(), &paused, page).await {
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
            Ok((_, FanOutStep::Turned { started, refused })) => {
                for workflow in &refused {
                    tracing::info!(
                        workflow,
                        "the activation strategy of the workflow refused a start by an event"
                    );
                }
                if started > 0 {
                    node.work_accepted(None, None, usize::try_from(started).unwrap_or(usize::MAX));
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
            Err(failed) => after_failure(failing, failed),
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
    match state.page {
        Ok(rows) if rows * 2 >= PAGE_ROWS => {
            failing.remove(&id);
        }
        Ok(rows) => {
            state.page = Ok(rows * 2);
            state.until = Instant::now();
        }
        Err(_) => {
            state.page = Ok(1);
            state.until = Instant::now();
        }
    }
}

/// A page that fails for a reason of its own is halved, down to the bookmark that cannot be resumed. One that takes too long is
/// halved, too, but makes no dead letter: that may be the server's fault. A turn has no page to blame.
fn after_failure(failing: &mut HashMap<FanOutId, Failing>, failed: FanOutError) {
    let FanOutError {
        fan_out,
        at_page,
        error,
    } = failed;
    tracing::warn!(fan_out = fan_out.map(|id| id.0), %error, "a step of a fan-out failed; it is retried");
    // Without an id the database did not answer at all: the next step waits, as if for a fan-out.
    let state = failing.entry(fan_out.unwrap_or(FanOutId(0))).or_insert(Failing {
        page: Ok(PAGE_ROWS),
        pause: SHORTEST_PAUSE,
        until: Instant::now(),
    });
    let is_own = at_page && !error.is_transient();
    let is_slow = at_page && matches!(error.code(), "database-timeout" | "database-busy");
    let mut pause = state.pause;
    match state.page {
        Ok(rows) if rows > 1 && (is_own || is_slow) => {
            state.page = Ok(rows / 2);
            pause = SHORTEST_PAUSE;
        }
        Ok(_) if is_own => {
            state.page = Err(error.to_string());
            pause = SHORTEST_PAUSE;
        }
        // Not even a dead letter can be written: it is not for this bookmark.
        Err(_) if is_own => state.page = Ok(1),
        _ => {}
    }
    state.until = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
    state.pause = (state.pause * 2).min(LONGEST_PAUSE);
}

/// Gives claimed rows of fan-outs their payloads, which a node reads once for each fan-out. Rows for which that fails are
/// released.
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
            for (key, instance) in found.iter_mut() {
                let (left, rows) = std::mem::take(&mut instance.rows)
                    .into_iter()
                    .partition(|row| fan_out_of(row).is_some());
                instance.rows = rows;
                let left: Vec<ClaimedRow> = left;
                let failures = left.iter().map(|row| row.failures).max().unwrap_or(0);
                let claims: Vec<Claim> = left.into_iter().map(|row| row.claim).collect();
                release_claims(node, key, &claims, Release::after(&error, &reason, backoff(failures))).await;
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
                (Some(None), _) => unreadable.push(row.claim),
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
    fn page_after(failures: usize, at_page: bool, error: impl Fn() -> Error) -> Result<i64, String> {
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
        assert_eq!(page_after(1, true, refused), Ok(250));
        assert_eq!(page_after(8, true, refused), Ok(1));
        assert!(page_after(9, true, refused).is_err());
        // If not even that can be written, the bookmark is tried again.
        assert_eq!(page_after(10, true, refused), Ok(1));
    }

    #[test]
    fn only_a_page_that_is_refused_makes_a_dead_letter() {
        for code in ["database-timeout", "database-busy"] {
            assert_eq!(page_after(50, true, || Error::unavailable(code, "slow")), Ok(1));
        }
        let unreachable = || Error::unavailable("database-unavailable", "gone");
        assert_eq!(page_after(50, true, unreachable), Ok(PAGE_ROWS));
        assert_eq!(page_after(50, false, || Error::internal("refused")), Ok(PAGE_ROWS));
    }

    #[test]
    fn a_page_grows_again_once_it_is_written() {
        let mut failing = HashMap::from([(
            ID,
            Failing {
                page: Err("refused".to_owned()),
                pause: SHORTEST_PAUSE,
                until: Instant::now(),
            },
        )]);
        let mut pages = Vec::new();
        while let Some(state) = failing.get(&ID) {
            pages.push(state.page.clone().unwrap_or(0));
            grow(&mut failing, ID);
        }
        assert_eq!(pages, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]);
    }
}
