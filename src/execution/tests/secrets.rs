//! No value of a secret is recorded, by whatever way an expression came to it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::Catalogue;
use crate::execution::{Instruction, SubStatus};
use crate::expression::NamedValues;

const SECRET: &str = "hunter2";

/// A directory with one secret.
struct SecretsFolder(PathBuf);

impl SecretsFolder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-secrets-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("Key"), SECRET).unwrap();
        Self(folder)
    }

    fn instance(&self, workflow: Value) -> InMemoryInstance {
        let named = NamedValues {
            config: Arc::new([("Smtp:Host".to_owned(), "mail.example".to_owned())].into()),
            secrets_dir: Some(Arc::new(self.0.clone())),
        };
        InMemoryInstance::with(&definition(workflow), Catalogue::standard(), |options| {
            options.script.named = named;
        })
    }
}

impl Drop for SecretsFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn input(kind: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": "Object", "expression": {"type": kind, "value": value.into()}})
}

/// Ways to a secret. Its name, or that of the function, is made when the script runs.
const SCRIPTS: [&str; 5] = [
    "getSecret('Key')",
    "'Bearer ' + await getSecret('Key')",
    "globalThis['get' + 'Secret']('Key')",
    "Object.entries(Object.getOwnPropertyDescriptors(globalThis)).find(([n]) => n.startsWith('getS'))[1].value('Key')",
    "const read = [getSecret][0]; (await read('Key')).split('').reverse().reverse().join('')",
];

#[tokio::test]
async fn no_secret_is_in_the_journal() {
    let folder = SecretsFolder::new();
    let scripts = SCRIPTS.iter().map(|script| match script.contains("await") {
        true => input("JavaScript", format!("(async () => {{ {} }})()", with_return(script))),
        false => input("JavaScript", *script),
    });
    let expressions = scripts.chain([input("Secret", "Key"), input("Secret", json!({"name": "Key"}))]);
    for expression in expressions {
        // An input that is evaluated at once, one that is evaluated by its activity, and what both leave while it waits.
        let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [
            {"id": "a", "type": "Elsa.RunTask", "taskName": expression, "payload": input("Object", "{\"shown\": 1}"),
                "customProperties": {"logPersistenceConfig": {"default": {"evaluationMode": "Strategy",
                    "strategyType": "Elsa.Workflows.LogPersistence.Strategies.Include, Elsa.Workflows.Core"}}}},
            {"id": "b", "type": "Elsa.While", "condition": expression, "body": null}]});
        let mut instance = folder.instance(json!({"root": root}));
        let waiting = instance.start().await;
        assert_eq!(
            waiting.sub_status,
            SubStatus::Suspended,
            "{expression}: {:?}",
            waiting.state.incidents()
        );
        let recorded = format!("{:?}{:?}", waiting.journal, waiting.activity_executions);
        assert!(
            !recorded.contains(SECRET) && recorded.contains("shown"),
            "{expression}: {recorded}"
        );
        let resume = Instruction::Resume {
            bookmark_id: waiting.bookmarks_created[0].id.clone(),
            input: Map::new(),
            payload: None,
            request: None,
        };
        let ended = instance.run(resume).await;
        let recorded = format!(
            "{:?}{:?}{:?}",
            ended.journal,
            ended.activity_executions,
            ended.state.incidents()
        );
        assert!(!recorded.contains(SECRET), "{expression}: {recorded}");
        assert!(!format!("{:?}", instance.journal).contains(SECRET), "{expression}");
    }
}

fn with_return(script: &str) -> String {
    match script.rsplit_once("; ") {
        Some((before, last)) => format!("{before}; return {last}"),
        None => format!("return {script}"),
    }
}

