//! `mainspring eval`: the value of an expression of a definition, without a database.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::settings::EvalSettings;
use crate::activity::{Catalogue, printable};
use crate::execution::{ExpressionError, ExpressionRequest, Interpreter, InterpreterOptions};
use crate::expression::{ScriptScope, WorkflowFacts, is_runnable, runnable_types};
use crate::harness::failure::Failure;
use crate::harness::print_line;

/// The largest expression or file of values, in bytes: what the API accepts.
const MAX_BYTES: u64 = 10 << 20;

pub(super) async fn run(settings: &EvalSettings) -> Result<(), Failure> {
    let request = request(settings)?;
    let options = InterpreterOptions {
        script: settings.expressions.script_options(),
        ..InterpreterOptions::default()
    };
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    let done = interpreter.evaluate_expression(request).await;
    let done = done.map_err(|error| Failure::failed(error.message().to_owned()))?;
    let line = if settings.json {
        json!(done).to_string()
    } else {
        done.value.to_string()
    };
    match done.error {
        None => {
            print_line(&line);
            Ok(())
        }
        Some(_) if settings.json => {
            print_line(&line);
            Err(Failure::reported())
        }
        Some(error) => Err(Failure::failed(message(&error))),
    }
}

/// The code and the message, which has the place.
fn message(error: &ExpressionError) -> String {
    printable(&format!("{}: {}", error.code, error.message)).into_owned()
}

fn request(settings: &EvalSettings) -> Result<ExpressionRequest, Failure> {
    if !is_runnable(&settings.kind) {
        return Err(Failure::usage(format!(
            "--type {} is not a type of expression that runs; give one of {}",
            settings.kind,
            runnable_types()
        )));
    }
    let outputs = object("--outputs", &settings.outputs)?;
    if let Some((name, _)) = outputs.iter().find(|(_, values)| !values.is_object()) {
        return Err(Failure::usage(format!(
            "--outputs must have an object of outputs for {name}"
        )));
    }
    Ok(ExpressionRequest {
        kind: settings.kind.clone(),
        value: text(settings)?.into(),
        type_name: Some(settings.convert_to.clone()),
        scope: ScriptScope {
            variables: object("--variables", &settings.variables)?,
            inputs: object("--inputs", &settings.inputs)?,
            outputs,
            last_result: None,
            hides_secrets: false,
            workflow: WorkflowFacts {
                instance_id: settings.instance_id.clone().unwrap_or_default(),
                correlation_id: settings.correlation_id.clone(),
                name: settings.instance_name.clone(),
                ..WorkflowFacts::default()
            },
            ..ScriptScope::default()
        },
    })
}

fn text(settings: &EvalSettings) -> Result<String, Failure> {
    match (&settings.value, &settings.file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(file)) if file != Path::new("-") => read_file(file),
        (None, _) => read(io::stdin().lock(), "standard input"),
    }
}

/// A JSON object, as it is or in a file.
fn object(flag: &str, given: &str) -> Result<Map<String, Value>, Failure> {
    let text = match given.strip_prefix('@') {
        Some(file) => read_file(Path::new(file))?,
        None => given.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Failure::usage(format!("{flag} must be a JSON object"))),
        Err(error) => Err(Failure::usage(format!("{flag} is not JSON: {error}"))),
    }
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| Failure::usage(format!("{shown} cannot be opened: {error}")))?;
    read(file, &shown.to_string())
}

fn read(from: impl Read, what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = from.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("{what} cannot be read as text: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{what} has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}
