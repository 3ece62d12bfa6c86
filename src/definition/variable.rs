//! Variables of a workflow or of a container, and the declared inputs and outputs of a workflow.

use std::borrow::Cow;

use serde_json::Value;

/// A variable as a workflow or a container declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The target of memory references. Never empty: a variable without an id has its name as id.
    pub id: String,
    /// The name in scripts.
    pub name: String,
    /// Elsa's type name: an alias such as `Int32`, or a .NET type name.
    pub type_name: String,
    /// The value is a list of that type.
    pub is_array: bool,
    /// The initial value, as text or JSON, not yet converted to the type.
    pub default: Option<Value>,
    /// Elsa's memory driver: the value is kept until the instance waits, and is then the initial one again.
    pub is_in_memory: bool,
}

impl Variable {
    /// Elsa's name of its type, with `[]` if it is a list.
    pub fn full_type_name(&self) -> Cow<'_, str> {
        full_type_name(&self.type_name, self.is_array)
    }

    /// Reads the value of `variables`; entries without id and name are left out.
    pub fn list(value: Option<&Value>) -> Vec<Self> {
        let entries = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut unnamed = 0;
        entries
            .iter()
            .filter_map(|entry| {
                let mut variable = Self::parse(entry)?;
                if variable.name.trim().is_empty() {
                    unnamed += 1;
                    variable.name = format!("Variable{unnamed}");
                }
                Some(variable)
            })
            .collect()
    }

    fn parse(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, name) = (text("id"), text("name"));
        let id = if id.is_empty() { name.clone() } else { id };
        if id.is_empty() {
            return None;
        }
        Some(Self {
            id,
            name,
            type_name: text("typeName"),
            is_array: entry.get("isArray").and_then(Value::as_bool).unwrap_or(false),
            default: entry.get("value").filter(|value| !value.is_null()).cloned(),
            is_in_memory: is_memory_driver(&text("storageDriverTypeName")),
        })
    }
}

/// Whether a storage driver, by its short name or Elsa's type name, is the one in memory. Every other driver keeps the value
/// with the instance.
fn is_memory_driver(name: &str) -> bool {
    let full = name.split(',').next().unwrap_or_default().trim();
    let short = full.rsplit('.').next().unwrap_or_default();
    ["Memory", "MemoryStorageDriver"].contains(&short)
}

fn full_type_name(item: &str, is_array: bool) -> Cow<'_, str> {
    if is_array {
        Cow::Owned(format!("{item}[]"))
    } else {
        Cow::Borrowed(item)
    }
}

/// A declared input or output of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name for callers and scripts.
    pub name: String,
    /// Elsa's type name (Elsa writes it as `type`).
    pub type_name: String,
    /// The value is a list of that type.
    pub is_array: bool,
    /// The value if the caller gives none.
    pub default: Option<Value>,
}

impl Argument {
    /// Elsa's name of its type, with `[]` if it is a list.
    pub fn full_type_name(&self) -> Cow<'_, str> {
        full_type_name(&self.type_name, self.is_array)
    }

    /// Reads the value of `inputs` or `outputs`; entries without a name are left out.
    pub fn list(entries: &[Value]) -> Vec<Self> {
        entries
            .iter()
            .filter_map(|entry| {
                let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
                Some(Self {
                    name: text("name").filter(|name| !name.is_empty())?,
                    type_name: text("type").or_else(|| text("typeName")).unwrap_or_default(),
                    is_array: entry.get("isArray").and_then(Value::as_bool).unwrap_or(false),
                    default: entry.get("defaultValue").filter(|value| !value.is_null()).cloned(),
                })
            })
            .collect()
    }
}
