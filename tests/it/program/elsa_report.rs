//! `mainspring elsa report`: what runs of a folder, and of a server, without a database.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::support::certificates::Certificates;
use crate::support::{Child, LONG_TIMEOUT, TestDatabase, assert_contains};

/// The exit code, standard output and standard error.
fn report(arguments: &[&str]) -> (Option<i32>, String, String) {
    report_with(arguments, &[])
}

fn report_with(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut child = Child::start(&[&["elsa", "report"], arguments].concat(), environment);
    let code = child.wait(LONG_TIMEOUT).code();
    (code, child.stdout().join("\n"), child.stderr().join("\n"))
}

/// The exit code and the JSON document.
fn document(source: &str) -> (Option<i32>, Value) {
    let (code, out, err) = report(&[source, "--json"]);
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"));
    (code, value)
}

struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-report-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn definition(id: &str) -> Value {
    json!({"definitionId": id, "name": id, "version": 1, "root": {"id": "w", "type": "Elsa.WriteLine", "version": 1,
        "text": {"typeName": "String", "expression": {"type": "Literal", "value": "x"}}}})
}

fn with_root(id: &str, root: Value) -> Value {
    json!({"definitionId": id, "name": id, "version": 1, "root": root})
}

/// The verdict on the source that ends so.
fn of<'a>(document: &'a Value, end: &str) -> &'a Value {
    let all = document["definitions"].as_array().unwrap();
    let found = all.iter().find(|one| one["source"].as_str().unwrap().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {document}"))
}

#[test]
fn of_a_thousand_files_ten_are_broken_and_nothing_is_lost() {
    let folder = Folder::create();
    for number in 0..990 {
        let id = format!("d{number:04}");
        folder.write(&format!("{:02}/{id}.json", number % 10), definition(&id).to_string());
    }
    let elsa_2 = json!({"activities": [{"activityId": "a", "type": "WriteLine"}], "connections": []});
    folder.write("b/empty.json", "");
    folder.write("b/blank.json", " \n");
    folder.write("b/cut.json", "{\"root\": {");
    folder.write("b/list.json", "[1]");
    folder.write("b/package.json", "{\"name\": \"x\"}");
    folder.write("b/elsa-2.json", elsa_2.to_string());
    folder.write("b/large.json", vec![b' '; 10_485_761]);
    folder.write("b/bytes.json", [0xff, 0xfe, 0x00]);
    folder.write("b/type.json", "{\"definitionId\": 7}");
    folder.write("b/damaged.zip", b"PK\x03\x04 and nothing more");
    folder.write("b/readme.txt", "not read");
    let (code, document) = document(folder.path());
    assert_eq!(code, Some(1));
    assert_eq!(
        document["summary"],
        json!({"definitions": 1_000, "runs": 990, "warnings": 0, "refused": 0, "unreadable": 10})
    );
    let mut sources: Vec<&str> = Vec::new();
    for one in document["definitions"].as_array().unwrap() {
        sources.push(one["source"].as_str().unwrap());
    }
    assert!(sources.is_sorted_by_key(Path::new), "{sources:?}");
    for (end, why) in [
        ("empty.json", "empty"),
        ("cut.json", "line 1 column"),
        ("list.json", "JSON object"),
        ("package.json", "no workflow definition"),
        ("elsa-2.json", "Elsa 2"),
        ("large.json", "10485760"),
        ("type.json", "definitionId"),
        ("damaged.zip", "damaged"),
    ] {
        let one = of(&document, end);
        assert_eq!(one["outcome"], "unreadable", "{one}");
        assert_contains(&one["errors"].to_string(), &[why]);
    }
}

