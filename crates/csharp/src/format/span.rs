//! Formats of `TimeSpan`: `c`, `g`, `G` and custom ones.

use super::{FormatError, LONGEST};
use crate::date_time::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

pub(crate) fn span(ticks: i64, format: &str) -> Result<String, FormatError> {
    if format.len() > LONGEST {
        return Err(FormatError::invalid(format));
    }
    let total = ticks.unsigned_abs();
    let unit = |ticks: i64| ticks.unsigned_abs();
    let (days, hours) = (total / unit(TICKS_PER_DAY), total / unit(TICKS_PER_HOUR) % 24);
    let (minutes, seconds) = (total / unit(TICKS_PER_MINUTE) % 60, total / unit(TICKS_PER_SECOND) % 60);
    let fraction = total % unit(TICKS_PER_SECOND);
    let sign = if ticks < 0 { "-" } else { "" };
    let text = match format {
        "" | "c" | "t" | "T" => {
            let days = if days > 0 { format!("{days}.") } else { String::new() };
            let fraction = if fraction > 0 {
                format!(".{fraction:07}")
            } else {
                String::new()
            };
            format!("{sign}{days}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
        }
        "g" => {
            let days = if days > 0 { format!("{days}:") } else { String::new() };
            let fraction = format!(".{fraction:07}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.').to_owned();
            format!("{sign}{days}{hours}:{minutes:02}:{seconds:02}{fraction}")
        }
        "G" => format!("{sign}{days}:{hours:02}:{minutes:02}:{seconds:02}.{fraction:07}"),
        _ if format.chars().count() == 1 => return Err(FormatError::invalid(format)),
        _ => return custom(format, [days, hours, minutes, seconds, fraction]),
    };
    Ok(text)
}

fn custom(format: &str, [days, hours, minutes, seconds, fraction]: [u64; 5]) -> Result<String, FormatError> {
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(next) = chars.next() {
        let mut count = 1;
        if next.is_ascii_alphabetic() {
            while chars.next_if_eq(&next).is_some() {
                count += 1;
            }
        }
        let value = match next {
            'd' => days,
            'h' => hours,
            'm' => minutes,
            's' => seconds,
            'f' | 'F' if count <= 7 => {
                let text = format!("{fraction:07}");
                let text = text.get(..count).unwrap_or_default();
                out.push_str(if next == 'F' { text.trim_end_matches('0') } else { text });
                continue;
            }
            '\\' => {
                out.push(chars.next().ok_or_else(|| FormatError::invalid(format))?);
                continue;
            }
            '\'' | '"' => {
                out.extend(chars.by_ref().take_while(|c| *c != next));
                continue;
            }
            '%' => continue,
            // Other characters need a backslash in .NET.
            _ => return Err(FormatError::invalid(format)),
        };
        let width = count.min(8);
        out.push_str(&format!("{value:0width$}"));
    }
    Ok(out)
}
