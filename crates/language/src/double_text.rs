//! Doubles as .NET writes them.

/// The shortest text that reads back as the same number; with an exponent from 1E+17 on, and below 0.0001.
pub fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}E{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_the_text_of_dotnet() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1e15, "1000000000000000"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (1e-4, "0.0001"),
            (1e-5, "1E-05"),
            (1e21, "1E+21"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }
}
