//! Axes with round ticks and a suitable unit.

use super::panel::Unit;

/// An axis from zero.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    /// The upper end, in the unit of the figures.
    pub(super) top: f64,
    pub(super) ticks: Vec<f64>,
    /// The unit of its labels.
    pub(super) unit: &'static str,
    /// The number of the figures' units in one of the axis.
    divisor: f64,
}

impl Scale {
    /// An axis for values up to `most`.
    pub(super) fn up_to(most: f64, unit: Unit) -> Self {
        let (name, divisor) = match unit {
            Unit::PerSecond => ("per second", 1.0),
            Unit::Count => ("", 1.0),
            Unit::Time if most < 1e3 => ("µs", 1.0),
            Unit::Time if most < 1e6 => ("ms", 1e3),
            Unit::Time => ("s", 1e6),
            Unit::Bytes if most < 1e4 => ("bytes", 1.0),
            Unit::Bytes if most < 1e7 => ("kB", 1e3),
            Unit::Bytes => ("MB", 1e6),
        };
        let step = round_step(most / divisor / 4.0);
        let steps = (most / divisor / step).ceil().clamp(1.0, 10.0) as u32;
        let ticks: Vec<f64> = (0..=steps).map(|tick| f64::from(tick) * step * divisor).collect();
        Self {
            top: f64::from(steps) * step * divisor,
            ticks,
            unit: name,
            divisor,
        }
    }

    /// A value as text in the unit of the axis.
    pub(super) fn label(&self, value: f64) -> String {
        number(value / self.divisor)
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    if least <= 1e-9 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    // Tolerates rounding errors above a round number.
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// About three significant digits, all digits before the point, with thousands separators.
pub(super) fn number(value: f64) -> String {
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest.trim_end_matches('0') {
        "" => grouped,
        rest => format!("{grouped}.{rest}"),
    }
}

/// The median; for an even count the mean of the middle two.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        let lower = sorted.get(sorted.len() / 2 - 1)?;
        return Some((lower + upper) / 2.0);
    }
    Some(*upper)
}
