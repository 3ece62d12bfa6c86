//! Settings that several commands share: the database with the log filter, and the parsers of values.

use std::time::Duration;

use super::failure::Failure;

/// The database of a command, and its log filter.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL, if one is given.
    pub database_url: Option<String>,
    /// The schema, of commands that do not make their own.
    pub schema: String,
    /// The log filter, as `tracing_subscriber` reads it.
    pub log: String,
}

impl Target {
    /// The URL of the database, which is required by all commands but `dev` and `demo`.
    /// Errors: Wrong usage if no URL is given.
    pub fn database_url(&self) -> Result<&str, Failure> {
        self.database_url.as_deref().ok_or_else(|| {
            Failure::usage(
                "no database is given. Give --database-url postgres://user@host:port/database, or set \
                 MAINSPRING_DATABASE_URL (where a password does not show in the list of processes). Without a \
                 database of your own, try `mainspring dev`.",
            )
        })
    }

    /// The log filter of child nodes: `quiet` unless another filter than the default is given.
    pub fn child_log(&self, quiet: &str) -> String {
        if self.log == "info" { quiet } else { &self.log }.to_owned()
    }
}

/// Parses a number that a flag counts with.
pub fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=100_000).contains(number));
    number.ok_or_else(|| "give a whole number from 1 to 100000".to_owned())
}

/// The KiB of one value: a script returns at most 4 MiB.
pub(crate) fn value_size(text: &str) -> Result<usize, String> {
    up_to(text, 4096)
}

/// The number of nodes on one machine: each has up to 17 connections, and a private server allows 200.
pub fn few(text: &str) -> Result<usize, String> {
    up_to(text, 8)
}

/// As [`few`], for commands with a `--pool-size`.
pub(crate) fn several(text: &str) -> Result<usize, String> {
    up_to(text, 16)
}

fn up_to(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {most}"))
}

pub(crate) fn count_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

pub(crate) fn duration_or_none(text: &str) -> Result<Duration, String> {
    if text == "0s" {
        Ok(Duration::ZERO)
    } else {
        duration(text)
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unknown = || "give a number with its unit, such as 500ms, 3s, 2m or 1h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(unknown)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| unknown())?;
    let millis = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let millis = millis
        .and_then(|unit: u64| number.checked_mul(unit))
        .ok_or_else(unknown)?;
    if millis == 0 || millis > 365 * 24 * 3_600_000 {
        return Err("give a duration that is longer than zero and shorter than a year".to_owned());
    }
    Ok(Duration::from_millis(millis))
}

/// As [`count`], for rows and instances.
pub fn many(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000_000).contains(number));
    number.ok_or_else(|| "give a whole number from 1 to 10,000,000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["", "3", "s", "0s", "-1s", "1.5s", "3 s", "9999999999h", "1y"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
