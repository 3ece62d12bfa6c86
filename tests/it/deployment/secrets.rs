//! No value of a secret is recorded in the database, or written to the log, by messages that are made of it.

use serde_json::{Value, json};

use crate::support::Connection;
use crate::support::single_node::{SingleNode, literal, waits_for};

/// An identifier, too, so that errors of scripts would name it.
const SECRET: &str = "s3cretOfThisTest";

/// What a workflow stores on purpose.
const SHOWN: &str = "shownOnPurpose";

fn input(kind: &str, value: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": kind, "value": value}})
}

/// The tables of the schema that have this text in any column, whatever its type; but for the state of an instance, which has
/// what it continues with.
async fn tables_with(client: &Connection, text: &str) -> Vec<String> {
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'mainspring' ORDER BY 1";
    let bytes: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut found = Vec::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let row = match table.as_str() {
            "instance" => "(to_jsonb(one) - 'state')::text",
            _ => "one::text",
        };
        // A row as text has its bytes in hexadecimal digits.
        let rows = format!(
            "SELECT count(*) FROM mainspring.{table} one
             WHERE position('{text}' IN {row}) > 0 OR position('{bytes}' IN {row}) > 0"
        );
        if client.count(&rows).await > 0 {
            found.push(table);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_table_nor_the_log_has_what_messages_are_made_of() {
    let secrets = std::env::temp_dir().join(format!("mainspring-secrets-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("Key"), SECRET).unwrap();
    let settings = ["--secrets-dir", secrets.to_str().unwrap(), "--log", "trace"];
    let node = SingleNode::start(&settings).await;
    let http = &node.http;
    let secret = || input("Secret", "Key");
    let read = || input("JavaScript", "await getSecret('Key')");
    let runs = |script: Value| json!({"id": "a", "type": "Elsa.RunJavaScript", "script": script});
    let cases = [
        json!({"id": "a", "type": "Elsa.Fault", "message": secret(), "code": read(), "category": secret()}),
        json!({"id": "a", "type": "Elsa.Fault", "message": read()}),
        json!({"id": "a", "type": "Elsa.Cron", "cronExpression": secret()}),
        json!({"id": "a", "type": "Elsa.Delay", "timeSpan": read()}),
        json!({"id": "a", "type": "Elsa.DispatchWorkflow", "workflowDefinitionId": secret(),
            "waitForCompletion": input("JavaScript", "true")}),
        json!({"id": "a", "type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": read()}),
        runs(secret()),
        runs(literal("(async () => { throw new Error(await getSecret('Key')) })()")),
        runs(literal("getSecret('Key').then(eval)")),
        json!({"id": "a", "type": "Elsa.RunCSharp", "script": secret()}),
    ];
    for (number, case) in cases.iter().enumerate() {
        let set = json!({"id": "s", "type": "Elsa.SetVariable", "value": literal(SHOWN),
            "variable": {"id": "V", "name": "V", "typeName": "String"}});
        let root = json!({"id": "r", "type": "Elsa.Sequence", "activities": [set, waits_for("go"), case],
            "variables": [{"id": "V", "name": "V", "typeName": "String"}]});
        let definition = format!("d{number}");
        node.publish(&definition, root).await;
        let begun = http.dispatch(&definition, &json!({})).await;
        let id = begun["workflowInstanceId"].as_str().unwrap();
        http.instance_becomes(id, "Suspended").await;
        http.trigger("go", &json!({"workflowInstanceId": id})).await;
        http.instance_becomes(id, "Faulted").await;
        let (_, _, exported) = http.download(&format!("workflow-instances/{id}/export"), None).await;
        let exported = String::from_utf8_lossy(&exported).into_owned();
        assert!(!exported.contains(SECRET), "{case}: {exported}");
        let test = json!({"workflowDefinitionHandle": {"definitionId": definition, "versionOptions": "Latest"},
            "activityHandle": {"activityId": "a"}});
        let tested = http.post("tests/activities", &test).await.body.to_string();
        assert!(!tested.contains(SECRET), "{case}: {tested}");
    }
    let client = node.database.connect().await;
    let shown = tables_with(&client, SHOWN).await;
    assert!(!shown.is_empty());
    assert_eq!(tables_with(&client, SECRET).await, [""; 0]);
    let (log, said) = (node.child.stderr(), node.child.stdout());
    assert!(log.iter().any(|line| line.contains("TRACE")) && log.iter().any(|line| line.contains("withheld")));
    let quotes: Vec<&String> = log.iter().chain(&said).filter(|line| line.contains(SECRET)).collect();
    assert!(quotes.is_empty(), "{quotes:?}");
    std::fs::remove_dir_all(&secrets).unwrap();
}
