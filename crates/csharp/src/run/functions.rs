//! Locals and functions: a function that is called keeps the locals of its caller, and shares those around it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::Machine;
use crate::problem::{Evaluated, Stop, StopKind};
use crate::syntax::{Argument, Lambda};
use crate::types::FunctionTy;
use crate::value::{Function, Shared, Value};

/// How deep functions may be inside of each other, by the depth of their trees: the stack of a script holds it.
const DEEPEST: usize = 5_000;

/// What a call adds to the depth of its function.
const CALL: usize = 8;

/// In bytes: a local that functions share.
const SHARED: usize = 80;

/// A local by its slot.
#[derive(Clone, Debug)]
pub(super) enum Local {
    Own(Value),
    Shared(Shared),
}

/// All locals that functions share: they may refer to each other, and are emptied when the script ends.
#[derive(Debug, Default)]
pub(super) struct SharedLocals(RefCell<Vec<Shared>>);

impl Drop for SharedLocals {
    fn drop(&mut self) {
        let all = self.0.take();
        let values: Vec<Value> = all.iter().map(|shared| shared.replace(Value::Null)).collect();
        drop(values);
    }
}

/// How deep the calls of functions are.
#[derive(Debug, Default)]
pub(super) struct Depth(Cell<usize>);

impl Machine<'_> {
    /// A local that begins: one that functions share is another one each time.
    pub(super) fn declare_local(&self, slot: usize, value: Value) -> Evaluated<()> {
        let is_shared = self.layout.shared.get(slot).copied().unwrap_or(false);
        let local = if is_shared {
            self.meter.hold(SHARED)?;
            let shared = Rc::new(RefCell::new(value));
            self.shared.0.borrow_mut().push(Rc::clone(&shared));
            Local::Shared(shared)
        } else {
            Local::Own(value)
        };
        if let Some(place) = self.locals.borrow_mut().get_mut(slot) {
            *place = local;
        }
        Ok(())
    }

    pub(crate) fn set_local(&self, slot: usize, value: Value) {
        let old = match self.locals.borrow_mut().get_mut(slot) {
            Some(Local::Own(place)) => std::mem::replace(place, value),
            Some(Local::Shared(shared)) => shared.replace(value),
            None => value,
        };
        drop(old);
    }

    pub(super) fn local(&self, slot: usize) -> Value {
        match self.locals.borrow().get(slot) {
            Some(Local::Own(value)) => value.clone(),
            Some(Local::Shared(shared)) => shared.borrow().clone(),
            None => Value::Null,
        }
    }

    /// A lambda as a value: it keeps the locals around it that functions share.
    pub(super) fn function(&self, lambda: &Arc<Lambda>, ty: &Arc<FunctionTy>) -> Evaluated<Value> {
        let (first, _) = lambda.slots;
        self.meter.steps(first / 16)?;
        let locals = self.locals.borrow();
        let around = locals.iter().take(first).enumerate();
        let captured: Vec<(usize, Shared)> = around
            .filter_map(|(slot, local)| match local {
                Local::Shared(shared) => Some((slot, Rc::clone(shared))),
                Local::Own(_) => None,
            })
            .collect();
        self.meter.hold(80 + 24 * captured.len())?;
        Ok(Value::Function(Rc::new(Function {
            lambda: Arc::clone(lambda),
            ty: Arc::clone(ty),
            captured,
        })))
    }

    /// Puts locals into their slots; returns what was there.
    fn exchange(&self, locals: Vec<(usize, Local)>) -> Vec<(usize, Local)> {
        let mut all = self.locals.borrow_mut();
        let exchanged = locals.into_iter().filter_map(|(slot, local)| {
            let place = all.get_mut(slot)?;
            Some((slot, std::mem::replace(place, local)))
        });
        exchanged.collect()
    }

    fn within(&self, lambda: &Lambda, captured: &[(usize, Shared)], arguments: &[Value]) -> Evaluated<Value> {
        let (first, end) = lambda.slots;
        self.meter.steps((end - first + captured.len()) / 8)?;
        let before = self.depth.0.get();
        let depth = before + lambda.depth + CALL;
        if depth > DEEPEST {
            let message = "the functions of the script call each other too deeply; use a loop and a list";
            return Err(Stop::new(StopKind::Memory, message));
        }
        self.depth.0.set(depth);
        let own = (first..end).map(|slot| (slot, Local::Own(Value::Null)));
        let around = captured
            .iter()
            .map(|(slot, shared)| (*slot, Local::Shared(Rc::clone(shared))));
        let kept = self.exchange(around.chain(own).collect());
        let result = self.invoke(lambda, arguments);
        drop(self.exchange(kept));
        self.depth.0.set(before);
        result
    }

    /// Calls a function that is a value.
    pub(crate) fn call_function(&self, function: &Function, arguments: &[Value]) -> Evaluated<Value> {
        self.within(&function.lambda, &function.captured, arguments)
    }

    pub(super) fn call_value(&self, target: &Value, arguments: &[Argument]) -> Evaluated<Value> {
        let Value::Function(function) = target else {
            let name = target.type_name();
            return Err(if target.is_null() {
                Stop::thrown("NullReferenceException", "a function that is null is called")
            } else {
                Stop::thrown("RuntimeBinderException", format!("{name} is not a function"))
            });
        };
        self.call_function(function, &self.values(arguments)?)
    }

    /// Calls a local function by its number.
    pub(super) fn call_local_function(&self, number: usize, arguments: &[Argument]) -> Evaluated<Value> {
        let Some(lambda) = self.layout.functions.get(number) else {
            return Err(Stop::thrown("MissingMethodException", "there is no such function"));
        };
        self.within(lambda, &[], &self.values(arguments)?)
    }

    fn values(&self, arguments: &[Argument]) -> Evaluated<Vec<Value>> {
        arguments.iter().map(|argument| self.eval(&argument.value)).collect()
    }
}
