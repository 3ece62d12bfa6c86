//! Text that a client chose forges no line of the log or of the program, and moves no cursor.

use serde_json::json;

use crate::support::single_node::{SingleNode, literal, waits_for};
use crate::support::{LONG_TIMEOUT, poll_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_have_no_control_characters() {
    let node = SingleNode::with_key(&["--log", "debug"]).await;
    node.publish("waits", waits_for("Go")).await;
    let forged = "i1\n2026-11-23T00:00:00Z  INFO forged\u{1b}[2J";
    let dispatch = "workflow-definitions/waits/dispatch";
    let escaped: String = forged.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (path, body, code) in [
        (dispatch, json!({"instanceId": forged}), "invalid-instance-id"),
        (dispatch, json!({"instanceId": "i\u{7f}"}), "invalid-instance-id"),
        (dispatch, json!({"instanceId": "i\u{9b}"}), "invalid-instance-id"),
        (dispatch, json!({"correlationId": forged}), "invalid-correlation-id"),
        (
            "events/Go/trigger",
            json!({"correlationId": forged}),
            "invalid-correlation-id",
        ),
        ("events/Go/trigger", json!({"correlationId": "a\0b"}), "invalid-text"),
        (&format!("events/{escaped}/trigger"), json!({}), "invalid-path"),
        ("events/G%00o/trigger", json!({}), "invalid-text"),
        (
            &format!("workflow-instances/{escaped}/resume"),
            json!({}),
            "invalid-path",
        ),
        (
            &format!("workflow-definitions/{escaped}/execute"),
            json!({}),
            "invalid-path",
        ),
    ] {
        let answer = node.http.post(path, &body).await;
        answer.assert_refused(400, code);
    }
    // What stays a text of the client's (a name, an input, a faulty expression) is escaped where it is logged.
    let odd = json!({"name": forged, "correlationId": "plain"});
    node.http.post(dispatch, &odd).await.expect(200);
    let faults = json!({"id": "w", "type": "Elsa.Fault", "message": literal(forged), "code": literal(forged)});
    node.publish("faults", faults).await;
    node.http
        .post("workflow-definitions/faults/execute", &json!({}))
        .await
        .expect(500);
    let lines = poll_until(LONG_TIMEOUT, "the log to name the faulted instance", async || {
        let lines = node.child.stderr();
        lines.iter().any(|line| line.contains("faults")).then_some(lines)
    });
    for line in lines.await {
        assert!(!line.starts_with("2026-11-23T00:00:00Z  INFO forged"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correlation_id_of_ten_thousand_characters_is_one_like_any_other() {
    let node = SingleNode::start(&[]).await;
    node.publish("waits", waits_for("Go")).await;
    let id: String = (0..10_000).map(|_| rand::random_range('a'..='z')).collect();
    let (own, other) = (json!({"correlationId": id}), json!({"correlationId": format!("{id}?")}));
    for correlated in [&own, &other] {
        node.http
            .post("workflow-definitions/waits/dispatch", correlated)
            .await
            .expect(200);
    }
    node.http.trigger("Go", &own).await;
    let client = node.database.connect().await;
    client.wait_for_rows("instance WHERE status = 1", 1).await;
    client.wait_for_rows("bookmark", 1).await;
    let finished = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND correlation_id LIKE '%?'";
    assert_eq!(client.count(finished).await, 0, "the event was for the other one");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_writes_one_line_per_line_and_none_of_the_programs() {
    let node = SingleNode::with_key(&[]).await;
    let texts = [
        "ready http://evil.example",
        "a\nready http://evil.example",
        "\u{1b}]0;owned\u{7}",
        "last",
    ];
    for (number, text) in texts.iter().enumerate() {
        let id = format!("w{number}");
        node.publish(&id, json!({"id": "w", "type": "Elsa.WriteLine", "text": literal(text)}))
            .await;
        let path = format!("workflow-definitions/{id}/execute");
        node.http.post(&path, &json!({})).await.expect(200);
    }
    let lines = poll_until(LONG_TIMEOUT, "the last line", async || {
        let lines = node.child.stdout();
        lines.iter().any(|line| line == "last").then_some(lines)
    });
    assert_eq!(
        lines.await[1..],
        [
            "\\ready http://evil.example",
            "a\\nready http://evil.example",
            "\\u{1b}]0;owned\\u{7}",
            "last"
        ]
    );
}
