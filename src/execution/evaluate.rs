//! The evaluation of an activity's inputs, and what it sees of its children.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::execution_view::ExecutionView;
use super::program::Program;
use super::scope;
use super::state::{ContextStatus, InstanceState};
use crate::activity::{
    ActivityNode, Child, ChildStatus, EvaluationFuture, Fault, InputEvaluator, NodeInput, plain_name,
};
use crate::definition::Expression;
use crate::expression::{
    CallLinks, Evaluated, Language, NO_SECRETS, ScriptError, ScriptErrorKind, ScriptRun, ScriptSession, ScriptText,
    TypeName, coerce, language, missing_language, script_languages,
};

/// Evaluates inputs as one execution of an instance sees them, and finds its children.
pub(super) struct Evaluator<'a> {
    pub(super) program: &'a Program,
    pub(super) state: &'a InstanceState,
    pub(super) session: &'a ScriptSession,
    pub(super) context: u64,
    /// Values that scripts see as variables, besides those of the scope.
    pub(super) arguments: Option<&'a Map<String, Value>>,
    /// Secrets are refused.
    pub(super) hides_secrets: bool,
    /// The resume links of its scripts; without it they make none.
    pub(super) links: Option<&'a CallLinks>,
}

impl InputEvaluator for Evaluator<'_> {
    fn evaluate<'a>(&'a self, node: &'a ActivityNode, input: &'a str) -> EvaluationFuture<'a> {
        Box::pin(async move {
            match node.inputs.iter().find(|candidate| candidate.name == input) {
                Some(input) => self.input(input).await,
                None => Err(Fault::new(format!("{} has no input {input}", node.type_name))),
            }
        })
    }

    fn evaluate_with<'a>(
        &'a self,
        node: &'a ActivityNode,
        input: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> EvaluationFuture<'a> {
        Box::pin(async move {
            let evaluator = Evaluator {
                arguments: Some(arguments),
                ..*self
            };
            evaluator.evaluate(node, input).await
        })
    }

    fn run_script<'a>(&'a self, language: &'static dyn Language, text: &'a str) -> EvaluationFuture<'a> {
        Box::pin(async move {
            let is_activity = true;
            let ran = self.script(language, ScriptText { text, is_activity }).await;
            ran.map_err(|fault| Fault {
                message: format!("The script cannot be run: {}", fault.message),
                ..fault
            })
        })
    }

    fn children(&self) -> Vec<Child> {
        let begun = self
            .state
            .contexts
            .values()
            .filter(|context| context.parent == Some(self.context))
            .filter_map(|context| {
                let status = match context.status {
                    ContextStatus::Running => ChildStatus::Running,
                    ContextStatus::Faulted => ChildStatus::Faulted,
                    ContextStatus::Completed | ContextStatus::Canceled => return None,
                };
                Some((&context.node_id, status))
            });
        let scheduled = self
            .state
            .queue
            .iter()
            .filter(|item| item.context.is_none() && item.owner == Some(self.context));
        let scheduled = scheduled.map(|item| (&item.node_id, ChildStatus::Scheduled));
        let known = begun.chain(scheduled).filter_map(|(node_id, status)| {
            let index = self.program.tree.find(node_id)?.index;
            Some(Child { index, status })
        });
        known.collect()
    }

    fn outputs_set_as_variables(&self) -> Vec<(String, Value)> {
        let Some(context) = self.state.contexts.get(&self.context) else {
            return Vec::new();
        };
        let own = scope::own_names_of_use(self.program, self.state, self.context);
        let node = self.program.tree.find(&context.node_id);
        let descriptor = node.and_then(|node| self.program.descriptor(node.index));
        let outputs = descriptor.into_iter().flat_map(|descriptor| &descriptor.outputs);
        let unset = outputs.filter(|output| !context.outputs.contains_key(&output.name));
        let unset = unset.filter(|output| own.contains(plain_name(&output.name)));
        let set = unset.filter_map(|output| {
            let value = context.variables.get(plain_name(&output.name))?;
            Some((output.name.clone(), value.clone()))
        });
        set.collect()
    }
}

impl<'a> Evaluator<'a> {
    pub(super) fn of(program: &'a Program, state: &'a InstanceState, session: &'a ScriptSession, context: u64) -> Self {
        Self {
            program,
            state,
            session,
            context,
            arguments: None,
            hides_secrets: false,
            links: None,
        }
    }

    /// The same where scripts make resume links.
    pub(super) fn with_links(self, links: &'a CallLinks) -> Self {
        Self {
            links: Some(links),
            ..self
        }
    }

