//! HTTP activities in instances: what an endpoint gives the workflow, and what a response makes of the request.

use serde_json::{Map, Value, json};

use super::activities::{delay, literal, says, script_of, sequence, text};
use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::http::{FileValue, ReceivedBody, ReceivedRequest};
use crate::activity::{Answer, AnswerBody};
use crate::execution::{BurstResult, Instruction, InstructionOrigin, RequestEnd, RunRequest, SubStatus};
use crate::id::{Incarnation, RequestId};

fn endpoint(id: &str, path: &str) -> Value {
    json!({"id": id, "type": "Elsa.HttpEndpoint", "path": text(path), "customProperties": {"canStartWorkflow": true}})
}

/// Binds outputs to variables of the same names.
fn bound(mut endpoint: Value, outputs: &[&str]) -> Value {
    for output in outputs {
        let mut name = (*output).to_owned();
        name[..1].make_ascii_lowercase();
        endpoint[name] = json!({"typeName": "Object", "memoryReference": {"id": output}});
    }
    endpoint
}

fn responds(fields: Value) -> Value {
    let mut response = json!({"id": "respond", "type": "Elsa.WriteHttpResponse"});
    response
        .as_object_mut()
        .unwrap()
        .extend(super::in_memory::object(fields));
    response
}

fn instance(variables: &[(&str, &str)], activities: &[Value]) -> InMemoryInstance {
    let variables: Vec<Value> = variables
        .iter()
        .map(|(name, kind)| json!({"id": name, "name": name, "typeName": kind}))
        .collect();
    InMemoryInstance::new(&definition(
        json!({"root": sequence("root", activities), "variables": variables}),
    ))
}

fn request(content_type: &str, body: ReceivedBody) -> ReceivedRequest {
    let headers = [("Content-Type", content_type), ("X-Two", "1"), ("X-Two", "2")];
    let headers = headers.iter().filter(|(_, value)| !value.is_empty());
    ReceivedRequest {
        method: "POST".to_owned(),
        scheme: "http".to_owned(),
        host: "h".to_owned(),
        path_base: "/workflows".to_owned(),
        path: "/orders/7".to_owned(),
        query: "a=1&b=x&b=y".to_owned(),
        route: super::in_memory::object(json!({"id": "7"})),
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body,
        ..ReceivedRequest::default()
    }
}

fn waiting() -> RunRequest {
    RunRequest {
        id: RequestId(uuid::Uuid::from_u128(1)),
        holder: Incarnation::default(),
        is_kept: false,
        held_until: None,
        recurs: false,
    }
}

fn starts(trigger: &str, received: &ReceivedRequest) -> Instruction {
    let mut begin = start(Map::new());
    if let Instruction::Start {
        trigger_activity_id,
        payload,
        request,
        ..
    } = &mut begin
    {
        *trigger_activity_id = Some(trigger.into());
        *payload = Some(received.to_payload());
        *request = Some(waiting());
    }
    begin
}

/// Runs an instruction that a request comes with, as one of a row.
async fn run(instance: &mut InMemoryInstance, instruction: Instruction) -> BurstResult {
    let origin = InstructionOrigin {
        row: "1".to_owned(),
        ..InstructionOrigin::default()
    };
    instance.burst_of(vec![(instruction, origin)]).await
}

fn answer_of(result: &BurstResult) -> &Answer {
    match &result.ended_requests.first().expect("an ended request").end {
        RequestEnd::Answered(answer) => answer,
        other => panic!("{other:?}: {:?}", result.state.incidents()),
    }
}

