//! States that have names of their own, transitions between states that exist, and a state to begin with.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::shown::short;
use crate::activity::{ActivityNode, STATES, TRANSITIONS, item_port};
use crate::definition::{ActivityTitle, Problems, ValidationError};
use crate::shortened::shortened;

/// How many names of states a message lists.
const MOST_NAMES: usize = 10;

/// Anything but a list of objects is reported with the structure.
pub(super) fn check(fields: &Map<String, Value>, whose: ActivityTitle<'_>, errors: &mut Problems) {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut known = Vec::new();
    for (number, state) in objects(fields.get(STATES)) {
        let name = state.get("name").unwrap_or(&Value::Null);
        let Some(text) = name.as_str().filter(|name| !name.trim().is_empty()) else {
            let message = format!(
                "{STATES}[{number}].name of the activity {whose} is {}; give the state a name of its own",
                short(name)
            );
            errors.push(ValidationError::of(whose.id(), message));
            continue;
        };
        match names.get(text) {
            None => {
                names.insert(text, number);
                known.push(text);
            }
            Some(first) => {
                let message = format!(
                    "{STATES}[{number}].name of the activity {whose} is {}, as that of {STATES}[{first}]; give each state a \
                     name of its own",
                    short(name)
                );
                errors.push(ValidationError::of(whose.id(), message));
            }
        }
    }
    for (number, transition) in objects(fields.get(TRANSITIONS)) {
        if errors.is_full() {
            return;
        }
        for (end, wrong) in [("from", "comes from"), ("to", "leads to")] {
            let name = transition.get(end).unwrap_or(&Value::Null);
            if name.as_str().is_some_and(|name| names.contains_key(name)) {
                continue;
            }
            let message = format!(
                "{TRANSITIONS}[{number}].{end} of the activity {whose} is {}: the transition {wrong} no state; {}",
                short(name),
                remedy(&known)
            );
            errors.push(ValidationError::of(whose.id(), message));
        }
    }
}

/// A state machine that completes at once, and transitions that are never taken.
pub(super) fn warn(node: &ActivityNode, warnings: &mut Problems) {
    let names: Vec<&str> = objects(node.property(STATES))
        .filter_map(|(_, state)| state.get("name").and_then(Value::as_str))
        .collect();
    let given = |property: &'static str| {
        let value = node.property(property).filter(|value| !value.is_null())?;
        let is_blank = value.as_str().is_some_and(|name| name.trim().is_empty());
        (!is_blank).then_some((property, value))
    };
    let start = given("currentState").or_else(|| given("initialState"));
    let problem = match start {
        None => Some("it has no initialState".to_owned()),
        Some((property, name)) => {
            let is_known = name.as_str().is_some_and(|name| names.contains(&name));
            (!is_known).then(|| format!("its {property} is {}, which is none of its states", short(name)))
        }
    };
    if let Some(problem) = problem {
        let message = format!(
            "The state machine {} has no start and completes at once: {problem}; {}",
            node.title(),
            remedy(&names)
        );
        warnings.push(ValidationError::of(&node.id, message));
    }
    let ports: HashSet<&str> = node.ports.iter().map(|(port, _)| port.as_str()).collect();
    for (number, _) in objects(node.property(TRANSITIONS)) {
        let port = item_port(TRANSITIONS, number, "trigger");
        if !ports.contains(port.as_str()) {
            let message = format!(
                "{TRANSITIONS}[{number}] of the state machine {} has no trigger, so it is never taken; add an activity to \
                 wait for, or remove the transition",
                node.title()
            );
            warnings.push(ValidationError::of(&node.id, message));
        }
    }
}

fn objects(items: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
    let items = items.and_then(Value::as_array).into_iter().flatten();
    items.enumerate().filter(|(_, item)| item.is_object())
}

/// The states to name instead.
fn remedy(known: &[&str]) -> String {
    match known {
        [] => format!("add a state to its property {STATES}"),
        known => {
            let listed: Vec<_> = known.iter().take(MOST_NAMES).map(|name| shortened(name, 100)).collect();
            let more = if known.len() > MOST_NAMES { ", …" } else { "" };
            format!("name one of its states: {}{more}", listed.join(", "))
        }
    }
}
