//! Number literals: their digits, their base and their suffix.

use super::token::Token;
use mainspring_language::Decimal;

/// Reads a literal, with its suffix.
/// Errors: what is wrong with it.
pub(super) fn number(text: &str) -> Result<Token, String> {
    let plain: String = text
        .chars()
        .filter(|c| *c != '_')
        .collect::<String>()
        .to_ascii_lowercase();
    for (prefix, base) in [("0x", 16), ("0b", 2)] {
        if let Some(digits) = plain.strip_prefix(prefix) {
            return of_base(text, digits, base);
        }
    }
    let (digits, suffix) = plain.split_at(plain.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    // The exponent of `1e5` is no suffix, and `1e` has none.
    match suffix {
        "m" => Decimal::parse_exponent(digits)
            .map(Token::Decimal)
            .ok_or_else(|| format!("the literal {text} does not fit into a decimal")),
        "d" => double(text, digits),
        "f" => Err(format!(
            "the literal {text} is a float; write a double instead, without the f"
        )),
        "" if digits.contains(['.', 'e']) => double(text, digits),
        "" | "l" => integer(text, digits, 10, suffix == "l"),
        _ => Err(format!("{text} is not a number literal; its suffix may be L, d or m")),
    }
}

fn double(text: &str, digits: &str) -> Result<Token, String> {
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Token::Double(value)),
        _ => Err(format!("the literal {text} does not fit into a double")),
    }
}

fn of_base(text: &str, digits: &str, base: u32) -> Result<Token, String> {
    let plain = digits.trim_end_matches('l');
    integer(text, plain, base, plain.len() < digits.len())
}

fn integer(text: &str, digits: &str, base: u32, is_long: bool) -> Result<Token, String> {
    match i64::from_str_radix(digits, base) {
        Ok(value) if !is_long => Ok(i32::try_from(value).map_or(Token::Long(value), Token::Int)),
        Ok(value) => Ok(Token::Long(value)),
        // The only literal of which only the negative exists; the parser puts the sign before it.
        Err(_) if digits == "9223372036854775808" => Ok(Token::Long(i64::MIN)),
        Err(_) => Err(format!(
            "the literal {text} does not fit into a long; write a decimal ({text}m)"
        )),
    }
}
