//! An activity of the tree as JSON, without knowledge of its type.

use serde_json::{Map, Value};

/// A view of an activity's JSON object with the properties that every activity has.
#[derive(Clone, Copy, Debug)]
pub struct RawActivity<'a>(&'a Map<String, Value>);

impl<'a> RawActivity<'a> {
    /// Views a value as an activity; `None` if it is not an object.
    pub fn new(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// Views the properties of an activity.
    pub(crate) fn over(fields: &'a Map<String, Value>) -> Self {
        Self(fields)
    }

    /// A property, unchanged.
    pub fn get(&self, property: &str) -> Option<&'a Value> {
        self.0.get(property)
    }

    /// All properties.
    pub fn fields(&self) -> &'a Map<String, Value> {
        self.0
    }

    fn text(&self, property: &str) -> &'a str {
        self.get(property).and_then(Value::as_str).unwrap_or_default()
    }

    /// The id; empty if missing.
    pub fn id(&self) -> &'a str {
        self.text("id")
    }

    /// The type name, such as `Elsa.WriteLine`; empty if missing.
    pub fn type_name(&self) -> &'a str {
        self.text("type")
    }

    /// The version of the type; 1 if missing.
    pub fn version(&self) -> i32 {
        self.named_version().unwrap_or(1)
    }

    /// The version of the type, if it names one. Elsa writes 0 for an unknown version.
    pub fn named_version(&self) -> Option<i32> {
        let version = self.get("version").and_then(Value::as_i64);
        version
            .and_then(|version| i32::try_from(version).ok())
            .filter(|version| *version > 0)
    }

    /// The name, if it has one.
    pub fn name(&self) -> Option<&'a str> {
        Some(self.text("name")).filter(|name| !name.is_empty())
    }

    /// The name that designers show instead of its name, if it has one.
    pub fn display_text(&self) -> Option<&'a str> {
        let text = self.get("metadata")?.get("displayText")?.as_str()?;
        Some(text).filter(|text| !text.trim().is_empty())
    }

    /// Whether an instance can start here. Older definitions have the flag at the top level, newer ones in `customProperties`.
    pub fn can_start_workflow(&self) -> bool {
        let custom = self
            .get("customProperties")
            .and_then(|custom| custom.get("canStartWorkflow"));
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
        flag(custom) || flag(self.get("canStartWorkflow"))
    }
}
