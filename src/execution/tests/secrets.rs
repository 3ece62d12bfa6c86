//! No value of a secret is recorded, by whatever way an expression came to it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition};
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
const SCRIPTS: [&str; 6] = [
    "getSecret('Key')",
    "'Bearer ' + await getSecret('Key')",
    "globalThis['get' + 'Secret']('Key')",
    "(0, eval)('get' + 'Secret')('K' + 'ey')",
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
            {"id": "a", "type": "Elsa.RunTask", "taskName": expression, "payload": input("Literal", "shown"),
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
