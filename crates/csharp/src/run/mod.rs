//! The evaluator: it walks the checked tree.
//!
//! It is pure: the writes of a script are collected in its [`Outcome`], which the caller applies or drops. A script that is
//! cancelled, is killed or fails halfway has therefore changed nothing.

mod argument;
mod assign;
mod blocks;
mod expressions;
mod functions;
mod globals;
mod initialize;
mod meter;
mod operators;
mod patterns;
mod statements;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value as Json;

pub(crate) use argument::{Argument, field, units_of};
pub use meter::Bounds;
pub(crate) use meter::Meter;

pub(crate) use operators::rounded_ticks;

use functions::{Depth, Local, SharedLocals};

use super::check::Layout;
use super::convert::to_json;
use super::pattern::Pattern;
use super::problem::{Evaluated, Position, Stop};
use super::syntax::{Lambda, Statement, StatementKind};
use super::types::DeclaredType;
use super::value::Value;

/// What a script can read of its instance.
pub trait World {
    /// A visible variable.
    fn variable(&self, name: &str) -> Option<Json>;
    /// Whether there is a visible variable of that name.
    fn has_variable(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }
    /// The names of all visible variables.
    fn variable_names(&self) -> Vec<String>;
    /// The declared type of a variable, for one that is read by a name made when the script runs.
    fn variable_type(&self, name: &str) -> DeclaredType;
    /// An input of the workflow.
    fn input(&self, name: &str) -> Option<Json>;
    /// An output of an activity, by its id or name; without a name of an output its result.
    fn output(&self, activity: &str, output: Option<&str>) -> Option<Json>;
    /// The result of the activity that completed last.
    fn last_result(&self) -> Option<Json>;
    /// The instance's id.
    fn instance_id(&self) -> String;
    /// The correlation id.
    fn correlation_id(&self) -> Option<String>;
    /// The instance's name.
    fn name(&self) -> Option<String>;
    /// The URL of a link that triggers an event of the instance or, without one, resumes the activity: until a date or for a
    /// length of time, as JSON writes them, so many times. The error states why there is none.
    fn link(&self, _event: Option<&str>, _until: Option<&str>, _uses: Option<f64>) -> Result<String, String> {
        Err("there are no links here".to_owned())
    }
    /// The time that `DateTime.UtcNow` has. A date of .NET is exact to 100 ns.
    fn now(&self) -> SystemTime;
}

/// What a script has returned and asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The value that it returned; null without one.
    pub value: Json,
    /// Variables that it set, or whose value it changed in place.
    pub variables: Vec<(String, Json)>,
    /// The correlation id that it set; `None` if it has set none.
    pub correlation_id: Option<Option<String>>,
    /// The name of the instance that it set; `None` if it has set none.
    pub name: Option<Option<String>>,
    /// The outcomes of its activity that it set; `None` if it has set none.
    pub outcomes: Option<Vec<String>>,
}

/// A variable that the script has read or set.
struct Cell {
    name: Arc<str>,
    value: Value,
    /// As it was read; `None` if it was set.
    before: Option<Json>,
}

#[derive(Default)]
struct Changes {
    correlation_id: Option<Option<Arc<str>>>,
    name: Option<Option<Arc<str>>>,
    outcomes: Option<Vec<String>>,
}

/// Regular expressions by their text and their options.
type Patterns = HashMap<(Arc<str>, i32), Rc<Pattern>>;

/// The most regular expressions that are kept.
const MOST_PATTERNS: usize = 64;

/// What a statement leads to.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

pub(crate) struct Machine<'w> {
    world: &'w dyn World,
    pub(crate) meter: Meter<'w>,
    layout: &'w Layout,
    /// Each local has a slot of its own, also those of lambdas. A function that is called again keeps what they held.
    locals: RefCell<Vec<Local>>,
    shared: SharedLocals,
    depth: Depth,
    /// Exceptions that are caught, innermost last.
    caught: RefCell<Vec<Stop>>,
    /// Regular expressions that the script has used, with their options.
    patterns: RefCell<Patterns>,
    /// Values before `?.`.
    targets: RefCell<Vec<Value>>,
    variables: RefCell<Vec<Cell>>,
    changes: RefCell<Changes>,
}

