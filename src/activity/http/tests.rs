//! What a request brings, what an endpoint requires of it, and how values are written.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::content::{Unmatched, WrittenBody, WrittenContent};
use super::endpoint::HttpEndpoint;
use super::file_response::WriteFileHttpResponse;
use super::form::{dictionary, encode_pairs};
use super::header_fields::HeaderFields;
use super::response::WriteHttpResponse;
use super::status_code::StatusCode;
use super::*;
use crate::activity::Activity;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn written(content: Value, content_type: Option<&str>) -> (String, String) {
    let written = WrittenContent::write(&content, content_type, false, Unmatched::Text).unwrap();
    match written.body {
        WrittenBody::Bytes(bytes) => (written.content_type, String::from_utf8(bytes).unwrap()),
        WrittenBody::File(file) => (written.content_type, file.filename),
    }
}

#[test]
fn the_content_type_decides_how_a_value_is_written() {
    let parts = json!({"a": 1, "b": ["x y", "&"]});
    for (content, content_type, expected, body) in [
        (json!("hi"), None, "text/plain", "hi"),
        (json!("hi"), Some(""), "text/plain", "hi"),
        (json!({"a": 1}), None, "application/json", "{\"a\":1}"),
        (json!(3.5), None, "application/json", "3.5"),
        (json!([1]), Some("text/json"), "text/json", "[1]"),
        (
            json!("{\"a\": 1}"),
            Some("application/json"),
            "application/json",
            "{\"a\": 1}",
        ),
        (
            json!("plain"),
            Some("application/json; charset=utf-8"),
            "application/json; charset=utf-8",
            "plain",
        ),
        (json!(true), Some("text/plain"), "text/plain", "True"),
        (
            json!("<a/>"),
            Some("application/soap+xml"),
            "application/soap+xml",
            "<a/>",
        ),
        (
            json!("aGk="),
            Some("application/octet-stream"),
            "application/octet-stream",
            "hi",
        ),
        (
            json!([104, 105]),
            Some("application/octet-stream"),
            "application/octet-stream",
            "hi",
        ),
        (
            parts.clone(),
            Some("application/x-www-form-urlencoded"),
            "application/x-www-form-urlencoded",
            "a=1&b=x+y&b=%26",
        ),
        (
            json!("a=1"),
            Some("application/x-www-form-urlencoded"),
            "application/x-www-form-urlencoded",
            "a=1",
        ),
        (json!("x"), Some("image/svg+xml"), "image/svg+xml", "x"),
        (
            json!({"a": 1}),
            Some("Application/Vnd.Own"),
            "Application/Vnd.Own",
            "{\"a\":1}",
        ),
    ] {
        assert_eq!(
            written(content, content_type),
            (expected.to_owned(), body.to_owned()),
            "{content_type:?}"
        );
    }
    let file = FileValue::inline("a.png", "image/png", vec![1, 2]).to_value();
    assert_eq!(
        written(file.clone(), None),
        ("image/png".to_owned(), "a.png".to_owned())
    );
    assert_eq!(written(file, Some("text/plain")).0, "text/plain");
    let bytes = WrittenContent::write(&json!("aGk="), None, true, Unmatched::Text).unwrap();
    assert_eq!(bytes.content_type, "application/octet-stream");
    assert_eq!(bytes.body, WrittenBody::Bytes(b"hi".to_vec()));
    let own = WrittenContent::write(&json!([1]), Some("a/b"), false, Unmatched::Json).unwrap();
    assert_eq!(own.body, WrittenBody::Bytes(b"[1]".to_vec()));
}

#[test]
fn what_cannot_be_written_is_said() {
    for (content, content_type, problem) in [
        (json!({"a": 1}), "application/xml", "make the text in an expression"),
        (json!("no base64!"), "application/octet-stream", "Base64"),
        (json!([1, 300]), "application/octet-stream", "Base64"),
        (json!(1), "application/x-www-form-urlencoded", "no object"),
        (json!("a"), "json", "application/json"),
        (json!("a"), "text/plain\r\nX: 1", "line break"),
        (json!("a"), "a b/c", "no content type"),
    ] {
        let error = WrittenContent::write(&content, Some(content_type), false, Unmatched::Text).unwrap_err();
        assert!(error.contains(problem), "{content_type}: {error}");
    }
}

