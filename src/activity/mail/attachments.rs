//! What is attached to a mail, and where it comes from.
//!
//! A file on the server is never attached by its path: who writes a workflow could read every file of the server.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{MAIL, NotSent, invalid_input};
use crate::activity::http::{
    FileValue, HttpServices, Unanswered, check_content_type, fetch_file, media_type_of, octets, parse_url,
};
use crate::activity::{ActivityContext, AnswerBody, Fault};
use crate::mail::one_line;

/// The most attachments of one mail.
const MOST: usize = 50;

/// How long it may take to get what is at URLs, whatever requests may take.
const LONGEST_FETCH: Duration = Duration::from_secs(1800);

/// The longest name, in bytes.
const LONGEST_NAME: usize = 255;

/// The type of bytes of which nothing is known.
const OCTETS: &str = "application/octet-stream";

/// An attachment as the workflow gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attachment {
    File(FileValue),
    Url(Url),
}

/// An attachment with its bytes.
#[derive(Clone, Debug)]
pub(super) struct LoadedFile {
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads the input. `is_bytes`: text is that of bytes.
/// Errors: what no mail can carry.
pub(super) fn attachments(value: &Value, is_bytes: bool) -> Result<Vec<Attachment>, String> {
    let items = match value {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) if text.trim().is_empty() => return Ok(Vec::new()),
        // What a designer's field of text has.
        Value::String(text) if !is_bytes && text.trim_start().starts_with(['[', '{']) => {
            let read: Value = serde_json::from_str(text)
                .map_err(|error| format!("it begins as JSON and cannot be read as such: {error}"))?;
            return attachments(&read, false);
        }
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    if items.len() > MOST {
        let found = items.len();
        return Err(format!(
            "they are {found}, and a mail has at most {MOST}; send several mails, or an archive"
        ));
    }
    let mut unnamed = 0;
    let mut name = || {
        unnamed += 1;
        format!("Attachment-{unnamed}")
    };
    let items = items.iter().filter(|item| !item.is_null());
    items.map(|item| attachment(item, is_bytes, &mut name)).collect()
}

fn attachment(item: &Value, is_bytes: bool, name: &mut impl FnMut() -> String) -> Result<Attachment, String> {
    if let Some(file) = FileValue::read(item) {
        check_name(&file.filename)?;
        return Ok(Attachment::File(file));
    }
    match item {
        Value::String(_) if is_bytes => Ok(Attachment::File(FileValue::inline(name(), OCTETS, octets(item)?))),
        Value::String(text) if text.contains("://") => Ok(Attachment::Url(parse_url(text)?)),
        Value::String(_) => Err(
            "it is no URL, and files of the server are not attached by their path; give a URL, a file, or an object with fileName, \
             contentType and content in Base64"
                .to_owned(),
        ),
        Value::Object(fields) if field(fields, "content").is_some() => described(fields, name).map(Attachment::File),
        other => Ok(Attachment::File(FileValue::inline(
            name(),
            "application/json",
            other.to_string().into_bytes(),
        ))),
    }
}

/// Elsa's `EmailAttachment`: a content with a name and a type.
fn described(fields: &Map<String, Value>, name: &mut impl FnMut() -> String) -> Result<FileValue, String> {
    let text = |key: &str| {
        field(fields, key)
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
    };
    let content = field(fields, "content").unwrap_or(&Value::Null);
    let mut file = match FileValue::read(content) {
        Some(file) => file,
        None => {
            let bytes = octets(content).map_err(|_| {
                "the content of an attachment is no bytes, which are Base64 in a workflow; of text make them with stringToBase64".to_owned()
            })?;
            let named = text("fileName").map_or_else(&mut *name, str::to_owned);
            let content_type = text("fileName").map_or(OCTETS, media_type_of);
            FileValue::inline(named, content_type, bytes)
        }
    };
    if let Some(named) = text("fileName") {
        named.clone_into(&mut file.filename);
    }
    if let Some(chosen) = text("contentType") {
        check_content_type(chosen)?;
        chosen.trim().clone_into(&mut file.content_type);
    }
    check_name(&file.filename)?;
    Ok(file)
}

/// A field, whatever the case of its name is.
fn field<'f>(fields: &'f Map<String, Value>, name: &str) -> Option<&'f Value> {
    let mut named = fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value).filter(|value| !value.is_null())
}

