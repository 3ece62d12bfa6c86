//! The values of a script while it runs. They never leave the thread that runs it: the result is JSON.

use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use uuid::Uuid;

use super::date_time::{DateTime, DateTimeOffset};
use super::object::Object;
use super::problem::{Evaluated, Stop};
use super::syntax::Lambda;
use super::types::{EnumKind, FunctionTy, ListKind, Ty};
use mainspring_language::Decimal;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
    /// A unit of UTF-16.
    Char(u16),
    Text(Arc<str>),
    Date(DateTime),
    Offset(DateTimeOffset),
    /// In ticks of 100 ns.
    Span(i64),
    Guid(Uuid),
    Enum(EnumKind, i32),
    List(Rc<List>),
    Map(Rc<Map>),
    Record(Rc<RecordValue>),
    Object(Rc<Object>),
    Function(Rc<Function>),
}

/// A local that functions share with the statements around them.
pub(super) type Shared = Rc<RefCell<Value>>;

/// A lambda as a value, with the locals around it by their slots.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) lambda: Arc<Lambda>,
    pub(super) ty: Arc<FunctionTy>,
    pub(super) captured: Vec<(usize, Shared)>,
}

/// A list of any kind; with a key it is a group.
#[derive(Debug)]
pub(super) struct List {
    pub(super) kind: ListKind,
    pub(super) item: Ty,
    pub(super) key: Option<Value>,
    /// Of what `OrderBy` has sorted: equal for items that `ThenBy` may still order.
    pub(super) ranks: Vec<usize>,
    pub(super) items: RefCell<Vec<Value>>,
    /// How often its items were changed: who reads them one after another sees by it that they are others.
    pub(super) version: Cell<u64>,
    /// Of a set: what its items are found by.
    pub(super) keys: RefCell<HashSet<Rc<str>>>,
}

/// A dictionary, or an object of JSON, whose keys are its members.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) key: Ty,
    pub(super) value: Ty,
    /// An object of JSON: its keys are members.
    pub(super) is_object: bool,
    /// Its pairs are in the order of their keys, as in a `SortedDictionary`.
    pub(super) is_sorted: bool,
    pub(super) entries: RefCell<Entries>,
}

/// Pairs in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    list: Vec<(Value, Value)>,
    index: HashMap<Rc<str>, usize>,
}

/// An anonymous object, a tuple or a pair: its members do not change.
#[derive(Debug)]
pub(super) struct RecordValue {
    pub(super) kind: RecordKind,
    /// How many records are inside each other: what walks them recurses as deep.
    depth: usize,
    pub(super) fields: Vec<(Arc<str>, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Anonymous,
    Tuple,
    Pair,
}

/// In bytes: the longest text that makes a record a key.
const LONGEST_IDENTITY: usize = 64 << 10;

/// The deepest anonymous object or tuple.
const DEEPEST: usize = 100;

/// Lists may be nested as deep as there is memory: what they refer to is dropped one after another, without recursion.
fn release(mut values: Vec<Value>) {
    while let Some(value) = values.pop() {
        match value {
            Value::List(list) => {
                if let Some(mut list) = Rc::into_inner(list) {
                    values.append(list.items.get_mut());
                    values.extend(list.key.take());
                }
            }
            Value::Map(map) => {
                if let Some(mut map) = Rc::into_inner(map) {
                    values.extend(map.entries.get_mut().take());
                }
            }
            Value::Record(record) => {
                if let Some(mut record) = Rc::into_inner(record) {
                    values.extend(std::mem::take(&mut record.fields).into_iter().map(|(_, value)| value));
                }
            }
            _ => {}
        }
    }
}

impl List {
    /// The items, to change them.
    pub(super) fn change(&self) -> RefMut<'_, Vec<Value>> {
        self.version.set(self.version.get().wrapping_add(1));
        self.items.borrow_mut()
    }

