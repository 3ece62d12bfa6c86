//! The evaluation of one expression alone.
//!
//! The expression is an input of an activity in a workflow that exists only for it, so what it sees, its limits and its
//! errors are those of a burst. Nothing is kept afterwards.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::composition::Composition;
use super::evaluate::Evaluator;
use super::interpreter::Interpreter;
use super::node_id::WORKFLOW_ID;
use super::program::{self, Program};
use super::state::{Context, InstanceState};
use crate::activity::Fault;
use crate::definition::{Expression, WorkflowDefinition};
use crate::expression::{Evaluated, ScriptScope, TypeName, coerce};
use crate::id::InstanceId;
use crate::{Error, Result, compute};

/// The ids of the workflow. All evaluations of a node are one definition, so that together they have its share of threads.
const WORKFLOW: &str = "expression";

/// With more variables, inputs and outputs, the workflow is compiled on a thread of its own.
const FEW_NAMES: usize = 500;

/// An expression, and what it sees.
#[derive(Clone, Debug, Default)]
pub struct ExpressionRequest {
    /// The type, as definitions name it: a language, `Literal`, `Object`, `Variable`, `Input`, `Output`, `Configuration` or
    /// `Secret`.
    pub kind: String,
    /// The text, the value, or the reference.
    pub value: Value,
    /// Elsa's name of the type that the value is converted to; `Object` unless given.
    pub type_name: Option<String>,
    /// The variables, inputs, outputs and facts that it reads. The ids of definition and version are ignored.
    pub scope: ScriptScope,
}

/// The result of an expression.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EvaluatedExpression {
    /// The value; null also if it failed.
    pub value: Value,
    /// What it has set.
    pub changes: ExpressionChanges,
    /// Why it has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ExpressionError>,
}

/// What an expression has set; in an instance its activity would set it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExpressionChanges {
    /// The variables that it set, or changed in place.
    pub variables: Map<String, Value>,
    /// The correlation id, if it set one; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Value>,
    /// The name of the instance, if it set one; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_instance_name: Option<Value>,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct ExpressionError {
    /// The code of the fault that an activity would have, such as `script-timeout`; `expression-error` if it has none.
    pub code: String,
    /// A message for people.
    pub message: String,
    /// The line of the text, from 1, if the error has a place in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl From<Fault> for ExpressionError {
    fn from(fault: Fault) -> Self {
        Self {
            code: match fault.code.as_str() {
                "0" => "expression-error".to_owned(),
                _ => fault.code,
            },
            message: fault.message,
            line: fault.place.map(|(line, _)| line),
            column: fault.place.map(|(_, column)| column),
        }
    }
}

impl Interpreter {
    /// Evaluates an expression within the limits of a burst.
    ///
    /// # Errors
    /// `scripts-busy` when no slot for a script was free. A failure of the expression is in the value.
    ///
    /// Cancellation safe.
    pub async fn evaluate_expression(&self, request: ExpressionRequest) -> Result<EvaluatedExpression> {
        let to = TypeName::parse(request.type_name.as_deref().unwrap_or("Object"), false);
        let expression = Expression {
            kind: request.kind,
            value: request.value,
        };
        let (interpreter, scope) = (self.clone(), request.scope);
        let names = scope.variables.len() + scope.inputs.len() + scope.outputs.len();
        let compiling = compute::run(names > FEW_NAMES, move || {
            let program = interpreter.program_of(&expression, &scope);
            program.map(|program| (program, expression, scope))
        });
        let (program, expression, scope) = compiling.await??;
        let hides_secrets = scope.hides_secrets;
        let (state, context) = state_of(&program, scope);
        let session = self.script_session();
        let evaluator = Evaluator {
            hides_secrets,
            ..Evaluator::of(&program, &state, &session, context)
        };
        let evaluated = evaluator.expression(&expression, &to).await;
        if session.deferral().is_some() {
            let message = "no slot for scripts is free now; try again later";
            return Err(Error::unavailable("scripts-busy", message));
        }
        let done = evaluated.and_then(|evaluated| outcome(evaluated, &to));
        Ok(done.unwrap_or_else(|fault| EvaluatedExpression {
            error: Some(fault.into()),
            ..EvaluatedExpression::default()
        }))
    }

    /// The workflow around the expression. The activities whose outputs it reads come first, so that they keep their
    /// ids.
    fn program_of(&self, expression: &Expression, scope: &ScriptScope) -> Result<Program> {
        let free = |name: &str| {
            let mut name = name.to_owned();
            while scope.outputs.contains_key(&name) {
                name.push('_');
            }
            name
        };
        let outputs = scope.outputs.keys();
        let mut activities: Vec<Value> = outputs
            .map(|id| json!({"id": id, "type": "Elsa.Sequence", "activities": []}))
            .collect();
        activities.push(
            json!({"id": free("evaluated"), "type": "Elsa.SetVariable", "variable": {"name": "none"},
            "value": {"typeName": "Object", "expression": {"type": expression.kind, "value": expression.value}}}),
        );
        let variables = scope.variables.keys().map(|name| json!({"id": name, "name": name}));
        let inputs = scope.inputs.keys().map(|name| json!({"name": name, "type": "Object"}));
        let definition = WorkflowDefinition::from_value(json!({
            "definitionId": WORKFLOW, "id": WORKFLOW, "version": 1,
            "variables": variables.collect::<Vec<_>>(),
            "inputs": inputs.collect::<Vec<_>>(),
            "root": {"id": free("root"), "type": "Elsa.Sequence", "activities": activities},
        }))?;
        let mut program = program::compile(self.catalogue(), &definition, &Composition::default())?;
        program.needs_outputs = true;
        Ok(program)
    }
}

/// The state of an instance that executes the workflow, and the number of that execution.
fn state_of(program: &Program, scope: ScriptScope) -> (InstanceState, u64) {
    let facts = scope.workflow;
    let id = match facts.instance_id.is_empty() {
        true => InstanceId::random(),
        false => InstanceId::new(facts.instance_id),
    };
    let mut state = program.new_state(&id);
    state.input = scope.inputs;
    state.last_result = scope.last_result;
    state.correlation_id = facts.correlation_id;
    state.name = facts.name;
    for node in program.tree.iter() {
        if let Some(outputs) = scope.outputs.get(&node.id) {
            state.activity_outputs.insert(node.node_id.clone(), outputs.clone());
        }
    }
    let (number, id) = state.next_execution();
    let context = Context::new(id, WORKFLOW_ID.to_owned(), None, scope.variables);
    state.contexts.insert(number, context);
    (state, number)
}

fn outcome(evaluated: Evaluated, to: &TypeName) -> std::result::Result<EvaluatedExpression, Fault> {
    let reads_secret = evaluated.may_hold_secret;
    let value = coerce(evaluated.value, to).map_err(|mismatch| match reads_secret {
        true => Fault::new("what was derived from a secret does not have its type"),
        false => Fault::new(mismatch.to_string()),
    })?;
    Ok(EvaluatedExpression {
        value,
        changes: ExpressionChanges {
            variables: evaluated.changes.variables.into_iter().collect(),
            correlation_id: evaluated.changes.correlation_id.map(Value::from),
            workflow_instance_name: evaluated.changes.name.map(Value::from),
        },
        error: None,
    })
}
