//! The clock of leases: it continues while the machine is suspended, and never goes back.

use std::ops::Add;
use std::time::Duration;

/// A moment of that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseTime(Duration);

impl LeaseTime {
    #[cfg(target_os = "linux")]
    pub(super) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(now.try_into().unwrap_or_default())
    }

    /// `Instant` goes on on Windows, and stands still on macOS.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn now() -> Self {
        static STARTED: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        Self(STARTED.elapsed())
    }

    pub(super) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// Zero if the other moment is later.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long it is until then; zero when it is over.
    pub(super) fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// Of the largest number on, no moment.
    pub(super) fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Add<Duration> for LeaseTime {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}
