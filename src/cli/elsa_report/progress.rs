//! What standard error shows meanwhile.

use std::time::{Duration, Instant};

/// The pause between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows at most one line per second; what is done within the first shows none.
pub(super) struct ProgressLine(Instant);

impl ProgressLine {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Says how many of so many are done.
    pub(super) fn show(&mut self, what: &str, done: usize, of: usize) {
        if self.0.elapsed() >= PAUSE {
            self.0 = Instant::now();
            eprintln!("mainspring: {what} {done} of {of}");
        }
    }
}
