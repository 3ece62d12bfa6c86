//! The built-in activities read what they declare, and declare what they read: their source is compared with their
//! descriptors.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Catalogue, Descriptor, UiHint, camel_case};
use crate::expression::{TypeName, coerce, script_activities};
use crate::schedule::Schedule;

/// What the code of an activity type names.
#[derive(Clone, Debug, Default)]
struct Named {
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
    ports: BTreeSet<String>,
    /// It reads its inputs as those of a schedule.
    is_schedule: bool,
}

/// The production code of the built-in activities, by file.
fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/activity");
    let mut files = Vec::new();
    for folder in ["", "flowchart", "http", "mail"].map(|name| folder.join(name)) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // What a workflow as an activity reads is in its definition.
            if path.is_file() && !path.ends_with("tests.rs") && !path.ends_with("nested.rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
            }
        }
    }
    files
}

/// The text from the first `open` on to the `close` that belongs to it.
fn enclosed(text: &str, open: char, close: char) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return &text[..at];
            }
        }
    }
    text
}

/// Every function of a file outside of types, by its name.
fn functions(file: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for start in ["\nfn ", "\nasync fn ", "\npub(super) fn "] {
        for (at, _) in file.match_indices(start) {
            let rest = &file[at + start.len()..];
            let name = rest.split(['(', '<']).next().unwrap();
            found.insert(name, enclosed(rest, '{', '}'));
        }
    }
    found
}

/// A block and the functions of its file that it calls.
fn with_callees(block: &str, functions: &BTreeMap<&str, &str>) -> String {
    let mut text = block.to_owned();
    let mut seen = HashSet::new();
    loop {
        let called = functions.iter().find(|(name, _)| {
            let call = format!("{name}(");
            let is_called = text.match_indices(&call).any(|(at, _)| {
                let before = &text[..at];
                let is_whole = before.ends_with(|c: char| !c.is_alphanumeric() && !"._:".contains(c));
                is_whole && !before.ends_with("fn ")
            });
            is_called && !seen.contains(*name)
        });
        let Some((name, body)) = called else { return text };
        seen.insert(*name);
        text.push_str(body);
    }
}

/// The texts in quotes after each of these calls, only the first one or all of an argument list.
fn literals(text: &str, call: &str, all: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(call) {
        let arguments = enclosed(&text[at + call.len() - 1..], '(', ')');
        let quoted = arguments.split('"').skip(1).step_by(2);
        if all {
            found.extend(quoted.map(str::to_owned));
        } else if arguments.trim_start_matches('(').trim_start().starts_with('"') {
            found.extend(quoted.take(1).map(str::to_owned));
        }
    }
    found
}

fn pascal(name: &str) -> String {
    let mut chars = name.chars();
    chars
        .next()
        .map(char::to_uppercase)
        .into_iter()
        .flatten()
        .chain(chars)
        .collect()
}

