//! Sleep that ends within tens of microseconds of its time.
//!
//! Tokio rounds a deadline up to a millisecond, and then the timeout of its wait for events once more: on average a
//! millisecond late, half of what a due timer otherwise takes until its burst begins.

use std::io;
use std::time::{Duration, Instant};

/// By how much tokio may be late, with some room: the rest is slept with a timer of the kernel.
const ROUNDING: Duration = Duration::from_millis(3);

/// Sleeps until `instant`. Cancellation safe.
pub(super) async fn sleep_until(instant: Instant) {
    if let Some(before) = instant.checked_sub(ROUNDING)
        && before > Instant::now()
    {
        tokio::time::sleep_until(before.into()).await;
    }
    let rest = instant.saturating_duration_since(Instant::now());
    if rest.is_zero() || sleep_precisely(rest).await.is_ok() {
        return;
    }
    // Without a file descriptor for the timer, or on another system.
    tokio::time::sleep_until(instant.into()).await;
}

#[cfg(target_os = "linux")]
async fn sleep_precisely(rest: Duration) -> io::Result<()> {
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let timer = rustix::time::timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: rest.try_into().map_err(io::Error::other)?,
    };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    #[allow(
        deprecated,
        reason = "it is unsound for types that do not own their descriptor, and this one does"
    )]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
    timer.readable().await.map(|_| ())
}

#[cfg(not(target_os = "linux"))]
async fn sleep_precisely(_: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn it_does_not_end_early() {
        for micros in [0, 1, 300, 2_500, 12_345] {
            let instant = Instant::now() + Duration::from_micros(micros);
            super::sleep_until(instant).await;
            assert!(Instant::now() >= instant, "{micros} µs");
        }
        let past = Instant::now();
        super::sleep_until(past).await;
    }
}
