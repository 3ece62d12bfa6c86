//! Outputs of activities: kept for scripts and the journal, converted, and written to what they are bound to.

use serde_json::{Map, Value};

use super::BurstRun;
use crate::activity::{ActivityNode, ConversionStage, Fault, NodeOutput, OutputConversion, safe_name};
use crate::definition::ConverterReference;
use crate::execution::bounds::admit;
use crate::execution::program::Program;
use crate::execution::scope::{self, VariableLocation};
use crate::execution::state::InstanceState;
use crate::expression::{TypeName, allows_null, coerce};

/// What an output is bound to. The name that Elsa gives to an output itself is not a target.
enum Target<'p> {
    Variable(VariableLocation<'p>),
    /// An output of the workflow, with its type.
    Workflow(&'p str, String),
    /// An output of a workflow as an activity: the execution of that activity, its output, and the type.
    Nested(u64, String, String),
}

impl Target<'_> {
    fn type_name(&self) -> String {
        match self {
            Self::Variable(location) => location.declared.map_or_else(
                || "Object".to_owned(),
                |variable| variable.full_type_name().into_owned(),
            ),
            Self::Workflow(_, type_name) | Self::Nested(_, _, type_name) => type_name.clone(),
        }
    }
}

/// What an output changes.
pub(super) enum OutputWrite<'p> {
    /// The output of an execution.
    Output(u64, String, Value),
    /// A variable that it is bound to.
    Variable(VariableLocation<'p>, Value),
    /// An output of the workflow that it is bound to.
    Workflow(String, Value),
}

impl<'p> BurstRun<'p> {
    pub(super) fn write_output(&mut self, write: OutputWrite<'p>) {
        let (number, name, value) = match write {
            OutputWrite::Output(number, name, value) => (number, name, value),
            OutputWrite::Variable(location, value) => return self.write(&location, value),
            OutputWrite::Workflow(name, value) => return drop(self.state.output.insert(name, value)),
        };
        let program = self.program;
        let Some(context) = self.state.contexts.get_mut(&number) else {
            return;
        };
        let Some(node) = program.tree.find(&context.node_id) else {
            return;
        };
        if !program.needs_outputs {
            context.outputs.insert(name, value);
            return;
        }
        context.outputs.insert(name.clone(), value.clone());
        let is_bound = node.outputs.iter().any(|output| output.name == name);
        if self.state.reads_secrets && !is_bound && !value.is_boolean() && self.state.secret_behind(number).is_some() {
            self.state.keeps_secrets = true;
        }
        let kept = self
            .state
            .activity_outputs
            .entry(node.node_id.clone())
            .or_insert_with(|| Value::Object(Map::new()));
        if name == "Result" {
            self.state.last_result = Some(value.clone());
        }
        if let Value::Object(kept) = kept {
            kept.insert(name, value);
        }
    }

    /// Adds what an output changes.
    ///
    /// # Errors
    /// The value cannot be kept, or its converter has refused it.
    pub(super) fn add_output(
        &self,
        number: u64,
        name: String,
        value: Value,
        writes: &mut Vec<OutputWrite<'p>>,
    ) -> Result<(), Fault> {
        admit(&format!("The output {name}"), &value, self.options.max_value_bytes)?;
        let program = self.program;
        let context = self.state.contexts.get(&number);
        let Some(node) = context.and_then(|context| program.tree.find(&context.node_id)) else {
            return Ok(());
        };
        let Some(bound) = node.outputs.iter().find(|output| output.name == name) else {
            writes.push(OutputWrite::Output(number, name, value));
            return Ok(());
        };
        writes.push(OutputWrite::Output(number, name.clone(), value.clone()));
        let targets = targets(program, &self.state, number, &bound.target);
        let Some(reference) = &bound.converter else {
            let value = self.of_its_type(node, &name, value)?;
            return targets
                .into_iter()
                .try_for_each(|target| self.add_target(target, value.clone(), writes));
        };
        // A converted value has the type of one target.
        let target = targets.into_iter().next();
        match (self.converted(node, bound, reference, target.as_ref(), &value), target) {
            (Ok(value), Some(target)) => {
                admit(
                    &format!("The converted output {name}"),
                    &value,
                    self.options.max_value_bytes,
                )?;
                self.add_target(target, value, writes)
            }
            (Ok(_), None) => Ok(()),
            (Err(stage), _) => Err(self.conversion_fault(number, node, bound, reference, stage)),
        }
    }