#[tokio::test]
async fn neither_is_what_a_script_did_with_one() {
    let folder = SecretsFolder::new();
    let run = |script: &str| {
        json!({"id": "run", "type": "Elsa.RunJavaScript", "script": input("Literal", script),
            "result": {"typeName": "Object", "memoryReference": {"id": "r"}}})
    };
    for (activity, ends) in [
        (
            run("const read = async () => ({key: await getSecret('Key')}); return read()"),
            SubStatus::Finished,
        ),
        (run("getSecret('Key').then(setOutcome)"), SubStatus::Faulted),
        (
            run("getSecret('Key').then(key => setOutcome(`is ${key.length}`))"),
            SubStatus::Finished,
        ),
        (
            run("getSecret('Key').then(key => setCorrelationId('c-' + key))"),
            SubStatus::Faulted,
        ),
        (
            run("getSecret('Key').then(setWorkflowInstanceName)"),
            SubStatus::Faulted,
        ),
        (
            run("(async () => { throw new Error(await getSecret('Key')) })()"),
            SubStatus::Faulted,
        ),
        (
            run("getSecret('Key').then(name => { throw Object.assign(new Error('x'), {name}) })"),
            SubStatus::Faulted,
        ),
        // Its value has not the type of the input.
        (
            json!({"id": "run", "type": "Elsa.Delay", "timeSpan": {"typeName": "TimeSpan", "expression": {"type": "Secret", "value": "Key"}}}),
            SubStatus::Faulted,
        ),
    ] {
        let variables = json!([{"id": "r", "name": "R", "typeName": "Object"}]);
        let mut instance = folder.instance(json!({"root": activity, "variables": variables}));
        let ended = instance.start().await;
        assert_eq!(ended.sub_status, ends, "{activity}: {:?}", ended.state.incidents());
        let recorded = format!(
            "{:?}{:?}{:?}",
            ended.journal,
            ended.activity_executions,
            ended.state.incidents()
        );
        assert!(!recorded.contains(SECRET), "{activity}: {recorded}");
    }
}

#[tokio::test]
async fn settings_are_read_by_every_language_that_elsa_lets_read_them() {
    let folder = SecretsFolder::new();
    let line = |kind: &str, value: Value| json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": value}}});
    for (kind, value, expected) in [
        ("Configuration", json!("Smtp:Host"), "mail.example"),
        ("Configuration", json!({"name": "smtp:host"}), "mail.example"),
        ("Configuration", json!("{\"name\": \"Smtp:Host\"}"), "mail.example"),
        ("Configuration", json!("Path"), ""),
        ("JavaScript", json!("getConfig('Smtp:Host')"), "mail.example"),
        ("Liquid", json!("{{ Configuration.Smtp.Host }}"), "mail.example"),
        ("Secret", json!("Key"), SECRET),
    ] {
        let mut instance = folder.instance(json!({"root": line(kind, value.clone())}));
        let ended = instance.start().await;
        assert_eq!(ended.sub_status, SubStatus::Finished, "{:?}", ended.state.incidents());
        assert_eq!(instance.lines(), [expected], "{kind} {value}");
    }
    let mut instance = folder.instance(json!({"root": line("Secret", json!("Other"))}));
    let ended = instance.start().await;
    assert!(
        ended.state.incidents()[0]
            .message
            .contains("there is no secret \"Other\""),
        "{:?}",
        ended.state.incidents()
    );
}

/// What is recorded and shown of a burst: its journal, its executions, and its incidents.
fn recorded(ended: &crate::execution::BurstResult) -> String {
    format!(
        "{:?}{:?}{:?}",
        ended.journal,
        ended.activity_executions,
        ended.state.incidents()
    )
}

#[tokio::test]
async fn no_message_quotes_one() {
    let folder = SecretsFolder::new();
    let secret = || input("Secret", "Key");
    let throws = "throw new Error(getVariable('CurrentValue'))";
    for (activity, code) in [
        (
            json!({"id": "f", "type": "Elsa.Fault", "message": secret(), "code": input("Literal", "c-1")}),
            "c-1",
        ),
        (
            json!({"id": "f", "type": "Elsa.Fault", "message": input("Literal", "m"), "code": secret(), "category": secret()}),
            "0",
        ),
        (json!({"id": "f", "type": "Elsa.Cron", "cronExpression": secret()}), "0"),
        (
            json!({"id": "f", "type": "Elsa.RunJavaScript", "script": secret()}),
            "script-error",
        ),
        (
            json!({"id": "f", "type": "Elsa.RunJavaScript",
            "script": input("JavaScript", "'return ' + await getSecret('Key')")}),
            "script-error",
        ),
        (
            json!({"id": "f", "type": "Elsa.RunJavaScript",
            "script": input("JavaScript", "await getSecret('Key') + ' ('")}),
            "script-syntax",
        ),
        (
            json!({"id": "f", "type": "Elsa.RunCSharp", "script": secret()}),
            "script-syntax",
        ),
        (
            json!({"id": "f", "type": "Elsa.ForEach", "items": input("JavaScript", "[await getSecret('Key')]"),
            "body": {"id": "b", "type": "Elsa.RunJavaScript", "script": input("Literal", throws)}}),
            "script-error",
        ),
        (
            json!({"id": "f", "type": "Elsa.RunJavaScript",
            "script": input("Literal", "(0, eval)(await getSecret('Key'))")}),
            "script-error",
        ),
    ] {
        let mut instance = folder.instance(json!({"root": activity}));
        let ended = instance.start().await;
        let incidents = ended.state.incidents();
        assert_eq!(ended.sub_status, SubStatus::Faulted, "{activity}");
        assert_eq!(incidents[0].exception["code"], code, "{activity}: {incidents:?}");
        assert!(!recorded(&ended).contains(SECRET), "{activity}: {}", recorded(&ended));
    }
    let dispatch = json!({"id": "f", "type": "Elsa.DispatchWorkflow", "workflowDefinitionId": secret(),
        "waitForCompletion": input("Literal", true)});
    let mut instance = folder.instance(json!({"root": dispatch}));
    let ended = instance.run_retracted(start(Map::new())).await;
    let incident = &ended.state.incidents()[0];
    assert_eq!(incident.exception["code"], "definition-not-published", "{incident:?}");
    assert!(incident.message.contains("withheld"), "{incident:?}");
    assert!(!recorded(&ended).contains(SECRET), "{}", recorded(&ended));
    // A message that has nothing to do with one is kept.
    let activity = json!({"id": "f", "type": "Elsa.Fault", "message": input("Literal", "no stock")});
    let first = json!({"id": "w", "type": "Elsa.WriteLine", "text": secret()});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [first, activity]});
    let ended = folder.instance(json!({"root": root})).start().await;
    assert_eq!(ended.state.incidents()[0].message, "no stock");
}

