//! When a delivery is tried again, and when a sink is.
//!
//! A sink that fails waits as a whole, and one delivery asks whether it is back: what is queued for it costs nothing meanwhile.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// Before the second attempt of a delivery; doubled before each further one.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3600);

/// After the first round in which a sink took nothing; doubled after each further one.
const SINK_FIRST: Duration = Duration::from_secs(1);
const SINK_LONGEST: Duration = Duration::from_secs(300);

/// The longest time that a receiver may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// How long a delivery rests after so many attempts, of which the last one failed.
pub(crate) fn delivery_pause(attempts: u32) -> Duration {
    doubled(FIRST, attempts, LONGEST)
}

/// How long a sink rests after so many rounds in a row without a success.
pub(crate) fn sink_pause(failures: u32) -> Duration {
    doubled(SINK_FIRST, failures, SINK_LONGEST)
}

/// Up to a fifth less, so that nodes and deliveries do not come at the same moment.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 2u32.saturating_pow(times.saturating_sub(1).min(24));
    let pause = first.saturating_mul(factor).min(longest);
    pause.mul_f64(rand::random_range(0.8..=1.0))
}

/// What a header `Retry-After` asks for, in seconds or as a date; bounded. `None` if it cannot be read.
pub(crate) fn retry_after(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST_ASKED));
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    let left = (at.with_timezone(&Utc) - now).to_std().unwrap_or_default();
    Some(left.min(LONGEST_ASKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let within = |pause: Duration, seconds: f64| {
            let least = seconds * 0.79;
            assert!((least..=seconds).contains(&pause.as_secs_f64()), "{pause:?} {seconds}");
        };
        within(delivery_pause(0), 5.0);
        within(delivery_pause(1), 5.0);
        within(delivery_pause(3), 20.0);
        within(delivery_pause(u32::MAX), 3600.0);
        within(sink_pause(1), 1.0);
        within(sink_pause(5), 16.0);
        within(sink_pause(u32::MAX), 300.0);
    }

    #[test]
    fn what_a_receiver_asks_for_is_seconds_or_a_date() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let asked = |text: &str| retry_after(text, now).map(|pause| pause.as_secs());
        assert_eq!(asked(" 7 "), Some(7));
        assert_eq!(asked("86400"), Some(3600));
        assert_eq!(asked("Tue, 14 Nov 2023 22:13:50 GMT"), Some(30));
        assert_eq!(asked("Tue, 14 Nov 2000 22:13:50 GMT"), Some(0));
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("-3"), None);
    }
}
