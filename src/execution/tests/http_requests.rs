//! Requests to other servers, from the definition to the journal.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::Catalogue;
use crate::activity::http::HttpOptions;
use crate::execution::{BurstResult, SubStatus};
use crate::expression::NamedValues;

/// A server that sends these bytes to each connection, after a request with its body was read; then it closes.
struct Target {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Target {
    async fn start(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Vec<u8> = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => break,
                    }
                }
                let mut body = vec![0; body_length(&request)];
                let _ = stream.read_exact(&mut body).await;
                request.extend(body);
                seen.lock().unwrap().push(String::from_utf8(request).unwrap());
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { port, requests }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/files/a.bin?k=1", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn body_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.map_or(0, |length| length.parse().unwrap())
}

fn input(kind: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": "Object", "expression": {"type": kind, "value": value.into()}})
}

fn literal(value: impl Into<Value>) -> Value {
    input("Literal", value)
}

/// An activity `a` with these properties; its outputs are the variables `status`, `content`, `headers`, `file`.
fn workflow(type_name: &str, url: &str, properties: Value, content_type: &str) -> Value {
    let bound = |id: &str| json!({"typeName": "Object", "memoryReference": {"id": id}});
    let mut activity = json!({"id": "a", "type": type_name, "url": literal(url), "statusCode": bound("status"),
        "parsedContent": bound("content"), "responseHeaders": bound("headers")});
    let fields = activity.as_object_mut().unwrap();
    fields.extend(properties.as_object().unwrap().clone());
    if type_name == "Elsa.DownloadHttpFile" {
        fields.remove("parsedContent");
        fields.insert("result".to_owned(), bound("file"));
    }
    let variable = |id: &str, of: &str| json!({"id": id, "name": id, "typeName": of});
    let shown = "JSON.stringify([variables.status, variables.content, variables.file])";
    json!({"variables": [variable("status", "Object"), variable("content", content_type), variable("headers", "Object"),
            variable("file", "Object")],
        "root": {"id": "s", "type": "Elsa.Sequence",
            "variables": [variable("status", "Object"), variable("content", content_type), variable("headers", "Object"),
                variable("file", "Object")],
            "activities": [activity, {"id": "w", "type": "Elsa.WriteLine", "text": input("JavaScript", shown)}]}})
}

async fn run(workflow: Value) -> (InMemoryInstance, BurstResult) {
    let mut instance = InMemoryInstance::new(&definition(workflow));
    let result = instance.start().await;
    (instance, result)
}

fn outputs(instance: &InMemoryInstance) -> Value {
    serde_json::from_str(instance.lines().last().unwrap()).unwrap()
}

/// The message of the only incident.
fn incident(result: &BurstResult) -> String {
    assert_eq!(result.sub_status, SubStatus::Faulted);
    result.state.incidents()[0].message.clone()
}

#[tokio::test]
async fn an_answer_of_any_form_is_read() {
    let json = "content-type: application/json";
    for (answer, content_type, expected) in [
        (
            format!("200 OK\r\n{json}\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}"),
            "Object",
            json!({"a": 1}),
        ),
        (
            format!("200 OK\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{{\"a\"\r\n3\r\n:1}}\r\n0\r\n\r\n"),
            "Object",
            json!({"a": 1}),
        ),
        (
            format!("200 OK\r\n{json}; charset=utf-8\r\nconnection: close\r\n\r\n{{\"a\":1}}"),
            "String",
            json!("{\"a\":1}"),
        ),
        (
            "404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n{\"a\":1}".to_owned(),
            "Object",
            json!({"a": 1}),
        ),
        (
            "200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nhello".to_owned(),
            "Object",
            json!("hello"),
        ),
        (
            "200 OK\r\ncontent-type: text/xml\r\nconnection: close\r\n\r\n<a/>".to_owned(),
            "Object",
            json!("<a/>"),
        ),
        (
            format!("200 OK\r\n{json}\r\ncontent-length: 0\r\n\r\n"),
            "Object",
            Value::Null,
        ),
        ("204 No Content\r\n\r\n".to_owned(), "Object", Value::Null),
        (
            "200 OK\r\nconnection: close\r\n\r\nabc".to_owned(),
            "Object",
            json!({"filename": "a.bin",
            "contentType": "application/octet-stream", "length": 3, "content": "YWJj"}),
        ),
    ] {
        let target = Target::start(format!("HTTP/1.1 {answer}")).await;
        let (instance, result) = run(workflow("Elsa.SendHttpRequest", &target.url(), json!({}), content_type)).await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{answer}: {:?}",
            result.state.incidents()
        );
        let status: u64 = answer[..3].parse().unwrap();
        assert_eq!(outputs(&instance), json!([status, expected, null]), "{answer}");
    }
}