#[tokio::test]
async fn what_reads_the_items_of_a_loop_over_secrets_is_not_recorded() {
    let folder = SecretsFolder::new();
    let line = json!({"id": "b", "type": "Elsa.WriteLine", "text": input("JavaScript", "getVariable('CurrentValue')")});
    let root = json!({"id": "f", "type": "Elsa.ForEach", "items": input("JavaScript", "[await getSecret('Key')]"),
        "body": line});
    let mut instance = folder.instance(json!({"root": root}));
    let ended = instance.start().await;
    assert_eq!(ended.sub_status, SubStatus::Finished, "{:?}", ended.state.incidents());
    assert_eq!(instance.lines(), [SECRET]);
    assert!(!recorded(&ended).contains(SECRET), "{}", recorded(&ended));
}

#[tokio::test]
async fn a_text_awaits_a_secret_outside_of_functions() {
    let folder = SecretsFolder::new();
    for script in [
        "await getSecret('Key')",
        "(await getSecret('Key')) + ''",
        "const key = await getSecret('Key'); return key",
    ] {
        let line = json!({"id": "w", "type": "Elsa.WriteLine", "text": input("JavaScript", script)});
        let mut instance = folder.instance(json!({"root": line}));
        let ended = instance.start().await;
        assert_eq!(
            ended.sub_status,
            SubStatus::Finished,
            "{script}: {:?}",
            ended.state.incidents()
        );
        assert_eq!(instance.lines(), [SECRET], "{script}");
    }
}

#[tokio::test]
async fn a_publish_names_what_stores_one() {
    let folder = SecretsFolder::new();
    let stores = json!({"id": "set", "type": "Elsa.Correlate", "correlationId": input("Secret", "Key")});
    let uses = json!({"id": "use", "type": "Elsa.WriteLine", "text": input("Secret", "Key")});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [stores, uses]});
    let instance = folder.instance(json!({"root": root.clone()}));
    let warnings = instance
        .interpreter
        .warnings(&instance.program, &definition(json!({"root": root})));
    let text = format!("{warnings:?}");
    assert!(
        warnings.len() == 1 && text.contains("CorrelationId") && text.contains("set"),
        "{text}"
    );
}

#[tokio::test]
async fn a_trigger_that_is_a_secret_is_refused_without_it() {
    let folder = SecretsFolder::new();
    let root =
        json!({"id": "c", "type": "Elsa.Cron", "canStartWorkflow": true, "cronExpression": input("Secret", "Key")});
    let instance = folder.instance(json!({"root": root}));
    let refused = instance.interpreter.triggers(&instance.program).await;
    let refused = format!("{:?}", refused.err());
    assert!(!refused.contains(SECRET) && refused.contains("withheld"), "{refused}");
}

