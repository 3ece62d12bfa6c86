//! Where the children of an activity are in its JSON. The compiler, the validation and the node ids of designers all walk
//! the tree by it, in the same order: ids that are made for activities without one depend on that order.

use serde_json::{Map, Value};

use super::{Descriptor, camel_case};

/// The property of a container with its children.
pub(crate) const ACTIVITIES: &str = "activities";

/// The property of a switch with its cases: `{label, condition: {type, value}, activity}`.
pub(crate) const CASES: &str = "cases";

/// The property of a case with its child.
pub(crate) const CASE_ACTIVITY: &str = "activity";

/// The property of a state machine with its states.
pub(crate) const STATES: &str = "states";

/// The property of a state machine with its transitions.
pub(crate) const TRANSITIONS: &str = "transitions";

/// The property of a request with the status codes that it expects: `{statusCode, activity}`.
pub(crate) const EXPECTED_STATUS_CODES: &str = "expectedStatusCodes";

/// A list of items with children of their own: its property, and the properties of an item that hold one child each.
pub(crate) type ItemChildren = (&'static str, &'static [&'static str]);

/// A property of an activity that holds children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildProperty {
    /// One child: the port, and the property.
    One(String, String),
    /// A list of children: the port, and the property.
    List(String, String),
    /// [`CASES`], each with one child or none.
    Cases,
    /// A list of items, each with a child or none in each of these properties.
    ItemChildren(ItemChildren),
}

impl ChildProperty {
    /// The properties of a type, in the order in which their children are compiled.
    pub(crate) fn of(descriptor: &Descriptor) -> Vec<Self> {
        let ports = descriptor.ports.iter();
        let ports = ports.map(|port| Self::One(port.clone(), camel_case(port)));
        let cases = descriptor.has_cases.then_some(Self::Cases);
        let items = descriptor.item_children.iter().copied().map(Self::ItemChildren);
        let lists = descriptor.lists.iter();
        let lists = lists.map(|port| Self::List(port.clone(), camel_case(port)));
        let container = descriptor.is_container.then(Self::activities);
        ports.chain(cases).chain(items).chain(lists).chain(container).collect()
    }

    /// The children of a container.
    pub(crate) fn activities() -> Self {
        Self::List(ACTIVITIES.to_owned(), ACTIVITIES.to_owned())
    }

    /// Its name in the JSON.
    pub(crate) fn property(&self) -> &str {
        match self {
            Self::One(_, property) | Self::List(_, property) => property,
            Self::Cases => CASES,
            Self::ItemChildren((property, _)) => property,
        }
    }

    /// The children in it, each with the port that designers show it in.
    pub(crate) fn children<'a>(&self, fields: &'a Map<String, Value>) -> Vec<(String, &'a Value)> {
        let Some(held) = fields.get(self.property()) else {
            return Vec::new();
        };
        let items = held.as_array().into_iter().flatten();
        match self {
            Self::One(port, _) => vec![(port.clone(), held)],
            Self::List(port, _) => items.map(|child| (port.clone(), child)).collect(),
            Self::Cases => items
                .filter_map(|case| {
                    let label = case.get("label").and_then(Value::as_str).unwrap_or_default();
                    Some((label.to_owned(), case.get(CASE_ACTIVITY)?))
                })
                .collect(),
            // Elsa has a port for each code.
            Self::ItemChildren((EXPECTED_STATUS_CODES, _)) => items
                .filter_map(|item| {
                    let code = match item.get("statusCode") {
                        Some(Value::String(code)) => code.clone(),
                        Some(code) => code.to_string(),
                        None => "0".to_owned(),
                    };
                    Some((code, item.get(CASE_ACTIVITY)?))
                })
                .collect(),
            // And one port for all parts of a state machine.
            Self::ItemChildren((_, names)) => items
                .flat_map(|item| names.iter().filter_map(|name| item.get(name)))
                .map(|child| (SLOTS_PORT.to_owned(), child))
                .collect(),
        }
    }

    /// The children in it, to be changed.
    pub(crate) fn children_mut<'a>(&self, fields: &'a mut Map<String, Value>) -> Vec<&'a mut Value> {
        let Some(held) = fields.get_mut(self.property()) else {
            return Vec::new();
        };
        match (self, held) {
            (Self::One(..), held) => vec![held],
            (Self::List(..), Value::Array(items)) => items.iter_mut().collect(),
            (Self::Cases, Value::Array(items)) => items
                .iter_mut()
                .filter_map(|case| case.get_mut(CASE_ACTIVITY))
                .collect(),
            (Self::ItemChildren((_, names)), Value::Array(items)) => items
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .flat_map(|item| {
                    let place = |name: &str| names.iter().position(|one| *one == name);
                    let children = item.iter_mut().filter_map(|(name, child)| Some((place(name)?, child)));
                    let mut children: Vec<(usize, &mut Value)> = children.collect();
                    children.sort_by_key(|(place, _)| *place);
                    children.into_iter().map(|(_, child)| child)
                })
                .collect(),
            (Self::List(..) | Self::Cases | Self::ItemChildren(..), _) => Vec::new(),
        }
    }
}

/// The port that designers show the children of all items in.
const SLOTS_PORT: &str = "Activities";

/// The port of the child in a property of an item, in the compiled tree.
pub(crate) fn item_port(property: &str, number: usize, name: &str) -> String {
    format!("{property}[{number}].{name}")
}

/// The input with the condition of a transition.
pub(crate) fn transition_condition(number: usize) -> String {
    format!("Transitions[{number}].Condition")
}

/// The port of the child of a case, in the compiled tree: labels need not be unique.
pub(crate) fn case_port(number: usize) -> String {
    format!("Cases[{number}]")
}

/// The input with the condition of a case.
pub(crate) fn case_condition(number: usize) -> String {
    format!("Cases[{number}].Condition")
}