/// Runs a checked script.
pub(super) fn run(
    statements: &[Statement],
    layout: &Layout,
    world: &dyn World,
    bounds: Bounds<'_>,
) -> Evaluated<Outcome> {
    let locals = layout.shared.iter().map(|_| Local::Own(Value::Null));
    let machine = Machine {
        world,
        layout,
        meter: Meter::new(bounds, world.now()),
        locals: RefCell::new(locals.collect()),
        shared: SharedLocals::default(),
        depth: Depth::default(),
        caught: RefCell::default(),
        patterns: RefCell::default(),
        targets: RefCell::new(Vec::new()),
        variables: RefCell::new(Vec::new()),
        changes: RefCell::new(Changes::default()),
    };
    let mut value = Value::Null;
    for statement in statements {
        if let Flow::Return(returned) = machine.statement(statement)? {
            value = returned;
            break;
        }
    }
    machine.result(&value)
}

impl Machine<'_> {
    fn result(self, value: &Value) -> Evaluated<Outcome> {
        // What is returned counts together; a variable that has kept its value is not returned.
        let mut left = self.meter.bounds_of_result();
        let value = to_json(value, &self.meter, &mut left)?;
        let mut variables = Vec::new();
        for cell in self.variables.borrow().iter() {
            let is_fixed = !matches!(cell.value, Value::List(_) | Value::Map(_) | Value::Record(_));
            if cell.before.is_some() && is_fixed {
                continue;
            }
            let mut rest = left;
            let json = to_json(&cell.value, &self.meter, &mut rest)?;
            if cell.before.as_ref().is_none_or(|before| !is_same(before, &json)) {
                left = rest;
                variables.push((cell.name.to_string(), json));
            }
        }
        let changes = self.changes.into_inner();
        let owned = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        Ok(Outcome {
            value,
            variables,
            correlation_id: changes.correlation_id.map(owned),
            name: changes.name.map(owned),
            outcomes: changes.outcomes,
        })
    }

    /// Calls a lambda.
    pub(crate) fn invoke(&self, lambda: &Lambda, arguments: &[Value]) -> Evaluated<Value> {
        self.meter.step()?;
        for (place, value) in lambda.parameters.iter().zip(arguments) {
            self.declare_local(place.slot, value.clone())?;
        }
        match &lambda.body.kind {
            StatementKind::Expression(body) if lambda.is_expression => self.eval(body),
            _ => match self.statement(&lambda.body)? {
                Flow::Return(value) => Ok(value),
                _ => Ok(Value::Null),
            },
        }
    }

    /// The regular expression of a pattern: one that is used again is compiled once.
    pub(crate) fn pattern(&self, source: &Arc<str>, options: i32) -> Evaluated<Rc<Pattern>> {
        self.meter.steps(1 + source.len() / 64)?;
        let key = (Arc::clone(source), options);
        if let Some(known) = self.patterns.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let pattern = Rc::new(Pattern::compile(source, options, &self.meter)?);
        let mut known = self.patterns.borrow_mut();
        if known.len() < MOST_PATTERNS {
            known.insert(key, Rc::clone(&pattern));
        }
        Ok(pattern)
    }

    /// The time.
    pub(crate) fn now(&self) -> SystemTime {
        self.world.now()
    }
}

/// Whether a variable has kept its value: numbers of JSON are compared by what they are.
fn is_same(before: &Json, after: &Json) -> bool {
    match (before, after) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => before == after,
    }
}

/// Says where, unless that is known.
fn located<T>(ran: Evaluated<T>, at: Position) -> Evaluated<T> {
    ran.map_err(|mut stop: Box<Stop>| {
        stop.at.get_or_insert(at);
        stop
    })
}
