//! Cancels and deletes many instances, page by page, until all bulk actions are finished.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::instance_filter::list_filter;
use super::paging_job::{self, PagingJob};
use crate::runtime::context::instance_list::InstanceFilter;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::Reply;
use crate::store::bulk_action::{self, BulkActionState, BulkPage, PAGE_ROWS, PageSize};
use crate::store::instance::list::InstanceListFilter;
use crate::store::node::CheckIn;
use crate::wake::WakeNotification;
use crate::{Error, Result};

/// How long an action waits whose last page failed, was written by another node, or has as many cancels as may be; the pauses
/// double.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So often one instance is tried alone before it is left out.
const TRIES: u32 = 3;

/// An action that pauses on this node.
struct Paused {
    rows: i64,
    tries: u32,
    pause: Duration,
    until: Instant,
}

impl Paused {
    fn new() -> Self {
        Self {
            rows: PAGE_ROWS,
            tries: 0,
            pause: SHORTEST_PAUSE,
            until: Instant::now(),
        }
    }

    fn wait(&mut self) {
        self.until = Instant::now() + self.pause.mul_f64(rand::random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn size(&self) -> PageSize {
        PageSize {
            rows: self.rows,
            skips: self.tries >= TRIES,
        }
    }
}

/// Works on bulk actions until the incarnation stops or drains.
pub(crate) async fn run(node: Arc<NodeContext>) {
    paging_job::run(&node, BulkActions { node: &node }).await;
}

struct BulkActions<'a> {
    node: &'a NodeContext,
}

impl PagingJob for BulkActions<'_> {
    fn accepted(&self) -> &Notify {
        &self.node.bulk_actions
    }

    fn is_left(&self, check_in: &CheckIn) -> bool {
        check_in.has_bulk_actions
    }

    async fn write_pages(&mut self) {
        let mut paused: HashMap<String, Paused> = HashMap::new();
        loop {
            let now = Instant::now();
            let waiting: Vec<String> = paused
                .iter()
                .filter(|(_, paused)| paused.until > now)
                .map(|(id, _)| id.clone())
                .collect();
            match bulk_action::next(&self.node.database.pool, &waiting).await {
                Ok(Some(action)) => step(self.node, &action, &mut paused).await,
                Ok(None) => {
                    paused.retain(|_, paused| paused.until > now);
                    let Some(until) = paused.values().map(|paused| paused.until).min() else {
                        return;
                    };
                    tokio::time::sleep_until(until.into()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the bulk actions cannot be read; they continue at the next check-in");
                    return;
                }
            }
        }
    }
}

async fn step(node: &NodeContext, action: &BulkActionState, paused: &mut HashMap<String, Paused>) {
    let size = paused.get(&action.id).map_or(Paused::new().size(), Paused::size);
    let written = match filter_of(action) {
        Ok(filter) => bulk_action::page(&node.database.pool, action, &filter, size).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(BulkPage::Written {
            processed,
            works,
            busy,
            made,
        }) => {
            if made > 0 {
                node.work_accepted(None, None, usize::try_from(made).unwrap_or(usize::MAX));
            }
            if size.skips {
                tracing::error!(
                    bulk_action = action.id,
                    "an instance was left out of a bulk action because its change fails"
                );
            }
            if size.rows * 2 >= PAGE_ROWS {
                paused.remove(&action.id);
            } else if let Some(state) = paused.get_mut(&action.id) {
                (state.rows, state.tries, state.until) = (size.rows * 2, 0, Instant::now());
            }
            metrics::counter!("mainspring_bulk_processed_total").increment(processed);
            for instance in &busy {
                node.cancel_bursts(&action.tenant, instance);
            }
            if action.deletes {
                // Instances that kept others of their schedules from starting may be among them.
                node.overlap_ended();
                for (instance, work) in works {
                    match node.notifications.replies.take(&instance, work) {
                        Some(caller) => drop(caller.send(Reply::NoInstance)),
                        None => node.notifications.wake.notify([WakeNotification::WorkDone(work)]),
                    }
                }
            } else if processed > 0 {
                node.work_accepted(None, None, usize::try_from(processed).unwrap_or(usize::MAX));
            }
        }
        Ok(BulkPage::Lost | BulkPage::Full) => paused.entry(action.id.clone()).or_insert_with(Paused::new).wait(),
        Err(error) => {
            tracing::warn!(bulk_action = action.id, %error, "a page of a bulk action failed; it is retried");
            let state = paused.entry(action.id.clone()).or_insert_with(Paused::new);
            let is_own = !error.is_transient();
            if state.rows > 1 && (is_own || error.has_timed_out()) {
                state.rows /= 2;
                state.pause = SHORTEST_PAUSE;
            } else if is_own {
                state.tries += 1;
            }
            state.wait();
        }
    }
}

/// The instances that an action means; a cancel means unfinished ones only.
fn filter_of(action: &BulkActionState) -> Result<InstanceListFilter> {
    let filter: InstanceFilter = serde_json::from_value(action.filter.clone())
        .map_err(|error| Error::internal("the filter of a bulk action cannot be read").caused_by(error))?;
    list_filter(&filter)
}
