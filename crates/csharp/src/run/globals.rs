//! What Elsa provides to a script: variables, inputs, outputs, outcomes and the instance.

use std::cell::Ref;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Argument, Cell, Machine};
use crate::check::pascal;
use crate::convert::{default_of, from_json, to_json};
use crate::problem::{Evaluated, Stop, StopKind};
use crate::syntax::{Call, Global};
use crate::text::text_of;
use crate::types::Ty;
use crate::value::Value;

/// In bytes: a variable that the script has read or set, without its name and what its value refers to.
const CELL: usize = 200;
/// In bytes: until when a link can be used, and how often.
const LONGEST_ARGUMENT: usize = 1_000;

impl Machine<'_> {
    /// A variable, as the type that its declaration gives it. It is read once: what the script changes in place stays.
    pub(super) fn variable(&self, name: &str) -> Evaluated<Value> {
        if let Some(cell) = self.cells(name)?.iter().find(|cell| *cell.name == *name) {
            return Ok(cell.value.clone());
        }
        self.meter.hold(CELL + name.len())?;
        let json = self.world.variable(name).unwrap_or_default();
        let value = from_json(&json, &self.world.variable_type(name).0, &self.meter)?;
        self.variables.borrow_mut().push(Cell {
            name: name.into(),
            value: value.clone(),
            before: Some(json),
        });
        Ok(value)
    }

    pub(super) fn set_variable(&self, name: &str, value: Value) -> Evaluated<()> {
        let place = self.cells(name)?.iter().position(|cell| *cell.name == *name);
        let mut cells = self.variables.borrow_mut();
        match place.and_then(|place| cells.get_mut(place)) {
            Some(cell) => (cell.value, cell.before) = (value, None),
            None => {
                self.meter.hold(CELL + name.len())?;
                cells.push(Cell {
                    name: name.into(),
                    value,
                    before: None,
                });
            }
        }
        Ok(())
    }

    /// The variables that the script has read or set, to search them for one of this name; names of one length may be equal but for
    /// their ends.
    fn cells(&self, name: &str) -> Evaluated<Ref<'_, Vec<Cell>>> {
        let cells = self.variables.borrow();
        let of_name = name.len() / 64;
        self.meter
            .steps(cells.len().saturating_mul(1 + of_name) / 16 + of_name)?;
        Ok(cells)
    }

    pub(super) fn input(&self, name: &str, ty: &Ty) -> Evaluated<Value> {
        from_json(&self.world.input(name).unwrap_or_default(), ty, &self.meter)
    }

    pub(super) fn global(&self, global: Global) -> Evaluated<Value> {
        let changes = self.changes.borrow();
        let (set, text) = match global {
            Global::WorkflowInstanceId => (None, Some(self.world.instance_id())),
            Global::CorrelationId => (changes.correlation_id.clone(), self.world.correlation_id()),
            Global::WorkflowInstanceName => (changes.name.clone(), self.world.name()),
            _ => return Err(Stop::thrown("InvalidOperationException", "this is not a value")),
        };
        if let Some(set) = set {
            return Ok(set.map_or(Value::Null, Value::Text));
        }
        self.meter.hold(text.as_ref().map_or(0, String::len))?;
        Ok(text.map_or(Value::Null, Value::text))
    }

    pub(super) fn call_global(&self, global: Global, call: &Call, arguments: &[Argument<'_>]) -> Evaluated<Value> {
        let value = |number: usize| match arguments.get(number) {
            Some(Argument::Value(value)) => value.clone(),
            _ => Value::Null,
        };
        let text = |number: usize| -> Evaluated<Arc<str>> {
            match value(number) {
                Value::Text(text) => Ok(text),
                Value::Null => Err(Stop::thrown("ArgumentNullException", "a name is null")),
                other => Err(Stop::thrown(
                    "RuntimeBinderException",
                    format!("{} is not a name", other.type_name()),
                )),
            }
        };
        let ty = call.types.first().cloned().unwrap_or(Ty::Dynamic);
        match (global, &*call.name) {
            (Global::Variables, "Get") | (Global::ExecutionContext, "GetVariable") | (Global::Arguments, "Get") => {
                let name = self.known_name(&text(0)?)?;
                let value = self.variable(&name)?;
                if value.is_null() {
                    return Ok(default_of(&ty));
                }
                // As in Elsa, a value that does not convert is the default of the type.
                match self.converted(&value, &ty) {
                    Err(stop) if stop.kind == StopKind::Thrown => Ok(default_of(&ty)),
                    converted => converted,
                }
            }
            (Global::Variables, "Set") | (Global::ExecutionContext, "SetVariable") => {
                let name = self.known_name(&text(0)?)?;
                self.meter.hold(value(1).bytes())?;
                let ty = self.world.variable_type(&name).0.nullable();
                // As in Elsa, a value that does not fit the declaration is kept as it is.
                let converted = match self.converted(&value(1), &ty) {
                    Err(stop) if matches!(stop.kind, StopKind::Thrown | StopKind::TooLarge) => value(1),
                    converted => converted?,
                };
                self.set_variable(&name, converted)?;
                Ok(Value::Null)
            }
            (Global::Arguments, "ContainsKey") => {
                let name = text(0)?;
                self.meter.steps(name.len() / 64)?;
                Ok(Value::Bool(self.world.has_variable(&name)))
            }
            (Global::Input, "Get") | (Global::ExecutionContext, "GetInput") => self.input(&text(0)?, &ty),
            (Global::Output, "From" | "Get") => {
                let activity = text(0)?;
                let output = if value(1).is_null() { None } else { Some(text(1)?) };
                let json: Json = self.world.output(&activity, output.as_deref()).unwrap_or_default();
                from_json(&json, &ty, &self.meter)
            }
            (Global::ExecutionContext, "CreateEventTriggerUrl") => self.link(Some(&*text(0)?), &value(1), &value(2)),
            (Global::ExecutionContext, "CreateResumeUrl") => self.link(None, &value(0), &value(1)),
            (Global::Outcome, "Set") => {
                let mut names = Vec::new();
                for number in 0..arguments.len() {
                    let value = value(number);
                    let items = match &value {
                        Value::List(list) => &*list.items.borrow(),
                        other => std::slice::from_ref(other),
                    };
                    for item in items {
                        let name = text_of(item);
                        self.meter.hold(24 + name.len())?;
                        names.push(name.to_string());
                    }
                }
                self.changes.borrow_mut().outcomes = Some(names);
                Ok(Value::Null)
            }
            _ => Err(Stop::thrown(
                "MissingMethodException",
                format!("there is no method {}", call.name),
            )),
        }
    }

    fn link(&self, event: Option<&str>, until: &Value, uses: &Value) -> Evaluated<Value> {
        let mut left = LONGEST_ARGUMENT;
        let until = match to_json(until, &self.meter, &mut left)? {
            Json::Null => None,
            Json::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        let uses = to_json(uses, &self.meter, &mut left)?.as_f64();
        let url = self.world.link(event, until.as_deref(), uses);
        let url = url.map_err(|reason| Stop::thrown("InvalidOperationException", reason))?;
        self.meter.hold(url.len())?;
        Ok(Value::text(url))
    }

    /// The variable of that name, or the one whose member in C# has it.
    fn known_name(&self, name: &Arc<str>) -> Evaluated<Arc<str>> {
        let is_read = self.cells(name)?.iter().any(|cell| cell.name == *name);
        if is_read || self.world.has_variable(name) {
            return Ok(Arc::clone(name));
        }
        let known = self.world.variable_names();
        self.meter.steps(known.len())?;
        let found = known.into_iter().find(|known| pascal(known) == **name);
        Ok(found.map_or_else(|| Arc::clone(name), Arc::from))
    }
}
