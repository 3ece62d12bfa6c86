//! The limits of a script: steps, bytes and time. Each is checked where it is spent.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::SystemTime;

use mainspring_language::{Steps, Stopped};

use crate::problem::{Evaluated, Stop, StopKind};
use crate::value::{Entries, RecordKind, Value, empty, identity};

/// The bounds of one run.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The steps that it may take: a statement, an expression, an item of a list, or 64 bytes of a value.
    pub steps: u64,
    /// Bytes of all values that it makes.
    pub bytes: usize,
    /// Bytes of JSON that it may return, with its variables.
    pub result_bytes: usize,
    /// Who bounds its time. `None` if only its steps bound it.
    pub caller: Option<&'a dyn Steps>,
}

impl fmt::Debug for Bounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounds")
            .field("steps", &self.steps)
            .field("bytes", &self.bytes)
            .field("result_bytes", &self.result_bytes)
            .finish_non_exhaustive()
    }
}

/// In steps: how often the caller is asked.
const ASK_EVERY: u64 = 1_024;

/// Bytes that are as much work as a step.
const BYTES_OF_STEP: usize = 64;

pub(crate) struct Meter<'a> {
    bounds: Bounds<'a>,
    began: SystemTime,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    next_question: Cell<u64>,
    /// Containers into which the script has put others: they may refer to themselves.
    changed: RefCell<Vec<Value>>,
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        for container in self.changed.take() {
            empty(&container);
        }
    }
}

impl<'a> Meter<'a> {
    pub(super) fn new(bounds: Bounds<'a>, began: SystemTime) -> Self {
        Self {
            bounds,
            began,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            next_question: Cell::new(0),
            changed: RefCell::new(Vec::new()),
        }
    }

    /// When the script began: a text that names no day means that one.
    pub(crate) fn now(&self) -> SystemTime {
        self.began
    }

    pub(crate) fn bounds_of_result(&self) -> usize {
        self.bounds.result_bytes
    }

    /// Says that a value is put into a container, and counts what it takes to know that.
    pub(crate) fn put(&self, value: &Value, into: Value) -> Evaluated<()> {
        if value.is_container() {
            self.hold(40)?;
            self.changed.borrow_mut().push(into);
        }
        Ok(())
    }

    pub(crate) fn step(&self) -> Evaluated<()> {
        self.steps(1)
    }

    pub(crate) fn steps(&self, count: usize) -> Evaluated<()> {
        let steps = self
            .steps
            .get()
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        self.steps.set(steps);
        if steps > self.bounds.steps {
            let message = format!("the script needs more than {} steps", self.bounds.steps);
            return Err(Stop::new(StopKind::Steps, message));
        }
        if steps >= self.next_question.get() {
            self.next_question.set(steps + ASK_EVERY);
            return self.ask();
        }
        Ok(())
    }

    /// Counts the search for a key.
    pub(crate) fn find(&self, key: &Value) -> Evaluated<()> {
        self.steps(key.key_bytes() / BYTES_OF_STEP)
    }

    /// Sets the value of a key; returns true if the key is new. Counts the search, and the text that a new one is kept by.
    pub(crate) fn set(&self, entries: &mut Entries, key: Value, value: Value) -> Evaluated<bool> {
        self.find(&key)?;
        let identity = identity(&key);
        if !entries.has(&identity) {
            self.hold(identity.len())?;
        }
        Ok(entries.set(identity, key, value))
    }

    /// Whether two values are equal, as `==` and `Equals` say about values of one type, and of numbers of different ones.
    /// Lists and dictionaries are the same only if they are one. Counts what is compared.
    pub(crate) fn equal(&self, a: &Value, b: &Value) -> Evaluated<bool> {
        match (a, b) {
            (Value::Text(a), Value::Text(b)) => {
                self.steps(a.len().min(b.len()) / BYTES_OF_STEP)?;
                Ok(a == b)
            }
            (Value::Record(a), Value::Record(b)) if !Rc::ptr_eq(a, b) => {
                if a.kind != b.kind || a.fields.len() != b.fields.len() {
                    return Ok(false);
                }
                for ((a_name, a_part), (b_name, b_part)) in a.fields.iter().zip(&b.fields) {
                    self.step()?;
                    let is_named = a.kind == RecordKind::Tuple || a_name == b_name;
                    if !is_named || !self.equal(a_part, b_part)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(a.equals(b)),
        }
    }

    /// The place of the first item that is equal to a value.
    pub(crate) fn place_of(&self, items: &[Value], wanted: &Value) -> Evaluated<Option<usize>> {
        for (place, item) in items.iter().enumerate() {
            self.step()?;
            if self.equal(item, wanted)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn ask(&self) -> Evaluated<()> {
        let answer = self.bounds.caller.map_or(Ok(()), Steps::check);
        answer.map_err(|stopped| match stopped {
            Stopped::OutOfTime => Stop::new(StopKind::Time, "the script ran longer than its limit"),
            Stopped::Cancelled => Stop::new(StopKind::Cancelled, "the script was cancelled"),
        })
    }

    /// Counts a value of so many bytes, before it is made where it can be large.
    pub(crate) fn hold(&self, bytes: usize) -> Evaluated<()> {
        let before = self.bytes.get();
        let total = before.saturating_add(bytes);
        self.bytes.set(total);
        if total > self.bounds.bytes {
            let message = format!("the script makes values of more than {} bytes", self.bounds.bytes);
            return Err(Stop::new(StopKind::Memory, message));
        }
        // Of the total, so that many small values count too.
        self.steps(total / BYTES_OF_STEP - before / BYTES_OF_STEP)
    }
}
