//! An input of an activity type.

use serde_json::Value;

use super::ui_hint::UiHint;
use super::words;

/// What an input adds to the outcomes of its activity. Elsa Studio knows this of Elsa's own types, and draws no such outcome
/// of others.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "activities of HTTP have them"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddedOutcomes {
    /// For a flag: this one where the flag is set.
    WhereSet(String),
    /// For a list: one for each of its numbers, in digits.
    EachNumber,
}

/// An input of an activity type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputDescriptor {
    /// In Pascal case; definitions have it in camel case.
    pub name: String,
    /// Elsa's type name, to which values are converted.
    pub type_name: String,
    /// The value if the definition gives none.
    pub default: Option<Value>,
    /// The name that the designer shows: the name in words, unless another is given.
    pub display_name: String,
    /// For the designer.
    pub description: String,
    /// The designer's control for a literal value.
    pub ui_hint: UiHint,
    /// The group in which the designer shows it.
    pub category: Option<String>,
    /// Its place among the inputs; in the order of the declaration unless given.
    pub order: Option<f32>,
    /// The expression type that the designer begins with: `Literal` unless another is given.
    pub default_syntax: String,
    /// The designer asks for the choices anew whenever it shows the input, see
    /// [`Activity::choices`](crate::activity::Activity::choices).
    pub is_refreshed: bool,
    /// Not shown by the designer.
    pub is_hidden: bool,
    /// The designer shows it and does not edit it.
    pub is_read_only: bool,
    /// Its value may be a secret. The designer shows this, and the journal does not show the value.
    pub is_sensitive: bool,
    /// The activity evaluates it on demand, instead of the interpreter once before the execution.
    pub is_lazy: bool,
    /// Not an expression: the property is read unchanged.
    pub is_raw: bool,
    /// Outcomes besides those that the activity always has.
    pub(crate) adds_outcomes: Option<AddedOutcomes>,
    /// Definitions have the value as it is, not as an expression: `"isLocal": true`. It is evaluated as a literal.
    pub is_bare: bool,
    /// The value is not converted to the type; the activity converts it.
    pub is_as_given: bool,
    /// Publishing a definition without it fails, and a null value is a fault.
    pub is_required: bool,
}

impl InputDescriptor {
    /// An input of that name and type. The names `Id`, `Name`, `Type` and `Version` are reserved: every activity has them.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> Self {
        let (name, type_name) = (name.into(), type_name.into());
        Self {
            display_name: words(&name),
            ui_hint: UiHint::of_type(&type_name),
            name,
            type_name,
            default: None,
            description: String::new(),
            category: None,
            order: None,
            default_syntax: "Literal".to_owned(),
            is_refreshed: false,
            is_hidden: false,
            is_read_only: false,
            is_sensitive: false,
            is_lazy: false,
            is_raw: false,
            is_bare: false,
            adds_outcomes: None,
            is_as_given: false,
            is_required: false,
        }
    }

    /// Makes the input required: publishing a definition without it fails (and suggests similar names), and an expression
    /// that returns null faults the activity before it is called.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Sets the value for definitions that give none.
    #[must_use]
    pub fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// Sets the name that the designer shows.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the description of the input.
    #[must_use]
    pub fn describe(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the designer's control. Unless given, it follows from the type: a check box, a list, or a line of text.
    #[must_use]
    pub fn hint(mut self, hint: UiHint) -> Self {
        self.ui_hint = hint;
        self
    }

    /// Sets the group in which the designer shows the input.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// Sets the place among the inputs.
    #[must_use]
    pub fn order(mut self, order: f32) -> Self {
        self.order = Some(order);
        self
    }

    /// Sets the expression type that the designer begins with, such as `JavaScript`.
    #[must_use]
    pub fn default_syntax(mut self, syntax: impl Into<String>) -> Self {
        self.default_syntax = syntax.into();
        self
    }

    /// Lets the designer ask [`Activity::choices`](crate::activity::Activity::choices) for the choices, with the values of
    /// the other inputs.
    #[must_use]
    pub fn refreshed(mut self) -> Self {
        self.is_refreshed = true;
        self
    }

    /// Hides the input in the designer.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// Shows the input in the designer without a way to change it.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Marks the value as a possible secret: the designer shows this, and the journal does not show the value.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.is_sensitive = true;
        self
    }

    /// Leaves the evaluation to the activity, see
    /// [`ActivityContext::evaluate`](crate::activity::ActivityContext::evaluate).
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.is_lazy = true;
        self
    }

    /// Leaves the conversion to the activity.
    #[must_use]
    pub fn as_given(mut self) -> Self {
        self.is_as_given = true;
        self
    }

    /// Gives the activity more outcomes than those that it always has.
    #[cfg(feature = "http")]
    pub(crate) fn adds_outcomes(mut self, added: AddedOutcomes) -> Self {
        self.adds_outcomes = Some(added);
        self
    }

    /// Lets definitions have the value as it is, as Elsa has some flags, instead of an expression.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Reads the property unchanged instead of evaluating it.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.is_raw = true;
        self
    }
}
