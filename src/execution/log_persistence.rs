//! Which values of an activity are recorded: Elsa's `logPersistenceConfig`, and the older `logPersistenceMode`.
//!
//! Both are custom properties of the workflow and of activities: `default`, and for an activity `inputs`, `outputs` and
//! `internalState`. Excluded values are in neither the journal nor the activity executions; the state has them as long
//! as the instance needs them. A value that may hold a secret is never recorded, whatever the settings say: see
//! `journal`.

use std::collections::{BTreeMap, HashMap};

use mainspring_language::short_type_name;
use serde_json::{Map, Value};

use crate::activity::{ActivityNode, ActivityTree, NodeIndex, camel_case};
use crate::definition::WorkflowDefinition;

const CONFIG: &str = "logPersistenceConfig";
const LEGACY: &str = "logPersistenceMode";

/// Elsa's words for a mode, whose places are its numbers.
const MODES: [&str; 3] = ["Inherit", "Include", "Exclude"];

/// What is recorded of the activities of a definition.
#[derive(Clone, Debug, Default)]
pub(super) struct LogPersistence {
    /// The workflow excludes what nothing else includes.
    is_excluded: bool,
    /// Activities with settings of their own.
    nodes: HashMap<NodeIndex, NodePersistence>,
}

/// What is recorded of one activity.
#[derive(Clone, Debug)]
struct NodePersistence {
    is_excluded: bool,
    /// By name in camel case: whether it is excluded.
    inputs: BTreeMap<String, bool>,
    outputs: BTreeMap<String, bool>,
    internal_state: bool,
}

/// Which values of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded<'n> {
    Input(&'n str),
    Output(&'n str),
    InternalState,
}

impl LogPersistence {
    pub(super) fn of(definition: &WorkflowDefinition, tree: &ActivityTree) -> Self {
        let is_excluded = default_of(&definition.custom_properties).unwrap_or(false);
        let nodes = tree
            .iter()
            .filter_map(|node| Some((node.index, of_node(node, is_excluded)?)));
        Self {
            is_excluded,
            nodes: nodes.collect(),
        }
    }

    /// Whether everything is recorded.
    fn is_whole(&self) -> bool {
        !self.is_excluded && self.nodes.is_empty()
    }

    pub(super) fn includes(&self, node: NodeIndex, value: Recorded<'_>) -> bool {
        let Some(own) = self.nodes.get(&node) else {
            return !self.is_excluded;
        };
        let named = |settings: &BTreeMap<String, bool>, name: &str| {
            settings.get(&camel_case(name)).copied().unwrap_or(own.is_excluded)
        };
        !match value {
            Recorded::Input(name) => named(&own.inputs, name),
            Recorded::Output(name) => named(&own.outputs, name),
            Recorded::InternalState => own.internal_state,
        }
    }

    /// Leaves out what is not recorded of inputs and outputs.
    pub(super) fn retain(&self, node: NodeIndex, values: &mut Value, is_output: impl Fn(&str) -> bool) {
        if self.is_whole() {
            return;
        }
        if let Value::Object(values) = values {
            values.retain(|name, _| {
                let value = if is_output(name) {
                    Recorded::Output(name)
                } else {
                    Recorded::Input(name)
                };
                self.includes(node, value)
            });
        }
    }
}

fn of_node(node: &ActivityNode, inherited: bool) -> Option<NodePersistence> {
    let properties = node.property("customProperties").and_then(Value::as_object);
    let empty = Map::new();
    let properties = properties.unwrap_or(&empty);
    let section = |key: &str| {
        properties
            .get(key)
            .or_else(|| node.property(key))
            .and_then(Value::as_object)
    };
    let (config, legacy) = (section(CONFIG), section(LEGACY));
    if config.is_none() && legacy.is_none() {
        return None;
    }
    let default = config
        .and_then(|config| config.get("default"))
        .map_or_else(|| legacy.and_then(|legacy| word(legacy.get("default")?)), setting);
    let is_excluded = default.unwrap_or(inherited);
    let of_section = |name: &str| {
        let values =
            |section: Option<&Map<String, Value>>| section.and_then(|section| section.get(name)?.as_object().cloned());
        let mut all = BTreeMap::new();
        for (key, value) in values(legacy).unwrap_or_default() {
            all.insert(camel_case(&key), word(&value).unwrap_or(is_excluded));
        }
        for (key, value) in values(config).unwrap_or_default() {
            if !value.is_null() {
                all.insert(camel_case(&key), setting(&value).unwrap_or(is_excluded));
            }
        }
        all
    };
    let internal_state = config.and_then(|config| config.get("internalState")).and_then(setting);
    Some(NodePersistence {
        is_excluded,
        inputs: of_section("inputs"),
        outputs: of_section("outputs"),
        internal_state: internal_state.unwrap_or(is_excluded),
    })
}

/// The default of a workflow; `None` when it inherits.
fn default_of(properties: &Map<String, Value>) -> Option<bool> {
    let config = properties.get(CONFIG).and_then(|config| config.get("default"));
    match config.filter(|config| !config.is_null()) {
        Some(config) => setting(config),
        None => word(properties.get(LEGACY)?.get("default")?),
    }
}

/// Whether a setting `{evaluationMode, strategyType, expression}` excludes; `None` when it inherits. A bare word is the
/// mode.
fn setting(value: &Value) -> Option<bool> {
    let Some(fields) = value.as_object() else {
        return word(value);
    };
    if is_expression(fields) {
        let expression = fields.get("expression")?;
        return word(expression.get("value").unwrap_or(expression));
    }
    let strategy = fields.get("strategyType").and_then(Value::as_str)?;
    word(&Value::from(short_type_name(strategy)))
}

/// `evaluationMode` is `Strategy` (0) or `Expression` (1).
fn is_expression(fields: &Map<String, Value>) -> bool {
    match fields.get("evaluationMode") {
        Some(Value::String(mode)) => mode.eq_ignore_ascii_case("Expression"),
        Some(mode) => mode.as_i64() == Some(1),
        None => false,
    }
}

/// Whether a mode, by its word or its number, excludes; `None` when it inherits.
fn word(value: &Value) -> Option<bool> {
    let place = match value {
        Value::String(word) => MODES.iter().position(|mode| mode.eq_ignore_ascii_case(word.trim())),
        number => number.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    match place {
        Some(1) => Some(false),
        Some(2) => Some(true),
        _ => None,
    }
}

/// The expressions of settings that cannot be evaluated, by where they are; only literals are.
pub(super) fn foreign_expressions(settings: &Map<String, Value>) -> Vec<(String, String)> {
    let Some(config) = settings.get(CONFIG).and_then(Value::as_object) else {
        return Vec::new();
    };
    let kind_of = |value: &Value| {
        let fields = value.as_object().filter(|fields| is_expression(fields))?;
        let kind = fields.get("expression")?.get("type")?.as_str()?;
        (!kind.eq_ignore_ascii_case("Literal")).then(|| kind.to_owned())
    };
    let mut found = Vec::new();
    for (name, value) in config {
        found.extend(kind_of(value).map(|kind| (name.clone(), kind)));
        if ["inputs", "outputs"].contains(&name.as_str()) {
            let entries = value.as_object().into_iter().flatten();
            found.extend(entries.filter_map(|(key, value)| Some((format!("{name}.{key}"), kind_of(value)?))));
        }
    }
    found
}
