//! The metadata of an activity type, for the designer, for validation, and for the compiler.

use std::time::Duration;

use serde_json::Value;

/// Elsa's kind of an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivityKind {
    /// It acts and completes.
    #[default]
    Action,
    /// It waits for a stimulus, and can start an instance.
    Trigger,
    /// It runs in the background.
    Job,
    /// It may run in the background.
    Task,
}

impl ActivityKind {
    /// Elsa's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "Action",
            Self::Trigger => "Trigger",
            Self::Job => "Job",
            Self::Task => "Task",
        }
    }
}

/// The reaction of an activity to a break from a descendant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakBehavior {
    /// It passes the break on.
    #[default]
    Ignore,
    /// It passes the break on and schedules nothing more: containers.
    Mark,
    /// It is the loop that ends.
    Stop,
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
    /// For the designer.
    pub description: String,
    /// For the designer: `single-line`, `multi-line`, `dropdown`, …
    pub ui_hint: String,
    /// The activity evaluates it on demand, instead of the interpreter once before the execution.
    pub is_lazy: bool,
    /// Not an expression: the property is read unchanged.
    pub is_raw: bool,
    /// The value is not converted to the type; the activity converts it.
    pub is_as_given: bool,
    /// Publishing a definition without it fails, and a null value is a fault.
    pub is_required: bool,
}

impl InputDescriptor {
    /// An input of that name and type. The names `Id`, `Name`, `Type` and `Version` are reserved: every activity has them.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            type_name: type_name.into(),
            default: None,
            description: String::new(),
            ui_hint: "single-line".to_owned(),
            is_lazy: false,
            is_raw: false,
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

    /// Sets the description of the input.
    #[must_use]
    pub fn describe(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the designer's control.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.ui_hint = hint.into();
        self
    }

    /// Leaves the evaluation to the activity, see
    /// [`ActivityContext::evaluate`](super::ActivityContext::evaluate).
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

    /// Reads the property unchanged instead of evaluating it.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.is_raw = true;
        self
    }
}

/// An output of an activity type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputDescriptor {
    /// In Pascal case.
    pub name: String,
    /// Elsa's type name.
    pub type_name: String,
    /// For the designer.
    pub description: String,
}

/// An activity type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Descriptor {
    /// `Elsa.WriteLine`, or `Greet` for one of your own.
    pub type_name: String,
    /// A definition names the version that it was created with and runs with exactly that one: a node where it is not
    /// registered does not claim its work. Keep the old version registered besides the new one as long as a published
    /// definition names it. A definition that names none runs with version 1 or, if that is missing, the newest.
    pub version: i32,
    /// For the designer.
    pub category: String,
    /// For the designer.
    pub display_name: String,
    /// For the designer.
    pub description: String,
    /// Its kind.
    pub kind: ActivityKind,
    /// Its inputs. If a type of your own has any, publishing rejects properties that are not among them: declare a property
    /// that you read yourself as [raw](InputDescriptor::raw).
    pub inputs: Vec<InputDescriptor>,
    /// Its outputs.
    pub outputs: Vec<OutputDescriptor>,
    /// Properties that hold an activity each, in Pascal case: `Body`, `Then`.
    pub ports: Vec<String>,
    /// The outcomes that a flowchart can connect; `Done` if the list is empty.
    pub outcomes: Vec<String>,
    /// It holds a list of `activities`, variables and perhaps connections.
    pub is_container: bool,
    /// A flowchart begins with it.
    pub is_start: bool,
    /// A container ends with it.
    pub is_terminal: bool,
    /// Not offered in the designer's toolbox.
    pub is_hidden: bool,
    /// Its reaction to a break from a descendant.
    pub on_break: BreakBehavior,
    /// The timeout of one call, after which it is dropped and its execution faults; `None` means the engine's setting
    /// ([`InterpreterOptions::activity_timeout`](crate::runtime::InterpreterOptions::activity_timeout)).
    pub timeout: Option<Duration>,
}

impl Descriptor {
    /// An activity type of version 1, without inputs and outputs, which completes with `Done`.
    pub fn new(type_name: impl Into<String>) -> Self {
        let type_name = type_name.into();
        let display_name = type_name.rsplit('.').next().unwrap_or_default().to_owned();
        Self {
            type_name,
            version: 1,
            category: "Custom".to_owned(),
            display_name,
            description: String::new(),
            kind: ActivityKind::Action,
            inputs: Vec::new(),
            outputs: Vec::new(),
            ports: Vec::new(),
            outcomes: Vec::new(),
            is_container: false,
            is_start: false,
            is_terminal: false,
            is_hidden: false,
            on_break: BreakBehavior::Ignore,
            timeout: None,
        }
    }

    /// Sets the timeout of one call, in place of the engine's setting. A definition can set it for a single activity by the
    /// custom property `activityTimeout`. A call past its timeout is dropped where it awaits; one that blocks its thread
    /// continues.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Sets category and description.
    #[must_use]
    pub fn describe(mut self, category: impl Into<String>, description: impl Into<String>) -> Self {
        self.category = category.into();
        self.description = description.into();
        self
    }

    /// Sets the name that the designer shows.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the kind.
    #[must_use]
    pub fn kind(mut self, kind: ActivityKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, input: InputDescriptor) -> Self {
        self.inputs.push(input);
        self
    }

    /// Adds an output. The value of `Result` is also the value of `getLastResult()` in scripts.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, type_name: impl Into<String>) -> Self {
        self.outputs.push(OutputDescriptor {
            name: name.into(),
            type_name: type_name.into(),
            description: String::new(),
        });
        self
    }

    /// Adds a property that holds an activity.
    #[must_use]
    pub fn port(mut self, name: impl Into<String>) -> Self {
        self.ports.push(name.into());
        self
    }

    /// Adds an outcome.
    #[must_use]
    pub fn outcome(mut self, name: impl Into<String>) -> Self {
        self.outcomes.push(name.into());
        self
    }

    pub(crate) fn container(mut self) -> Self {
        self.is_container = true;
        self.is_hidden = true;
        self.on_break(BreakBehavior::Mark)
    }

    pub(crate) fn start(mut self) -> Self {
        self.is_start = true;
        self
    }

    pub(crate) fn terminal(mut self) -> Self {
        self.is_terminal = true;
        self
    }

    pub(crate) fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    pub(crate) fn on_break(mut self, on_break: BreakBehavior) -> Self {
        self.on_break = on_break;
        self
    }
}

/// `TimeSpan` is written `timeSpan` in definitions.
pub(crate) fn camel_case(name: &str) -> String {
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