#[tokio::test]
async fn a_request_has_what_the_inputs_say_and_a_stable_key() {
    let target = Target::start("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
    let cases = [
        (json!({}), "GET", "", ""),
        (json!({"method": literal("POST")}), "POST", "content-length: 0", ""),
        (
            json!({"method": literal("POST"), "content": input("Object", "{\"a\": [1]}"), "contentType": literal("application/json")}),
            "POST",
            "content-type: application/json\r\n",
            "{\"a\":[1]}",
        ),
        (
            json!({"method": literal("PUT"), "content": literal("{\"a\": 1}"), "contentType": literal("application/vnd.x+json; v=1")}),
            "PUT",
            "content-type: application/vnd.x+json; v=1\r\n",
            "{\"a\": 1}",
        ),
        (
            json!({"method": literal("POST"), "content": input("Object", "{\"a b\": \"ü&\", \"c\": 1}"),
            "contentType": literal("application/x-www-form-urlencoded")}),
            "POST",
            "content-type: application/x-www-form-urlencoded\r\n",
            "a+b=%C3%BC%26&c=1",
        ),
        (
            json!({"method": literal("POST"), "content": literal("a=1&b=2"), "contentType": literal("application/x-www-form-urlencoded")}),
            "POST",
            "content-length: 7",
            "a=1&b=2",
        ),
        // As in Elsa, nothing is sent without a content type.
        (
            json!({"method": literal("POST"), "content": literal("x")}),
            "POST",
            "content-length: 0",
            "",
        ),
        (
            json!({"authorization": literal("Bearer t"), "requestHeaders": input("Object", "{\"X-A\": [\"1\", \"2\"], \"Host\": \"x\"}")}),
            "GET",
            "authorization: bearer t\r\nx-a: 1\r\nx-a: 2\r\n",
            "",
        ),
    ];
    for (number, (properties, method, header, body)) in cases.into_iter().enumerate() {
        let (_, result) = run(workflow(
            "Elsa.SendHttpRequest",
            &target.url(),
            properties.clone(),
            "Object",
        ))
        .await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{properties}: {:?}",
            result.state.incidents()
        );
        let request = target.requests()[number].clone();
        let (head, sent) = request.split_once("\r\n\r\n").unwrap();
        let head = format!("{}\r\n", head.to_lowercase());
        assert!(
            head.starts_with(&format!("{} /files/a.bin?k=1 http/1.1\r\n", method.to_lowercase())),
            "{head}"
        );
        for line in header.split_inclusive("\r\n") {
            assert!(head.contains(line), "{properties}: {head}");
        }
        assert_eq!(sent, body);
        assert!(
            head.contains("traceparent: 00-") && head.contains(&format!("host: 127.0.0.1:{}\r\n", target.port)),
            "{head}"
        );
    }
    let keys: Vec<String> = target
        .requests()
        .iter()
        .map(|request| {
            request
                .lines()
                .find(|line| line.starts_with("idempotency-key: "))
                .unwrap()
                .to_owned()
        })
        .collect();
    // Each was sent by the same activity of an instance of the same id, so each is a repeat of the first.
    assert!(keys.iter().all(|key| *key == keys[0]) && keys[0].len() > 20, "{keys:?}");
    let own = json!({"requestHeaders": input("Object", "{\"Idempotency-Key\": \"mine\"}")});
    run(workflow("Elsa.SendHttpRequest", &target.url(), own, "Object")).await;
    let last = target.requests().pop().unwrap();
    assert_eq!(last.matches("idempotency-key").count(), 1);
    assert!(last.contains("idempotency-key: mine"), "{last}");
}

