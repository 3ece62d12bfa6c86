//! Bytes as text: Base64 and hexadecimal digits.

use std::fmt::Write;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            let shown = DIGITS.get(digit).copied().filter(|_| place <= group.len());
            out.push(char::from(shown.unwrap_or(b'=')));
        }
    }
    out
}

/// The bytes of a text in Base64; `None` if it is none. Blanks between the digits are allowed, as in .NET.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !b" \t\r\n".contains(byte)).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    let groups = digits.chunks(4);
    let count = groups.len();
    for (number, group) in groups.enumerate() {
        let filled = group.iter().rev().take_while(|byte| **byte == b'=').count();
        let is_last = number + 1 == count;
        if group.len() != 4 || filled > 2 || (filled > 0 && !is_last) {
            return None;
        }
        let mut bits = 0u32;
        for digit in group.iter().take(4 - filled) {
            let place = DIGITS.iter().position(|known| known == digit)?;
            bits = bits << 6 | u32::try_from(place).ok()?;
        }
        bits <<= 6 * filled;
        let [_, a, b, c] = bits.to_be_bytes();
        bytes.extend([a, b, c].into_iter().take(3 - filled));
    }
    Some(bytes)
}

/// Two digits for each byte, with a text between them.
pub(super) fn to_hex(bytes: &[u8], between: &str) -> String {
    let mut out = String::new();
    for (number, byte) in bytes.iter().enumerate() {
        let before = if number > 0 { between } else { "" };
        let _ = write!(out, "{before}{byte:02X}");
    }
    out
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| {
        let pair = text
            .get(at..at + 2)
            .filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        u8::from_str_radix(pair?, 16).ok()
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64_and_back() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("ÿ", "w78="),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        for wrong in ["Z", "Zg=", "Zg==Zg==", "Z===", "é", "Zm9v!"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
        assert_eq!(from_hex(&to_hex(b"\x00\xff", "")), Some(b"\x00\xff".to_vec()));
        assert_eq!(from_hex("é"), None);
    }
}
