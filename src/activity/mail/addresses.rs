//! The texts of addresses.

use lettre::Address;
use lettre::message::Mailbox;
use reqwest::Url;
use serde_json::Value;

use crate::expression::to_text;
use crate::shortened::shortened;

/// The longest address with its name, in bytes.
const LONGEST: usize = 400;

/// What of an address is shown in a message, in characters.
const SHOWN: usize = 60;

/// The addresses of an input: a list of texts, or one text. What is empty is left out, as designers make it.
/// Errors: names the one that is none.
pub(super) fn addresses(value: &Value) -> Result<Vec<Mailbox>, String> {
    let items = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items.as_slice(),
        Value::String(_) => std::slice::from_ref(value),
        _ => return Err("it is no list of addresses; write it as [\"ann@example.org\"]".to_owned()),
    };
    let texts = items
        .iter()
        .filter(|item| !item.is_null())
        .map(|item| to_text(item.clone()));
    let texts = texts.filter(|text| !text.trim().is_empty());
    texts.map(|text| address(&text)).collect()
}

/// One address, perhaps with a name.
/// Errors: why it is none.
pub(super) fn address(text: &str) -> Result<Mailbox, String> {
    let text = text.trim();
    let shown = || format!("{:?}", shortened(text, SHOWN));
    if text.contains(['\r', '\n']) {
        return Err(format!(
            "{} has a line break, which no address can have; remove it",
            shown()
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(format!(
            "{} has a control character, which no address can have; remove it",
            shown()
        ));
    }
    if text.len() > LONGEST {
        return Err(format!("{} is longer than {LONGEST} bytes", shown()));
    }
    let unusable = || {
        format!(
            "{} is no mail address; write it as ann@example.org or Ann <ann@example.org>, and each as an item of its own",
            shown()
        )
    };
    let mut read: Mailbox = text.parse().map_err(|_| unusable())?;
    if !read.email.domain().is_ascii() {
        // As mail servers know it: `xn--…`.
        let url = Url::parse(&format!("http://{}/", read.email.domain())).map_err(|_| unusable())?;
        let domain = url.host_str().ok_or_else(unusable)?;
        read.email = Address::new(read.email.user(), domain).map_err(|_| unusable())?;
    }
    Ok(read)
}
