//! The arguments of a method while the script runs.

use std::rc::Rc;
use std::sync::Arc;

use crate::pattern::Pattern;
use crate::problem::{Evaluated, Stop};
use crate::run::{Argument, Machine, Meter};
use crate::syntax::Lambda;
use crate::types::{EnumKind, Ty};
use crate::value::{Function, Value};

pub(crate) struct Arguments<'a, 'w> {
    machine: &'a Machine<'w>,
    list: &'a [Argument<'a>],
    method: &'a str,
}

/// What an argument of a method runs: a lambda that is written there, or a function that is a value.
#[derive(Clone, Copy)]
pub(crate) enum Callable<'a> {
    Lambda(&'a Lambda),
    Function(&'a Function),
}

/// How texts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Ordinal,
    IgnoreCase,
}

impl<'a, 'w> Arguments<'a, 'w> {
    pub(super) fn new(machine: &'a Machine<'w>, list: &'a [Argument<'a>], method: &'a str) -> Self {
        Self { machine, list, method }
    }

    pub(super) fn meter(&self) -> &'a Meter<'w> {
        &self.machine.meter
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// A value that is no function: that is called, where a method takes one.
    pub(super) fn optional(&self, number: usize) -> Option<&'a Value> {
        match self.list.get(number) {
            Some(Argument::Value(Value::Function(_))) => None,
            Some(Argument::Value(value)) => Some(value),
            _ => None,
        }
    }

    pub(super) fn value(&self, number: usize) -> Evaluated<&'a Value> {
        if let Some(Argument::Value(value)) = self.list.get(number) {
            return Ok(value);
        }
        let message = format!("argument {} of {} is missing", number + 1, self.method);
        Err(Stop::thrown("ArgumentException", message))
    }

    fn wrong(&self, number: usize, wanted: &str) -> Box<Stop> {
        let method = self.method;
        match self.optional(number) {
            Some(Value::Null) | None => Stop::thrown(
                "ArgumentNullException",
                format!("argument {} of {method} is null", number + 1),
            ),
            Some(other) => {
                let message = format!(
                    "argument {} of {method} is {}, not {wanted}",
                    number + 1,
                    other.type_name()
                );
                Stop::thrown("ArgumentException", message)
            }
        }
    }

    /// Counts the text of an argument, which may be longer than that of the target.
    pub(super) fn read(&self, text: &str) -> Evaluated<()> {
        self.meter().steps(text.len() / 256)
    }

    pub(super) fn text(&self, number: usize) -> Evaluated<Arc<str>> {
        match self.optional(number) {
            Some(Value::Text(text)) => {
                self.read(text)?;
                Ok(Arc::clone(text))
            }
            _ => Err(self.wrong(number, "a string")),
        }
    }

    /// A text, or a char as one.
    pub(super) fn text_or_char(&self, number: usize) -> Evaluated<Arc<str>> {
        match self.optional(number) {
            Some(Value::Char(unit)) => crate::text::of_units(&[*unit]),
            _ => self.text(number),
        }
    }

    pub(super) fn long(&self, number: usize) -> Evaluated<i64> {
        self.optional(number)
            .and_then(Value::as_i64)
            .ok_or_else(|| self.wrong(number, "a whole number"))
    }

    /// A place or a count: not negative.
    pub(super) fn place(&self, number: usize) -> Evaluated<usize> {
        usize::try_from(self.long(number)?).map_err(|_| {
            let message = format!("argument {} of {} is negative", number + 1, self.method);
            Stop::thrown("ArgumentOutOfRangeException", message)
        })
    }

    pub(super) fn double(&self, number: usize) -> Evaluated<f64> {
        self.optional(number)
            .and_then(Value::as_f64)
            .ok_or_else(|| self.wrong(number, "a number"))
    }

    pub(super) fn span(&self, number: usize) -> Evaluated<i64> {
        match self.optional(number) {
            Some(Value::Span(ticks)) => Ok(*ticks),
            _ => Err(self.wrong(number, "a TimeSpan")),
        }
    }

    pub(super) fn lambda(&self, number: usize) -> Evaluated<Callable<'a>> {
        self.optional_lambda(number)
            .ok_or_else(|| self.wrong(number, "a lambda"))
    }

    /// Whether the method runs something of the script.
    pub(super) fn has_lambda(&self) -> bool {
        (0..self.len()).any(|number| self.optional_lambda(number).is_some())
    }

    pub(super) fn optional_lambda(&self, number: usize) -> Option<Callable<'a>> {
        match self.list.get(number) {
            Some(Argument::Lambda(lambda)) => Some(Callable::Lambda(lambda)),
            Some(Argument::Value(Value::Function(function))) => Some(Callable::Function(function)),
            _ => None,
        }
    }

    /// Sets an out argument; also the type of it, if one is known.
    pub(super) fn out(&self, number: usize, value: Value) {
        if let Some(Argument::Out(Some(slot), _)) = self.list.get(number) {
            self.machine.set_local(*slot, value);
        }
    }

    /// The number of the out argument.
    pub(super) fn out_place(&self) -> Option<usize> {
        self.list
            .iter()
            .position(|argument| matches!(argument, Argument::Out(..)))
    }

    pub(super) fn out_type(&self) -> Ty {
        let found = self.list.iter().find_map(|argument| match argument {
            Argument::Out(_, ty) => Some(ty.clone()),
            _ => None,
        });
        found.unwrap_or(Ty::Dynamic)
    }

    /// How texts are compared: by the first comparison or bool from this argument on.
    pub(super) fn comparison(&self, from: usize) -> Comparison {
        let flags = (from..self.len()).filter_map(|number| self.optional(number));
        let ignores = flags.into_iter().any(|value| {
            matches!(
                value,
                Value::Enum(EnumKind::StringComparison, 1 | 3 | 5) | Value::Bool(true)
            )
        });
        if ignores {
            Comparison::IgnoreCase
        } else {
            Comparison::Ordinal
        }
    }

    pub(super) fn call(&self, lambda: Callable<'_>, arguments: &[Value]) -> Evaluated<Value> {
        match lambda {
            Callable::Lambda(lambda) => self.machine.invoke(lambda, arguments),
            Callable::Function(function) => self.machine.call_function(function, arguments),
        }
    }

    /// The regular expression of a pattern, with its options.
    pub(super) fn pattern(&self, source: &Arc<str>, options: i32) -> Evaluated<Rc<Pattern>> {
        self.machine.pattern(source, options)
    }

    pub(super) fn holds(&self, lambda: Callable<'_>, arguments: &[Value]) -> Evaluated<bool> {
        match self.call(lambda, arguments)? {
            Value::Bool(flag) => Ok(flag),
            other => {
                let message = format!(
                    "the lambda of {} returns {}, not a bool",
                    self.method,
                    other.type_name()
                );
                Err(Stop::thrown("RuntimeBinderException", message))
            }
        }
    }
}