fn body_of(answer: &Answer) -> String {
    match &answer.body {
        AnswerBody::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        AnswerBody::File(file) => panic!("{file:?}"),
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut named = answer.headers.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn an_endpoint_gives_the_workflow_what_the_request_brings() {
    let outputs = [
        "ParsedContent",
        "RouteData",
        "QueryStringData",
        "Headers",
        "Files",
        "File",
        "Result",
    ];
    let variables = outputs.map(|name| (name, "Object"));
    let received = async |request: ReceivedRequest| {
        let mut instance = instance(&variables, &[bound(endpoint("e", "orders/{id}"), &outputs)]);
        let result = run(&mut instance, starts("e", &request)).await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        result.state.variables().clone()
    };
    let text = |text: &str| ReceivedBody::Text(text.to_owned());
    let given = received(request("application/json", text("{\"a\": [1.5, null]}"))).await;
    assert_eq!(given["ParsedContent"], json!({"a": [1.5, null]}));
    assert_eq!(given["RouteData"], json!({"id": "7"}));
    assert_eq!(given["QueryStringData"], json!({"a": "1", "b": ["x", "y"]}));
    assert_eq!(
        given["Headers"],
        json!({"Content-Type": "application/json", "X-Two": ["1", "2"]})
    );
    assert_eq!(given["Result"]["Method"], "POST");
    assert_eq!(given["Result"]["Path"], "/orders/7");
    let given = received(request("text/xml", text("<a/>"))).await;
    assert_eq!(given["ParsedContent"], "<a/>");
    let file = FileValue::inline("a.bin", "x/y", vec![1, 2]);
    let given = received(request("x/y", ReceivedBody::File(file.clone()))).await;
    assert_eq!(given["ParsedContent"], file.to_value());
    let form = ReceivedBody::Form {
        fields: [("n", "1"), ("m", "2"), ("n", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        files: vec![file.clone(), FileValue::inline("b", "", Vec::new())],
    };
    let given = received(request("multipart/form-data; boundary=x", form)).await;
    assert_eq!(given["ParsedContent"], json!({"n": ["1", "3"], "m": "2"}));
    assert_eq!(given["File"], file.to_value());
    assert_eq!(given["Files"].as_array().unwrap().len(), 2);
    let given = received(request("", ReceivedBody::None)).await;
    assert_eq!(given.get("ParsedContent").cloned().unwrap_or_default(), Value::Null);
}

#[tokio::test]
async fn the_journal_has_no_credential_of_a_client() {
    let mut instance = instance(&[("Headers", "Object")], &[bound(endpoint("e", "a"), &["Headers"])]);
    let mut request = request("", ReceivedBody::None);
    for name in ["Authorization", "cookie", "X-Api-Key"] {
        request.headers.push((name.to_owned(), "hunter2".to_owned()));
    }
    let result = run(&mut instance, starts("e", &request)).await;
    assert_eq!(result.state.variables()["Headers"]["cookie"], "hunter2");
    let recorded = format!("{:?}{:?}", result.journal, result.activity_executions);
    assert!(
        recorded.contains("X-Two") && !recorded.contains("hunter2"),
        "{recorded}"
    );
}

#[tokio::test]
async fn json_is_text_for_a_variable_of_text() {
    let mut instance = instance(
        &[("ParsedContent", "String")],
        &[bound(endpoint("e", "a"), &["ParsedContent"])],
    );
    let body = ReceivedBody::Text("{ \"a\": 1.0 }".to_owned());
    let result = run(&mut instance, starts("e", &request("application/json", body))).await;
    assert_eq!(result.state.variables()["ParsedContent"], "{ \"a\": 1.0 }");
}

#[tokio::test]
async fn an_exposed_problem_is_an_outcome() {
    let mut endpoint = endpoint("e", "a");
    endpoint["exposeFileTooLargeOutcome"] = json!(true);
    let chart = json!({"id": "chart", "type": "Elsa.Flowchart", "activities": [
            endpoint, responds(json!({"statusCode": 413, "content": text("too large")}))],
        "connections": [{"source": {"activity": "e", "port": "File too large"}, "target": {"activity": "respond", "port": "In"}}]});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": chart})));
    let warnings = instance
        .interpreter
        .warnings(&instance.program, &definition(json!({"root": chart})));
    assert!(warnings.is_empty(), "{warnings:?}");
    let mut request = request("", ReceivedBody::None);
    request.problem = Some(crate::activity::http::RequestProblem::FileTooLarge);
    let result = run(&mut instance, starts("e", &request)).await;
    let answer = answer_of(&result);
    assert_eq!((answer.status, body_of(answer).as_str()), (413, "too large"));
}

#[tokio::test]
async fn an_endpoint_in_the_middle_waits_at_a_bookmark_for_each_method() {
    let middle = json!({"id": "m", "type": "Elsa.HttpEndpoint", "supportedMethods": literal("String[]", json!(["GET", "POST"])),
        "path": script_of("String", "'orders/' + getWorkflowInstanceId() + '/{step}'"),
        "routeData": {"typeName": "Object", "memoryReference": {"id": "Route"}}});
    let mut instance = instance(&[("Route", "Object")], &[middle, says("s", "getRoute().id")]);
    let result = instance.start().await;
    let bookmarks = result.state.bookmarks();
    assert_eq!(bookmarks.len(), 2, "{:?}", result.state.incidents());
    for (bookmark, method) in bookmarks.iter().zip(["get", "post"]) {
        assert_eq!(bookmark.name, "Elsa.HttpEndpoint");
        assert_eq!(
            bookmark.payload,
            json!({"path": "orders/instance/{step}", "method": method})
        );
        let route = crate::activity::EndpointRoute::new("ORDERS/instance/{other}", method).unwrap();
        assert_eq!(
            bookmark.hash,
            crate::execution::stimulus_hash("Elsa.HttpEndpoint", &route.key(), None)
        );
    }
    let resume = Instruction::Resume {
        bookmark_id: bookmarks[1].id.clone(),
        input: Map::new(),
        payload: Some(request("", ReceivedBody::None).to_payload()),
        request: Some(waiting()),
    };
    let result = run(&mut instance, resume).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(result.bookmarks_burned.len(), 2);
    assert_eq!(instance.lines(), ["7"]);
    assert!(matches!(result.ended_requests[0].end, RequestEnd::Finished));
}

#[tokio::test]
async fn an_endpoint_that_cannot_wait_is_an_incident() {
    let middle = json!({"id": "m", "type": "Elsa.HttpEndpoint", "path": script_of("String", "'a/{'")});
    let result = instance(&[], &[middle]).start().await;
    let incident = &result.state.incidents()[0].message;
    assert!(
        incident.contains("cannot wait") && incident.contains("column"),
        "{incident}"
    );
}

#[tokio::test]
async fn a_response_answers_the_request_of_the_run() {
    let answered = async |fields: Value| {
        let mut instance = instance(&[("Bytes", "Byte[]")], &[endpoint("e", "a"), responds(fields)]);
        let result = run(&mut instance, starts("e", &request("", ReceivedBody::None))).await;
        answer_of(&result).clone()
    };
    let plain = answered(json!({"content": text("Hello World!")})).await;
    assert_eq!((plain.status, body_of(&plain).as_str()), (200, "Hello World!"));
    assert_eq!(header(&plain, "content-type"), Some("text/plain"));
    let object = answered(
        json!({"content": script_of("Object", "({a: 1})"), "statusCode": literal("HttpStatusCode", "Created"),
        "responseHeaders": literal("HttpHeaders", "{\"X-A\": [\"1\", \"2\"], \"Connection\": \"close\"}")}),
    )
    .await;
    assert_eq!((object.status, body_of(&object).as_str()), (201, "{\"a\":1}"));
    assert_eq!(header(&object, "content-type"), Some("application/json"));
    assert_eq!(object.headers.iter().filter(|(name, _)| name == "X-A").count(), 2);
    assert_eq!(header(&object, "connection"), None);
    let empty = answered(json!({"statusCode": literal("HttpStatusCode", 204), "content": text("x")})).await;
    assert_eq!((empty.status, body_of(&empty).as_str()), (204, ""));
    let own = answered(json!({"content": text("<p/>"), "responseHeaders": literal("HttpHeaders", "{\"content-type\": \"text/html\"}")})).await;
    assert_eq!(header(&own, "content-type"), Some("text/html"));
    assert_eq!(own.headers.len(), 1);
    let nothing = answered(json!({"contentType": text("text/html")})).await;
    assert_eq!((nothing.status, header(&nothing, "content-type")), (200, None));
    let bytes =
        json!({"typeName": "Object", "expression": {"type": "Variable", "value": {"id": "Bytes", "name": "Bytes"}}});
    let mut instance = instance(
        &[("Bytes", "Byte[]")],
        &[endpoint("e", "a"), responds(json!({"content": bytes}))],
    );
    let mut begin = starts("e", &request("", ReceivedBody::None));
    if let Instruction::Start { variables, .. } = &mut begin {
        variables.insert("Bytes".to_owned(), json!("aGk="));
    }
    let result = run(&mut instance, begin).await;
    let sent = answer_of(&result);
    assert_eq!(
        (body_of(sent).as_str(), header(sent, "content-type")),
        ("hi", Some("application/octet-stream"))
    );
}

#[tokio::test]
async fn a_response_that_no_request_takes_faults_with_elsas_code() {
    let hello = || responds(json!({"content": text("x")}));
    let second = json!({"id": "again", "type": "Elsa.WriteHttpResponse", "content": text("y")});
    let code = |result: &BurstResult| {
        let incident = &result.state.incidents()[0];
        let exception = &incident.exception;
        assert_eq!(
            (&exception["code"], &exception["category"]),
            (&json!("NoHttpContext"), &json!("HTTP"))
        );
        incident.message.clone()
    };
    let result = instance(&[], &[hello()]).start().await;
    assert!(code(&result).contains("waitForResponse"));
    let request = request("", ReceivedBody::None);
    let mut twice = instance(&[], &[endpoint("e", "a"), hello(), second]);
    let result = run(&mut twice, starts("e", &request)).await;
    assert!(code(&result).contains("answered already"));
    assert_eq!(body_of(answer_of(&result)), "x");
    let mut late = instance(&[], &[endpoint("e", "a"), delay("d"), hello()]);
    let result = run(&mut late, starts("e", &request)).await;
    assert!(matches!(result.ended_requests[0].end, RequestEnd::Waiting));
    let result = late.sleep().await;
    assert!(code(&result).contains("202"));
}

#[tokio::test]
async fn an_invalid_response_is_an_incident_that_names_the_input() {
    for (fields, message) in [
        (
            json!({"statusCode": script_of("HttpStatusCode", "1000")}),
            "StatusCode is invalid: 1000",
        ),
        (
            json!({"responseHeaders": script_of("HttpHeaders", "({'X-A': 'a\\r\\nb'})")}),
            "ResponseHeaders is invalid",
        ),
        (
            json!({"content": text("x"), "contentType": script_of("String", "'nothing'")}),
            "no content type",
        ),
        (
            json!({"content": script_of("Object", "({a: 1})"), "contentType": text("text/xml")}),
            "as XML",
        ),
    ] {
        let mut instance = instance(&[], &[endpoint("e", "a"), responds(fields)]);
        let result = run(&mut instance, starts("e", &request("", ReceivedBody::None))).await;
        let incident = &result.state.incidents()[0];
        assert!(incident.message.contains(message), "{}", incident.message);
        assert!(matches!(result.ended_requests[0].end, RequestEnd::Faulted));
    }
}

#[tokio::test]
async fn a_file_response_sends_one_file_or_a_zip() {
    let answered = async |fields: Value| {
        let mut response = json!({"id": "file", "type": "Elsa.WriteFileHttpResponse"});
        response
            .as_object_mut()
            .unwrap()
            .extend(super::in_memory::object(fields));
        let mut instance = instance(&[], &[endpoint("e", "a"), response]);
        let result = run(&mut instance, starts("e", &request("", ReceivedBody::None))).await;
        match result.ended_requests[0].end {
            RequestEnd::Answered(_) => Ok(answer_of(&result).clone()),
            _ => Err(result.state.incidents()[0].message.clone()),
        }
    };
    let none = answered(json!({})).await.unwrap();
    assert_eq!((none.status, none.headers.len()), (204, 0));
    let one = answered(json!({"content": text("a,b"), "filename": text("täble \"1\".csv"), "entityTag": text("v1")}))
        .await
        .unwrap();
    assert_eq!((one.status, body_of(&one).as_str()), (200, "a,b"));
    assert_eq!(header(&one, "content-type"), Some("text/plain"));
    assert_eq!(
        header(&one, "content-disposition"),
        Some("attachment; filename=\"t_ble \\\"1\\\".csv\"; filename*=UTF-8''t%C3%A4ble%20%221%22.csv")
    );
    assert_eq!((header(&one, "etag"), header(&one, "accept-ranges")), (None, None));
    let flag = literal("Boolean", true);
    let object = "({Filename: '/etc/x.PDF', ContentType: '', Stream: new Uint8Array([104, 105])})";
    let one = answered(
        json!({"content": script_of("Object", object), "enableResumableDownloads": flag, "entityTag": text("v1")}),
    )
    .await
    .unwrap();
    assert_eq!(
        (body_of(&one).as_str(), header(&one, "content-type")),
        ("hi", Some("application/pdf"))
    );
    assert_eq!(
        (header(&one, "etag"), header(&one, "accept-ranges")),
        (Some("\"v1\""), Some("bytes"))
    );
    assert!(
        header(&one, "content-disposition")
            .unwrap()
            .starts_with("attachment; filename=x.PDF;")
    );
    let several = json!({"content": script_of("Object", "['one', ['two', {filename: 'a.txt', content: 'YQ=='}]]"), "enableResumableDownloads": flag});
    let zip = answered(several.clone()).await.unwrap();
    assert_eq!(header(&zip, "content-type"), Some("application/zip"));
    assert!(
        header(&zip, "content-disposition")
            .unwrap()
            .contains("filename=download.zip")
    );
    let AnswerBody::Bytes(bytes) = &zip.body else { panic!() };
    assert!(bytes.starts_with(b"PK\x03\x04") && bytes.windows(12).any(|it| it == b"file (2).txt"));
    let again = answered(several).await.unwrap();
    assert_eq!(
        (body_of(&again), header(&again, "etag")),
        (body_of(&zip), header(&zip, "etag"))
    );
    for (fields, message) in [
        (
            json!({"content": text("https://example.org/a")}),
            "Elsa.DownloadHttpFile",
        ),
        (json!({"content": script_of("Object", "({a: 1})")}), "no file"),
        (json!({"content": script_of("Object", "1.5")}), "no file"),
        (
            json!({"content": script_of("Object", "({filename: 'a', contentType: 'a/b', spool: 'gone'})")}),
            "is gone",
        ),
    ] {
        let problem = answered(fields).await.unwrap_err();
        assert!(problem.contains(message), "{problem}");
    }
}

#[tokio::test]
async fn the_samples_behind_urls_answer() {
    let mut greeting = InMemoryInstance::sample("web-greeting");
    let mut asked = request("", ReceivedBody::None);
    asked.route = super::in_memory::object(json!({"name": "Ada"}));
    asked.query = "language=de".to_owned();
    let result = run(&mut greeting, starts("Request", &asked)).await;
    assert_eq!(body_of(answer_of(&result)), "{\"greeting\":\"Hallo Ada!\"}");
    let order = |text: &str| request("application/json", ReceivedBody::Text(text.to_owned()));
    let mut refused = InMemoryInstance::sample("web-order");
    let result = run(
        &mut refused,
        starts("Ordered", &order("{\"item\": \"pear\", \"amount\": 0}")),
    )
    .await;
    assert_eq!(
        (answer_of(&result).status, result.sub_status),
        (400, SubStatus::Finished)
    );
    let mut accepted = InMemoryInstance::sample("web-order");
    let result = run(
        &mut accepted,
        starts("Ordered", &order("{\"item\": \"pear\", \"amount\": 3}")),
    )
    .await;
    assert_eq!(
        (answer_of(&result).status, result.sub_status),
        (202, SubStatus::Suspended)
    );
    let resume = Instruction::Resume {
        bookmark_id: result.state.bookmarks()[0].id.clone(),
        input: Map::new(),
        payload: Some(order("{\"by\": \"Ada\"}").to_payload()),
        request: Some(waiting()),
    };
    let result = run(&mut accepted, resume).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(
        body_of(answer_of(&result)),
        "{\"item\":\"pear\",\"amount\":3,\"by\":\"Ada\"}"
    );
}
