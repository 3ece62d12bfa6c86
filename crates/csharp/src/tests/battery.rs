//! `battery.json`: scripts that people write in workflows, with what .NET and Elsa give for them.
//!
//! `expected` is a value of JSON, or `{"$fault": text}` for an exception or a problem with that text. `refused` has the text of
//! the problem of a script that uses what this crate lacks; `differs` has the value that is given here instead, and the reason.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value as Json;

use super::{DeclaredType, Names, Script, World, bounds, on_stack};

const BATTERY: &str = include_str!("battery.json");

struct Instance {
    variables: BTreeMap<String, (DeclaredType, Json)>,
    inputs: BTreeMap<String, (DeclaredType, Json)>,
    /// Of variables that are declared nowhere.
    undeclared: BTreeMap<String, Json>,
    outputs: BTreeMap<String, Json>,
    correlation_id: Option<String>,
}

impl Instance {
    fn of(entry: &Json) -> Self {
        let declared = |key: &str| {
            let all = entry[key].as_object().into_iter().flatten();
            let typed = all.map(|(name, one)| {
                let ty = DeclaredType::named(one["type"].as_str().unwrap(), false);
                (name.clone(), (ty, one["value"].clone()))
            });
            typed.collect()
        };
        let plain = |key: &str| {
            let all = entry[key].as_object().into_iter().flatten();
            all.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        Self {
            variables: declared("variables"),
            inputs: declared("inputs"),
            undeclared: plain("undeclared"),
            outputs: plain("outputs"),
            correlation_id: entry["correlationId"].as_str().map(str::to_owned),
        }
    }

    fn names(&self) -> Names {
        let types = |of: &BTreeMap<String, (DeclaredType, Json)>| {
            of.iter().map(|(name, (ty, _))| (name.clone(), ty.clone())).collect()
        };
        Names::new(types(&self.variables), types(&self.inputs))
    }
}

impl World for Instance {
    fn variable(&self, name: &str) -> Option<Json> {
        let declared = self.variables.get(name).map(|(_, value)| value);
        declared.or_else(|| self.undeclared.get(name)).cloned()
    }

    fn variable_names(&self) -> Vec<String> {
        self.variables.keys().chain(self.undeclared.keys()).cloned().collect()
    }

    fn variable_type(&self, name: &str) -> DeclaredType {
        self.variables.get(name).map(|(ty, _)| ty.clone()).unwrap_or_default()
    }

    fn input(&self, name: &str) -> Option<Json> {
        self.inputs.get(name).map(|(_, value)| value.clone())
    }

    fn output(&self, activity: &str, _output: Option<&str>) -> Option<Json> {
        self.outputs.get(activity).cloned()
    }

    fn last_result(&self) -> Option<Json> {
        self.outputs.values().next().cloned()
    }

    fn instance_id(&self) -> String {
        "instance-1".to_owned()
    }

    fn correlation_id(&self) -> Option<String> {
        self.correlation_id.clone()
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

fn is_same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (a - b).abs() < 1e-12
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// What a script comes to; a problem begins with `?`, an exception with `!`.
fn outcome(entry: &Json) -> Result<Json, String> {
    let world = Instance::of(entry);
    on_stack(|| {
        let text = entry["code"].as_str().unwrap();
        let script = Script::compile(text, &world.names()).map_err(|problem| format!("?{problem}"))?;
        let ended = script.run(&world, bounds()).map_err(|stop| format!("!{stop}"))?;
        Ok(ended.value)
    })
}

#[test]
fn every_script_of_the_battery_gives_what_dotnet_gives() {
    let entries: Vec<Json> = serde_json::from_str(BATTERY).unwrap();
    assert!(entries.len() >= 300, "{}", entries.len());
    let (mut passed, mut refused, mut wrong) = (0, 0, Vec::new());
    for entry in &entries {
        let result = outcome(entry);
        let expected = &entry["expected"];
        let differs = entry.get("differs").map(|differs| &differs["value"]);
        let expected = differs.unwrap_or(expected);
        let is_right = match (&result, entry["refused"].as_str(), expected["$fault"].as_str()) {
            (Err(message), Some(text), _) => {
                refused += 1;
                message.starts_with('?') && message.contains(text)
            }
            (Err(message), None, Some(text)) => message.contains(text),
            (Ok(value), None, None) => is_same(value, expected),
            _ => false,
        };
        if is_right {
            passed += usize::from(entry["refused"].is_null());
            continue;
        }
        let shown = result.map_or_else(|message| message, |value| value.to_string());
        let wanted = entry["refused"]
            .as_str()
            .map_or_else(|| expected.to_string(), |text| format!("?… {text}"));
        wrong.push(format!(
            "{}\n    is     {shown}\n    not    {wanted}",
            entry["code"].as_str().unwrap()
        ));
    }
    assert!(
        wrong.is_empty(),
        "{passed} passed, {refused} refused, {} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