#[test]
fn each_reason_is_named_and_uses_are_found_among_the_files() {
    let folder = Folder::create();
    folder.write(
        "endpoint.json",
        with_root("endpoint", json!({"id": "e", "type": "Elsa.HttpEndpoint"})).to_string(),
    );
    let script = json!({"id": "s", "type": "Elsa.WriteLine", "version": 1,
        "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "let a = 1;\nreturn a +* 2;"}}});
    folder.write("script.json", with_root("script", script).to_string());
    let mut part = definition("part");
    part["options"] = json!({"usableAsActivity": true});
    folder.write("part.json", part.to_string());
    let mut bad = with_root("bad", json!({"id": "e", "type": "Elsa.HttpEndpoint"}));
    bad["options"] = json!({"usableAsActivity": true});
    folder.write("bad.json", bad.to_string());
    for (consumer, used) in [
        ("good-use", "part"),
        ("bad-use", "bad"),
        ("no-use", "nothing"),
        ("self", "self"),
    ] {
        let activity = json!({"id": "u", "type": used, "version": 1, "workflowDefinitionId": used});
        let mut value = with_root(consumer, activity);
        value["options"] = json!({"usableAsActivity": consumer == "self"});
        folder.write(&format!("{consumer}.json"), value.to_string());
    }
    let (code, found) = document(folder.path());
    assert_eq!(code, Some(1));
    for (end, outcome, says) in [
        ("/endpoint.json", "refused", "Elsa.HttpEndpoint"),
        ("/script.json", "refused", "line 2"),
        ("/part.json", "runs", ""),
        ("/good-use.json", "runs", ""),
        ("/bad-use.json", "refused", "bad as an activity, which does not run"),
        ("/no-use.json", "refused", "does not exist"),
        ("/self.json", "refused", "self → self"),
    ] {
        let one = of(&found, end);
        assert_eq!(one["outcome"], outcome, "{one}");
        assert_contains(&one["errors"].to_string(), &[says]);
    }
    let one_file = folder.0.join("part.json");
    let (code, out, _) = report(&[one_file.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out}");
    assert_contains(&out, &["part.json, part version 1: runs", "definitions: 1, run: 1"]);
}

#[test]
fn what_is_not_there_is_wrong_usage() {
    let folder = Folder::create();
    for (arguments, hint) in [
        (&["/nowhere/at-all"][..], "/nowhere/at-all"),
        (&[folder.path()], "no .json or .zip"),
        (&["http://user:secret@h/elsa/api"], "without user"),
        (&[folder.path(), "--api-key-file", "/nowhere/key"], "--api-key-file"),
        (&[folder.path(), "--import"], "no database is given"),
        (&[], "DIR|FILE|URL"),
    ] {
        let (code, out, err) = report(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {err}");
        assert!(err.contains(hint) && !err.contains("secret"), "{arguments:?}: {err}");
    }
}

/// What a fake server does.
#[derive(Clone, Copy, PartialEq)]
enum Fake {
    Pages,
    /// The first page again and again.
    FirstPage,
    Html,
    Redirects,
}

/// The key of the fake server.
const KEY: &str = "k-of-the-elsa-server";

/// Serves until the test ends; each connection is one request. Returns the root of its API.
fn serve(fake: Fake) -> String {
    format!("http://{}", serve_over(fake, |stream| stream))
}

/// The same over streams that are made of the connections; returns the address with the path.
fn serve_over<S: Read + Write>(fake: Fake, open: impl Fn(TcpStream) -> S + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{}/elsa/api", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = open(stream.unwrap());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let has_key = head.contains(&format!("ApiKey {KEY}\r\n"));
            // A client that does not trust the certificate sends no request.
            if head.is_empty() {
                continue;
            }
            assert!(head.starts_with("GET "), "{head}");
            let (status, kind, body) = match fake {
                Fake::Html => ("200 OK", "text/html", "<!doctype html><p>Elsa".to_owned()),
                Fake::Redirects => ("302 Found\r\nLocation: /login", "text/plain", String::new()),
                Fake::FirstPage => answer("/workflow-definitions?page=0"),
                Fake::Pages if !has_key => ("401 Unauthorized", "text/plain", String::new()),
                Fake::Pages => answer(&target),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    url
}

/// 120 definitions, of which the third cannot be read and the fourth is slow.
fn answer(target: &str) -> (&'static str, &'static str, String) {
    if let Some((_, query)) = target.split_once("/workflow-definitions?") {
        let page = query.split('&').find_map(|field| field.strip_prefix("page="));
        let page: usize = page.unwrap().parse().unwrap();
        let ids = (page * 50..120).take(50);
        let items: Vec<Value> = ids
            .map(|number| json!({"id": format!("v{number}"), "definitionId": format!("d{number}")}))
            .collect();
        let list = json!({"items": items, "totalCount": 120});
        return ("200 OK", "application/json", list.to_string());
    }
    let id = target.rsplit('/').next().unwrap();
    match id {
        "v2" => ("500 Internal Server Error", "text/plain", String::new()),
        "v3" => {
            std::thread::sleep(Duration::from_millis(1_200));
            ("200 OK", "application/json", definition("d3").to_string())
        }
        id => (
            "200 OK",
            "application/json",
            definition(&id.replace('v', "d")).to_string(),
        ),
    }
}

#[test]
fn a_running_server_is_read_page_by_page() {
    let folder = Folder::create();
    folder.write("key", format!("{KEY}\n"));
    folder.write("other", "another-key-of-someone");
    let key = folder.0.join("key");
    let url = serve(Fake::Pages);
    let (code, out, err) = report(&[&url, "--json", "--api-key-file", key.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        document["summary"],
        json!({"definitions": 120, "runs": 119, "warnings": 0, "refused": 0, "unreadable": 1})
    );
    assert_contains(&of(&document, "/by-id/v2")["errors"].to_string(), &["500"]);
    assert_contains(&err, &["read 4 of 120"]);
    let other = folder.0.join("other");
    let (code, out, err) = report(&[&url, "--api-key-file", other.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert_contains(&err, &["refuses the API key"]);
    assert!(!err.contains("another-key") && !err.contains(KEY), "{err}");
    let (code, _, err) = report(&[&url]);
    assert!(code == Some(2) && err.contains("wants an API key"), "{err}");
}

#[test]
fn a_server_is_read_over_tls_if_its_certificate_is_trusted() {
    let certificates = Certificates::make();
    let pem = |name: &str| certificates.path(name);
    let chain = CertificateDer::pem_file_iter(pem("server.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let open = move |stream| StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
    let url = format!("https://{}", serve_over(Fake::Pages, open));
    let folder = Folder::create();
    folder.write("key", KEY);
    let key = folder.0.join("key");
    let arguments = [&url, "--json", "--api-key-file", key.to_str().unwrap()];
    let (_, out, err) = report_with(&arguments, &[("SSL_CERT_FILE", &pem("ca.pem"))]);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
    assert_eq!(document["summary"]["runs"], 119);
    // An authority that is not known.
    let (code, out, err) = report(&arguments);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert_contains(&err, &[&url, "certificate", "SSL_CERT_FILE"]);
}

#[test]
fn what_is_no_elsa_server_is_one_clear_failure() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = format!("http://{}/elsa/api", unused.local_addr().unwrap());
    drop(unused);
    for (url, code, says) in [
        (serve(Fake::Html), 2, "the answer is HTML"),
        (serve(Fake::Redirects), 2, "redirects (302)"),
        (free, 1, "is the server running there?"),
    ] {
        let (exit, out, err) = report(&[&url]);
        assert_eq!((exit, out.as_str()), (Some(code), ""), "{err}");
        assert_contains(&err, &[says, &url]);
    }
    // A list that is cut off is no report.
    let (exit, out, err) = report(&[&serve(Fake::FirstPage)]);
    assert_eq!((exit, out.as_str()), (Some(1), ""), "{err}");
    assert_contains(&err, &["has 120 versions and lists 50"]);
}

#[tokio::test]
async fn what_runs_is_imported_and_published_and_a_draft_stays_one() {
    let database = TestDatabase::create().await;
    let folder = Folder::create();
    folder.write("a.json", definition("a").to_string());
    let mut draft = definition("b");
    draft["isPublished"] = json!(false);
    folder.write("b.json", draft.to_string());
    folder.write(
        "c.json",
        with_root("c", json!({"id": "e", "type": "Elsa.HttpEndpoint"})).to_string(),
    );
    let (code, out, err) = report(&[folder.path(), "--import", "--database-url", &database.url()]);
    assert_eq!(code, Some(1), "{err}");
    assert_contains(
        &out,
        &[
            "a version 1: runs, imported",
            "b version 1: runs, imported",
            "do not run: 1",
            "imported: 2",
        ],
    );
    let connection = database.connect().await;
    assert_eq!(connection.rows("definition WHERE is_published").await, 1);
    assert_eq!(connection.rows("definition").await, 2);
}
