//! What a template sees.

use std::time::SystemTime;

use mainspring_liquid::{Fact, TemplateData, ValueKind};
use serde_json::Value;

use crate::expression::TypeName;
use crate::expression::named_values::NamedValues;
use crate::expression::resume_links::LinkMaker;
use crate::expression::script_view::{ScriptView, input_named};

/// What a template sees of its run, and the settings of the operator.
pub(super) struct TemplateView<'a> {
    pub(super) view: &'a dyn ScriptView,
    pub(super) named: &'a NamedValues,
    pub(super) links: &'a LinkMaker,
}

impl TemplateData for TemplateView<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.view.variable(name)
    }

    fn variable_kind(&self, name: &str) -> ValueKind {
        kind_of(self.view.variable_type(name))
    }

    fn input_kind(&self, name: &str) -> ValueKind {
        kind_of(self.view.input_type(name))
    }

    fn input(&self, name: &str) -> Option<&Value> {
        input_named(self.view.inputs(), name).map(|(_, value)| value)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.named.setting(name)
    }

    fn fact(&self, fact: Fact) -> Value {
        let facts = self.view.facts();
        match fact {
            Fact::CorrelationId => facts.correlation_id.clone().into(),
            Fact::WorkflowDefinitionId => facts.definition_id.clone().into(),
            Fact::WorkflowDefinitionVersionId => facts.definition_version_id.clone().into(),
            Fact::WorkflowDefinitionVersion => facts.definition_version.into(),
            Fact::WorkflowInstanceId => facts.instance_id.clone().into(),
        }
    }

    fn link(&self, event: Option<&str>, until: Option<&str>, uses: Option<f64>) -> Result<String, String> {
        self.links.of_texts(self.view.facts().link_owner(), event, until, uses)
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// What the texts of a value of a declared type are.
fn kind_of(declared: Option<(&str, bool)>) -> ValueKind {
    let declared = declared.map(|(type_name, is_array)| TypeName::parse(type_name, is_array));
    let item = match declared {
        Some(TypeName::List(item)) => Some(*item),
        declared => declared,
    };
    match item {
        Some(TypeName::DateTime | TypeName::DateTimeOffset | TypeName::DateOnly) => ValueKind::Date,
        Some(TypeName::TimeSpan) => ValueKind::TimeSpan,
        Some(TypeName::Decimal) => ValueKind::Decimal,
        _ => ValueKind::Json,
    }
}
