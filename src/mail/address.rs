//! An address of a mail, and the texts of its header.

use lettre::Address;
use lettre::message::Mailbox;
use reqwest::Url;

use crate::shortened::shortened;

/// The longest address with its name, in bytes.
const LONGEST: usize = 400;

/// What of an address is shown in a message, in characters.
const SHOWN: usize = 60;

/// What stands in a header: a line break in it would begin another field.
/// Errors: what it has, as the end of a sentence.
pub(crate) fn one_line(text: &str) -> Result<(), &'static str> {
    if text.contains(['\r', '\n']) {
        return Err("has a line break, which no header of a mail can have; remove it");
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character, which no header of a mail can have; remove it");
    }
    Ok(())
}

/// One address, perhaps with a name.
/// Errors: why it is none.
pub(crate) fn address(text: &str) -> Result<Mailbox, String> {
    let text = text.trim();
    let shown = || format!("{:?}", shortened(text, SHOWN));
    one_line(text).map_err(|problem| format!("{} {problem}", shown()))?;
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
