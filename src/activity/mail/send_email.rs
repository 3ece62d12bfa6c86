//! `Elsa.SendEmail`: a mail by the SMTP server of the node.
//!
//! A mail is sent again where its burst is repeated, with the same Message-ID; there is no other retry here.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::attachments;
use super::draft::{self, Draft};
use super::message::{message_id, write};
use super::{MAIL, NotSent, invalid_input};
use crate::activity::http::{FileValue, HttpServices, reads_bytes};
use crate::activity::{
    Activity, ActivityContext, ActivityKind, Descriptor, EndedChild, Fault, InputDescriptor, SentFailure, Step, UiHint,
};
use crate::compute;
use crate::mail::{MailClient, MailError, MailErrorKind};

/// The timeout of a call: those of attachments and of the mail end it before.
const CALL: Duration = Duration::from_secs(4200);

/// In bytes: from this size on, a mail is written on another thread.
const LARGE: u64 = 64 << 10;

/// The port of the activity that runs where a mail is not sent.
const ERROR: &str = "Error";

#[derive(Debug)]
pub(super) struct SendEmail {
    pub(super) client: Option<MailClient>,
    pub(super) http: Arc<HttpServices>,
}

impl Activity for SendEmail {
    fn descriptor(&self) -> Descriptor {
        let recipients = |name: &str| InputDescriptor::new(name, "ICollection<String>").hint(UiHint::MultiText);
        Descriptor::new("Elsa.SendEmail")
            .describe("Email", "Send an email message.")
            .kind(ActivityKind::Task)
            .input(InputDescriptor::new("From", "String").describe("The sender's email address."))
            .input(recipients("To").describe("The recipients email addresses."))
            .input(recipients("Cc").category("More").describe("The cc recipient email addresses."))
            .input(recipients("Bcc").category("More").describe("The Bcc recipients email addresses."))
            .input(InputDescriptor::new("Subject", "String").describe("The subject of the email message."))
            .input(InputDescriptor::new("Attachments", "Object").hint(UiHint::MultiLine).describe(
                "The attachments to send with the email message. Can be (an array of) a URL, a file, a byte array or objects with fileName, \
                 contentType and content in Base64.",
            ))
            .input(
                InputDescriptor::new("Body", "String")
                    .hint(UiHint::MultiLine)
                    .describe("The body of the email message."),
            )
            .port(ERROR)
            .fault_category(MAIL)
            .timeout(CALL)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let client = self.client.as_ref().ok_or_else(not_configured)?;
        let failure = match self.send(client, context).await {
            Ok(()) => return Ok(Step::Done),
            Err(NotSent::Fault(fault)) => return Err(fault),
            Err(NotSent::Failed(failure)) => failure,
        };
        let Some(child) = context.port(ERROR) else {
            return Err(failure.reason);
        };
        context.note_failure(failure);
        context.schedule(child);
        Ok(Step::Wait)
    }

    async fn child_cancelled(&self, _context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(Step::Done)
    }

    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let attached = inputs.get("Attachments").and_then(attachments::problem);
        let attached = attached.map(|problem| format!("the input Attachments is invalid: {problem}"));
        draft::problems(inputs).into_iter().chain(attached).collect()
    }
}

impl SendEmail {
    async fn send(&self, client: &MailClient, context: &mut ActivityContext<'_>) -> Result<(), NotSent> {
        let options = client.options();
        let draft = Draft::read(context, client.sender())?;
        let is_bytes = reads_bytes(context, "Attachments");
        let attached = attachments::attachments(context.input("Attachments"), is_bytes);
        let attached = attached.map_err(|problem| invalid_input("Attachments", &problem))?;
        // Before anything is got for a mail that is not sent.
        client.refuse_if_away().map_err(not_sent)?;
        let files = attachments::fetch(attached, options.attachment_bytes, context, &self.http).await?;
        let id = message_id(&context.idempotency_key(), draft.from.email.domain());
        let bytes = size(&draft, &files);
        let place = client.place(bytes).await.map_err(not_sent)?;
        let loaded = attachments::load(files, &self.http).await?;
        let written = compute::run(bytes > LARGE, move || write(draft, loaded, &id)).await;
        let written = written.map_err(Fault::from)?;
        let mail =
            written.map_err(|error| Fault::new(format!("The mail cannot be written: {error}")).category(MAIL))?;
        place.send(&mail.envelope, &mail.bytes).await.map_err(not_sent)?;
        count("sent");
        Ok(())
    }
}

/// How many bytes a mail carries.
fn size(draft: &Draft, files: &[FileValue]) -> u64 {
    let body = draft.body.as_ref().map_or(0, String::len);
    let lengths = files.iter().map(|file| file.length);
    lengths.fold(u64::try_from(body).unwrap_or(u64::MAX), u64::saturating_add)
}

fn count(result: &'static str) {
    metrics::counter!("mainspring_mails_total", "result" => result).increment(1);
}

/// What becomes of a mail that is not sent.
fn not_sent(error: MailError) -> NotSent {
    let word = error.kind.as_str();
    count(word);
    let message = match error.kind {
        MailErrorKind::InDoubt => format!("It is not known whether the mail was sent: {error}"),
        _ => format!("The mail was not sent: {error}"),
    };
    NotSent::Failed(SentFailure {
        reason: Fault::new(message).code(format!("mail-{word}")).category(MAIL),
        was_cancelled: error.kind == MailErrorKind::TimedOut,
    })
}

fn not_configured() -> Fault {
    let message = "No mail can be sent: this server has no mail server; set smtp-url (MAINSPRING_SMTP_URL), or EngineBuilder::mail in a \
                   program";
    Fault::new(message)
        .code("mail-not-configured")
        .category(MAIL)
        .quoting_nothing(true)
}
