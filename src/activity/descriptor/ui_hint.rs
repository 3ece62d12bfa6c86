//! The designer's control for the literal value of an input.

use serde_json::{Map, Value};

use crate::expression::TypeName;

/// One value that a list offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The literal value.
    pub value: String,
    /// What the designer shows for it.
    pub text: String,
}

impl Choice {
    /// A value, and the text that the designer shows for it.
    pub fn new(value: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            text: text.into(),
        }
    }
}

/// A value that is its own text.
impl<T: Into<String>> From<T> for Choice {
    fn from(value: T) -> Self {
        let value = value.into();
        Self {
            text: value.clone(),
            value,
        }
    }
}

/// A control of Elsa Studio, with what it needs. An expression of another type than `Literal` replaces it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum UiHint {
    /// A line of text.
    #[default]
    SingleLine,
    /// Several lines of text.
    MultiLine,
    /// A check box.
    Checkbox,
    /// Several of these choices; the value is a list.
    CheckList(Vec<Choice>),
    /// One of these choices, in a list that opens.
    Dropdown(Vec<Choice>),
    /// One of these choices, all visible.
    RadioList(Vec<Choice>),
    /// A list of texts.
    MultiText,
    /// An editor for a language, such as `javascript` or `sql`.
    CodeEditor(String),
    /// An editor for an expression of any type.
    ExpressionEditor,
    /// An editor for JSON.
    JsonEditor,
    /// Names and values.
    Dictionary,
    /// A date and a time. The control writes them as the user's culture does: an input that is read here takes a line of
    /// text instead.
    DateTimePicker,
    /// A list of outcomes that the user names, besides these.
    DynamicOutcomes(Vec<String>),
    /// An outcome of the workflow.
    OutcomePicker,
    /// An output of the workflow.
    OutputPicker,
    /// An input of the workflow.
    InputPicker,
    /// A variable of the workflow.
    VariablePicker,
    /// A type of a variable.
    TypePicker,
    /// A workflow definition.
    WorkflowDefinitionPicker,
    /// The cases of a switch in a flowchart.
    FlowSwitchEditor,
    /// The cases of a switch.
    SwitchEditor,
    /// Status codes of HTTP.
    HttpStatusCodes,
    /// A control that an extension of the designer adds, with its specifications.
    Custom(String, Map<String, Value>),
}

impl UiHint {
    /// The control for values of a type.
    pub(super) fn of_type(type_name: &str) -> Self {
        match TypeName::parse(type_name, false) {
            TypeName::Boolean => Self::Checkbox,
            TypeName::List(items) if *items == TypeName::Text => Self::MultiText,
            TypeName::List(_) => Self::JsonEditor,
            _ => Self::SingleLine,
        }
    }

    /// Elsa Studio's word for it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::SingleLine => "singleline",
            Self::MultiLine => "multiline",
            Self::Checkbox => "checkbox",
            Self::CheckList(_) => "checklist",
            Self::Dropdown(_) => "dropdown",
            Self::RadioList(_) => "radiolist",
            Self::MultiText => "multitext",
            Self::CodeEditor(_) => "code-editor",
            Self::ExpressionEditor => "expression-editor",
            Self::JsonEditor => "json-editor",
            Self::Dictionary => "dictionary",
            Self::DateTimePicker => "datetime-picker",
            Self::DynamicOutcomes(_) => "dynamic-outcomes",
            Self::OutcomePicker => "outcome-picker",
            Self::OutputPicker => "output-picker",
            Self::InputPicker => "input-picker",
            Self::VariablePicker => "variable-picker",
            Self::TypePicker => "type-picker",
            Self::WorkflowDefinitionPicker => "workflow-definition-picker",
            Self::FlowSwitchEditor => "flow-switch-editor",
            Self::SwitchEditor => "switch-editor",
            Self::HttpStatusCodes => "http-status-codes",
            Self::Custom(name, _) => name,
        }
    }

    /// The same control with other choices; one without choices stays as it is.
    #[must_use]
    pub fn with_choices(&self, choices: Vec<Choice>) -> Self {
        match self {
            Self::CheckList(_) => Self::CheckList(choices),
            Self::Dropdown(_) => Self::Dropdown(choices),
            Self::RadioList(_) => Self::RadioList(choices),
            other => other.clone(),
        }
    }
}