#[tokio::test]
async fn an_expression_alone_that_hides_secrets_reads_none() {
    let folder = SecretsFolder::new();
    let interpreter = folder
        .instance(json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": []}}))
        .interpreter;
    for (kind, value) in [
        ("Secret", "Key"),
        ("JavaScript", "getSecret('Key')"),
        ("JavaScript", "(async () => (await getSecret('Key')) > 'm')()"),
        ("JavaScript", "await globalThis['get' + 'Secret']('Key')"),
    ] {
        let mut request = crate::execution::ExpressionRequest {
            kind: kind.to_owned(),
            value: json!(value),
            ..Default::default()
        };
        request.scope.hides_secrets = true;
        let done = interpreter.evaluate_expression(request).await.unwrap();
        assert!(done.value.is_null(), "{value}: {done:?}");
        assert_eq!(
            done.error.map(|error| error.code).as_deref(),
            Some("secrets-not-available"),
            "{value}"
        );
    }
}

#[tokio::test]
async fn a_fault_inside_of_a_loop_over_secrets_is_not_classified_by_one() {
    let folder = SecretsFolder::new();
    let body = json!({"id": "b", "type": "Elsa.Fault", "message": input("Literal", "m"),
        "code": input("JavaScript", "getVariable('CurrentValue')"),
        "category": input("JavaScript", "getVariable('CurrentValue').toUpperCase()")});
    let root = json!({"id": "f", "type": "Elsa.ForEach", "items": input("JavaScript", "[await getSecret('Key')]"),
        "body": body});
    let ended = folder.instance(json!({"root": root})).start().await;
    let incident = &ended.state.incidents()[0];
    assert_eq!(incident.exception["code"], "0", "{incident:?}");
    let shown = recorded(&ended);
    assert!(
        !shown.contains(SECRET) && !shown.contains(&SECRET.to_uppercase()),
        "{shown}"
    );
}

#[tokio::test]
async fn the_state_of_a_waiting_activity_shows_no_secret() {
    let folder = SecretsFolder::new();
    let root = json!({"id": "t", "type": "Elsa.RunTask", "taskName": input("Literal", "t"), "payload": input("JavaScript", "({key: getSecret('Key')})")});
    let ended = folder.instance(json!({"root": root})).start().await;
    assert_eq!(ended.sub_status, SubStatus::Suspended, "{:?}", ended.state.incidents());
    assert!(ended.state.holds_secret());
    let now = chrono::Utc::now();
    let times = crate::execution::InstanceTimestamps {
        created_at: now,
        updated_at: now,
        finished_at: None,
    };
    let shown = ended.state.workflow_state(times).to_string();
    assert!(shown.contains("Elsa.RunTask") && !shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn a_result_that_outlives_its_activity_is_not_quoted() {
    let folder = SecretsFolder::new();
    let read =
        json!({"id": "r", "type": "Elsa.RunJavaScript", "script": input("Literal", "return await getSecret('Key')")});
    let quotes = |message: Value| json!({"id": "f", "type": "Elsa.Fault", "message": message});
    let throws = |script: &str| json!({"id": "f", "type": "Elsa.RunJavaScript", "script": input("Literal", script)});
    for last in [
        quotes(input("JavaScript", "getLastResult()")),
        quotes(input("JavaScript", "getLastResult().toUpperCase()")),
        quotes(input("JavaScript", "(() => { throw new Error(getLastResult()) })()")),
        throws("throw new Error(getLastResult())"),
    ] {
        let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [read, last]});
        let ended = folder.instance(json!({"root": root})).start().await;
        assert_eq!(ended.sub_status, SubStatus::Faulted, "{last}");
        let shown = recorded(&ended).to_lowercase();
        assert!(!shown.contains(SECRET), "{last}: {shown}");
        // An export would hold it.
        assert!(ended.state.holds_secret());
    }
    let bound = json!({"id": "r", "type": "Elsa.RunJavaScript", "script": input("Literal", "return await getSecret('Key')"),
        "result": {"typeName": "Object", "memoryReference": {"id": "V"}}});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [bound],
        "variables": [{"id": "V", "name": "V", "typeName": "Object"}]});
    let ended = folder.instance(json!({"root": root})).start().await;
    // Its author stores it, and was warned.
    assert!(!ended.state.holds_secret());
}

#[tokio::test]
async fn no_outcome_is_made_of_one() {
    let folder = SecretsFolder::new();
    let root = json!({"id": "c", "type": "Elsa.Complete", "outcomes": input("Secret", "Key")});
    let ended = folder.instance(json!({"root": root})).start().await;
    let incident = &ended.state.incidents()[0];
    assert!(
        incident.message.contains("none may be derived from a secret"),
        "{incident:?}"
    );
    assert!(!recorded(&ended).contains(SECRET), "{}", recorded(&ended));
}
