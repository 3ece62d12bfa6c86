//! Liquid in the inputs of activities: what a template sees, and the faults that it may end with.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::SystemTime;

use mainspring_liquid::{ErrorKind, Fact, TemplateData, TemplateError};
use serde_json::{Map, Value};

use super::evaluate::Evaluator;
use super::scope;
use super::state::InstanceState;
use crate::activity::Fault;
use crate::expression::{NamedValues, RenderError, RunningScript, ScriptScope, TEMPLATES, TemplateEngine};

impl Evaluator<'_> {
    /// The text of a template; null if it is blank, as in Elsa.
    pub(super) async fn template(&self, template: &Value) -> Result<Value, Fault> {
        let template = match template {
            Value::String(template) => Cow::Borrowed(template.as_str()),
            Value::Null => return Ok(Value::Null),
            other => Cow::Owned(other.to_string()),
        };
        if template.trim().is_empty() {
            return Ok(Value::Null);
        }
        let seen = TemplateView {
            state: self.state,
            chain: scope::chain(self.program, self.state, self.context),
            arguments: self.arguments,
            inputs: scope::inputs(self.program, self.state, self.context),
            named: self.session.named(),
        };
        let definition = self.state.definition_id.as_str();
        let options = self.session.options();
        let long_facts = OnceLock::new();
        let owned = || {
            let scope = self.script_scope();
            let long = self.session.begin_long(&scope.workflow)?;
            long_facts.get_or_init(|| scope.workflow.clone());
            Some(OwnedView {
                scope,
                named: self.session.named().clone(),
                _long: long,
            })
        };
        let turns = self.session.turns();
        let rendered = TEMPLATES
            .render(&template, definition, options, turns, &seen, owned)
            .await;
        if let Some(facts) = long_facts.get() {
            match &rendered {
                Err(RenderError::Template(error)) if error.kind == ErrorKind::Timeout => {
                    self.session.long_ended(facts, true);
                }
                Err(RenderError::Template(error)) if error.kind == ErrorKind::Cancelled => {}
                Err(RenderError::Closed) => {}
                _ => self.session.long_ended(facts, false),
            }
        }
        let text = rendered.map_err(|error| match error {
            RenderError::Template(error) => fault(&error),
            RenderError::Busy => {
                // Not visible, as the burst is deferred.
                self.session.defer(TemplateEngine::pause());
                Fault::new("no slot is free for a long template").code("script-busy")
            }
            RenderError::Closed => {
                let message = "the template was stopped: this node is shutting down";
                Fault::new(message).code("script-closed").category("Script")
            }
        })?;
        if text.contains('\0') {
            let message = "the text of the template contains U+0000, which cannot be stored; remove it by a filter";
            return Err(Fault::new(message).code("invalid-text").category("Script"));
        }
        Ok(Value::String(text))
    }
}

fn fault(error: &TemplateError) -> Fault {
    let code = match error.kind {
        ErrorKind::Syntax => "template-syntax",
        ErrorKind::Invalid => "template-error",
        ErrorKind::Timeout => "template-timeout",
        ErrorKind::Memory => "template-memory",
        ErrorKind::TooLarge => "value-too-large",
        ErrorKind::Cancelled => "script-closed",
    };
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let place = (error.line > 0).then(|| (number(error.line), number(error.column)));
    Fault::new(error.to_string()).code(code).category("Script").at(place)
}

/// The state of an instance, as one execution sees it.
struct TemplateView<'a> {
    state: &'a InstanceState,
    /// The executions whose variables are visible, innermost first.
    chain: Vec<u64>,
    arguments: Option<&'a Map<String, Value>>,
    inputs: Cow<'a, Map<String, Value>>,
    named: &'a NamedValues,
}

impl TemplateData for TemplateView<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        let given = self.arguments.and_then(|arguments| arguments.get(name));
        let contexts = self.chain.iter().filter_map(|number| self.state.contexts.get(number));
        given.or_else(|| contexts.into_iter().find_map(|context| context.variables.get(name)))
    }

    fn input(&self, name: &str) -> Option<&Value> {
        input(&self.inputs, name)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.named.setting(name)
    }

    fn fact(&self, fact: Fact) -> Value {
        match fact {
            Fact::CorrelationId => self.state.correlation_id.clone().into(),
            Fact::WorkflowDefinitionId => self.state.definition_id.to_string().into(),
            Fact::WorkflowDefinitionVersionId => self.state.version_id.to_string().into(),
            Fact::WorkflowDefinitionVersion => self.state.version.into(),
            Fact::WorkflowInstanceId => self.state.instance_id.to_string().into(),
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The same for another thread, as long as the template runs there.
struct OwnedView {
    scope: ScriptScope,
    named: NamedValues,
    _long: RunningScript,
}

impl TemplateData for OwnedView {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.scope.variables.get(name)
    }

    fn input(&self, name: &str) -> Option<&Value> {
        input(&self.scope.inputs, name)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.named.setting(name)
    }

    fn fact(&self, fact: Fact) -> Value {
        let workflow = &self.scope.workflow;
        match fact {
            Fact::CorrelationId => workflow.correlation_id.clone().into(),
            Fact::WorkflowDefinitionId => workflow.definition_id.clone().into(),
            Fact::WorkflowDefinitionVersionId => workflow.definition_version_id.clone().into(),
            Fact::WorkflowDefinitionVersion => workflow.definition_version.into(),
            Fact::WorkflowInstanceId => workflow.instance_id.clone().into(),
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// An input by its name, in any case.
fn input<'m>(inputs: &'m Map<String, Value>, name: &str) -> Option<&'m Value> {
    let exact = inputs.get(name);
    exact.or_else(|| {
        let mut others = inputs.iter();
        others
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}
