//! Sets: each item is there once.

use std::rc::Rc;

use super::problem::Evaluated;
use super::run::Meter;
use super::types::{ListKind, Ty};
use super::value::{List, Value, identity};

/// A set of what is in a list.
pub(super) fn set_of(item: Ty, items: Vec<Value>, meter: &Meter<'_>) -> Evaluated<Value> {
    let made = Value::list(ListKind::Set, item, Vec::new());
    if let Value::List(set) = &made {
        for item in items {
            add(set, item, meter)?;
        }
    }
    Ok(made)
}

/// Adds an item; returns false if it is there.
pub(super) fn add(set: &Rc<List>, item: Value, meter: &Meter<'_>) -> Evaluated<bool> {
    meter.step()?;
    meter.find(&item)?;
    let key = identity(&item);
    if set.keys.borrow().contains(&key) {
        return Ok(false);
    }
    meter.hold(80 + key.len())?;
    meter.put(&item, Value::List(Rc::clone(set)))?;
    set.keys.borrow_mut().insert(key);
    set.change().push(item);
    Ok(true)
}
