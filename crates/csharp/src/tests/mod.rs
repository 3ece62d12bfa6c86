//! The language: a table of rules, problems, hostile scripts, and random texts.

mod battery;
mod bounds;
mod problems;
mod random;
mod regexes;
mod rules;
mod types;

use std::collections::HashMap;
use std::thread;
use std::time::SystemTime;

use serde_json::{Value as Json, json};

use super::{Bounds, DeclaredType, Names, Outcome, Problem, Script, World};

/// Variables with their declared types and values.
fn declared() -> Vec<(&'static str, &'static str, Json)> {
    vec![
        ("Count", "Int32", json!(7)),
        ("Zero", "Int32", json!(0)),
        ("Unset", "Int32", json!(null)),
        ("Price", "Decimal", json!(12.5)),
        ("Ratio", "Double", json!(0.25)),
        ("Name", "String", json!("Ada Lovelace")),
        ("Nothing", "String", json!(null)),
        ("Flag", "Boolean", json!(true)),
        ("When", "DateTime", json!("2024-02-29T13:45:30Z")),
        ("Items", "List<String>", json!(["b", "a", "c"])),
        ("Numbers", "List<Int32>", json!([3, 1, 2])),
        (
            "Order",
            "Object",
            json!({"Id": 7, "Customer": {"Name": "Ada"},
                "Lines": [{"Sku": "x", "Qty": 2, "Price": 1.5}, {"Sku": "y", "Qty": 3, "Price": 2.0}]}),
        ),
    ]
}

struct Fixture {
    variables: HashMap<&'static str, (DeclaredType, Json)>,
}

impl Fixture {
    fn new() -> Self {
        let all = declared().into_iter();
        let variables = all.map(|(name, ty, value)| (name, (DeclaredType::named(ty, false), value)));
        Self {
            variables: variables.collect(),
        }
    }
}

impl World for Fixture {
    fn variable(&self, name: &str) -> Option<Json> {
        self.variables.get(name).map(|(_, value)| value.clone())
    }

    fn variable_names(&self) -> Vec<String> {
        self.variables.keys().map(|name| (*name).to_owned()).collect()
    }

    fn variable_type(&self, name: &str) -> DeclaredType {
        self.variables.get(name).map(|(ty, _)| ty.clone()).unwrap_or_default()
    }

    fn input(&self, name: &str) -> Option<Json> {
        (name == "Limit").then(|| json!(10))
    }

    fn output(&self, activity: &str, output: Option<&str>) -> Option<Json> {
        match (activity, output) {
            ("Sum1", None) => Some(json!("res")),
            ("Sum1", Some("Total")) => Some(json!(5)),
            _ => None,
        }
    }

    fn last_result(&self) -> Option<Json> {
        Some(json!("last"))
    }

    fn instance_id(&self) -> String {
        "instance-1".to_owned()
    }

    fn correlation_id(&self) -> Option<String> {
        Some("corr".to_owned())
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

fn names() -> Names {
    let variables = declared().into_iter();
    let typed = variables.map(|(name, ty, _)| (name.to_owned(), DeclaredType::named(ty, false)));
    let inputs = [("Limit".to_owned(), DeclaredType::named("Int32", false))];
    let mut names = Names::new(typed.collect(), inputs.into());
    names.is_activity = true;
    names
}

fn bounds() -> Bounds<'static> {
    Bounds {
        steps: 1_000_000,
        // Other tests measure the memory of this process.
        bytes: 8 << 20,
        result_bytes: 4 << 20,
        caller: None,
    }
}

/// Does it on a stack of the size that scripts need.
fn on_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let started = thread::Builder::new()
            .stack_size(Script::STACK)
            .spawn_scoped(scope, work);
        started.unwrap().join().unwrap()
    })
}

fn compile(text: &str) -> Result<Script, Problem> {
    on_stack(|| Script::compile(text, &names()))
}

/// Compiles and runs; a problem begins with `?`, an exception with `!`.
fn evaluate(text: &str) -> Result<Outcome, String> {
    on_stack(|| {
        let script = Script::compile(text, &names()).map_err(|problem| format!("?{problem}"))?;
        script.run(&Fixture::new(), bounds()).map_err(|stop| format!("!{stop}"))
    })
}