/// What each activity type names in its code.
fn named() -> BTreeMap<String, Named> {
    let files = sources();
    let constant = |name: &str| {
        let declared = format!("const {name}: &str = \"");
        let rest = files.iter().find_map(|file| Some(file.split_once(&declared)?.1));
        rest.unwrap_or_else(|| panic!("no constant {name}"))
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    let mut all = BTreeMap::new();
    for file in &files {
        let functions = functions(file);
        for (at, _) in file.match_indices("impl Activity for ") {
            let block = enclosed(&file[at..], '{', '}');
            let descriptor = enclosed(&block[block.find("fn descriptor").unwrap()..], '{', '}');
            let type_names = match descriptor
                .split_once("\n        Descriptor::new(")
                .unwrap_or(("", ""))
                .1
            {
                literal if literal.starts_with('"') => vec![literal[1..].split('"').next().unwrap().to_owned()],
                of_languages if of_languages.starts_with("&self.0") => {
                    script_activities().map(|(name, _)| name).collect()
                }
                // The common part of schedules, and of requests, is a function, which gets the name.
                // What settings name.
                "" if descriptor.contains("self.descriptor") => continue,
                "" => {
                    let mut names = literals(descriptor, "described(", false);
                    names.extend(literals(descriptor, "base(", false));
                    vec![names.pop_first().unwrap()]
                }
                other => vec![constant(other.split(')').next().unwrap())],
            };
            let code = with_callees(&block.replace(descriptor, ""), &functions);
            let mut named = Named {
                outputs: literals(&code, ".set_output(", false),
                ports: literals(&code, ".port(", true),
                is_schedule: code.contains("Schedule::from_inputs("),
                ..Named::default()
            };
            for call in [
                ".input(",
                ".text(",
                ".read(",
                ".evaluate(",
                ".evaluate_with(",
                "inputs.get(",
            ] {
                named.inputs.extend(literals(&code, call, false));
            }
            let raw = literals(&code, ".node().property(", false);
            named.inputs.extend(raw.iter().map(|name| pascal(name)));
            all.extend(type_names.into_iter().map(|type_name| (type_name, named.clone())));
        }
    }
    // The flowchart evaluates the mode of a join, before the join itself is due.
    let of_joins = files.iter().flat_map(|file| {
        let calls = file
            .match_indices("evaluate_input_of(node, ")
            .map(|(at, _)| &file[at..]);
        calls.filter_map(|call| call.split('"').nth(1).map(str::to_owned))
    });
    all.get_mut("Elsa.FlowJoin").unwrap().inputs.extend(of_joins);
    // What clients of Elsa set for these, and no code reads.
    for type_name in ["Elsa.DispatchWorkflow", "Elsa.BulkDispatchWorkflows"] {
        let inputs = &mut all.get_mut(type_name).unwrap().inputs;
        inputs.extend(["StartNewTrace", "ChannelName"].map(str::to_owned));
    }
    let file_response = &mut all.get_mut("Elsa.WriteFileHttpResponse").unwrap().inputs;
    file_response.insert("DownloadCorrelationId".to_owned());
    // The designer draws these outcomes, and no code reads them.
    for (type_name, _) in script_activities() {
        let inputs = &mut all.get_mut(&type_name).unwrap().inputs;
        inputs.insert("PossibleOutcomes".to_owned());
    }
    // As Elsa's own, this names no child by a port: the first of them is a property.
    all.get_mut("Elsa.Flowchart").unwrap().inputs.remove("Start");
    all
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    names.cloned().collect()
}

/// Types whose inputs and outputs are named by functions of other files.
const ELSEWHERE: [&str; 4] = [
    "Elsa.SendHttpRequest",
    "Elsa.FlowSendHttpRequest",
    "Elsa.DownloadHttpFile",
    "Elsa.SendEmail",
];

#[test]
fn activities_read_what_they_declare_and_declare_what_they_read() {
    let named = named();
    let catalogue = Catalogue::standard();
    assert_eq!(named.len(), catalogue.descriptors().len());
    for descriptor in catalogue.descriptors() {
        let type_name = &descriptor.type_name;
        if ELSEWHERE.contains(&type_name.as_str()) {
            continue;
        }
        let code = named.get(type_name);
        let code = code.unwrap_or_else(|| panic!("the code of {type_name} was not found in {:?}", named.keys()));
        assert_eq!(
            code.outputs,
            names(descriptor.outputs.iter().map(|it| &it.name)),
            "outputs of {type_name}"
        );
        assert_eq!(code.ports, names(descriptor.ports.iter()), "ports of {type_name}");
        if code.is_schedule {
            reads_as_schedule(descriptor);
        } else {
            let declared = names(descriptor.inputs.iter().map(|it| &it.name));
            assert_eq!(code.inputs, declared, "inputs of {type_name}");
        }
    }
}

/// A schedule names what it cannot read, and writes what it has read.
fn reads_as_schedule(descriptor: &Descriptor) {
    let type_name = &descriptor.type_name;
    let declared: BTreeSet<String> = descriptor.inputs.iter().map(|it| camel_case(&it.name)).collect();
    for name in &declared {
        let wrong = Map::from_iter([(name.clone(), json!([[]]))]);
        let error = Schedule::from_inputs(&wrong).unwrap_err();
        let is_read = error.fields().iter().any(|(field, _)| field == name);
        assert!(is_read, "{type_name} does not read {name}: {error:?}");
    }
    let valid = json!({"interval": "00:01:00", "cronExpression": "0 9 * * *", "dateTime": "2030-01-01T00:00:00Z",
        "timeSpan": "00:01:00"});
    let own = valid
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| declared.contains(*name));
    let own: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    assert_eq!(own.len(), 1, "{type_name} has one kind of time: {own:?}");
    let written = Schedule::from_inputs(&own).unwrap().to_inputs();
    // A delay has none of the options.
    if type_name != "Elsa.Delay" {
        let missing: Vec<&String> = written.keys().filter(|name| !declared.contains(*name)).collect();
        assert!(missing.is_empty(), "{type_name} lacks {missing:?}");
    }
}

#[test]
fn every_descriptor_is_fit_for_a_designer() {
    let catalogue = Catalogue::standard();
    let placeholder = Descriptor::placeholder();
    let mut seen = HashSet::new();
    for descriptor in catalogue.descriptors().into_iter().chain([&placeholder]) {
        let type_name = &descriptor.type_name;
        assert!(
            seen.insert((type_name.clone(), descriptor.version)),
            "{type_name} twice"
        );
        for text in [&descriptor.category, &descriptor.display_name, &descriptor.description] {
            assert!(!text.is_empty(), "{descriptor:?}");
        }
        for input in &descriptor.inputs {
            assert!(!input.description.is_empty(), "{type_name}.{}", input.name);
            assert_eq!(pascal(&input.name), input.name, "{type_name}");
            let Some(default) = &input.default else { continue };
            let kind = TypeName::parse(&input.type_name, false);
            assert_eq!(
                coerce(default.clone(), &kind).unwrap(),
                *default,
                "{type_name}.{}",
                input.name
            );
            if let UiHint::Dropdown(choices) = &input.ui_hint {
                assert!(
                    choices.iter().any(|choice| *default == choice.value),
                    "{type_name}.{}",
                    input.name
                );
            }
        }
        for output in &descriptor.outputs {
            assert!(!output.description.is_empty(), "{type_name}.{}", output.name);
        }
    }
    for hidden in ["Elsa.Workflow", "Elsa.Flowchart", "Elsa.Sequence"] {
        assert!(catalogue.descriptor(hidden, 1).unwrap().is_hidden, "{hidden}");
    }
    assert!(placeholder.is_hidden && catalogue.descriptor(&placeholder.type_name, 1).is_none());
}
