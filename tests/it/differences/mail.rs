//! Mails. Their tests stand beside the code, and in `it::mail`.

use super::Difference;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "`Elsa.SendEmail` whose mail is not sent, without an `error` activity",
        elsa: "completes, and the log has a warning",
        here: "an incident, as `mail-unreachable`, `mail-deferred`, `mail-rejected`, `mail-timeout` or `mail-in-doubt`",
        why: "a mail that no recipient gets is a failure of the workflow",
        other: "an `error` activity, such as an empty `Elsa.Sequence`",
        test: "it::mail::refusals::a_refusal_is_an_incident_or_leads_to_the_port",
    },
    Difference {
        what: "A path of a file as an attachment of a mail",
        elsa: "the file of the server is attached",
        here: "refused, at publish where it is literal",
        why: "who writes a workflow could send every file of the server to anybody",
        other: "a URL, a file of a request or of `Elsa.DownloadHttpFile`, or `{fileName, contentType, content}`",
        test: "activity::mail::tests::an_attachment_is_content_or_a_url_and_never_a_path",
    },
    Difference {
        what: "A URL as an attachment of a mail that cannot be had, or whose answer has a status of failure",
        elsa: "a fault of the activity; what a server sends with such a status is attached",
        here: "not sent: the `error` activity runs, else the incident `attachment-unavailable`. The target rules of requests hold",
        why: "no recipient is helped by the page of an error",
        other: "–",
        test: "it::mail::attachments::an_attachment_is_got_by_the_rules_of_requests",
    },
    Difference {
        what: "The type of an attachment of a mail that has none",
        elsa: "`application/binary`",
        here: "that of the end of `fileName`, else `application/octet-stream`; text in `content` is Base64",
        why: "mail programs know these",
        other: "`contentType`",
        test: "activity::mail::tests::an_attachment_is_content_or_a_url_and_never_a_path",
    },
    Difference {
        what: "A mail without a recipient, with more than 100 of them, with more than 50 attachments or above `mail-attachment-mib`, or with a line \
               break in an address, the subject or a name",
        elsa: "what the server says of it; a line break ends the header",
        here: "refused, at publish where it is literal, else an incident that names the input",
        why: "a text from outside must not add headers and recipients",
        other: "several mails",
        test: "it::mail::refusals::what_is_no_mail_is_refused_by_name",
    },
    Difference {
        what: "The `Message-ID` of a mail",
        elsa: "random",
        here: "made of the key of the execution: a mail that is sent again, as its burst was lost, has the same",
        why: "servers and mail programs drop the second one",
        other: "–",
        test: "it::mail::kill::a_mail_that_is_sent_again_has_the_same_message_id",
    },
    Difference {
        what: "The connection to the mail server",
        elsa: "`Smtp` in the configuration; encrypted if the server offers it",
        here: "`smtp-url`, or the same variables; encrypted unless it says `tls=none`, which takes no password",
        why: "who is between the two could take the offer away, and read the password",
        other: "`smtp://host:25?tls=none`",
        test: "it::mail::encryption::a_server_that_does_not_encrypt_or_answers_before_it_does_gets_nothing",
    },
];
