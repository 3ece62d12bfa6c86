//! Files as answers: in parts, on conditions, and under a content type that no client chooses.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Received, echo, endpoint, request, responds, script, serving, workflow};

/// Answers with the file that the request brings.
fn sends_back(more: Value) -> Value {
    let mut response = json!({"id": "out", "type": "Elsa.WriteFileHttpResponse", "content": script("getBody()")});
    response
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let methods = ["GET", "HEAD", "POST"];
    workflow("file", &[endpoint("in", "file", &methods, json!({})), response])
}

fn literal(type_name: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value.into()}})
}

/// The bytes from `first` to `last` of a file whose place each byte names.
fn bytes(first: usize, last: usize) -> String {
    (first..=last).map(|at| char::from(b'a' + (at % 23) as u8)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_given_in_the_parts_that_a_client_asks_for() {
    let resumable = json!({"enableResumableDownloads": literal("Boolean", true), "entityTag": literal("String", "v1")});
    let node = serving(&[], &[sends_back(resumable)]).await;
    // The first is in memory, the second one in the spool.
    for length in [1_000, 1 << 20] {
        let send = |method: Method, fields: &[(&str, &str)]| -> RequestBuilder {
            let request = request(&node.http, method, "file").header("Content-Type", "application/octet-stream");
            let request = request.body(bytes(0, length - 1));
            fields
                .iter()
                .fold(request, |request, (name, value)| request.header(*name, *value))
        };
        let get = async |fields: &[(&str, &str)]| Received::of(send(Method::GET, fields)).await;
        let whole = get(&[]).await;
        assert_eq!(
            (whole.status, whole.text.as_str()),
            (200, bytes(0, length - 1).as_str())
        );
        assert_eq!(
            (whole.header("etag"), whole.header("accept-ranges")),
            ("\"v1\"", "bytes")
        );
        let end = length - 1;
        for (range, first, last) in [
            ("bytes=0-0".to_owned(), 0, 0),
            ("bytes=10-99".to_owned(), 10, 99),
            (format!("bytes={}-", end - 4), end - 4, end),
            ("bytes=-7".to_owned(), end - 6, end),
            ("bytes=700-99999999".to_owned(), 700, end),
        ] {
            let part = get(&[
                ("Range", &range),
                ("If-Range", "\"v1\""),
                ("If-Match", "\"v0\", \"v1\""),
            ])
            .await;
            assert_eq!(
                (part.status, part.text.as_str()),
                (206, bytes(first, last).as_str()),
                "{range}"
            );
            assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/{length}"));
            assert_eq!(part.header("content-length"), (last - first + 1).to_string());
            assert_eq!((part.header("etag"), part.header("accept-ranges")), ("\"v1\"", "bytes"));
        }
        for fields in [
            [("Range", "bytes=0-1,5-6"), ("Accept", "*/*")],
            [("Range", "lines=1-2"), ("Accept", "*/*")],
            [("Range", "bytes=0-1"), ("If-Range", "\"v0\"")],
            [("Range", "bytes=0-1"), ("If-Range", "Wed, 21 Oct 2015 07:28:00 GMT")],
            [("If-None-Match", "\"v0\""), ("If-Match", "*")],
        ] {
            let whole = get(&fields).await;
            assert_eq!((whole.status, whole.text.len()), (200, length), "{fields:?}");
        }
        for (field, value, status) in [
            ("If-None-Match", "\"v0\", W/\"v1\"", 304),
            ("If-None-Match", "*", 304),
            ("If-Match", "\"v0\"", 412),
            ("Range", "bytes=99999999-", 416),
        ] {
            let refused = get(&[(field, value)]).await;
            assert_eq!(
                (refused.status, refused.text.as_str()),
                (status, ""),
                "{field}: {value}"
            );
            assert_eq!(
                (refused.header("etag"), refused.header("content-type")),
                ("\"v1\"", ""),
                "{field}"
            );
            let range = if status == 416 {
                format!("bytes */{length}")
            } else {
                String::new()
            };
            assert_eq!(refused.header("content-range"), range);
        }
        for (field, value) in [("Range", "bytes=5-3"), ("Range", "bytes"), ("If-Match", "v1")] {
            get(&[(field, value)]).await.assert_refused(400, "invalid-field");
        }
        // Only who reads a file gets a part of it.
        let posted = Received::of(send(Method::POST, &[("Range", "bytes=0-1"), ("If-None-Match", "*")])).await;
        assert_eq!((posted.status, posted.text.len()), (200, length));
        let head = Received::of(send(Method::HEAD, &[("Range", "bytes=0-1")])).await;
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, length.to_string().as_str())
        );
        let head = Received::of(send(Method::HEAD, &[("If-None-Match", "\"v1\"")])).await;
        assert_eq!(head.status, 304);
    }
    // The answer that is kept for a key has its parts, too, and what is asked for is no part of the key.
    let kept = async |range: &str| {
        let sent = request(&node.http, Method::GET, "file").header("Idempotency-Key", "k");
        let sent = sent
            .header("Content-Type", "application/octet-stream")
            .body(bytes(0, 99));
        Received::of(sent.header("Range", range)).await
    };
    for (range, first, last) in [("bytes=0-49", 0, 49), ("bytes=50-", 50, 99)] {
        let part = kept(range).await;
        assert_eq!((part.status, part.text.as_str()), (206, bytes(first, last).as_str()));
    }
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_resumable_downloads_has_no_parts() {
    let node = serving(&[], &[sends_back(json!({"entityTag": literal("String", "v1")}))]).await;
    let sent = request(&node.http, Method::GET, "file").header("Content-Type", "application/octet-stream");
    let whole = Received::of(sent.header("Range", "bytes=x").body("abc")).await;
    assert_eq!((whole.status, whole.text.as_str()), (200, "abc"));
    assert_eq!(whole.header("accept-ranges"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_makes_the_server_show_its_page() {
    const SANDBOX: &str = "sandbox allow-scripts allow-forms";
    let own = json!({"contentType": "text/html", "responseHeaders": {
        "typeName": "Object", "expression": {"type": "Object", "value": "{\"content-security-policy\": \"default-src 'self'\"}"}}});
    let chosen = workflow(
        "chosen",
        &[
            endpoint("in", "chosen", &["POST"], json!({})),
            responds("out", "getBody()", own),
        ],
    );
    let node = serving(
        &[],
        &[
            echo("seen", "seen", &["POST"], "getBody()"),
            sends_back(json!({})),
            chosen,
        ],
    )
    .await;
    let page = "<script>alert(1)</script>";
    let as_json =
        json!({"filename": "a.html", "contentType": "text/html", "content": "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=="});
    for path in ["seen", "file", "chosen"] {
        for (content_type, body) in [
            ("application/json", as_json.to_string()),
            ("image/svg+xml; charset=utf-8", page.to_owned()),
            ("text/javascript", page.to_owned()),
            // Browsers take the last type that they know.
            ("image/png;x=,text/html", page.to_owned()),
        ] {
            let sent = request(&node.http, Method::POST, path).header("Content-Type", content_type);
            let received = Received::of(sent.body(body)).await;
            assert_eq!(received.status, 200, "{path} {content_type}: {}", received.text);
            assert_eq!(received.header("x-content-type-options"), "nosniff");
            let (of_type, policy) = match path {
                // Browsers obey both.
                "chosen" => ("text/html", vec!["default-src 'self'", SANDBOX]),
                // XML is text in a workflow.
                _ if content_type.contains("xml") => ("text/plain", vec![SANDBOX]),
                _ => ("application/octet-stream", vec![SANDBOX]),
            };
            assert_eq!(received.header("content-type"), of_type, "{path} {content_type}");
            let policies: Vec<_> = received.headers.get_all("content-security-policy").iter().collect();
            assert_eq!(policies, policy);
            assert_eq!(
                received.header("content-disposition").starts_with("attachment"),
                path == "file"
            );
        }
    }
    // What a browser shows without running it keeps its type, and a PDF is shown outside the origin only without a sandbox.
    let sent = request(&node.http, Method::POST, "seen").header("Content-Type", "application/pdf");
    let pdf = Received::of(sent.body("pdf")).await;
    assert_eq!(
        (pdf.header("content-type"), pdf.header("content-security-policy")),
        ("application/pdf", "")
    );
    let sent = request(&node.http, Method::POST, "seen").header("Content-Type", "image/png");
    assert_eq!(Received::of(sent.body("png")).await.header("content-type"), "image/png");
}