    /// Evaluates one input and converts it to its type.
    pub(super) async fn input(&self, input: &NodeInput) -> Result<Evaluated, Fault> {
        let mut evaluated = match &input.expression {
            Some(expression) => {
                let evaluated = self.expression(expression, &input.convert_to).await;
                let mut evaluated = evaluated.map_err(|fault| {
                    let fault = self.without_kept_secrets(fault);
                    Fault {
                        message: format!("The input {} cannot be evaluated: {}", input.name, fault.message),
                        ..fault
                    }
                })?;
                evaluated.may_hold_secret |= self.state.keeps_secrets && reads_outputs(expression);
                evaluated
            }
            None => {
                let referred = input.memory_reference.as_deref();
                let value = referred.and_then(|id| scope::read(self.program, self.state, self.context, id));
                Evaluated {
                    value: value.or_else(|| input.default.clone()).unwrap_or_default(),
                    ..Evaluated::default()
                }
            }
        };
        evaluated.value = coerce(evaluated.value, &input.convert_to).map_err(|mismatch| {
            let problem = if evaluated.may_hold_secret {
                "what was derived from a secret does not have its type".to_owned()
            } else {
                mismatch.to_string()
            };
            Fault::new(format!("The input {} is invalid: {problem}", input.name))
        })?;
        if input.is_required && evaluated.value.is_null() {
            let message = format!("The input {} is required, and its value is null", input.name);
            return Err(Fault::new(message).code("input-missing"));
        }
        Ok(evaluated)
    }

    /// Evaluates an expression; an object that is written as text is JSON unless the type is text.
    pub(super) async fn expression(&self, expression: &Expression, to: &TypeName) -> Result<Evaluated, Fault> {
        let value = match expression.kind.as_str() {
            "Literal" => expression.value.clone(),
            "Object" => object(&expression.value, to)?,
            "Variable" => {
                let key = reference(&expression.value, &["id", "name"]);
                let key = key.as_deref();
                let found = key.and_then(|key| scope::read(self.program, self.state, self.context, key));
                found.ok_or_else(|| Fault::new(format!("there is no variable {}", key.unwrap_or("without a name"))))?
            }
            "Input" => {
                let name = reference(&expression.value, &["name", "id"]).unwrap_or_default();
                let levels = scope::levels(self.program, self.state, self.context);
                scope::input(&levels, self.state, &name).cloned().unwrap_or_default()
            }
            "Configuration" => {
                let name = named(expression)?;
                self.session.named().setting(&name).into()
            }
            "Secret" => return self.secret(named(expression)?.into_owned()).await,
            "Output" => self.output(&expression.value),
            kind => {
                let Some(language) = language(kind) else {
                    let scripts = script_languages();
                    let unknown = || format!("expressions of type {kind} are not supported; use {scripts} instead");
                    return Err(Fault::new(missing_language(kind).unwrap_or_else(unknown)));
                };
                let text = &language.text_of(&expression.value);
                let is_activity = false;
                return self.script(language, ScriptText { text, is_activity }).await;
            }
        };
        Ok(Evaluated {
            value,
            ..Evaluated::default()
        })
    }

    /// A secret of the operator, read now.
    async fn secret(&self, name: String) -> Result<Evaluated, Fault> {
        if self.hides_secrets {
            return Err(Fault::new(NO_SECRETS).code("secrets-not-available"));
        }
        let all = self.session.named().clone();
        let read = tokio::task::spawn_blocking(move || all.secret(&name));
        let closed = |_| Fault::new("the node is shutting down").code("script-closed");
        let value = read.await.map_err(closed)?.map_err(Fault::new)?;
        Ok(Evaluated {
            value: value.into(),
            may_hold_secret: true,
            ..Evaluated::default()
        })
    }

    fn output(&self, value: &Value) -> Value {
        let activity = reference(value, &["activityId", "activity", "id"]).unwrap_or_default();
        let named = match value {
            Value::String(text) if !text.trim_start().starts_with('{') => None,
            value => reference(value, &["outputName", "name"]),
        };
        let name = named.as_deref().unwrap_or("Result");
        let mut found =
            scope::written_beside(self.program, self.state, self.context).filter(|node| node.id == *activity);
        let outputs = found
            .next()
            .and_then(|node| self.state.activity_outputs.get(&node.node_id));
        outputs
            .and_then(|outputs| outputs.get(name))
            .cloned()
            .unwrap_or_default()
    }

