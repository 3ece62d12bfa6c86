//! What the inputs of a mail can be, and the mail that is made of them.

use serde_json::{Value, json};

use super::addresses::addresses;
use super::attachments::{Attachment, LoadedFile, attachments, measure};
use super::draft::{Draft, problems};
use super::message::{message_id, write};
use crate::activity::http::{FileContent, FileValue, HttpServices};
use crate::mail::address;

fn file(attachment: &Attachment) -> &FileValue {
    match attachment {
        Attachment::File(file) => file,
        Attachment::Url(url) => panic!("a URL: {url}"),
    }
}

#[test]
fn an_address_has_a_name_or_none_and_no_line_break() {
    for (text, shown) in [
        ("ann@example.org", "ann@example.org"),
        (" ann@example.org ", "ann@example.org"),
        ("Ann <ann@example.org>", "Ann <ann@example.org>"),
        (
            "\"Lee, Ann\" <ann+x@mail.example.org>",
            "\"Lee, Ann\" <ann+x@mail.example.org>",
        ),
        ("Änn <ann@example.org>", "Änn <ann@example.org>"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
    ] {
        assert_eq!(address(text).unwrap().to_string(), shown, "{text}");
    }
    for (text, part) in [
        ("ann", "no mail address"),
        ("ann@", "no mail address"),
        ("@example.org", "no mail address"),
        ("ann@example.org, bob@example.org", "an item of its own"),
        ("ann@example.org; bob@example.org", "an item of its own"),
        ("ann@example.org\r\nBcc: eve@example.org", "line break"),
        ("Ann\nBcc: eve@example.org <ann@example.org>", "line break"),
        ("ann\0@example.org", "control character"),
        (&format!("{}@example.org", "a".repeat(400)), "longer than 400 bytes"),
        (&"(".repeat(399), "no mail address"),
    ] {
        let problem = address(text).unwrap_err();
        assert!(problem.contains(part) && !problem.contains('\n'), "{text}: {problem}");
    }
}

#[test]
fn recipients_are_a_list_or_one_text_and_blank_ones_are_left_out() {
    for (value, count) in [
        (Value::Null, 0),
        (json!(""), 0),
        (json!(["", null, " "]), 0),
        (json!("ann@example.org"), 1),
        (json!(["ann@example.org", "bob@example.org", ""]), 2),
    ] {
        assert_eq!(addresses(&value).unwrap().len(), count, "{value}");
    }
    assert!(
        addresses(&json!({"a": 1}))
            .unwrap_err()
            .contains("no list of addresses")
    );
    assert!(addresses(&json!([1])).unwrap_err().contains("\"1\" is no mail address"));
}

#[test]
fn an_attachment_is_content_or_a_url_and_never_a_path() {
    assert_eq!(attachments(&Value::Null, false).unwrap(), []);
    assert_eq!(attachments(&json!(" "), false).unwrap(), []);
    let read = attachments(
        &json!([
            "https://example.org/a.pdf",
            {"fileName": "b.txt", "contentType": "text/plain", "content": "aGk="},
            {"FileName": "c.pdf", "Content": "aGk="},
            {"content": [104, 105]},
            {"filename": "d.bin", "contentType": "a/b", "length": 2, "content": "aGk="},
            {"fileName": "renamed.bin", "content": {"filename": "d.bin", "contentType": "a/b", "length": 2, "content": "aGk="}},
            {"total": 3},
            null,
        ]),
        false,
    )
    .unwrap();
    assert!(matches!(&read[0], Attachment::Url(url) if url.as_str() == "https://example.org/a.pdf"));
    let named: Vec<(&str, &str)> = read[1..]
        .iter()
        .map(|it| (&*file(it).filename, &*file(it).content_type))
        .collect();
    assert_eq!(
        named,
        [
            ("b.txt", "text/plain"),
            ("c.pdf", "application/pdf"),
            ("Attachment-1", "application/octet-stream"),
            ("d.bin", "a/b"),
            ("renamed.bin", "a/b"),
            ("Attachment-2", "application/json"),
        ]
    );
    for it in &read[1..6] {
        assert_eq!(file(it).content, FileContent::Inline(b"hi".to_vec()));
    }
    assert_eq!(file(&read[6]).content, FileContent::Inline(b"{\"total\":3}".to_vec()));
    // Text of a variable of bytes, and JSON in a designer's field.
    let bytes = attachments(&json!("aGk="), true).unwrap();
    assert_eq!(file(&bytes[0]).content, FileContent::Inline(b"hi".to_vec()));
    let text = attachments(&json!("[\"https://example.org/a\", {\"content\": \"aGk=\"}]"), false).unwrap();
    assert_eq!(text.len(), 2);
    for (value, part) in [
        (json!("/etc/passwd"), "not attached by their path"),
        (json!(["C:\\secret.txt"]), "not attached by their path"),
        (json!("file:///etc/passwd"), "none of the web"),
        (json!("ftp://example.org/a"), "none of the web"),
        (json!("[1"), "begins as JSON"),
        (json!({"fileName": "a", "content": "no base 64"}), "stringToBase64"),
        (json!({"fileName": "a\r\nX: y", "content": "aGk="}), "line break"),
        (
            json!({"filename": "a\nb", "contentType": "a/b", "content": "aGk="}),
            "line break",
        ),
        (
            json!({"fileName": "a", "contentType": "text/plain\r\nX: y", "content": "aGk="}),
            "line break",
        ),
        (json!({"fileName": "x".repeat(256), "content": "aGk="}), "255 bytes"),
        (json!(vec!["https://example.org"; 51]), "at most 50"),
    ] {
        let problem = attachments(&value, false).unwrap_err();
        assert!(problem.contains(part), "{value}: {problem}");
    }
}

#[tokio::test]
async fn a_file_in_the_spool_weighs_what_it_has_and_not_what_its_value_says() {
    let services = HttpServices::default();
    let mut writer = services.spool.create().await.unwrap();
    writer.write(&[7; 300_000]).await.unwrap();
    let spooled = writer.finish().await.unwrap();
    let value = |id: &str| json!([{"filename": "a.bin", "contentType": "a/b", "length": 1, "spool": id}]);
    let mut read = attachments(&value(spooled.id()), false).unwrap();
    assert_eq!(file(&read[0]).length, 1);
    measure(&mut read, &services).unwrap();
    assert_eq!(file(&read[0]).length, 300_000);
    let mut lost = attachments(&value("other"), false).unwrap();
    let fault = measure(&mut lost, &services).unwrap_err();
    assert_eq!(fault.code, "file-gone", "{fault}");
}

#[test]
fn wrong_inputs_are_known_before_the_publish() {
    let of = |given: Value| problems(given.as_object().unwrap());
    assert_eq!(
        of(json!({"To": ["ann@example.org"], "Cc": null, "Bcc": null, "From": null})),
        [""; 0]
    );
    // What an expression gives is not known.
    assert_eq!(of(json!({"Cc": null, "Bcc": null})), [""; 0]);
    let many: Vec<String> = (0..101).map(|n| format!("a{n}@example.org")).collect();
    for (given, part) in [
        (json!({"To": null, "Cc": null, "Bcc": []}), "the mail has no recipient"),
        (
            json!({"To": ["ann"]}),
            "the input To is invalid: \"ann\" is no mail address",
        ),
        (json!({"Bcc": ["ann@example.org\nX: y"]}), "the input Bcc is invalid"),
        (json!({"From": "x"}), "the input From is invalid"),
        (
            json!({"Subject": "a\r\nBcc: eve@example.org"}),
            "the input Subject is invalid: it has a line break",
        ),
        (json!({"Subject": "x".repeat(2001)}), "2000 bytes"),
        (
            json!({"Subject": format!("a {}", "x".repeat(901))}),
            "a word of more than 900 bytes",
        ),
        (
            json!({"Subject": "a\tb"}),
            "the input Subject is invalid: it has a control character",
        ),
        (
            json!({"To": many, "Cc": null, "Bcc": null}),
            "101 recipients, and at most 100",
        ),
    ] {
        let found = of(given.clone());
        assert!(found.len() == 1 && found[0].contains(part), "{given}: {found:?}");
    }
}

fn draft() -> Draft {
    Draft {
        from: address("Shop <shop@example.org>").unwrap(),
        to: vec![
            address("ann@example.org").unwrap(),
            address("Bob <bob@example.org>").unwrap(),
        ],
        cc: vec![address("cat@example.org").unwrap()],
        bcc: vec![address("dan@example.org").unwrap()],
        subject: "Grüße".to_owned(),
        body: Some("<p>Hällo</p>\n.\n".to_owned()),
    }
}

#[test]
fn a_mail_is_html_in_ascii_and_hides_its_blind_copies() {
    let mail = write(draft(), Vec::new(), "<k@example.org>").unwrap();
    let text = String::from_utf8(mail.bytes).unwrap();
    assert!(text.is_ascii());
    for part in [
        "From: Shop <shop@example.org>\r\n",
        "To: ann@example.org, Bob <bob@example.org>\r\n",
        "Cc: cat@example.org\r\n",
        "Subject: =?utf-8?",
        "Message-ID: <k@example.org>\r\n",
        "Content-Type: text/html; charset=utf-8\r\n",
        "Date: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("dan@example.org"), "{text}");
    let recipients: Vec<String> = mail.envelope.to().iter().map(ToString::to_string).collect();
    assert_eq!(
        recipients,
        [
            "ann@example.org",
            "bob@example.org",
            "cat@example.org",
            "dan@example.org"
        ]
    );
}

#[test]
fn no_line_is_ended_by_half_or_longer_than_servers_take() {
    let mut draft = draft();
    draft.subject = [&"x".repeat(900), "y", &"z".repeat(900)].join(" ");
    // Some servers would take the last of these for the end of the mail.
    draft.body = Some("a\rb\nc\r\nd\n\re\r.\rMAIL FROM:<eve@example.org>\r".to_owned());
    let mail = write(draft, Vec::new(), "<k@example.org>").unwrap();
    let text = String::from_utf8(mail.bytes).unwrap();
    let whole = "\r\n\r\na\r\nb\r\nc\r\nd\r\n\r\ne\r\n.\r\nMAIL FROM:<eve@example.org>\r\n";
    assert!(text.contains(whole), "{text:?}");
    assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "{text:?}");
    assert!(text.split("\r\n").all(|line| line.len() <= 998), "{text:?}");
}

#[test]
fn attachments_are_parts_in_base64() {
    let of = |name: &str, content_type: &str| LoadedFile {
        name: name.to_owned(),
        content_type: content_type.to_owned(),
        bytes: b"hi".to_vec(),
    };
    let files = vec![
        of("a \"b\".pdf", "application/pdf"),
        of("é.eml", "message/rfc822"),
        of("c", "nonsense"),
    ];
    let mail = write(draft(), files, "<k@example.org>").unwrap();
    let text = String::from_utf8(mail.bytes).unwrap();
    assert!(text.is_ascii());
    assert!(text.contains("Content-Type: multipart/mixed;"), "{text}");
    assert_eq!(text.matches("\r\naGk=\r\n").count(), 3, "{text}");
    assert_eq!(
        text.matches("Content-Type: application/octet-stream").count(),
        2,
        "{text}"
    );
    assert!(text.contains("filename=\"a \\\"b\\\".pdf\""), "{text}");
}

#[test]
fn a_message_id_is_that_of_the_key() {
    assert_eq!(message_id("abc-1/00ff", "example.org"), "<abc-1.00ff@example.org>");
    for key in [
        "a b/00ff",
        "a>/00ff",
        "é/00ff",
        "x",
        "a/b/c",
        "/00ff",
        &format!("{}/0", "a".repeat(200)),
    ] {
        let id = message_id(key, "example.org");
        assert_eq!((id.len(), &id[65..]), (78, "@example.org>"), "{key}");
    }
    assert_ne!(message_id("a b/0", "x"), message_id("a b/1", "x"));
}
