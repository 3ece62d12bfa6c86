//! The polls of a node that does not support every version, as in a rolling upgrade: they leave out the work of other nodes.
//!
//! Many rows of other nodes may be at the head of the queue. The first poll and those of the whole backlog pass over them and
//! find where supported work begins, the horizon; the other polls begin there, so that they stay cheap.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::poll_state::MARGIN;
use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, InstanceKey, PolledWork, VersionFilter, VersionKey};

/// How often the whole backlog is polled, at most.
const WHOLE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Such a poll takes at most a sixth of the time of a connection: it may pass over many rows of other nodes.
const WHOLE_POLL_REST: u32 = 5;

/// The least time until a poll for rows that were not due yet.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// What such a poll leaves out.
pub(super) struct Without<'a> {
    /// Versions that this node does not support.
    pub(super) versions: &'a [VersionKey],
    /// Instances in flight at this node, or deferred.
    pub(super) instances: &'a [InstanceKey],
}

/// How far the polls of a node have come that does not support every version.
#[derive(Default)]
pub(super) struct SupportedWork(Mutex<Progress>);

#[derive(Clone, Copy, Default)]
struct Progress {
    /// No supported work is older, except what becomes visible late. `None` if nothing was polled yet.
    horizon: Option<DateTime<Utc>>,
    /// When the next due time of supported work was read last.
    asked_due: Option<Instant>,
}

/// Whether a poll asks when the next row of a supported version is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DueQuestion {
    Ask,
    /// It was asked a moment ago: it is asked again then.
    AskAt(Instant),
    /// There is more work that is due.
    None,
}

impl Progress {
    /// A check-in reports the head of the queue, which may be unsupported, so each poll that has shown all asks. The question
    /// passes over many rows.
    fn due_question(&self, now: Instant, is_full: bool) -> DueQuestion {
        match self.asked_due.map(|asked| asked + LEAST_PAUSE) {
            Some(again) if again > now => DueQuestion::AskAt(again),
            _ if is_full => DueQuestion::None,
            _ => DueQuestion::Ask,
        }
    }
}

impl SupportedWork {
    fn get(&self) -> Progress {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The oldest supported work that a poll of the whole backlog found.
    fn begins_at(&self, oldest: DateTime<Utc>) {
        self.update(|progress| progress.horizon = Some(oldest - MARGIN));
    }

    /// Reads which instances have work of supported versions that is due, from the horizon on.
    pub(super) async fn read(
        &self,
        node: &NodeContext,
        without: Without<'_>,
        limit: usize,
        isolated: bool,
    ) -> Result<PolledWork> {
        let pool = &node.database.pool;
        let since = self.get().horizon;
        let filter = VersionFilter {
            unsupported: without.versions,
            since,
        };
        let began = Instant::now();
        let (mut found, oldest) = claim::poll_supported_work(pool, limit, without.instances, isolated, &filter).await?;
        if since.is_none() {
            self.begins_at(oldest);
        }
        match self.get().due_question(began, found.full) {
            DueQuestion::AskAt(again) => {
                node.claims.wake_timer.row_due(again);
            }
            DueQuestion::None => {}
            DueQuestion::Ask => {
                self.update(|progress| progress.asked_due = Some(began));
                let due = claim::next_supported_due(pool, without.versions).await?;
                found.next_due = due.map(|due| due.max(LEAST_PAUSE));
            }
        }
        Ok(found)
    }
}

/// Polls the whole backlog from time to time, for what became visible behind the horizon. Never returns.
pub(super) async fn poll_backlog_periodically(node: &NodeContext, supported: &SupportedWork) {
    loop {
        let began = Instant::now();
        if node.claims.workers.count > 0
            && supported.get().horizon.is_some()
            && let Err(error) = poll_whole_backlog(node, supported).await
        {
            tracing::debug!(%error, "the whole backlog could not be polled");
        }
        tokio::time::sleep(WHOLE_POLL_INTERVAL.max(began.elapsed() * WHOLE_POLL_REST)).await;
    }
}

async fn poll_whole_backlog(node: &NodeContext, supported: &SupportedWork) -> Result<()> {
    let unsupported = node.claims.unsupported.versions();
    let excluded = node.claims.excluded();
    let filter = VersionFilter {
        unsupported: &unsupported,
        since: None,
    };
    let (found, oldest) = claim::poll_supported_work(&node.database.pool, 1, &excluded, true, &filter).await?;
    supported.begins_at(oldest);
    if !found.instances.is_empty() {
        node.claims.wake_timer.wake_now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_due_time_is_asked_for_once_in_a_while_by_polls_that_have_shown_all() {
        let asked = Instant::now();
        let again = asked + LEAST_PAUSE;
        for (asked_due, now, is_full, expected) in [
            (None, asked, false, DueQuestion::Ask),
            (None, asked, true, DueQuestion::None),
            (Some(asked), asked, false, DueQuestion::AskAt(again)),
            (Some(asked), asked, true, DueQuestion::AskAt(again)),
            (Some(asked), again, false, DueQuestion::Ask),
            (Some(asked), again, true, DueQuestion::None),
        ] {
            let progress = Progress {
                asked_due,
                ..Progress::default()
            };
            assert_eq!(progress.due_question(now, is_full), expected);
        }
    }
}
