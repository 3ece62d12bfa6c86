//! Resume links, with two nodes behind them: what their holders can do, and what scanners, forgers and late comers cannot.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::{KEY, literal};
use crate::support::{Answer, Connection, Http, TestDatabase, assert_fields};

/// A cluster of two nodes that asks for a key.
pub(super) struct Pair {
    pub(super) database: TestDatabase,
    client: Connection,
    _nodes: [Node; 2],
    /// Of people and systems that have links and no key.
    pub(super) one: Http,
    pub(super) two: Http,
    /// Of a client with the key.
    pub(super) api: Http,
}

const PUBLIC: &str = "https://flows.example/base";

impl Pair {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With these further settings.
    pub(super) async fn start_with(more: &[&str]) -> Self {
        let database = TestDatabase::create().await;
        let settings = [
            "--check-in",
            "200ms",
            "--api-key",
            KEY,
            "--public-url",
            "https://flows.example/base/",
        ];
        let settings = [&settings[..], &["--require-https-links"], more].concat();
        let nodes = ["one", "two"].map(|name| Node::start_with(&database, name, &settings, ""));
        let [one, two] = [0, 1].map(|at: usize| nodes[at].http.clone().unwrap());
        Self {
            client: database.connect().await,
            api: one.clone().with_key(KEY),
            database,
            _nodes: nodes,
            one,
            two,
        }
    }

    /// Publishes a workflow of these activities, and starts an instance that waits.
    pub(super) async fn waiting(&self, name: &str, activities: Value) -> String {
        let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": activities});
        let model = json!({"definitionId": name, "name": name, "root": root,
            "outputs": [{"name": "Url", "type": "String"}]});
        self.api.publish(&model).await;
        self.started(name).await
    }

    pub(super) async fn started(&self, name: &str) -> String {
        let start = json!({"definitionId": name});
        let started = self.api.post("workflow-instances", &start).await.expect(200);
        let id = started["workflowInstanceId"].as_str().unwrap().to_owned();
        self.api.instance_becomes(&id, "Suspended").await;
        id
    }

    /// A link to the only bookmark of an instance: its id and its path.
    pub(super) async fn link(&self, instance: &str, fields: Value) -> (String, String) {
        let path = format!("workflow-instances/{instance}/resume-links");
        let made = self.api.post(&path, &fields).await.expect(200);
        let url = made["url"].as_str().unwrap();
        (made["id"].as_str().unwrap().to_owned(), path_of(url))
    }

    /// The outcomes of the attempts at a link, the oldest first.
    pub(super) async fn attempts(&self, link: &str) -> Vec<String> {
        let listed = self.api.get(&format!("audit?linkId={link}")).await.expect(200);
        let items = listed["items"].as_array().unwrap().iter().rev();
        items.map(|item| item["outcome"].as_str().unwrap().to_owned()).collect()
    }
}

/// The path of a link at a node, without the prefix that the proxy in front of it takes away.
fn path_of(url: &str) -> String {
    url.strip_prefix(PUBLIC).unwrap_or_else(|| panic!("{url}")).to_owned()
}

pub(super) fn waits_for(event: &str) -> Value {
    json!({"type": "Elsa.Event", "id": format!("on-{event}"), "eventName": literal(event)})
}

fn script(language: &str, text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": language, "value": text}})
}

/// Sets the output of the workflow to a value.
fn sets_output(value: Value) -> Value {
    json!({"type": "Elsa.SetOutput", "id": "link", "outputName": literal("Url"), "outputValue": value})
}

