//! What the inputs of the activity say of a mail, without its attachments.

use lettre::message::Mailbox;
use serde_json::{Map, Value};

use super::addresses::addresses;
use super::invalid_input;
use crate::activity::{ActivityContext, Fault};
use crate::mail::{address, one_line};

/// The most recipients of one mail: every server takes as many.
const MOST_RECIPIENTS: usize = 100;

/// The longest subject, in bytes.
const LONGEST_SUBJECT: usize = 2_000;

/// The longest word of it, in bytes: it is on a line of its own, with the name of the field, and a line has at most 998.
const LONGEST_WORD: usize = 900;

/// The inputs that have recipients.
const RECIPIENTS: [&str; 3] = ["To", "Cc", "Bcc"];

const NO_RECIPIENT: &str = "the mail has no recipient; give an address in To, Cc or Bcc";

/// A mail without its attachments.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) from: Mailbox,
    pub(super) to: Vec<Mailbox>,
    pub(super) cc: Vec<Mailbox>,
    pub(super) bcc: Vec<Mailbox>,
    pub(super) subject: String,
    /// HTML.
    pub(super) body: Option<String>,
}

impl Draft {
    /// Reads the inputs. `default_sender`: of mails that name none.
    /// Errors: names the input that no mail can have.
    pub(super) fn read(context: &ActivityContext<'_>, default_sender: Option<&Mailbox>) -> Result<Self, Fault> {
        let text = |name: &str| context.text(name).filter(|text| !text.trim().is_empty());
        let from = match (text("From"), default_sender) {
            (Some(given), _) => address(&given).map_err(|problem| invalid_input("From", &problem))?,
            (None, Some(sender)) => sender.clone(),
            (None, None) => {
                let problem =
                    "it is empty, and this server has no sender of its own; set the input, or the setting mail-from";
                return Err(invalid_input("From", problem));
            }
        };
        let of = |name: &str| addresses(context.input(name)).map_err(|problem| invalid_input(name, &problem));
        let [to, cc, bcc] = [of("To")?, of("Cc")?, of("Bcc")?];
        check_count(to.len() + cc.len() + bcc.len()).map_err(|problem| invalid_input("To", &problem))?;
        let subject = text("Subject").unwrap_or_default();
        check_subject(&subject).map_err(|problem| invalid_input("Subject", &problem))?;
        Ok(Self {
            from,
            to,
            cc,
            bcc,
            subject,
            body: text("Body"),
        })
    }
}

fn check_count(recipients: usize) -> Result<(), String> {
    match recipients {
        0 => Err(NO_RECIPIENT.to_owned()),
        1..=MOST_RECIPIENTS => Ok(()),
        more => Err(format!(
            "the mail has {more} recipients, and at most {MOST_RECIPIENTS} are sent at once; send several mails, or one to a list"
        )),
    }
}

fn check_subject(subject: &str) -> Result<(), String> {
    one_line(subject).map_err(|problem| format!("it {problem}"))?;
    if subject.len() > LONGEST_SUBJECT {
        return Err(format!(
            "it has more than {LONGEST_SUBJECT} bytes; put the rest into the body"
        ));
    }
    if subject.split(' ').any(|word| word.len() > LONGEST_WORD) {
        return Err(format!(
            "it has a word of more than {LONGEST_WORD} bytes, for which no line of a mail is long enough; put it into the body"
        ));
    }
    Ok(())
}

/// What is wrong with inputs whose value is known, for the publish.
pub(super) fn problems(inputs: &Map<String, Value>) -> Vec<String> {
    let shown = |name: &str, problem: String| format!("the input {name} is invalid: {problem}");
    let mut found = Vec::new();
    let text = |name: &str| inputs.get(name).and_then(Value::as_str);
    if let Some(given) = text("From").filter(|text| !text.trim().is_empty())
        && let Err(problem) = address(given)
    {
        found.push(shown("From", problem));
    }
    if let Some(Err(problem)) = text("Subject").map(check_subject) {
        found.push(shown("Subject", problem));
    }
    // How many there are, where that is known of each input.
    let mut count = Some(0);
    for name in RECIPIENTS {
        match inputs.get(name).map(addresses) {
            Some(Ok(read)) => count = count.map(|count| count + read.len()),
            Some(Err(problem)) => {
                count = None;
                found.push(shown(name, problem));
            }
            None => count = None,
        }
    }
    if let Some(Err(problem)) = count.map(check_count) {
        found.push(shown("To", problem));
    }
    found
}
