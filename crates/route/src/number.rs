//! Numbers as .NET reads them in its invariant culture.

use mainspring_language::Decimal;

/// What a number may have beside a sign before it, and white space around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `NumberStyles.Number`: thousands, a point, or a sign behind it.
    Number,
    /// `NumberStyles.Float` with thousands: a point and an exponent.
    Float,
}

/// White space of numbers is that of ASCII alone.
fn is_space(c: char) -> bool {
    matches!(c, '\u{9}'..='\u{d}' | ' ')
}

fn is_sign(c: char) -> bool {
    matches!(c, '+' | '-')
}

/// What `long.TryParse` reads with `NumberStyles.Integer`.
pub(crate) fn long(text: &str) -> Option<i64> {
    let text = text.trim_matches(is_space);
    let digits = text.strip_prefix(is_sign).unwrap_or(text);
    // A second sign is one that Rust would read.
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// What `int.TryParse` reads with `NumberStyles.Integer`.
pub(crate) fn int(text: &str) -> Option<i32> {
    long(text).and_then(|number| i32::try_from(number).ok())
}

/// Whether `decimal.TryParse` reads a text.
pub(crate) fn is_decimal(text: &str) -> bool {
    scan(text, Style::Number).is_some_and(|digits| Decimal::parse(&digits).is_some())
}

/// Whether `double.TryParse` reads a text; `float.TryParse` reads the same ones, for what is too large is infinite.
pub(crate) fn is_double(text: &str) -> bool {
    let symbol = text.trim();
    let unsigned = symbol.strip_prefix(is_sign).unwrap_or(symbol);
    let is_symbol = |name: &str| unsigned.eq_ignore_ascii_case(name);
    is_symbol("infinity") || is_symbol("nan") || scan(text, Style::Float).is_some()
}

/// The digits and the point of a number, if a text is one.
fn scan(text: &str, style: Style) -> Option<String> {
    let text = text.trim_matches(is_space);
    let unsigned = text.strip_prefix(is_sign).unwrap_or(text);
    let mut digits = String::with_capacity(unsigned.len());
    let (mut has_digit, mut has_point) = (false, false);
    let mut rest = unsigned.chars();
    loop {
        let before = rest.clone();
        match rest.next() {
            Some(digit) if digit.is_ascii_digit() => {
                digits.push(digit);
                has_digit = true;
            }
            Some('.') if !has_point => {
                digits.push('.');
                has_point = true;
            }
            Some(',') if has_digit && !has_point => {}
            _ => {
                rest = before;
                break;
            }
        }
    }
    let rest = match style {
        Style::Float => without_exponent(rest.as_str()),
        Style::Number => {
            let rest = rest.as_str().trim_start_matches(is_space);
            let has_sign = unsigned.len() < text.len();
            rest.strip_prefix(is_sign).filter(|_| !has_sign).unwrap_or(rest)
        }
    };
    (has_digit && rest.is_empty()).then_some(digits)
}

fn without_exponent(text: &str) -> &str {
    let Some(exponent) = text.strip_prefix(['e', 'E']) else {
        return text;
    };
    let unsigned = exponent.strip_prefix(is_sign).unwrap_or(exponent);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() < unsigned.len() { rest } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_dotnet_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            (" -12\t", Some(-12)),
            ("+5", Some(5)),
            ("0007", Some(7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("- 5", None),
            ("+-5", None),
            ("5-", None),
            ("1,000", None),
            ("1.0", None),
            ("1e3", None),
            ("0x1F", None),
            ("\u{a0}5", None),
            ("٣", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(long(text), number, "{text:?}");
        }
        assert_eq!(int("2147483647"), Some(i32::MAX));
        assert_eq!(int("2147483648"), None);
        assert_eq!(int("-2147483648"), Some(i32::MIN));
    }

    #[test]
    fn decimals_and_doubles_are_read_as_dotnet_reads_them() {
        for (text, decimal, double) in [
            ("1.5", true, true),
            (" 1.5 ", true, true),
            ("-1,234.5", true, true),
            ("1,,2", true, true),
            (",1", false, false),
            ("1.2,3", false, false),
            (".5", true, true),
            ("5.", true, true),
            (".", false, false),
            ("5-", true, false),
            ("5 -", true, false),
            ("-5-", false, false),
            ("- 5", false, false),
            ("1e3", false, true),
            ("1E-3", false, true),
            ("1e", false, false),
            ("1e+", false, false),
            ("1e999", false, true),
            ("NaN", false, true),
            ("-infinity", false, true),
            ("∞", false, false),
            ("79228162514264337593543950335", true, true),
            ("79228162514264337593543950336", false, true),
            ("$5", false, false),
            ("(5)", false, false),
            ("", false, false),
            ("x", false, false),
        ] {
            assert_eq!((is_decimal(text), is_double(text)), (decimal, double), "{text:?}");
        }
    }
}