async fn form(http: &Http, path: &str, body: &str) -> Answer {
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    http.upload(path, &kind, body.as_bytes().to_vec()).await
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_shows_a_page_and_acts_once_when_it_is_posted() {
    let pair = Pair::start().await;
    let id = pair.waiting("Holiday <of> Ann", json!([waits_for("A")])).await;
    let path = format!("workflow-instances/{id}/resume-links");
    assert_eq!(pair.one.post(&path, &json!({})).await.status, 401);
    let made = pair.api.post(&path, &json!({"expiresIn": "PT1H"})).await.expect(200);
    let url = made["url"].as_str().unwrap();
    assert_eq!(made["uses"], 1);
    let link = path_of(url);
    let text = link.strip_prefix("/workflows/resume/").unwrap();
    assert_eq!(text.len(), 48);
    assert!(!url.contains(&id));
    let bytes = text.as_bytes();
    assert!(
        bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)),
        "{text}"
    );

    // A scanner of mails opens everything, in each form, as often as it likes.
    let elsa = format!("/elsa/api/bookmarks/resume?t={text}");
    for path in [
        &link,
        &elsa,
        &format!("{elsa}&in=%7B%22a%22%3A%22%3Cb%3E%22%7D"),
        &format!("{link}?async=true"),
    ] {
        for http in [&pair.one, &pair.two] {
            let page = http.get(path).await;
            let html = page.body.as_str().unwrap();
            assert_eq!(page.status, 200);
            assert!(
                html.contains("<h1>Holiday &lt;of&gt; Ann</h1>") && html.contains("method=\"post\""),
                "{html}"
            );
            assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
            assert_eq!(html.contains("name=\"in\""), path.contains("&in="), "{html}");
            assert_eq!(html.contains("name=\"async\""), path.contains("async"), "{html}");
            assert!(header(&page, "content-type").starts_with("text/html"));
            assert!(header(&page, "content-security-policy").starts_with("default-src 'none'; style-src 'sha256-"));
            assert_eq!(header(&page, "cache-control"), "no-store");
            assert_eq!(header(&page, "referrer-policy"), "no-referrer");
            let head = http.send(Method::HEAD, path, &[], None).await.unwrap();
            assert_eq!((head.status, head.body), (200, Value::Null));
        }
    }
    let mails = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(
        pair.two.send(Method::GET, &link, &mails, None).await.unwrap().status,
        200
    );
    let strange = [("host", "evil.example")];
    let foreign = pair.two.send(Method::GET, &link, &strange, None).await.unwrap();
    foreign.assert_refused(403, "host-not-allowed");
    assert_eq!(pair.attempts(made["id"].as_str().unwrap()).await, [""; 0]);
    // Wrong input changes nothing either.
    pair.two
        .post(&link, &json!({"input": 7}))
        .await
        .assert_refused(400, "invalid-field");
    let wrong = form(&pair.two, &link, "in=%7B").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.body.as_str().unwrap().contains("<h1>That did not work</h1>"),
        "{}",
        wrong.body
    );

    // The form of the page, as a browser sends it from a page without a referrer.
    let sent = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", "null"),
        ("sec-fetch-site", "same-origin"),
    ];
    let page = pair.two.get(&link).await;
    let (_, rest) = page.body.as_str().unwrap().split_once("action=\"").unwrap();
    let action = format!("{link}{}", rest.split('"').next().unwrap());
    assert!(action.contains("?once="), "{action}");
    let done = pair.two.upload(&action, &sent, b"in=%7B%22a%22%3A+1%7D".to_vec()).await;
    assert_eq!(done.status, 200);
    assert!(done.body.as_str().unwrap().contains("<h1>Done</h1>"), "{}", done.body);
    pair.api.instance_becomes(&id, "Finished").await;
    // A double click is one use, at any node.
    for http in [&pair.one, &pair.two] {
        let clicked = http.upload(&action, &sent, b"in=%7B%22a%22%3A+1%7D".to_vec()).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
    }
    // Replayed, at either node and in each form.
    for http in [&pair.one, &pair.two] {
        http.post(&link, &json!({})).await.assert_refused(410, "link-used");
        http.post(&elsa, &json!({})).await.assert_refused(410, "link-used");
        let page = http.get(&link).await;
        assert_eq!(page.status, 410);
        let html = page.body.as_str().unwrap();
        assert!(html.contains("no longer valid") && !html.contains("<form"), "{html}");
        assert_eq!(form(http, &link, "").await.status, 410);
    }
    let attempts = pair.attempts(made["id"].as_str().unwrap()).await;
    let refused = ["Refused", "Refused", "Accepted", "Repeated", "Repeated"];
    assert_eq!(attempts, [&refused[..], &["Used"; 6]].concat());
    let entries = pair
        .api
        .get(&format!("audit?workflowInstanceId={id}"))
        .await
        .expect(200);
    let entries = entries["items"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["outcome"] == "Accepted").unwrap();
    assert_fields!(entry, {"action": "ResumeLink", "clientAddress": "127.0.0.1", "workflowInstanceId": id, "linkId": made["id"]});
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_link_is_not_found() {
    let pair = Pair::start().await;
    let id = pair.waiting("w", json!([waits_for("A")])).await;
    let (_, link) = pair.link(&id, json!({})).await;
    let text = link.rsplit('/').next().unwrap();
    let mut other = text.as_bytes().to_vec();
    other[40] = if other[40] == b'A' { b'B' } else { b'A' };
    let other = String::from_utf8(other).unwrap();
    for forged in [
        &other,
        &text[..47],
        &text[..1],
        &format!("{text}A"),
        "v1.e30.AAAA",
        &"A".repeat(48),
        &"A".repeat(5_000),
        "%00",
        "%FF",
        &format!("{}%0A", &text[..47]),
    ] {
        for path in [
            format!("/workflows/resume/{forged}"),
            format!("/elsa/api/bookmarks/resume?t={forged}"),
            format!("/elsa/api/events/trigger?t={forged}"),
        ] {
            for path in [
                format!("{path}{}", if path.contains('?') { "&t=x&%FF" } else { "?%FF" }),
                path,
            ] {
                let shown = pair.one.get(&path).await;
                assert_eq!(shown.status, 404, "{path}");
                pair.two
                    .post(&path, &json!({}))
                    .await
                    .assert_refused(404, "no-such-link");
            }
        }
    }
    // A genuine one is read before the rest is.
    pair.one
        .post(&format!("{link}?async=perhaps"), &json!({}))
        .await
        .expect(400);
    pair.one
        .post("bookmarks/resume", &json!({}))
        .await
        .assert_refused(404, "no-such-link");
    let of_links = "SELECT count(*) FROM mainspring.audit WHERE link_id IS NOT NULL";
    assert_eq!(pair.client.count(of_links).await, 1);
    pair.one.post(&link, &json!({})).await.expect(200);
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_ends_with_its_time_its_revocation_its_bookmark_and_its_instance() {
    let pair = Pair::start().await;
    let id = pair.waiting("w", json!([waits_for("A"), waits_for("B")])).await;
    let refused = async |path: &str, code: &str| {
        pair.two.post(path, &json!({})).await.assert_refused(410, code);
        assert_eq!(pair.one.get(path).await.status, 410, "{code}");
    };
    // By the clock of the database.
    let (expired, path) = pair.link(&id, json!({"expiresIn": 3600})).await;
    let age = "UPDATE mainspring.resume_link SET expires_at = expires_at - interval '1 hour'";
    pair.client.run(age).await;
    refused(&path, "link-expired").await;
    let (revoked, path) = pair.link(&id, json!({})).await;
    let revoke = format!("workflow-instances/{id}/resume-links/{revoked}");
    assert_eq!(pair.one.delete(&revoke).await.status, 401);
    for _ in 0..2 {
        assert_eq!(pair.api.delete(&revoke).await.status, 204);
    }
    refused(&path, "link-revoked").await;
    // Two links to one bookmark: the second finds nothing.
    let (first, path) = pair.link(&id, json!({"uses": 5})).await;
    let (second, late) = pair.link(&id, json!({})).await;
    let outcome = pair.two.post(&path, &json!({})).await.expect(200);
    assert_eq!(outcome, json!({"status": "Suspended"}), "the holder learns no more");
    refused(&late, "link-ended").await;
    refused(&path, "link-ended").await;
    let listed = pair
        .api
        .get(&format!("workflow-instances/{id}/resume-links"))
        .await
        .expect(200);
    let status = |link: &str| {
        let items = listed["items"].as_array().unwrap().iter();
        let of = items.into_iter().find(|item| item["id"] == link).unwrap();
        assert!(of.get("url").is_none());
        (
            of["status"].as_str().unwrap().to_owned(),
            of["usesLeft"].as_i64().unwrap(),
        )
    };
    assert_eq!(status(&expired), ("Expired".to_owned(), 1));
    assert_eq!(status(&revoked), ("Revoked".to_owned(), 1));
    assert_eq!(status(&first), ("Ended".to_owned(), 4));
    assert_eq!(status(&second), ("Ended".to_owned(), 1));
    // With the key, the state is shown.
    let (_, path) = pair.link(&id, json!({})).await;
    let state = pair.api.post(&path, &json!({})).await.expect(200);
    assert_eq!(state["workflowState"]["id"], id);

    // An instance that has ended, and one that was deleted and came back from a file.
    let id = pair.started("w").await;
    let (ended, path) = pair.link(&id, json!({})).await;
    let exported = pair
        .api
        .get(&format!("workflow-instances/{id}/export"))
        .await
        .expect(200);
    pair.api
        .post(&format!("cancel/workflow-instances/{id}"), &json!({}))
        .await;
    pair.api.instance_becomes(&id, "Cancelled").await;
    refused(&path, "link-ended").await;
    assert_eq!(pair.attempts(&ended).await, ["Ended"]);
    assert!(pair.api.delete(&format!("workflow-instances/{id}")).await.status < 300);
    refused(&path, "link-unknown").await;
    let form = format!(
        "--f\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n\
         {exported}\r\n--f--\r\n"
    );
    let kind = [
        ("content-type", "multipart/form-data; boundary=f"),
        ("x-requested-with", "test"),
    ];
    let import = "bulk-actions/import/workflow-instances";
    let imported = pair.api.upload(import, &kind, form.into_bytes()).await.expect(200);
    assert_eq!(imported["imported"], 1);
    // It waits at the same bookmark again, in another life.
    refused(&path, "link-unknown").await;
    let (_, path) = pair.link(&id, json!({})).await;
    pair.two.post(&path, &json!({})).await.expect(200);
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_used_at_two_nodes_at_once_acts_once() {
    let pair = Pair::start().await;
    pair.waiting("w", json!([waits_for("A")])).await;
    for _ in 0..5 {
        let id = pair.started("w").await;
        let (link, path) = pair.link(&id, json!({})).await;
        let all = (0..8).map(|n| {
            let (http, path) = (if n % 2 == 0 { &pair.one } else { &pair.two }, path.clone());
            async move { http.post(&path, &json!({})).await.status }
        });
        let mut statuses = futures_util::future::join_all(all).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 410, 410, 410, 410, 410, 410, 410]);
        let mut attempts = pair.attempts(&link).await;
        attempts.sort();
        assert_eq!((attempts.len(), &*attempts[0]), (8, "Accepted"));
        assert!(!attempts[1..].contains(&"Accepted".to_owned()), "{attempts:?}");
    }
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_beyond_its_bounds_is_not_made() {
    let pair = Pair::start().await;
    let id = pair.waiting("w", json!([waits_for("A")])).await;
    let other = pair.started("w").await;
    let bookmark: String = pair
        .client
        .query_one("SELECT id FROM mainspring.bookmark WHERE instance_id = $1", &[&other])
        .await
        .unwrap()
        .get(0);
    let path = format!("workflow-instances/{id}/resume-links");
    for (fields, status, code) in [
        (json!({"expiresIn": -1}), 400, "invalid-field"),
        (json!({"expiresIn": 0}), 400, "invalid-field"),
        (json!({"expiresIn": "-1.00:00:00"}), 400, "invalid-field"),
        (json!({"expiresIn": "tomorrow"}), 400, "invalid-field"),
        (json!({"expiresIn": [1]}), 400, "invalid-field"),
        (json!({"expiresIn": "36525.00:00:00"}), 400, "invalid-resume-link"),
        (json!({"expiresIn": 3_155_760_000_u64}), 400, "invalid-resume-link"),
        (json!({"expiresIn": 1e300}), 400, "invalid-field"),
        (json!({"uses": 0}), 400, "invalid-field"),
        (json!({"uses": -1}), 400, "invalid-field"),
        (json!({"uses": 1.5}), 400, "invalid-field"),
        (json!({"uses": 1_001}), 400, "invalid-resume-link"),
        (json!({"bookmarkId": "none"}), 409, "already-resumed"),
    ] {
        pair.api.post(&path, &fields).await.assert_refused(status, code);
    }
    // Ids of bookmarks repeat, so that of another instance names one of this one, or none.
    let body = json!({"bookmarkId": format!("{bookmark}x")});
    pair.api.post(&path, &body).await.assert_refused(409, "already-resumed");
    let missing = pair
        .api
        .post("workflow-instances/nobody/resume-links", &json!({}))
        .await;
    missing.assert_refused(404, "instance-not-found");
    pair.api
        .get("workflow-instances/nobody/resume-links")
        .await
        .assert_refused(404, "instance-not-found");
    for link in ["none", "00000000000000000000000000000000"] {
        let path = format!("{path}/{link}");
        pair.api.delete(&path).await.assert_refused(404, "link-not-found");
    }
    pair.api
        .get("audit?linkId=x")
        .await
        .assert_refused(400, "invalid-field");
    pair.api
        .get("audit?before=x")
        .await
        .assert_refused(400, "invalid-field");
    assert_eq!(pair.client.rows("resume_link").await, 0);
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_each_language_make_links_to_events_and_to_their_activity() {
    let pair = Pair::start().await;
    for (language, event, resume) in [
        (
            "JavaScript",
            "createEventTriggerUrl('Go', '1.00:00:00')",
            "createResumeUrl('02:00:00', 2)",
        ),
        (
            "CSharp",
            "ExecutionContext.CreateEventTriggerUrl(\"Go\", TimeSpan.FromDays(1))",
            "ExecutionContext.CreateResumeUrl(TimeSpan.FromHours(2), 2)",
        ),
        (
            "Liquid",
            "{{ \"Go\" | event_trigger_url: \"1.00:00:00\" }}",
            "{{ \"02:00:00\" | resume_url: 2 }}",
        ),
    ] {
        let task = json!({"type": "Elsa.RunTask", "id": "task", "taskName": script(language, resume)});
        let id = pair
            .waiting(
                language,
                json!([sets_output(script(language, event)), task, waits_for("Go")]),
            )
            .await;
        let state = pair.api.get(&format!("workflow-instances/{id}")).await.expect(200);
        let triggers = path_of(state["workflowState"]["output"]["Url"].as_str().unwrap());
        assert!(triggers.starts_with("/elsa/api/events/trigger?t="), "{triggers}");
        let tasks = pair.api.get("tasks").await.expect(200);
        let task = tasks["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|task| task["workflowInstanceId"] == id)
            .unwrap();
        let resumes = path_of(task["taskName"].as_str().unwrap());
        let listed = pair
            .api
            .get(&format!("workflow-instances/{id}/resume-links"))
            .await
            .expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{language}: {listed}");
        let uses: Vec<i64> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["uses"].as_i64().unwrap())
            .collect();
        assert!(uses.contains(&1) && uses.contains(&2), "{language}: {listed}");
        let page = pair.two.get(&triggers).await;
        assert!(
            page.body.as_str().unwrap().contains("\u{201c}Go\u{201d}"),
            "{}",
            page.body
        );
        pair.two.post(&resumes, &json!({})).await.expect(200);
        pair.api.instance_becomes(&id, "Suspended").await;
        let accepted = pair
            .two
            .post(&triggers, &json!({"input": {"by": "Ann"}}))
            .await
            .expect(200);
        assert_eq!(accepted, json!({"status": "Accepted"}));
        pair.api.instance_becomes(&id, "Finished").await;
        pair.one
            .post(&triggers, &json!({}))
            .await
            .assert_refused(410, "link-used");
        pair.one
            .post(&resumes, &json!({}))
            .await
            .assert_refused(410, "link-ended");
    }
    // An activity that does not wait has nothing to resume.
    let root = json!({"type": "Elsa.WriteLine", "id": "line", "text": script("JavaScript", "createResumeUrl()")});
    pair.api.publish(&json!({"definitionId": "lost", "root": root})).await;
    let failed = pair.api.post("workflow-definitions/lost/execute", &json!({})).await;
    assert_eq!(failed.status, 500);
    let text = failed.body.to_string();
    assert!(text.contains("does not wait at that one"), "{text}");
    assert_invariants(&pair.database).await;
}