    /// As .NET does, a list that changes while it is read ends who reads it.
    pub(super) fn unchanged_since(&self, version: u64, reader: &str) -> Evaluated<()> {
        if self.version.get() == version {
            return Ok(());
        }
        let message = format!("the list was changed while {reader} read it");
        Err(Stop::thrown("InvalidOperationException", message))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut values = std::mem::take(self.items.get_mut());
        values.extend(self.key.take());
        release(values);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        release(self.entries.get_mut().take());
    }
}

/// Empties a list or a dictionary: those that refer to themselves would never be dropped.
pub(super) fn empty(container: &Value) {
    let values = match container {
        Value::List(list) => list.items.try_borrow_mut().map(|mut items| std::mem::take(&mut *items)),
        Value::Map(map) => map.entries.try_borrow_mut().map(|mut entries| entries.take()),
        _ => return,
    };
    release(values.unwrap_or_default());
}

impl Entries {
    /// All values and keys that refer to others.
    fn take(&mut self) -> Vec<Value> {
        self.index.clear();
        let all = std::mem::take(&mut self.list).into_iter();
        all.flat_map(|(key, value)| [key, value])
            .filter(Value::is_container)
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Value, Value)> {
        self.list.iter()
    }

    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        let place = *self.index.get(&*identity(key))?;
        self.list.get(place).map(|(_, value)| value)
    }

    /// Whether a key has this identity.
    pub(super) fn has(&self, identity: &str) -> bool {
        self.index.contains_key(identity)
    }

    /// Sets the value of a key of this identity; returns true if the key is new. `Meter::set` counts it.
    pub(super) fn set(&mut self, identity: Rc<str>, key: Value, value: Value) -> bool {
        match self.index.get(&identity).and_then(|place| self.list.get_mut(*place)) {
            Some((_, old)) => {
                *old = value;
                false
            }
            None => {
                self.index.insert(identity, self.list.len());
                self.list.push((key, value));
                true
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Value) -> Option<Value> {
        let place = self.index.remove(&*identity(key))?;
        let (_, removed) = self.list.remove(place);
        for at in self.index.values_mut().filter(|at| **at > place) {
            *at -= 1;
        }
        Some(removed)
    }

    /// Moves the last pair to a place before it.
    pub(super) fn move_last(&mut self, to: usize) {
        let last = self.list.len().saturating_sub(1);
        let Some(part) = self.list.get_mut(to..).filter(|_| to < last) else {
            return;
        };
        part.rotate_right(1);
        for at in self.index.values_mut().filter(|at| **at >= to) {
            *at = if *at == last { to } else { *at + 1 };
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.index.clear();
    }
}

/// What makes two values the same key.
pub(super) fn identity(value: &Value) -> Rc<str> {
    match value {
        Value::Null => "n".into(),
        Value::Bool(flag) => format!("b{flag}").into(),
        // Keys of JSON have lost whether they were int or long.
        Value::Int(number) => format!("i{number}").into(),
        Value::Long(number) => format!("i{number}").into(),
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("i{number:.0}").into(),
        Value::Double(number) => format!("d{number:?}").into(),
        Value::Decimal(number) => {
            let plain = number.without_zeros();
            let mark = if plain.scale() == 0 { 'i' } else { 'm' };
            format!("{mark}{plain}").into()
        }
        Value::Char(unit) => format!("c{unit}").into(),
        Value::Text(text) => format!("s{text}").into(),
        Value::Date(date) => format!("t{}", date.ticks).into(),
        Value::Offset(at) => format!("o{}", at.utc_ticks()).into(),
        Value::Span(ticks) => format!("p{ticks}").into(),
        Value::Guid(guid) => format!("g{guid}").into(),
        Value::Enum(kind, number) => format!("e{}{number}", kind.name()).into(),
        Value::List(list) => format!("l{:p}", Rc::as_ptr(list)).into(),
        Value::Map(map) => format!("m{:p}", Rc::as_ptr(map)).into(),
        Value::Object(object) => format!("x{:p}", Rc::as_ptr(object)).into(),
        Value::Function(function) => format!("f{:p}", Rc::as_ptr(function)).into(),
        Value::Record(record) => {
            let mut text = String::new();
            match record_identity(value, &mut text) {
                true => text.into(),
                false => format!("r{:p}", Rc::as_ptr(record)).into(),
            }
        }
    }
}

/// The parts of a record, one behind the other; returns false if they are too long.
fn record_identity(value: &Value, text: &mut String) -> bool {
    if text.len() > LONGEST_IDENTITY {
        return false;
    }
    let Value::Record(record) = value else {
        let part = identity(value);
        let _ = write!(text, "{}{part}", part.len());
        return true;
    };
    text.push('r');
    let is_whole = record.fields.iter().all(|(name, value)| {
        let _ = write!(text, "{}{name}", name.len());
        record_identity(value, text)
    });
    text.push('e');
    is_whole
}

impl Value {
    pub(super) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list(kind: ListKind, item: Ty, items: Vec<Self>) -> Self {
        Self::List(Rc::new(List {
            kind,
            item,
            key: None,
            ranks: Vec::new(),
            items: RefCell::new(items),
            version: Cell::new(0),
            keys: RefCell::default(),
        }))
    }

    pub(super) fn object(object: Object) -> Self {
        Self::Object(Rc::new(object))
    }

    /// A dictionary or an object.
    pub(super) fn map(key: Ty, value: Ty, is_object: bool, entries: Entries) -> Self {
        Self::Map(Rc::new(Map {
            key,
            value,
            is_object,
            is_sorted: false,
            entries: RefCell::new(entries),
        }))
    }

    pub(super) fn record(kind: RecordKind, fields: Vec<(Arc<str>, Self)>) -> Self {
        let of_record = |value: &Self| {
            if let Self::Record(record) = value {
                record.depth
            } else {
                0
            }
        };
        let depth = fields.iter().map(|(_, value)| of_record(value)).max().unwrap_or(0) + 1;
        Self::Record(Rc::new(RecordValue { kind, depth, fields }))
    }

    /// Whether it is an anonymous object or a tuple that is nested too deep to be walked.
    pub(super) fn is_too_deep(&self) -> bool {
        matches!(self, Self::Record(record) if record.depth > DEEPEST)
    }

    /// Whether it refers to others.
    pub(super) fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Record(_))
    }

    /// Its type without those of its parts, which may nest without end.
    pub(super) fn shallow_ty(&self) -> Ty {
        if self.is_container() { Ty::Dynamic } else { self.ty() }
    }

    pub(super) fn pair(key: Self, value: Self) -> Self {
        Self::record(RecordKind::Pair, vec![("Key".into(), key), ("Value".into(), value)])
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Its type when the script runs.
    pub(super) fn ty(&self) -> Ty {
        match self {
            Self::Null => Ty::Null,
            Self::Bool(_) => Ty::Bool,
            Self::Int(_) => Ty::Int,
            Self::Long(_) => Ty::Long,
            Self::Double(_) => Ty::Double,
            Self::Decimal(_) => Ty::Decimal,
            Self::Char(_) => Ty::Char,
            Self::Text(_) => Ty::Text,
            Self::Date(_) => Ty::Date,
            Self::Offset(_) => Ty::Offset,
            Self::Span(_) => Ty::Span,
            Self::Guid(_) => Ty::Guid,
            Self::Enum(kind, _) => Ty::Enum(*kind),
            Self::List(list) => Ty::list(list.kind, list.item.clone()),
            Self::Map(map) if map.is_object => Ty::Dynamic,
            Self::Map(map) => Ty::map(map.key.clone(), map.value.clone()),
            // Its parts may be shared so often that their types have no end.
            Self::Record(_) => Ty::Dynamic,
            Self::Object(object) => Ty::Object(object.kind()),
            Self::Function(function) => Ty::Function(Arc::clone(&function.ty)),
        }
    }

    /// The name of its type, for messages.
    pub(super) fn type_name(&self) -> String {
        match self {
            Self::Map(map) if map.is_object => "ExpandoObject".to_owned(),
            Self::Record(record) if record.kind == RecordKind::Tuple => "a tuple".to_owned(),
            Self::Record(record) if record.kind == RecordKind::Pair => "KeyValuePair".to_owned(),
            other => other.ty().to_string(),
        }
    }

    /// About how many bytes it takes, without what it refers to.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => 40 + text.len(),
            Self::List(list) => 80 + 40 * list.items.borrow().len(),
            Self::Map(map) => 120 + 160 * map.entries.borrow().len(),
            Self::Record(record) => 40 + 60 * record.fields.len(),
            Self::Function(function) => 80 + 24 * function.captured.len(),
            _ => 40,
        }
    }

    /// About how many bytes of it [`identity`] reads: it ends where a record has too many.
    pub(super) fn key_bytes(&self) -> usize {
        fn within(value: &Value, total: &mut usize) {
            match value {
                Value::Text(text) => *total += text.len(),
                Value::Record(record) => {
                    for (name, part) in &record.fields {
                        if *total > LONGEST_IDENTITY {
                            return;
                        }
                        *total += name.len() + 8;
                        within(part, total);
                    }
                }
                _ => {}
            }
        }
        let mut total = 0;
        within(self, &mut total);
        total
    }

    /// Whether it is the same as another, or a number, a date or a length of time that is equal.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Enum(a, x), Self::Enum(b, y)) => a == b && x == y,
            (Self::List(a), Self::List(b)) => Rc::ptr_eq(a, b),
            (Self::Map(a), Self::Map(b)) => Rc::ptr_eq(a, b),
            (Self::Record(a), Self::Record(b)) => Rc::ptr_eq(a, b),
            (Self::Object(a), Self::Object(b)) => Rc::ptr_eq(a, b),
            (Self::Function(a), Self::Function(b)) => Rc::ptr_eq(a, b),
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// The order of numbers, dates and lengths of time; `None` if they have none.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Date(a), Self::Date(b)) => Some(a.ticks.cmp(&b.ticks)),
            (Self::Offset(a), Self::Offset(b)) => Some(a.utc_ticks().cmp(&b.utc_ticks())),
            (Self::Date(a), Self::Offset(b)) => Some(a.ticks.cmp(&b.utc_ticks())),
            (Self::Offset(a), Self::Date(b)) => Some(a.utc_ticks().cmp(&b.ticks)),
            (Self::Span(a), Self::Span(b)) => Some(a.cmp(b)),
            (Self::Guid(a), Self::Guid(b)) => Some(a.cmp(b)),
            (Self::Enum(_, a), Self::Enum(_, b)) => Some(a.cmp(b)),
            _ => self.number_order(other),
        }
    }

    fn number_order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Decimal(a), Self::Double(b)) | (Self::Double(b), Self::Decimal(a)) => {
                let order = a.to_f64().partial_cmp(b)?;
                Some(if matches!(self, Self::Decimal(_)) {
                    order
                } else {
                    order.reverse()
                })
            }
            (Self::Decimal(_), _) | (_, Self::Decimal(_)) => Some(self.as_decimal()?.cmp(&other.as_decimal()?)),
            (Self::Double(_), _) | (_, Self::Double(_)) => self.as_f64()?.partial_cmp(&other.as_f64()?),
            _ => Some(self.as_i64()?.cmp(&other.as_i64()?)),
        }
    }

    /// A whole number, or a char as one.
    pub(super) fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(i64::from(*number)),
            Self::Long(number) => Some(*number),
            Self::Char(unit) => Some(i64::from(*unit)),
            _ => None,
        }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Double(number) => Some(*number),
            Self::Decimal(number) => Some(number.to_f64()),
            other => other.as_i64().map(|number| number as f64),
        }
    }

    pub(super) fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Self::Decimal(number) => Some(*number),
            Self::Double(number) => Decimal::from_f64(*number),
            other => other.as_i64().map(Decimal::from_i64),
        }
    }
}
