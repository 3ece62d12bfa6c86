//! Single expressions: what they come to over HTTP, and that nothing is kept of them.

use serde_json::{Value, json};

use crate::support::assert_fields;
use crate::support::single_node::SingleNode;

#[tokio::test]
async fn an_expression_is_evaluated_and_nothing_is_kept() {
    let secrets = std::env::temp_dir().join(format!("mainspring-secrets-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("Key"), "hunter2").unwrap();
    let arguments = [
        "--script-time-limit",
        "500ms",
        "--script-config",
        "Host=mail",
        "--secrets-dir",
        secrets.to_str().unwrap(),
    ];
    let node = SingleNode::with_key(&arguments).await;
    let http = &node.http;
    let evaluate = async |kind: &str, value: Value| {
        let body = json!({"expression": {"type": kind, "value": value}, "variables": {"Count": 7, "List": ["a"]},
            "inputs": {"Name": "Ada"}, "outputs": {"Http": {"Body": "ok"}}, "correlationId": "c"});
        http.post("expressions/evaluate", &body).await.expect(200)
    };
    for (kind, value, expected) in [
        (
            "JavaScript",
            json!("getCount() + getName() + getBodyFromHttp() + getCorrelationId()"),
            json!("7Adaokc"),
        ),
        ("CSharp", json!("Variables.Count / 2"), json!(3)),
        (
            "Liquid",
            json!("{{ Variables.List | join: ',' }}{{ Configuration.Host }}"),
            json!("amail"),
        ),
        ("Object", json!({"a": 1}), json!({"a": 1})),
        ("Variable", json!({"name": "List"}), json!(["a"])),
        ("Configuration", json!("Host"), json!("mail")),
    ] {
        let done = evaluate(kind, value).await;
        assert_fields!(done, {"error": null, "changes": {"variables": {}}});
        assert_eq!(done["value"], expected, "{kind}");
    }
    let set = evaluate("JavaScript", json!("setCount(8)")).await;
    assert_fields!(set, {"value": null, "changes": {"variables": {"Count": 8}}});
    let failed = evaluate("JavaScript", json!("1 +\n  nothing.x")).await;
    assert_fields!(failed["error"], {"code": "script-error", "line": 2});
    let stopped = evaluate("JavaScript", json!("for (;;) {}")).await;
    assert_fields!(stopped["error"], {"code": "script-timeout", "line": null, "column": null});
    // No secret is read for a client, in any language.
    for (kind, value) in [
        ("Secret", "Key"),
        ("JavaScript", "getSecret('Key').then(key => setCount(key) ?? key)"),
    ] {
        let hidden = evaluate(kind, json!(value)).await;
        assert_fields!(hidden, {"value": null, "changes": {"variables": {}}});
        assert_eq!(hidden["error"]["code"], "secrets-not-available");
    }
    for (body, code) in [
        (json!({}), "missing-field"),
        (json!({"expression": "1"}), "invalid-field"),
        (json!({"expression": {"type": "Python", "value": "1"}}), "invalid-field"),
        (
            json!({"expression": {"type": "Literal"}, "variables": []}),
            "invalid-field",
        ),
        (
            json!({"expression": {"type": "Literal"}, "outputs": {"Http": 1}}),
            "invalid-field",
        ),
        (json!([]), "invalid-body"),
    ] {
        http.post("expressions/evaluate", &body).await.assert_refused(400, code);
    }
    let none = http.get("workflow-instances").await.expect(200);
    assert_eq!(none["totalCount"], 0, "{none}");
    std::fs::remove_dir_all(&secrets).unwrap();
}