    /// Removes the message from the fault of an expression if it may quote an output that was derived from a secret.
    fn without_kept_secrets(&self, fault: Fault) -> Fault {
        if !self.state.keeps_secrets || fault.quotes_nothing {
            return fault;
        }
        Fault {
            message: "the message is withheld, as an output that expressions can read is derived from a secret"
                .to_owned(),
            ..fault
        }
    }

    /// Runs a script, as this execution sees it. A blank script returns null.
    async fn script(&self, language: &'static dyn Language, script: ScriptText<'_>) -> Result<Evaluated, Fault> {
        if script.text.trim().is_empty() {
            return Ok(Evaluated::default());
        }
        let view = ExecutionView::of(
            self.program,
            self.state,
            self.context,
            self.arguments,
            self.hides_secrets,
            self.links.map(CallLinks::source),
        );
        let result = match language.evaluate(script, &view, self.session) {
            ScriptRun::Ended(result) => result,
            ScriptRun::GoesOn(running) => running.await,
        };
        let mut result = result.map_err(|error| self.without_kept_secrets(self.script_fault(language, error)))?;
        // A link can be used by each reader of the value.
        result.may_hold_secret |= self.state.keeps_secrets || !result.changes.links.is_empty();
        if let Some(links) = self.links {
            links.add(result.changes.links.len());
        }
        Ok(result)
    }

    /// The error of a script as a fault.
    fn script_fault(&self, language: &dyn Language, error: ScriptError) -> Fault {
        let own = |class: &str| format!("{}-{class}", language.facts().code_prefix);
        let (code, is_of_engine) = match error.kind {
            ScriptErrorKind::Thrown if self.hides_secrets && error.message.contains(NO_SECRETS) => {
                ("secrets-not-available".to_owned(), false)
            }
            ScriptErrorKind::Syntax => (own("syntax"), false),
            ScriptErrorKind::Thrown => (own("error"), false),
            ScriptErrorKind::Timeout => (own("timeout"), true),
            ScriptErrorKind::Memory => (own("memory"), true),
            ScriptErrorKind::InvalidText => ("invalid-text".to_owned(), false),
            ScriptErrorKind::TooLarge => ("value-too-large".to_owned(), false),
            // Not visible, as the burst is deferred.
            ScriptErrorKind::Busy => ("script-busy".to_owned(), true),
            ScriptErrorKind::Closed => ("script-closed".to_owned(), true),
        };
        let fault = Fault::new(error.to_string()).code(code).category("Script");
        // The place where a script has ended may depend on a value.
        fault
            .at(error.place)
            .quoting_nothing(is_of_engine && error.place.is_none())
    }
}

/// An `Object` expression: JSON as text, or a JSON value.
pub(super) fn object(value: &Value, to: &TypeName) -> Result<Value, Fault> {
    match value {
        Value::String(text) if *to == TypeName::Text => Ok(Value::String(text.clone())),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        Value::String(text) => serde_json::from_str(text).map_err(|error| {
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let place = (number(error.line()), number(error.column()));
            Fault::new(format!("the object is not valid JSON: {error}")).at(Some(place))
        }),
        other => Ok(other.clone()),
    }
}

/// A reference: a name, or an object with one of the keys, which designers may write as text.
fn reference<'v>(value: &'v Value, keys: &[&str]) -> Option<Cow<'v, str>> {
    let field = |fields: &Map<String, Value>| {
        let mut texts = keys.iter().filter_map(|key| fields.get(*key).and_then(Value::as_str));
        texts.find(|text| !text.is_empty()).map(str::to_owned)
    };
    match value {
        Value::String(text) if text.trim_start().starts_with('{') => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => field(&fields).map(Cow::Owned),
            _ => Some(Cow::Borrowed(text)),
        },
        Value::String(name) => Some(Cow::Borrowed(name)),
        Value::Object(fields) => field(fields).map(Cow::Owned),
        _ => None,
    }
}

/// The name of a setting or a secret.
pub(super) fn named(expression: &Expression) -> Result<Cow<'_, str>, Fault> {
    let name = reference(&expression.value, &["name", "Name", "id"]).filter(|name| !name.trim().is_empty());
    name.ok_or_else(|| {
        Fault::new(format!(
            "an expression of the type {} needs a name: as text, or as an object {{name}}",
            expression.kind
        ))
    })
}

/// Whether an expression of this type can read the outputs of activities.
fn reads_outputs(expression: &Expression) -> bool {
    !matches!(
        expression.kind.as_str(),
        "Literal" | "Object" | "Variable" | "Input" | "Configuration" | "Secret"
    )
}
