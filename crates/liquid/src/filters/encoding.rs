//! Filters that encode texts or compute their digests.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Call, Filter, Filtered, filter, json};
use crate::error::TemplateFailure;
use crate::value::{Kind, Text, Value};

pub(super) static FILTERS: [Filter; 13] = [
    filter("base64", base64),
    filter("base64_encode", |call| {
        let text = call.text()?;
        encoded(&call, || STANDARD.encode(text.as_bytes()), text.len())
    }),
    filter("base64_decode", |call| {
        let text = call.text()?;
        // .NET ignores white space.
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        match STANDARD.decode(compact) {
            Ok(bytes) => call.made_of(String::from_utf8_lossy(&bytes).into_owned()),
            Err(_) => Err(TemplateFailure::invalid("the text is not Base64")),
        }
    }),
    filter("base64_url_safe_encode", |call| {
        let text = call.text()?;
        encoded(&call, || URL_SAFE_NO_PAD.encode(text.as_bytes()), text.len())
    }),
    filter("base64_url_safe_decode", |call| {
        let text = call.text()?;
        let decoded = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=').as_bytes());
        call.made_of(String::from_utf8_lossy(&decoded.unwrap_or_default()).into_owned())
    }),
    filter("url_encode", |call| {
        let text = call.text()?;
        let mut encoded = call.builder();
        for byte in text.bytes() {
            match byte {
                b' ' => encoded.push('+')?,
                b'-' | b'_' | b'.' | b'!' | b'*' | b'(' | b')' => encoded.push(byte.into())?,
                byte if byte.is_ascii_alphanumeric() => encoded.push(byte.into())?,
                byte => encoded.push_str(&format!("%{byte:02X}"))?,
            }
        }
        call.made(encoded)
    }),
    filter("url_decode", |call| {
        let text = call.text()?;
        call.made_of(url_decoded(&text))
    }),
    filter("md5", |call| digest::<Md5>(&call)),
    filter("sha1", |call| digest::<Sha1>(&call)),
    filter("sha256", |call| digest::<Sha256>(&call)),
    filter("hmac_sha1", |call| {
        let (text, key) = (call.text()?, call.argument_text(0)?);
        signed(&call, || {
            let mut mac = Hmac::<Sha1>::new_from_slice(key.as_bytes()).ok()?;
            mac.update(text.as_bytes());
            Some(hex(&mac.finalize().into_bytes()))
        })
    }),
    filter("hmac_sha256", |call| {
        let (text, key) = (call.text()?, call.argument_text(0)?);
        signed(&call, || {
            let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
            mac.update(text.as_bytes());
            Some(hex(&mac.finalize().into_bytes()))
        })
    }),
    // The text is not changed: outputs are not encoded.
    filter("raw", |call| call.text().map(Value::Text)),
];

/// Elsa's: a list or an object as JSON, a boolean as .NET writes it.
fn base64<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let text = match call.input.kind() {
        Kind::Nil => return Ok(Value::Nil),
        Kind::Boolean => Text::of(if call.input.is_true() { "True" } else { "False" }),
        Kind::List | Kind::Map | Kind::Date => {
            let mut text = call.builder();
            json::write(call.input.bare(), &mut text, call.budget)?;
            Text::made(text.finish()?, call.budget)?
        }
        _ => call.text()?,
    };
    encoded(&call, || STANDARD.encode(text.as_bytes()), text.len())
}

fn encoded<'a>(call: &Call<'a, '_>, encode: impl FnOnce() -> String, bytes: usize) -> Filtered<'a> {
    call.budget.check_memory(bytes.saturating_mul(2))?;
    call.made_of(encode())
}

fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn digest<'a, D: Digest>(call: &Call<'a, '_>) -> Filtered<'a> {
    let text = call.text()?;
    if text.is_empty() {
        return Ok(Value::Text(Text::of("")));
    }
    call.budget.spend_bytes(text.len().saturating_mul(8))?;
    call.made_of(hex(&D::digest(text.as_bytes())))
}

fn signed<'a>(call: &Call<'a, '_>, sign: impl FnOnce() -> Option<String>) -> Filtered<'a> {
    if call.input.is_nil() || call.argument(0).is_nil() {
        return Ok(Value::Text(Text::of("")));
    }
    let bytes = call.text()?.len() + call.argument_text(0)?.len();
    call.budget.spend_bytes(bytes.saturating_mul(8))?;
    call.made_of(sign().unwrap_or_default())
}

/// A `+` is a space, and what is no escape stays.
fn url_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let code = bytes.get(at..at + 2).filter(|_| byte == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                decoded.push(code);
                at += 2;
            }
            None => decoded.push(if byte == b'+' { b' ' } else { byte }),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