#[tokio::test]
async fn the_child_of_the_status_runs() {
    let line = |id: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": literal(id)});
    let children = json!({"expectedStatusCodes": [{"statusCode": 200, "activity": line("ok")}, {"statusCode": "404", "activity": line("missing")},
            {"statusCode": 204}],
        "unmatchedStatusCode": line("other"), "failedToConnect": line("failed"), "timeout": line("late")});
    for (answer, child) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "ok"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "missing"),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "other"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "failed"),
    ] {
        let target = Target::start(answer).await;
        let (instance, result) = run(workflow(
            "Elsa.SendHttpRequest",
            &target.url(),
            children.clone(),
            "Object",
        ))
        .await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{answer}: {:?}",
            result.state.incidents()
        );
        let first = instance.lines()[0].clone();
        match child {
            "" => assert!(first.starts_with('['), "{first}"),
            child => assert_eq!(first, child, "{answer}"),
        }
        assert_eq!(instance.events("Error").len(), usize::from(child == "failed"));
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let mut late = workflow("Elsa.SendHttpRequest", &url, children, "Object");
    late["root"]["activities"][0]["mainspringTimeout"] = literal("00:00:00.2");
    let (instance, result) = run(late).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines()[0], "late");
    let entry = instance
        .journal
        .iter()
        .find(|entry| entry.event_name == "Error")
        .unwrap();
    assert!(entry.message.as_ref().unwrap().contains("200ms"), "{entry:?}");
}

#[tokio::test]
async fn a_flow_takes_the_outcomes_of_the_status() {
    let ends = |instance: &InMemoryInstance| {
        let entry = instance
            .journal
            .iter()
            .find(|entry| entry.event_name == "Completed" && entry.activity_id.as_str() == "a");
        entry.unwrap().payload.clone().unwrap()
    };
    let codes = |text: &str| json!({"expectedStatusCodes": input("Object", text)});
    for type_name in ["Elsa.FlowSendHttpRequest", "Elsa.DownloadHttpFile"] {
        for (answer, properties, outcomes) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                json!({}),
                json!(["200", "Done"]),
            ),
            (
                "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
                json!({}),
                json!(["Unmatched status code", "Done"]),
            ),
            (
                "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
                codes("[200, 201]"),
                json!(["201", "Done"]),
            ),
            (
                "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
                codes("[\"201\"]"),
                json!(["201", "Done"]),
            ),
            (
                "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
                codes("[]"),
                json!(["Done"]),
            ),
        ] {
            let target = Target::start(answer).await;
            let (instance, result) = run(workflow(type_name, &target.url(), properties.clone(), "Object")).await;
            assert_eq!(
                result.sub_status,
                SubStatus::Finished,
                "{properties}: {:?}",
                result.state.incidents()
            );
            assert_eq!(
                ends(&instance),
                json!({ "Outcomes": outcomes }),
                "{type_name} {answer} {properties}"
            );
        }
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (instance, _) = run(workflow(type_name, &format!("http://{closed}/"), json!({}), "Object")).await;
        let end = ends(&instance);
        assert_eq!(end["Outcomes"], json!(["Failed to connect"]));
        assert!(end["Error"].as_str().unwrap().contains("onnect"), "{end}");
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        let properties = json!({"mainspringTimeout": literal("00:00:00.1")});
        let (instance, _) = run(workflow(type_name, &url, properties, "Object")).await;
        assert_eq!(ends(&instance), json!({"Cancelled": true, "Outcomes": ["Timeout"]}));
    }
}

