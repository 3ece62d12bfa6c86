//! Lines that busy nodes would write by the thousand: a hundred of them a second are written at info, the others are counted.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// The most lines in one second.
const PER_SECOND: u32 = 100;

/// The lines of this process.
pub(crate) static LINES: LineBudget = LineBudget::new();

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The lines of the current second, and those that were left out since the last one that says so.
pub(crate) struct LineBudget(Mutex<Second>);

struct Second {
    number: u64,
    written: u32,
    omitted: u64,
}

impl LineBudget {
    const fn new() -> Self {
        Self(Mutex::new(Second {
            number: 0,
            written: 0,
            omitted: 0,
        }))
    }

    /// Whether the next line is written at info; if not, it is at debug.
    pub(crate) fn admits(&self) -> bool {
        let second = BEGAN.elapsed().as_secs();
        match self.count_at(second) {
            None => {
                metrics::counter!("mainspring_log_lines_omitted_total").increment(1);
                false
            }
            Some(0) => true,
            Some(omitted) => {
                tracing::info!(
                    omitted,
                    "lines were left out of the log, which takes {PER_SECOND} a second of their kind"
                );
                true
            }
        }
    }

    /// None: the line is left out. Else how many were left out before this second.
    fn count_at(&self, number: u64) -> Option<u64> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second.number != number {
            second.number = number;
            second.written = 0;
        }
        if second.written >= PER_SECOND {
            second.omitted += 1;
            return None;
        }
        second.written += 1;
        Some(std::mem::take(&mut second.omitted))
    }
}

/// A line at info as long as [`LINES`] admits it, and at debug otherwise.
macro_rules! bounded_info {
    ($($line:tt)*) => {
        if $crate::log::LINES.admits() {
            tracing::info!($($line)*);
        } else {
            tracing::debug!($($line)*);
        }
    };
}
pub(crate) use bounded_info;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_lines_a_second_are_written_and_the_others_are_counted() {
        let lines = LineBudget::new();
        let written = (0..1_000).filter(|_| lines.count_at(7).is_some()).count();
        assert_eq!(written, PER_SECOND as usize);
        assert_eq!(lines.count_at(8), Some(900));
        assert_eq!(lines.count_at(8), Some(0));
    }
}