    /// A value as its output is declared. What it is bound to has it as it is.
    fn of_its_type(&self, node: &ActivityNode, name: &str, value: Value) -> Result<Value, Fault> {
        let descriptor = self.program.descriptor(node.index);
        let output = descriptor.and_then(|it| it.outputs.iter().find(|output| output.name == name));
        let to = output.map_or(TypeName::Any, |output| TypeName::parse(&output.type_name, false));
        // The message leaves out the value, which may hold a secret.
        coerce(value, &to).map_err(|_| {
            let type_name = output.map_or("Object", |output| &output.type_name);
            Fault::new(format!(
                "The output {name} of the activity {} does not have its type, {type_name}",
                node.title()
            ))
        })
    }

    /// As in Elsa, the fault has neither the value nor the message of the converter.
    fn conversion_fault(
        &self,
        number: u64,
        node: &ActivityNode,
        bound: &NodeOutput,
        reference: &ConverterReference,
        stage: ConversionStage,
    ) -> Fault {
        let may_hold_secret = self.state.secret_behind(number).is_some();
        if let (ConversionStage::Invocation(error), false) = (&stage, may_hold_secret) {
            tracing::debug!(
                instance_id = %self.state.instance_id,
                activity_id = node.id,
                converter = reference.id,
                error,
                "an output converter failed"
            );
        }
        Fault::new(format!(
            "Output converter '{}' failed during {stage} for output '{}' of the activity {}",
            reference.id,
            bound.name,
            node.title()
        ))
        .category("OutputConversion")
    }

    fn add_target(&self, target: Target<'p>, value: Value, writes: &mut Vec<OutputWrite<'p>>) -> Result<(), Fault> {
        let converted = |to: &str| coerce(value.clone(), &TypeName::parse(to, false)).unwrap_or_else(|_| value.clone());
        match target {
            Target::Variable(location) => writes.push(OutputWrite::Variable(location, value)),
            Target::Workflow(name, to) => writes.push(OutputWrite::Workflow(name.to_owned(), converted(&to))),
            Target::Nested(activity, name, to) => return self.add_output(activity, name, converted(&to), writes),
        }
        Ok(())
    }

    /// What a converter makes of a value for its target. Null is not converted.
    fn converted(
        &self,
        node: &ActivityNode,
        bound: &NodeOutput,
        reference: &ConverterReference,
        target: Option<&Target<'_>>,
        value: &Value,
    ) -> Result<Value, ConversionStage> {
        let target = target.ok_or(ConversionStage::Resolution)?.type_name();
        if value.is_null() {
            return match allows_null(&target) {
                true => Ok(Value::Null),
                false => Err(ConversionStage::ResultValidation),
            };
        }
        let converter = self
            .program
            .converter(&reference.id)
            .ok_or(ConversionStage::Resolution)?;
        let descriptor = self.program.descriptor(node.index);
        let output = descriptor.and_then(|it| it.outputs.iter().find(|output| output.name == bound.name));
        let conversion = OutputConversion {
            value,
            source_type: output.map_or("Object", |output| &output.type_name),
            target_type: &target,
            settings: reference.settings.as_ref(),
        };
        match converter.convert(conversion)? {
            Value::Null if !allows_null(&target) => Err(ConversionStage::ResultValidation),
            value => Ok(value),
        }
    }
}

/// What a binding names: a variable in scope, and as in Elsa an output of the workflow that the activity is in.
fn targets<'p>(program: &'p Program, state: &InstanceState, number: u64, key: &str) -> Vec<Target<'p>> {
    let output = match scope::nested_in(program, state, number) {
        None => {
            let output = program.outputs.iter().find(|output| output.name == key);
            output.map(|output| Target::Workflow(&output.name, output.full_type_name().into_owned()))
        }
        Some(activity) => {
            let context = state.contexts.get(&activity);
            let node = context.and_then(|context| program.tree.find(&context.node_id));
            let descriptor = node.and_then(|node| program.descriptor(node.index));
            let name = safe_name(key);
            let output = descriptor.and_then(|it| it.outputs.iter().find(|output| output.name == name));
            output.map(|output| Target::Nested(activity, name, output.type_name.clone()))
        }
    };
    // An output of a workflow as an activity covers a variable of its consumer with the same name.
    let variable = match output {
        Some(Target::Nested(..)) => scope::find_beside(program, state, number, key),
        _ => scope::find(program, state, number, key),
    };
    variable.map(Target::Variable).into_iter().chain(output).collect()
}