fn check_name(name: &str) -> Result<(), String> {
    one_line(name).map_err(|problem| format!("the name {name:?} of an attachment {problem}"))?;
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "the name of an attachment has more than {LONGEST_NAME} bytes; shorten it"
        ));
    }
    Ok(())
}

/// Gives the files of values the lengths that they have: a workflow may have written another one. The memory of a mail is reserved by
/// them.
pub(super) fn measure(attachments: &mut [Attachment], services: &HttpServices) -> Result<(), Fault> {
    for attachment in attachments {
        if let Attachment::File(file) = attachment {
            file.length = services.length_of(file)?;
        }
    }
    Ok(())
}

/// Gets what is at URLs: small files are in memory, and large ones in the spool until the burst has ended.
/// Errors: `attachments-too-large`, before and while that comes.
pub(super) async fn fetch(
    mut attachments: Vec<Attachment>,
    most: u64,
    context: &mut ActivityContext<'_>,
    services: &HttpServices,
) -> Result<Vec<FileValue>, NotSent> {
    let mut files = Vec::new();
    measure(&mut attachments, services)?;
    let known = attachments.iter().map(|attachment| match attachment {
        Attachment::File(file) => file.length,
        Attachment::Url(_) => 0,
    });
    let mut left = remaining(most, known).ok_or_else(|| too_large(most))?;
    let deadline = Instant::now() + services.outgoing.options().timeout.min(LONGEST_FETCH);
    for attachment in attachments {
        let file = match attachment {
            Attachment::File(file) => file,
            Attachment::Url(url) => {
                let host = url.host_str().unwrap_or_default().to_owned();
                let timeout = deadline.saturating_duration_since(Instant::now());
                let fetched = fetch_file(context, services, url, left, timeout).await;
                let file = fetched.map_err(|unanswered| not_fetched(unanswered, &host, most))?;
                left = left.checked_sub(file.length).ok_or_else(|| too_large(most))?;
                file
            }
        };
        files.push(file);
    }
    Ok(files)
}

fn not_fetched(unanswered: Unanswered, host: &str, most: u64) -> NotSent {
    match unanswered {
        Unanswered::Fault(fault) if fault.code == "response-too-large" => NotSent::Fault(too_large(most)),
        Unanswered::Fault(fault) => NotSent::Fault(fault),
        Unanswered::Failed(mut failure) => {
            let reason = &failure.reason.message;
            failure.reason.message =
                format!("The mail was not sent: an attachment cannot be got from {host}: {reason}");
            failure.reason = failure.reason.code("attachment-unavailable").category(MAIL);
            NotSent::Failed(failure)
        }
    }
}

/// What is left of a limit; `None` if it is exceeded.
fn remaining(most: u64, mut lengths: impl Iterator<Item = u64>) -> Option<u64> {
    lengths.try_fold(most, u64::checked_sub)
}

/// The bytes of files.
pub(super) async fn load(files: Vec<FileValue>, services: &HttpServices) -> Result<Vec<LoadedFile>, Fault> {
    let mut loaded = Vec::new();
    for file in files {
        let bytes = match services.content_of(&file)? {
            AnswerBody::Bytes(bytes) => bytes,
            AnswerBody::File(spooled) => {
                let lost = |error: std::io::Error| {
                    invalid_input("Attachments", &format!("the file {:?} is lost: {error}", file.filename))
                };
                spooled.read().await.map_err(lost)?
            }
        };
        loaded.push(LoadedFile {
            name: file.filename,
            content_type: file.content_type,
            bytes,
        });
    }
    Ok(loaded)
}

fn too_large(most: u64) -> Fault {
    let problem = format!(
        "they have more than {} MiB together, the limit of this server (the setting mail-attachment-mib); send a link to them",
        most >> 20
    );
    invalid_input("Attachments", &problem)
        .code("attachments-too-large")
        .quoting_nothing(true)
}

/// What is wrong with a value that is known, for the publish.
pub(super) fn problem(value: &Value) -> Option<String> {
    // Whether text is that of bytes depends on an expression, which a known value does not have.
    attachments(value, false).err()
}
