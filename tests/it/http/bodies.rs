//! Bodies of any kind and size, and clients that mean harm.

use std::time::Duration;

use reqwest::Body;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Received, echo, endpoint, instances, request, responds, serving, workflow};
use crate::support::single_node::{KEY, SingleNode, head};
use crate::support::{long, wait_until};

/// Says what has arrived.
const SEEN: &str = "({body: getBody(), files: getFiles()?.map(f => [f.name, f.filename, f.contentType, f.length])})";

fn post(node: &SingleNode, path: &str) -> reqwest::RequestBuilder {
    request(&node.http, Method::POST, path)
}

/// A form of two parts; `|` is a line end.
fn form(node: &SingleNode, path: &str, text: &str) -> reqwest::RequestBuilder {
    post(node, path)
        .header("Content-Type", "multipart/form-data; boundary=b")
        .body(text.replace('|', "\r\n"))
}

fn file_part(filename: &str, content_type: &str, content: &str) -> String {
    format!(
        "--b|Content-Disposition: form-data; name=\"f\"; filename=\"{filename}\"|Content-Type: {content_type}||{content}|"
    )
}

/// What is in a folder, and in those below it.
pub(super) fn files_in(folder: &std::path::Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        count += if path.is_dir() { files_in(&path) } else { 1 };
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_read_by_its_content_type() {
    let node = serving(&[], &[echo("seen", "seen", &["POST"], SEEN)]).await;
    let typed = async |content_type: &str, body: &'static str| {
        let sent = post(&node, "seen").header("Content-Type", content_type).body(body);
        Received::of(sent).await
    };
    for (content_type, body, seen) in [
        ("application/json", "{\"a\": [1, null]}", json!({"a": [1, null]})),
        ("application/vnd.own+json; charset=utf-8", "\u{feff}\"x\"", json!("x")),
        ("text/plain", "plain", json!("plain")),
        ("text/xml", "<a b=\"1\"/>", json!("<a b=\"1\"/>")),
        (
            "application/x-www-form-urlencoded",
            "a=1&b=x+y&a=2",
            json!({"a": ["1", "2"], "b": "x y"}),
        ),
    ] {
        assert_eq!(
            typed(content_type, body).await.expect(200)["body"],
            seen,
            "{content_type}"
        );
    }
    let octets = typed("application/octet-stream", "\u{1}\u{2}").await.expect(200);
    assert_eq!(
        (&octets["body"]["length"], &octets["body"]["content"]),
        (&json!(2), &json!("AQI="))
    );
    let count = instances(&node.http, "seen").await.len();
    for (content_type, body, code) in [
        ("application/json", "{\"a\": ", "malformed-body"),
        ("application/json", "{\"a\": \"\\u0000\"}", "malformed-body"),
        ("multipart/form-data; boundary=b", "--b\r\nno form", "invalid-form"),
    ] {
        typed(content_type, body).await.assert_refused(400, code);
    }
    assert_eq!(instances(&node.http, "seen").await.len(), count, "nothing was started");
    let bomb = post(&node, "seen")
        .header("Content-Encoding", "gzip")
        .body(vec![0x1f, 0x8b, 8]);
    Received::of(bomb).await.assert_refused(415, "unsupported-encoding");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_has_files_without_their_folders() {
    let node = serving(&[], &[echo("seen", "seen", &["POST"], SEEN)]).await;
    let parts = format!(
        "{}{}--b|Content-Disposition: form-data; name=\"title\"||A title|--b--|",
        file_part("../../etc/passwd", "text/plain", "root"),
        file_part("C:\\windows\\x.ini", "text/plain", "")
    );
    let seen = Received::of(form(&node, "seen", &parts)).await.expect(200);
    assert_eq!(seen["body"], json!({"title": "A title"}));
    assert_eq!(
        seen["files"],
        json!([["f", "passwd", "text/plain", 4], ["f", "x.ini", "text/plain", 0]])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_endpoint_does_not_accept_is_refused_or_an_outcome() {
    let limits = json!({
        "requestSizeLimit": 2000, "fileSizeLimit": 10,
        "allowedFileExtensions": {"typeName": "String[]", "expression": {"type": "Object", "value": "[\".txt\", \".png\"]"}},
        "allowedMimeTypes": {"typeName": "String[]", "expression": {"type": "Object", "value": "[\"text/plain\"]"}},
    });
    let mut exposing = limits.clone();
    for outcome in [
        "RequestTooLarge",
        "FileTooLarge",
        "InvalidFileExtension",
        "InvalidFileMimeType",
    ] {
        exposing[format!("expose{outcome}Outcome")] = json!(true);
    }
    let ports = [
        "Done",
        "Request too large",
        "File too large",
        "Invalid file extension",
        "Invalid file MIME type",
    ];
    let mut activities = vec![endpoint("in", "exposing", &["POST"], exposing)];
    let mut connections = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        activities.push(responds(&format!("out{at}"), &format!("'{port}'"), json!({})));
        connections.push(json!({"source": {"activity": "in", "port": port}, "target": {"activity": format!("out{at}"), "port": "In"}}));
    }
    let mut flow = workflow("exposing", &[]);
    flow["root"]["type"] = json!("Elsa.Flowchart");
    flow["root"]["activities"] = json!(activities);
    flow["root"]["connections"] = json!(connections);
    let strict = workflow(
        "strict",
        &[
            endpoint("in", "strict", &["POST"], limits),
            responds("out", "'Done'", json!({})),
        ],
    );
    let node = serving(&[], &[flow, strict]).await;
    for (part, status, code, port) in [
        (file_part("a.txt", "text/plain", "0123456789"), 200, "", ports[0]),
        (
            file_part("a.txt", "text/plain", &"x".repeat(3000)),
            413,
            "request-too-large",
            ports[1],
        ),
        (
            file_part("a.exe", "text/plain", "0123456789a"),
            413,
            "file-too-large",
            ports[2],
        ),
        (
            file_part("a.exe", "text/plain", "x"),
            415,
            "invalid-file-extension",
            ports[3],
        ),
        (
            file_part("a.PNG", "image/png", "x"),
            415,
            "invalid-file-mime-type",
            ports[4],
        ),
    ] {
        let text = format!("{part}--b--|");
        let refused = Received::of(form(&node, "strict", &text)).await;
        match status {
            200 => assert_eq!(refused.expect(200), "Done"),
            status => refused.assert_refused(status, code),
        }
        let exposed = Received::of(form(&node, "exposing", &text)).await;
        assert_eq!(exposed.expect(200), port, "{code}");
    }
    // Counted while it is read, without a declared length.
    let chunks = futures_util::stream::iter((0..30).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 100])));
    let chunked = post(&node, "strict").body(Body::wrap_stream(chunks));
    Received::of(chunked).await.assert_refused(413, "request-too-large");
    assert_eq!(instances(&node.http, "strict").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_extension_is_blocked_in_any_case_though_it_is_allowed() {
    let list = |value: &str| json!({"typeName": "String[]", "expression": {"type": "Object", "value": value}});
    let limits = json!({"allowedFileExtensions": list("[\".txt\", \".exe\"]"), "blockedFileExtensions": list("[\".exe\", \".tar.gz\"]")});
    let node = serving(
        &[],
        &[workflow(
            "files",
            &[
                endpoint("in", "files", &["POST"], limits),
                responds("out", "'Done'", json!({})),
            ],
        )],
    )
    .await;
    for (name, is_accepted) in [
        ("a.txt", true),
        ("a.exe", false),
        ("a.EXE", false),
        ("a.exe.txt", true),
        ("exe", false),
    ] {
        let text = format!("{}--b--|", file_part(name, "text/plain", "x"));
        let answer = Received::of(form(&node, "files", &text)).await;
        match is_accepted {
            true => assert_eq!(answer.expect(200), "Done", "{name}"),
            false => answer.assert_refused(415, "invalid-file-extension"),
        }
    }
    assert_eq!(instances(&node.http, "files").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_are_in_the_spool_while_they_are_used() {
    let spool = std::env::temp_dir().join(format!("mainspring-it-spool-{}", uuid::Uuid::new_v4()));
    let settings = ["--spool-dir", spool.to_str().unwrap(), "--spool-mib", "8"];
    let waits = super::waits_at("mid", json!("again"), &["GET"], json!({"parsedContent": null}));
    let file = json!({"id": "out", "type": "Elsa.WriteFileHttpResponse", "content": super::script("getBody()")});
    let node = serving(
        &settings,
        &[
            echo("seen", "seen", &["POST"], "({length: getBody().length})"),
            workflow("back", &[endpoint("in", "back", &["POST"], json!({})), file.clone()]),
            workflow("later", &[endpoint("in", "later", &["POST"], json!({})), waits, file]),
        ],
    )
    .await;
    let large = |mib: usize| vec![b'z'; mib << 20];
    let sent = Received::of(post(&node, "seen").body(large(3))).await.expect(200);
    assert_eq!(sent, json!({"length": 3 << 20}));
    let back = Received::of(post(&node, "back").body(large(2))).await;
    assert_eq!((back.status, back.text.len()), (200, 2 << 20));
    let full = Received::of(post(&node, "seen").body(large(9))).await;
    full.assert_refused(503, "spool-full");
    assert_eq!(full.header("retry-after"), "5");
    // It lives for its burst, and the workflow that needs it later says so.
    let later = Received::of(post(&node, "later").body(large(1))).await;
    let id = later.expect(202)["workflowInstanceId"].as_str().unwrap().to_owned();
    let again = super::request(&node.http, reqwest::Method::GET, "again");
    assert_eq!(Received::of(again).await.status, 500);
    node.http.instance_becomes(&id, "Faulted").await;
    let shown = node.http.get(&format!("workflow-instances/{id}")).await.expect(200);
    let incident = shown["workflowState"]["incidents"].to_string();
    assert!(incident.contains("kept only for the burst"), "{incident}");
    wait_until("no file to be left", async || files_in(&spool) == 1).await;
    // A client that hangs up leaves none, either.
    let mut stream = node.connect().await;
    let begun = format!(
        "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        4 << 20
    );
    stream.write_all(begun.as_bytes()).await.unwrap();
    stream.write_all(&large(1)).await.unwrap();
    wait_until("the body to be in the spool", async || files_in(&spool) == 2).await;
    drop(stream);
    wait_until("no file to be left", async || files_in(&spool) == 1).await;
    node.assert_invariants();
    drop(node);
    std::fs::remove_dir_all(spool).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_without_the_key_leave_room_to_those_with_it() {
    let node = SingleNode::with_key(&["--spool-mib", "8"]).await;
    let seen = echo("seen", "seen", &["POST"], "({length: getBody().length})");
    node.http.publish(&seen).await;
    // They fill the spool, and never end.
    let mut begun = Vec::new();
    for _ in 0..2 {
        let mut stream = node.connect().await;
        let length = 4 << 20;
        let head = format!("POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'z'; 3 << 20]).await.unwrap();
        begun.push(stream);
    }
    let sent = || post(&node, "seen").body(vec![b'z'; 3 << 19]);
    wait_until("no room for others without the key", async || {
        Received::of(sent()).await.status == 503
    })
    .await;
    let refused = Received::of(sent()).await;
    refused.assert_refused(503, "spool-full");
    assert!(
        refused.text.contains("7 of them of requests without its key"),
        "{}",
        refused.text
    );
    let keyed = sent().header("Authorization", format!("ApiKey {KEY}"));
    assert_eq!(Received::of(keyed).await.expect(200)["length"], 3 << 19);
    drop(begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_uploads_at_once_take_no_memory() {
    // Not all of them have room at once.
    let (size, room, most) = if long() {
        (100 << 20, "1024", "128")
    } else {
        (10 << 20, "200", "20")
    };
    let spool = std::env::temp_dir().join(format!("mainspring-it-spool-{}", uuid::Uuid::new_v4()));
    let folder = spool.to_str().unwrap();
    let node = serving(
        &["--spool-dir", folder, "--spool-mib", room, "--http-body-mib", most],
        &[echo("seen", "seen", &["POST"], "({length: getBody().length})")],
    )
    .await;
    let one = Received::of(post(&node, "seen").body(vec![1; 10 << 20]))
        .await
        .expect(200);
    assert_eq!(one["length"], 10 << 20);
    let before = node.memory("VmRSS");
    let uploads = (0..100).map(|_| {
        let chunks = (0..size / (64 << 10)).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 64 << 10]));
        let chunks = futures_util::stream::iter(chunks);
        post(&node, "seen").body(Body::wrap_stream(chunks)).send()
    });
    let (mut done, mut cut_off) = (0, 0);
    for sent in futures_util::future::join_all(uploads).await {
        // A refused client that goes on to send sees the end of the connection, perhaps before the answer.
        let Ok(answer) = sent else {
            cut_off += 1;
            continue;
        };
        match answer.status().as_u16() {
            200 => done += 1,
            status => match answer.json::<Value>().await {
                Ok(body) => assert_eq!((status, &body["code"]), (503, &json!("spool-full")), "{body}"),
                Err(_) => cut_off += 1,
            },
        }
    }
    assert!(done > 0);
    let grown = node.memory("VmHWM").saturating_sub(before) >> 20;
    let each = size >> 20;
    eprintln!("{done} of 100 bodies of {each} MiB had room, {cut_off} were cut off; they took {grown} MiB");
    assert!(grown < 150, "{grown} MiB for 100 bodies of {each} MiB");
    let endless = futures_util::stream::iter(std::iter::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 64 << 10])));
    let ended = post(&node, "seen").body(Body::wrap_stream(endless)).send().await;
    // The client may see the end of the connection before the answer.
    if let Ok(answer) = ended {
        assert_eq!(answer.status().as_u16(), 413);
    }
    assert_eq!(instances(&node.http, "seen").await.len(), done + 1);
    // Nothing is left but the lock of the process.
    wait_until("no file to be left", async || files_in(&spool) == 1).await;
    drop(node);
    std::fs::remove_dir_all(spool).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_is_cut_off_and_harms_no_other() {
    let node = serving(&["--body-timeout", "1s"], &[echo("seen", "seen", &["POST"], SEEN)]).await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = node.connect().await;
        let head = "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let quick = Received::of(post(&node, "seen").json(&json!(1))).await;
    assert_eq!(quick.expect(200)["body"], 1);
    let mut last = slow.pop().unwrap();
    let dripping = async {
        while last.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), dripping).await;
    let answer = head(&mut last).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("connection: close"),
        "{answer}"
    );
    for mut stream in slow {
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 408 "));
    }
    assert_eq!(instances(&node.http, "seen").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_no_head_starts_nothing() {
    let node = serving(&[], &[echo("seen", "seen", &["GET", "POST"], SEEN)]).await;
    let bomb = |name: &str, count: usize, length: usize| {
        let headers: String = (0..count)
            .map(|at| format!("X-{name}-{at}: {}\r\n", "x".repeat(length)))
            .collect();
        format!("GET /workflows/seen HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
    };
    for (request, status) in [
        (bomb("Many", 5000, 1), "431"),
        (bomb("Large", 2, 70_000), "431"),
        (
            "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
                .to_owned(),
            "400",
        ),
        (
            "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(),
            "400",
        ),
        ("GET /workflows/seen HTTP/1.1\r\n\r\n".to_owned(), "403"),
    ] {
        let answer = node.head_of(&request).await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer} {request:.80}");
    }
    assert_eq!(instances(&node.http, "seen").await.len(), 0);
    // With both lengths the chunks count, and what a proxy could take for the next request is none.
    let both = "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\
                Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let mut stream = node.connect().await;
    stream.write_all(both.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("\"body\":\"hello\""), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert_eq!(instances(&node.http, "seen").await.len(), 1);
    let chunk =
        "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n";
    let answer = node.head_of(chunk).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    let waits: Value = Received::of(post(&node, "seen")).await.expect(200);
    assert_eq!(waits["body"], Value::Null);
}