#[tokio::test]
async fn a_download_is_a_file() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\netag: \"e\"\r\nconnection: close\r\n";
    let target = Target::start(format!(
        "{head}content-disposition: attachment; filename=\"../b.png\"\r\n\r\nabc"
    ))
    .await;
    let (instance, result) = run(workflow("Elsa.DownloadHttpFile", &target.url(), json!({}), "Object")).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let file =
        json!({"filename": "b.png", "contentType": "image/png", "length": 3, "eTag": "\"e\"", "content": "YWJj"});
    assert_eq!(outputs(&instance), json!([200, null, file]));
    // A large one is in the spool until the burst ends, and another request can send it on.
    let large = vec![b'x'; 1 << 20];
    let target = Target::start([head.as_bytes(), b"\r\n", &large].concat()).await;
    let mut workflow = workflow("Elsa.DownloadHttpFile", &target.url(), json!({}), "Object");
    let echo = json!({"id": "e", "type": "Elsa.SendHttpRequest", "url": literal(target.url()), "method": literal("PUT"),
        "content": input("Variable", json!({"id": "file", "name": "file"})), "contentType": literal("image/png")});
    workflow["root"]["activities"].as_array_mut().unwrap().push(echo);
    let (instance, result) = run(workflow).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let file = outputs(&instance)[2].clone();
    assert_eq!((&file["length"], &file["content"]), (&json!(1 << 20), &Value::Null));
    assert!(file["spool"].is_string(), "{file}");
    let sent = target.requests().pop().unwrap();
    assert!(sent.to_lowercase().contains("content-length: 1048576\r\n") && sent.ends_with("xxx"));
}

#[tokio::test]
async fn what_cannot_be_sent_or_received_is_an_incident() {
    let target =
        Target::start("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"a\":").await;
    let url = target.url();
    let header = json!({"requestHeaders": input("JavaScript", "({'X-A': 'b\\r\\nEvil: 1'})")});
    for (url, properties, part) in [
        (url.as_str(), json!({}), "no JSON"),
        (url.as_str(), header, "line break"),
        (
            url.as_str(),
            json!({"method": input("JavaScript", "'G ET'")}),
            "no method",
        ),
        (
            url.as_str(),
            json!({"authorization": input("JavaScript", "'Bearer a\\nb'")}),
            "line break",
        ),
        ("http://169.254.169.254/latest/meta-data", json!({}), "link-local"),
        ("http://[::ffff:a9fe:a9fe]/", json!({}), "link-local"),
    ] {
        let (_, result) = run(workflow("Elsa.SendHttpRequest", url, properties.clone(), "Object")).await;
        let message = incident(&result);
        assert!(message.contains(part), "{properties}: {message}");
    }
    assert_eq!(target.requests().len(), 1);
    let scripted = json!({"url": input("JavaScript", "'www.example/x'")});
    let (_, result) = run(workflow("Elsa.SendHttpRequest", "", scripted, "Object")).await;
    assert!(incident(&result).contains("The input Url is invalid: the URL has no scheme"));
    let bomb = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b'1'; 16 << 20]).unwrap();
        encoder.finish().unwrap()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    for answer in [
        [head.as_bytes(), &bomb].concat(),
        [
            head.replace("content-encoding: gzip\r\n", "").as_bytes(),
            &vec![b'1'; 2 << 20],
        ]
        .concat(),
    ] {
        let target = Target::start(answer).await;
        let (_, result) = run(workflow("Elsa.SendHttpRequest", &target.url(), json!({}), "Object")).await;
        assert!(incident(&result).contains("larger than 1048576 bytes"));
    }
}