#[test]
fn header_fields_are_text_or_lists_of_it() {
    let read = HeaderFields::read(
        &json!({"X-A": "1", "x-b": ["2", 3], "Content-Length": "5", "Connection": "close", "n": null}),
    );
    let expected = [("X-A", "1"), ("x-b", "2"), ("x-b", "3")];
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(read.unwrap().into_list(), expected);
    assert_eq!(HeaderFields::read(&Value::Null).unwrap(), HeaderFields::default());
    for (fields, problem) in [
        (json!({"X-A": "1\r\nX-B: 2"}), "line break"),
        (json!({"X-A": "1\n2"}), "line break"),
        (json!({"X-A": "\u{1}"}), "control character"),
        (json!({"X A": "1"}), "no name"),
        (json!({"": "1"}), "no name"),
        (json!({"X\nA": "1"}), "no name"),
        (json!("text"), "no JSON object"),
        (json!({"X-A": "v".repeat(70_000)}), "at most"),
    ] {
        let error = HeaderFields::read(&fields).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    for (name, expected) in [
        ("content-type", "Content-Type"),
        ("x-api-key", "X-Api-Key"),
        ("etag", "ETag"),
        ("www-authenticate", "WWW-Authenticate"),
        ("traceparent", "traceparent"),
    ] {
        assert_eq!(written_name(name), expected);
    }
}

#[test]
fn a_status_is_a_name_or_a_number() {
    for (value, number) in [
        (json!("OK"), 200),
        (json!("notfound"), 404),
        (json!(" 418 "), 418),
        (json!(201), 201),
        (json!(201.0), 201),
        (json!(599), 599),
        (Value::Null, 200),
        (json!("Redirect"), 302),
    ] {
        assert_eq!(StatusCode::read(&value).unwrap().number(), number, "{value}");
    }
    for value in [
        json!(99),
        json!(100),
        json!(199),
        json!(600),
        json!(1000),
        json!(200.5),
        json!(-1),
        json!("Fine"),
        json!([]),
        json!(true),
    ] {
        let error = StatusCode::read(&value).unwrap_err();
        assert!(error.contains("200 to 599"), "{error}");
    }
    let names: Vec<&str> = StatusCode::names().collect();
    assert!(names.contains(&"OK") && names.contains(&"MultipleChoices") && !names.contains(&"Ambiguous"));
}

#[test]
fn a_content_type_says_how_a_body_is_read() {
    for (content_type, kind) in [
        ("application/json", BodyKind::Json),
        ("Application/Problem+JSON; charset=utf-8", BodyKind::Json),
        ("text/xml", BodyKind::Xml),
        ("application/soap+xml", BodyKind::Xml),
        ("text/plain; charset=latin1", BodyKind::Text),
        ("text/html", BodyKind::Text),
        ("text/csv", BodyKind::File),
        ("", BodyKind::File),
        ("application/x-www-form-urlencoded", BodyKind::Form),
        ("multipart/form-data; boundary=x", BodyKind::Multipart),
        ("application/octet-stream", BodyKind::File),
    ] {
        assert_eq!(BodyKind::of(content_type), kind, "{content_type}");
    }
    let decode = |kind: BodyKind, content_type: &str, bytes: &[u8]| kind.decode(content_type, bytes.to_vec());
    let text = BodyKind::Text;
    assert_eq!(decode(text, "text/plain", b"\xef\xbb\xbfa\xc3\xa9").unwrap(), "aé");
    assert_eq!(decode(text, "text/plain; charset=ISO-8859-1", b"a\xe9").unwrap(), "aé");
    assert_eq!(
        decode(text, "text/plain; charset=\"utf-16\"", b"\xff\xfea\0").unwrap(),
        "a"
    );
    assert_eq!(decode(text, "text/plain", b"a\xff").unwrap(), "a\u{fffd}");
    assert!(decode(text, "text/plain", b"a\0").unwrap_err().contains("U+0000"));
    let json = |bytes: &[u8]| decode(BodyKind::Json, "application/json", bytes);
    assert_eq!(json(b" {\"a\": 1}").unwrap(), " {\"a\": 1}");
    let broken = json(b"{\"a\":\n 1,}").unwrap_err();
    assert!(broken.contains("line 2"), "{broken}");
    assert!(json(b"{\"a\": \"\\u0000\"}").unwrap_err().contains("U+0000"));
    assert!(json(b"\"\xff\"").unwrap_err().contains("UTF-8"));
    let deep = format!("{}{}", "[".repeat(110), "]".repeat(110));
    assert!(json(deep.as_bytes()).unwrap_err().contains("deeper"));
}

#[test]
fn names_and_values_are_decoded_in_their_order() {
    let decoded = decode_pairs("b=1&a=x+y%20z&b=%C3%A9&%zz=%4&&c&d=%ff");
    let expected = [
        ("b", "1"),
        ("a", "x y z"),
        ("b", "é"),
        ("%zz", "%4"),
        ("c", ""),
        ("d", "\u{fffd}"),
    ];
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(decoded, expected);
    let values = dictionary(decoded);
    assert_eq!(values["b"], json!(["1", "é"]));
    assert_eq!(values["c"], json!(""));
    let text = encode_pairs([("a b", "é&="), ("~", "1")]);
    assert_eq!(text, "a+b=%C3%A9%26%3D&~=1");
    assert_eq!(decode_pairs(&text)[0], ("a b".to_owned(), "é&=".to_owned()));
}

#[test]
fn a_file_is_a_value() {
    let file = FileValue {
        name: Some("upload".to_owned()),
        ..FileValue::inline("a.TXT", "text/plain", b"hi".to_vec())
    };
    let value = file.to_value();
    let expected =
        json!({"name": "upload", "filename": "a.TXT", "contentType": "text/plain", "length": 2, "content": "aGk="});
    assert_eq!(value, expected);
    assert_eq!(FileValue::read(&value), Some(file));
    let spooled = json!({"filename": "b", "contentType": "a/b", "length": 7, "spool": "x"});
    let read = FileValue::read(&spooled).unwrap();
    assert_eq!((read.length, &read.content), (7, &FileContent::Spooled("x".to_owned())));
    assert_eq!(read.to_value(), spooled);
    let fault = HttpServices::default().content_of(&read).unwrap_err();
    assert!(
        fault.message.contains("is gone") && fault.message.contains("\"b\""),
        "{fault}"
    );
    for other in [
        json!({"filename": "a"}),
        json!({"content": "aGk="}),
        json!({"filename": "a", "contentType": "a/b", "content": "!"}),
        json!({"filename": "a", "contentType": "a/b", "content": "aGk=", "spool": "x"}),
        json!("text"),
    ] {
        assert_eq!(FileValue::read(&other), None, "{other}");
    }
    for (name, extension) in [
        ("a.txt", ".txt"),
        ("a.b.C", ".C"),
        ("a", ""),
        ("a.", ""),
        (".x", ".x"),
        ("d.e/f", ""),
    ] {
        assert_eq!(FileValue::inline(name, "", Vec::new()).extension(), extension, "{name}");
    }
}

#[test]
fn files_are_checked_in_elsas_order() {
    let options = |fields: Value| RouteOptions::read(&fields).unwrap();
    let file = |name: &str, content_type: &str, length: usize| FileValue::inline(name, content_type, vec![0; length]);
    let all = options(json!({"fileSizeLimit": 2, "allowedFileExtensions": [".txt", ".PDF"],
        "blockedFileExtensions": [".pdf"], "allowedMimeTypes": ["text/plain"]}));
    for (files, problem) in [
        (vec![file("a.exe", "x/y", 3)], Some(RequestProblem::FileTooLarge)),
        (
            vec![file("a.TXT", "text/plain", 2), file("a.exe", "x/y", 1)],
            Some(RequestProblem::InvalidFileExtension),
        ),
        (
            vec![file("a.pdf", "text/plain", 1)],
            Some(RequestProblem::InvalidFileExtension),
        ),
        (
            vec![file("a.txt", "text/html", 1)],
            Some(RequestProblem::InvalidFileMimeType),
        ),
        (vec![file("a.txt", "Text/Plain", 1)], None),
        (vec![], None),
    ] {
        assert_eq!(all.problem_of_files(&files), problem, "{files:?}");
    }
    assert_eq!(options(json!({})).problem_of_files(&[file("a.exe", "x/y", 99)]), None);
    assert_eq!(
        all.message_of(RequestProblem::FileTooLarge),
        "The maximum file size allowed is 2 bytes."
    );
    for problem in [
        RequestProblem::RequestTooLarge,
        RequestProblem::FileTooLarge,
        RequestProblem::InvalidFileExtension,
        RequestProblem::InvalidFileMimeType,
    ] {
        assert_eq!(serde_json::to_value(problem).unwrap(), problem.outcome());
    }
}

#[test]
fn a_request_is_the_payload_of_a_start() {
    let request = ReceivedRequest {
        method: "POST".to_owned(),
        path: "/orders/7".to_owned(),
        route: object(json!({"id": "7"})),
        query: "a=1&a=2".to_owned(),
        headers: vec![
            ("X-A".to_owned(), "1".to_owned()),
            ("Content-Length".to_owned(), "2".to_owned()),
        ],
        body: ReceivedBody::Form {
            fields: vec![("f".to_owned(), "v".to_owned())],
            files: vec![FileValue::inline("a", "b/c", vec![1])],
        },
        ..ReceivedRequest::default()
    };
    let payload = request.to_payload();
    assert_eq!(ReceivedRequest::read(&payload).unwrap(), request);
    assert_eq!(request.header("x-a"), Some("1"));
    assert_eq!(request.query_values(), object(json!({"a": ["1", "2"]})));
    assert_eq!(request.to_value()["QueryString"], "?a=1&a=2");
    assert_eq!(request.to_value()["ContentLength"], 2);
    let small = ReceivedRequest {
        method: "GET".to_owned(),
        ..ReceivedRequest::default()
    };
    assert!(small.to_payload().to_string().len() < 80, "{}", small.to_payload());
}

#[test]
fn an_endpoint_has_a_route_for_each_method() {
    let endpoint = HttpEndpoint(Arc::default());
    let inputs = object(
        json!({"Path": "/Orders/{id:int}/", "SupportedMethods": ["GET", "post", "Get"], "Authorize": true, "Policy": "",
        "RequestTimeout": "00:00:30", "RequestSizeLimit": 10, "FileSizeLimit": null, "AllowedFileExtensions": ["pdf", ".txt", " "],
        "BlockedFileExtensions": null, "ExposeFileTooLargeOutcome": true, "WaitForResponse": "00:00:00"}),
    );
    let stimuli = endpoint.trigger_stimuli(&inputs).unwrap();
    let methods: Vec<&Value> = stimuli.iter().map(|stimulus| &stimulus.key["method"]).collect();
    assert_eq!(methods, ["get", "post"]);
    let expected = json!({"path": "/Orders/{id:int}/", "method": "post", "authorize": true, "requestTimeout": "00:00:30",
        "requestSizeLimit": 10, "allowedFileExtensions": [".pdf", ".txt"], "exposed": ["File too large"]});
    assert_eq!(stimuli[1].payload, expected);
    let root = object(json!({"Path": "/", "SupportedMethods": null}));
    assert_eq!(
        endpoint.trigger_stimuli(&root).unwrap()[0].key,
        json!({"path": "", "method": "get"})
    );
    assert_eq!(
        endpoint.input_problems(&object(json!({"Authorize": true}))),
        Vec::<String>::new()
    );
}

#[test]
fn what_an_endpoint_cannot_be_is_said_at_publish() {
    let endpoint = HttpEndpoint(Arc::default());
    let problem = |name: &str, value: Value| {
        let mut inputs = object(json!({"Path": "a", "SupportedMethods": ["GET", "PUT"]}));
        inputs.insert(name.to_owned(), value);
        let problems = endpoint.input_problems(&inputs);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(endpoint.trigger_stimuli(&inputs).unwrap_err(), problems);
        problems[0].clone()
    };
    for (name, value, part) in [
        ("Path", json!(""), "Path is empty"),
        ("Path", Value::Null, "Path is empty"),
        ("Path", json!("a//b"), "column"),
        ("Path", json!("a/{b"), "route template"),
        ("Path", json!("resume/{token}"), "resume"),
        ("SupportedMethods", json!(["GET", "GET IT"]), "\"GET IT\""),
        ("SupportedMethods", json!(["GTE"]), "PATCH"),
        ("SupportedMethods", json!([]), "SupportedMethods is empty"),
        ("RequestSizeLimit", json!(-1), "RequestSizeLimit is -1"),
        ("FileSizeLimit", json!(-5), "FileSizeLimit is -5"),
        ("RequestTimeout", json!("-00:00:01"), "no length of time"),
        ("RequestTimeout", json!("2.00:00:00"), "at most"),
        ("WaitForResponse", json!("2.00:00:00"), "at most"),
    ] {
        let found = problem(name, value);
        assert!(found.contains(part), "{name}: {found}");
    }
    let response = WriteHttpResponse(Arc::default());
    for (name, value, part) in [
        ("StatusCode", json!(99), "StatusCode is invalid: 99"),
        ("StatusCode", json!("1000"), "200 to 599"),
        ("ResponseHeaders", json!({"X-A": "a\r\nb"}), "line break"),
        ("ContentType", json!("nonsense"), "no content type"),
    ] {
        let problems = response.input_problems(&object(json!({name: value})));
        assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
    }
    let file = WriteFileHttpResponse(Arc::default());
    for (name, value, part) in [
        ("ContentType", json!("x"), "no content type"),
        ("EntityTag", json!("a\"b"), "no entity tag"),
    ] {
        let problems = file.input_problems(&object(json!({name: value})));
        assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
    }
}
