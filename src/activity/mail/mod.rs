//! Elsa's activity for mails.
//!
//! # Layout
//! - `send_email`: `Elsa.SendEmail`; `draft`: what its inputs say of the mail; `addresses`: the texts of addresses.
//! - `attachments`: what is attached, and where that comes from; `message`: the mail as it is sent.

mod addresses;
mod attachments;
mod draft;
mod message;
mod send_email;
#[cfg(test)]
mod tests;

use super::{Catalogue, Fault, SentFailure};
use crate::mail::MailClient;

/// The category of faults.
const MAIL: &str = "Mail";

/// Why a mail is not sent.
enum NotSent {
    /// The activity of the port runs, if there is one: another server fails.
    Failed(SentFailure),
    /// A fault in any case.
    Fault(Fault),
}

impl From<Fault> for NotSent {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The incident of an input that cannot be used.
fn invalid_input(input: &str, problem: &str) -> Fault {
    Fault::new(format!("The input {input} is invalid: {problem}")).category(MAIL)
}

impl Catalogue {
    /// The client of mails, if a server is set.
    pub(crate) fn mail(&self) -> Option<&MailClient> {
        self.mail.as_ref()
    }

    /// Adds the activity for mails with this client, in place of the one that is registered.
    pub(crate) fn register_mail(&mut self, client: Option<MailClient>) -> &mut Self {
        self.mail.clone_from(&client);
        let http = self.http_services().clone();
        self.register(send_email::SendEmail { client, http })
    }
}
