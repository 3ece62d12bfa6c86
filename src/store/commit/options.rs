//! The options of a commit writer.

use std::time::Duration;

use super::pipeline::SendMode;
use super::queue::SECOND_LANE_MIN;

/// Bounds of a batch, and timeouts.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    /// Requests in one batch.
    pub(crate) batch: usize,
    /// Bytes in one batch, unless a single request has more.
    pub(crate) bytes: usize,
    /// Distinct stimulus keys in one batch: the shared lock table of Postgres is small.
    pub(crate) keys: usize,
    /// Requests that wait for the contended lane, beside one batch in it; what exceeds them is [`CommitOutcome::Busy`].
    pub(crate) contended: usize,
    /// How many waiting requests start the second lane. `None` means no second lane.
    pub(crate) second_lane_min: Option<usize>,
    /// How long a request waits for a locked row before its outcome is [`CommitOutcome::Busy`].
    pub(crate) lock_timeout: Duration,
    /// How long an outcome in doubt is resolved before it is [`CommitOutcome::Unknown`].
    pub(crate) doubt_timeout: Duration,
    pub(crate) send: SendMode,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch: 256,
            bytes: 4 << 20,
            keys: 384,
            contended: 2048,
            second_lane_min: Some(SECOND_LANE_MIN),
            lock_timeout: Duration::from_secs(10),
            doubt_timeout: Duration::from_secs(60),
            send: SendMode::default(),
        }
    }
}