#[tokio::test]
async fn a_secret_is_sent_and_not_recorded() {
    let folder = std::env::temp_dir().join(format!("mainspring-http-secrets-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("Token"), "hunter2").unwrap();
    let target = Target::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    let properties =
        json!({"authorization": input("JavaScript", "(async () => `Bearer ${await getSecret('Token')}`)()")});
    let workflow = workflow("Elsa.SendHttpRequest", &target.url(), properties, "Object");
    let secrets_dir = Some(Arc::new(folder.clone()));
    let mut instance = InMemoryInstance::with(&definition(workflow), Catalogue::standard(), |options| {
        options.script.named = NamedValues {
            secrets_dir,
            ..NamedValues::default()
        };
    });
    let result = instance.start().await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(target.requests()[0].contains("authorization: Bearer hunter2"));
    let recorded = format!("{:?}{:?}", result.journal, result.activity_executions);
    assert!(
        !recorded.contains("hunter2") && recorded.contains("withheld"),
        "{recorded}"
    );
}

#[test]
fn a_status_that_is_none_is_refused_at_publish() {
    for (code, is_valid) in [
        (json!(200), true),
        (json!("404"), true),
        (json!(99), false),
        (json!(1000), false),
        (json!("ok"), false),
        (Value::Null, false),
    ] {
        let cases = json!({"expectedStatusCodes": [{"statusCode": code, "activity": null}]});
        let definition = definition(workflow("Elsa.SendHttpRequest", "http://a.example", cases, "Object"));
        let interpreter = crate::execution::Interpreter::new(Catalogue::standard(), super::in_memory::options().0);
        let errors = interpreter.validate(&definition);
        let is_refused = errors
            .iter()
            .any(|error| error.message.contains("statusCode of the activity"));
        assert_eq!(!is_refused, is_valid, "{code}: {errors:?}");
    }
}

#[tokio::test]
async fn no_credential_of_a_request_is_in_the_journal() {
    let answer = "HTTP/1.1 200 OK\r\nset-cookie: hunter2\r\nconnection: close\r\n\r\nhello";
    let target = Target::start(answer).await;
    for type_name in [
        "Elsa.SendHttpRequest",
        "Elsa.FlowSendHttpRequest",
        "Elsa.DownloadHttpFile",
    ] {
        let url = target.url().replace("//", "//me:hunter2@");
        let fields = json!({"X-Api-Key": "hunter2", "Cookie": ["a=hunter2"], "Accept": "*/*"}).to_string();
        let own = json!({"authorization": literal("Bearer hunter2"), "requestHeaders": input("Object", fields)});
        let mut workflow = workflow(type_name, &url, own, "Object");
        // What the workflow writes itself is not concealed.
        let counts = input("JavaScript", "variables.headers['Set-Cookie'][0].length");
        workflow["root"]["activities"][1]["text"] = counts;
        let (instance, result) = run(workflow).await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        assert_eq!(instance.lines().last().unwrap(), "7", "{type_name}");
        let recorded = format!("{:?}{:?}", result.journal, result.activity_executions);
        assert!(
            recorded.contains("*/*") && recorded.contains("//***@127.0.0.1"),
            "{recorded}"
        );
        assert!(!recorded.contains("hunter2"), "{recorded}");
    }
    let sent = target.requests();
    assert!(
        sent.len() == 3 && sent.iter().all(|request| request.contains("Bearer hunter2")),
        "{sent:?}"
    );
    // Neither is that of a request that is waited for, while what follows it waits.
    let child = json!({"id": "task", "type": "Elsa.RunTask", "taskName": literal("t")});
    let own = json!({"authorization": literal("Bearer hunter2"), "unmatchedStatusCode": child});
    let (_, result) = run(workflow("Elsa.SendHttpRequest", &target.url(), own, "Object")).await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let at = chrono::Utc::now();
    let meta = crate::execution::InstanceTimestamps {
        created_at: at,
        updated_at: at,
        finished_at: None,
    };
    let contexts = result.state.workflow_state(meta)["activityExecutionContexts"].to_string();
    assert!(contexts.contains("***") && !contexts.contains("Bearer"), "{contexts}");
}

#[tokio::test]
async fn a_setting_leaves_the_idempotency_key_out() {
    let target = Target::start("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut options = HttpOptions::default();
    options.outgoing.idempotency_key = false;
    let mut catalogue = Catalogue::standard();
    catalogue.register_http(&Arc::new(options.services().unwrap()));
    let own = json!({"requestHeaders": input("Object", "{\"Idempotency-Key\": \"mine\"}")});
    for own in [json!({}), own] {
        let workflow = definition(workflow("Elsa.SendHttpRequest", &target.url(), own, "Object"));
        let mut instance = InMemoryInstance::with(&workflow, catalogue.clone(), |_| {});
        let result = instance.start().await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    }
    let sent = target.requests();
    assert!(
        !sent[0].contains("idempotency-key") && sent[1].contains("idempotency-key: mine"),
        "{sent:?}"
    );
}
