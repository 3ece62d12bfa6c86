//! Real clients: curl, Python's requests, a form in a browser, and the bytes of .NET's client.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::{echo, serving};
use crate::support::browser::{self, Browser};
use crate::support::single_node::head;

const SEEN: &str = "({body: getBody(), files: getFiles()?.map(f => [f.filename, f.length])})";

/// What a program prints.
async fn printed(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let running = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .expect("an end")
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_sends_what_it_can() {
    let node = serving(&[], &[echo("seen", "seen", &["GET", "POST", "PUT"], SEEN)]).await;
    let url = format!("http://{}/workflows/seen", node.address);
    let folder = std::env::temp_dir().join(format!("mainspring-curl-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    let large = folder.join("large.bin");
    std::fs::write(&large, vec![1; 3 << 20]).unwrap();
    let large = large.to_str().unwrap();
    let curl =
        async |more: &[&str]| json_of(&printed("curl", &[&["-sS", "--noproxy", "*", &url], more].concat()).await);
    assert_eq!(curl(&[]).await["body"], Value::Null);
    assert_eq!(curl(&["--json", "{\"a\": 1}"]).await["body"], json!({"a": 1}));
    assert_eq!(
        curl(&["-d", "a=1", "--data-urlencode", "b=x&y"]).await["body"],
        json!({"a": "1", "b": "x&y"})
    );
    let form = curl(&["-F", "a=1", "-F", &format!("f=@{large}")]).await;
    assert_eq!(form, json!({"body": {"a": "1"}, "files": [["large.bin", 3 << 20]]}));
    // It waits for "100 Continue", and sends in chunks.
    let chunked = [
        "-H",
        "Transfer-Encoding: chunked",
        "-H",
        "Expect: 100-continue",
        "-T",
        large,
    ];
    assert_eq!(curl(&chunked).await["body"]["length"], 3 << 20);
    std::fs::remove_dir_all(folder).unwrap();
}

const PYTHON: &str = r#"
import sys, json, requests
url = sys.argv[1]
session = requests.Session()
session.trust_env = False
def chunks():
    for at in range(20):
        yield b'x' * 1000
out = [
    session.post(url, json={'a': [1, 'é']}).json()['body'],
    session.post(url, data={'a': ['1', '2']}).json()['body'],
    session.post(url, data=chunks(), headers={'Content-Type': 'text/plain'}).json()['body'] == 'x' * 20000,
    session.post(url, files={'f': ('ü.txt', b'hello')}, data={'t': 'x'}).json(),
    session.get(url, params={'q': 'ä b'}).status_code,
    session.post(url, data='{', headers={'Content-Type': 'application/json'}).status_code,
]
print(json.dumps(out))
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_requests_is_understood() {
    let node = serving(&[], &[echo("seen", "seen", &["GET", "POST"], SEEN)]).await;
    let url = format!("http://{}/workflows/seen", node.address);
    let out = json_of(&printed("python3", &["-c", PYTHON, &url]).await);
    assert_eq!(
        out,
        json!([{"a": [1, "é"]}, {"a": ["1", "2"]}, true, {"body": {"t": "x"}, "files": [["ü.txt", 5]]}, 200, 400])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_in_a_browser_starts_a_workflow() {
    let page = "'<form method=post enctype=multipart/form-data action=seen><input name=title value=\"T ü\">\
        <input type=file name=f><input type=file name=none><button>Send</button></form>'";
    let form = super::workflow(
        "form",
        &[
            super::endpoint("in", "form", &["GET"], json!({})),
            super::responds("out", page, json!({"contentType": "text/html; charset=utf-8"})),
        ],
    );
    let node = serving(&[], &[form, echo("seen", "seen", &["POST"], SEEN)]).await;
    let program = browser::program().expect("a browser: `apt-get install chromium`, or MAINSPRING_TEST_BROWSER");
    let browser = Browser::start(&program).await;
    let files = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http-form");
    std::fs::create_dir_all(&files).unwrap();
    let file = files.join("a file.txt");
    std::fs::write(&file, "hello").unwrap();
    let page = browser.page(&files).await;
    page.goto(&format!("http://{}/workflows/form", node.address)).await;
    page.wait("document.readyState === 'complete' && document.querySelector('button') !== null")
        .await;
    page.give_file("input[name=f]", &file).await;
    page.click("document.querySelector('button')").await;
    page.wait("document.body.innerText.includes('\"files\"')").await;
    let text = page.eval("document.body.innerText").await;
    let seen = json_of(text.as_str().unwrap());
    assert_eq!(
        seen,
        json!({"body": {"title": "T ü", "none": ""}, "files": [["a file.txt", 5]]})
    );
}

/// What `PostAsJsonAsync` of .NET's `HttpClient` sends: the length of the content is not known before it is written. The head is
/// one write, and each chunk another one; here a chunk ends within a character.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_dotnets_client_sends_in_chunks_is_one_body() {
    let seen = "({body: getBody(), length: getHeaders()['Content-Length'] ?? null, coding: getHeaders()['Transfer-Encoding']})";
    let node = serving(&[], &[echo("seen", "seen", &["POST"], seen)]).await;
    let mut stream = node.connect().await;
    stream.set_nodelay(true).unwrap();
    // The second request goes over the same connection, as of any client of .NET.
    for body in [
        json!({"customer": "Jörg & Söhne, Köln", "amount": 12.5, "lines": [1, 2, 3]}),
        json!({"customer": "Ö"}),
    ] {
        let request = format!(
            "POST /workflows/seen HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\
             Content-Type: application/json; charset=utf-8\r\n\r\n",
            node.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = body.to_string();
        let within = text.char_indices().find(|(_, c)| !c.is_ascii()).unwrap().0 + 1;
        for chunk in [&text.as_bytes()[..within], &text.as_bytes()[within..]] {
            // The digits of the length are in upper case.
            let framed = [format!("{:X}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            stream.write_all(&framed).await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let length = answer.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut content = vec![0; length.unwrap().parse().unwrap()];
        stream.read_exact(&mut content).await.unwrap();
        let answered: Value = serde_json::from_slice(&content).unwrap();
        assert_eq!(answered, json!({"body": body, "length": null, "coding": "chunked"}));
    }
}
