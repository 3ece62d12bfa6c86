//! The mail as it is sent.

use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Attachment, Body, Message, MessageBuilder, MultiPart, SinglePart};
use sha2::{Digest, Sha256};

use super::attachments::LoadedFile;
use super::draft::Draft;

/// The longest key that is part of a Message-ID as it is, in bytes.
const LONGEST_KEY: usize = 150;

/// A mail, and who it is for.
#[derive(Debug)]
pub(super) struct WrittenMail {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
}

/// Writes a mail. Lines end, and characters are encoded, as every server takes them.
/// Errors: what it cannot have.
pub(super) fn write(draft: Draft, files: Vec<LoadedFile>, id: &str) -> Result<WrittenMail, lettre::error::Error> {
    let Draft {
        from,
        to,
        cc,
        bcc,
        subject,
        body,
    } = draft;
    let builder = Message::builder()
        .from(from)
        .subject(subject)
        .message_id(Some(id.to_owned()));
    let builder = to.into_iter().fold(builder, MessageBuilder::to);
    let builder = cc.into_iter().fold(builder, MessageBuilder::cc);
    // It is in the envelope only.
    let builder = bcc.into_iter().fold(builder, MessageBuilder::bcc);
    let text = match body {
        Some(html) => SinglePart::html(with_whole_ends(&html)),
        None => SinglePart::plain(String::new()),
    };
    let message = if files.is_empty() {
        builder.singlepart(text)?
    } else {
        let parts = MultiPart::mixed().singlepart(text);
        builder.multipart(
            files
                .into_iter()
                .fold(parts, |parts, file| parts.singlepart(part(file))),
        )?
    };
    Ok(WrittenMail {
        envelope: message.envelope().clone(),
        bytes: message.formatted(),
    })
}

/// A text whose lines all end with CR and LF. A CR alone would be sent as it is, and some servers take it for the end of a line: a
/// dot between two of them would end the mail, and what follows would be commands.
fn with_whole_ends(text: &str) -> String {
    let parts = text.split("\r\n").map(|part| part.replace(['\r', '\n'], "\r\n"));
    parts.collect::<Vec<_>>().join("\r\n")
}

fn part(file: LoadedFile) -> SinglePart {
    // A part of these types cannot be in Base64.
    let is_composite = |given: &str| ["multipart/", "message/"].iter().any(|kind| given.starts_with(kind));
    let given = file.content_type.trim().to_ascii_lowercase();
    let parsed = ContentType::parse(&file.content_type)
        .ok()
        .filter(|_| !is_composite(&given));
    let content_type = parsed.or_else(|| ContentType::parse("application/octet-stream").ok());
    let content_type = content_type.unwrap_or(ContentType::TEXT_PLAIN);
    // Of short texts it would choose another encoding, in which the ends of lines change.
    let body = Body::new_with_encoding(file.bytes, ContentTransferEncoding::Base64).unwrap_or_else(Body::new);
    Attachment::new(file.name).body(body, content_type)
}

/// The Message-ID of a mail: that of a repeat is the same. A key of other characters than those of every system is digested.
pub(super) fn message_id(key: &str, domain: &str) -> String {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let plain = key.split_once('/').filter(|_| key.len() <= LONGEST_KEY);
    match plain.filter(|(instance, cause)| is_plain(instance) && is_plain(cause)) {
        Some((instance, cause)) => format!("<{instance}.{cause}@{domain}>"),
        None => {
            let digest = Sha256::digest(key.as_bytes());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("<{hex}@{domain}>")
        }
    }
}
