//! The values of a template, as in Fluid: numbers are decimals, and texts count UTF-16.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use chrono::{DateTime, FixedOffset};
use serde_json::{Map, Value as Json};

use super::budget::{Builder, Held, TemplateBudget};
use super::error::TemplateFailure;
use super::number;
use mainspring_language::{Decimal, Rounding};

/// Bytes that an item of a list takes, besides its text.
pub(super) const ITEM_BYTES: usize = size_of::<Value<'_>>();

/// Bytes that a text takes, besides its characters.
const TEXT_BYTES: usize = 64;

/// Bytes of a text that is kept in its value.
const INLINE: usize = 22;

#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Nil,
    Empty,
    Blank,
    Boolean(bool),
    Number(Decimal),
    Text(Text<'a>),
    /// A list of the data.
    Items(&'a [Json]),
    /// An object of the data.
    Map(&'a Map<String, Json>),
    /// A list that the template made.
    List(Rc<List<'a>>),
    /// Whole numbers, both ends included; empty if the second is less.
    Range(i64, i64),
    Date(DateTime<FixedOffset>),
    ForLoop(Rc<ForLoop>),
    /// The left side of a comparison, and its result: it is written as the one, and decides as the other.
    Compared(Rc<Value<'a>>, bool),
    /// What the template can see, and two of its members.
    Model,
    Variables,
    Inputs,
}

/// A text of the data or the template, or one that the template made.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    /// Short: its bytes, and how many they are.
    Inline([u8; INLINE], u8),
    Made(Rc<MadeText>),
}

#[derive(Debug)]
pub(super) struct MadeText {
    text: String,
    _held: Held,
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Inline(bytes, len) => {
                let bytes = bytes.get(..usize::from(*len)).unwrap_or_default();
                std::str::from_utf8(bytes).unwrap_or_default()
            }
            Self::Made(made) => &made.text,
        }
    }
}

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl<'a> Text<'a> {
    /// A text that the template made.
    pub(super) fn made(text: String, budget: &TemplateBudget<'_>) -> Result<Self, TemplateFailure> {
        if let Some(short) = Self::inline(&text) {
            return Ok(short);
        }
        let held = budget.hold(text.len() + TEXT_BYTES)?;
        Ok(Self::Made(Rc::new(MadeText { text, _held: held })))
    }

    fn inline(text: &str) -> Option<Self> {
        let mut bytes = [0; INLINE];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self::Inline(bytes, u8::try_from(text.len()).ok()?))
    }

    /// The same of a constant.
    pub(super) fn of(text: &'a str) -> Self {
        Self::Borrowed(text)
    }

    /// The length in UTF-16, as .NET counts.
    pub(super) fn utf16_len(&self) -> usize {
        if self.is_ascii() {
            self.len()
        } else {
            self.encode_utf16().count()
        }
    }
}

#[derive(Debug)]
pub(super) struct List<'a> {
    pub(super) items: Vec<Value<'a>>,
    _held: Held,
}

/// The state of a loop, which its body sees change.
#[derive(Debug, Default)]
pub(super) struct ForLoop {
    pub(super) length: Cell<i64>,
    /// From 0.
    pub(super) index: Cell<i64>,
}

/// What a value counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nil,
    Empty,
    Boolean,
    Number,
    Text,
    List,
    Map,
    Date,
    Object,
}

impl<'a> Value<'a> {
    pub(super) fn from_json(json: &'a Json) -> Result<Self, TemplateFailure> {
        Ok(match json {
            Json::Null => Self::Nil,
            Json::Bool(flag) => Self::Boolean(*flag),
            Json::Number(json) => Self::Number(number::from_json(json)?),
            Json::String(text) => Self::Text(Text::Borrowed(text)),
            Json::Array(items) => Self::Items(items),
            Json::Object(fields) => Self::Map(fields),
        })
    }

    /// A text that the template made.
    pub(super) fn made(text: String, budget: &TemplateBudget<'_>) -> Result<Self, TemplateFailure> {
        Text::made(text, budget).map(Self::Text)
    }

    /// A list that the template made.
    pub(super) fn list(items: Vec<Value<'a>>, budget: &TemplateBudget<'_>) -> Result<Self, TemplateFailure> {
        let bytes = items.capacity() * ITEM_BYTES + TEXT_BYTES;
        budget.spend(u64::try_from(items.len() / 4).unwrap_or(u64::MAX))?;
        let held = budget.hold(bytes)?;
        Ok(Self::List(Rc::new(List { items, _held: held })))
    }

    pub(super) fn whole(number: i64) -> Self {
        Self::Number(Decimal::from(number))
    }

    /// A comparison; of a comparison, the left side counts.
    pub(super) fn compared(left: Value<'a>, result: bool) -> Self {
        match left {
            Self::Compared(inner, _) => Self::Compared(inner, result),
            left => Self::Compared(Rc::new(left), result),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Nil => Kind::Nil,
            Self::Empty | Self::Blank => Kind::Empty,
            Self::Boolean(_) => Kind::Boolean,
            Self::Number(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
            Self::Items(_) | Self::List(_) | Self::Range(..) => Kind::List,
            Self::Map(_) | Self::ForLoop(_) => Kind::Map,
            Self::Date(_) => Kind::Date,
            Self::Compared(left, _) => left.kind(),
            Self::Model | Self::Variables | Self::Inputs => Kind::Object,
        }
    }

    /// `empty` and `blank` count as nil, too.
    pub(super) fn is_nil(&self) -> bool {
        matches!(self.kind(), Kind::Nil | Kind::Empty)
    }

    /// Only nil and false are false.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Boolean(flag) | Self::Compared(_, flag) => *flag,
            _ => true,
        }
    }

    /// The value that a comparison stands for.
    pub(super) fn bare(&self) -> &Value<'a> {
        match self {
            Self::Compared(left, _) => left,
            other => other,
        }
    }

    /// As a number; what is none is 0.
    pub(super) fn number(&self, budget: &TemplateBudget<'_>) -> Result<Decimal, TemplateFailure> {
        Ok(match self.bare() {
            Self::Number(number) => *number,
            Self::Boolean(flag) => Decimal::from(i64::from(*flag)),
            Self::Text(text) => number::parse(number::trimmed(text, budget)?).unwrap_or_default(),
            list @ (Self::Items(_) | Self::List(_) | Self::Range(..)) => {
                Decimal::from(i64::try_from(list.len()).unwrap_or(i64::MAX))
            }
            // .NET's ticks, of 100 ns since the year 1.
            Self::Date(date) => Decimal::from(number::ticks(date)),
            _ => Decimal::ZERO,
        })
    }

    /// As an integer of 32 bits, rounded to the even one.
    pub(super) fn integer(&self, what: &str, budget: &TemplateBudget<'_>) -> Result<i64, TemplateFailure> {
        let rounded = self.number(budget)?.round(0, Rounding::HalfEven);
        let whole = rounded.to_i64().filter(|whole| i32::try_from(*whole).is_ok());
        whole.ok_or_else(|| TemplateFailure::invalid(format!("{what} is {rounded}, which is not a 32-bit integer")))
    }

    /// As text. Objects have none, and the items of a list follow each other.
    pub(super) fn text(&self, budget: &TemplateBudget<'_>) -> Result<Text<'a>, TemplateFailure> {
        Ok(match self {
            Self::Text(text) => text.clone(),
            Self::Boolean(flag) | Self::Compared(_, flag) => Text::of(if *flag { "true" } else { "false" }),
            Self::Number(number) => Text::made(number.to_string(), budget)?,
            Self::ForLoop(_) => Text::of("forloop"),
            Self::Date(date) => Text::made(number::date_text(date), budget)?,
            Self::Items(_) | Self::List(_) | Self::Range(..) => {
                let mut joined = Builder::new(budget);
                self.each(budget, |item| joined.push_str(&item.text(budget)?))?;
                Text::made(joined.finish()?, budget)?
            }
            _ => Text::of(""),
        })
    }

    /// The number of items of a list.
    pub(super) fn len(&self) -> usize {
        match self.bare() {
            Self::Items(items) => items.len(),
            Self::List(list) => list.items.len(),
            Self::Range(from, to) => usize::try_from(to - from + 1).unwrap_or(0),
            _ => 0,
        }
    }

    /// An item of a list.
    pub(super) fn item(&self, index: usize) -> Result<Option<Value<'a>>, TemplateFailure> {
        match self.bare() {
            Self::Items(items) => items.get(index).map(Value::from_json).transpose(),
            Self::List(list) => Ok(list.items.get(index).cloned()),
            range @ Self::Range(from, _) => {
                let offset = i64::try_from(index).ok().filter(|_| index < range.len());
                Ok(offset.map(|offset| Value::whole(from + offset)))
            }
            _ => Ok(None),
        }
    }

    /// Calls `use_item` for what a loop would run over: the items of a list, the pairs of an object, a text as a whole.
    pub(super) fn each(
        &self,
        budget: &TemplateBudget<'_>,
        mut use_item: impl FnMut(Value<'a>) -> Result<(), TemplateFailure>,
    ) -> Result<(), TemplateFailure> {
        match self.bare() {
            Self::Map(fields) => {
                for (key, value) in *fields {
                    budget.spend(1)?;
                    let key = Value::Text(Text::Borrowed(key));
                    use_item(Value::list(vec![key, Value::from_json(value)?], budget)?)?;
                }
            }
            text @ Self::Text(_) => use_item(text.clone())?,
            list => {
                for index in 0..list.len() {
                    budget.spend(1)?;
                    if let Some(item) = list.item(index)? {
                        use_item(item)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same as a list.
    pub(super) fn items(&self, budget: &TemplateBudget<'_>) -> Result<Vec<Value<'a>>, TemplateFailure> {
        budget.check_memory(self.len().saturating_mul(ITEM_BYTES))?;
        let mut items = Vec::new();
        self.each(budget, |item| {
            if items.len() == items.capacity() {
                budget.check_memory(items.len().saturating_mul(2 * ITEM_BYTES))?;
            }
            items.push(item);
            Ok(())
        })?;
        Ok(items)
    }

    /// A member by name, of all but the model.
    pub(super) fn member(&self, name: &str, budget: &TemplateBudget<'_>) -> Result<Value<'a>, TemplateFailure> {
        budget.spend_bytes(name.len())?;
        let value = self.bare();
        Ok(match (value, name) {
            (Self::Text(text), "size") => {
                budget.spend_bytes(text.len())?;
                Value::whole(i64::try_from(text.utf16_len()).unwrap_or(i64::MAX))
            }
            (Self::Text(text), "first") => character(text, 0),
            (Self::Text(text), "last") => character(text, text.char_indices().last().map_or(0, |(at, _)| at)),
            (Self::Map(fields), "size") => Value::whole(i64::try_from(fields.len()).unwrap_or(i64::MAX)),
            (Self::Map(fields), name) => fields.get(name).map_or(Ok(Value::Nil), Value::from_json)?,
            (Self::Items(_) | Self::List(_) | Self::Range(..), name) => match name {
                "size" => Value::whole(i64::try_from(value.len()).unwrap_or(i64::MAX)),
                "first" => value.item(0)?.unwrap_or(Value::Nil),
                "last" => value.item(value.len().wrapping_sub(1))?.unwrap_or(Value::Nil),
                _ => Value::Nil,
            },
            (Self::ForLoop(state), name) => {
                let (length, index) = (state.length.get(), state.index.get());
                match name {
                    "length" => Value::whole(length),
                    "index" => Value::whole(index + 1),
                    "index0" => Value::whole(index),
                    "rindex" => Value::whole(length - index),
                    "rindex0" => Value::whole(length - index - 1),
                    "first" => Value::Boolean(index == 0),
                    "last" => Value::Boolean(index == length - 1),
                    _ => Value::Nil,
                }
            }
            _ => Value::Nil,
        })
    }

    /// What stands at an index: of a list by number, of an object by text.
    pub(super) fn index(&self, index: &Value<'a>, budget: &TemplateBudget<'_>) -> Result<Value<'a>, TemplateFailure> {
        match self.bare() {
            list @ (Self::Items(_) | Self::List(_) | Self::Range(..)) => {
                let index = index
                    .number(budget)?
                    .to_i64()
                    .and_then(|index| usize::try_from(index).ok());
                Ok(index.map_or(Ok(None), |index| list.item(index))?.unwrap_or(Value::Nil))
            }
            Self::Map(fields) => {
                let name = index.text(budget)?;
                budget.spend_bytes(name.len())?;
                fields.get(&*name).map_or(Ok(Value::Nil), Value::from_json)
            }
            _ => Ok(Value::Nil),
        }
    }
}

/// The character that begins at a byte.
fn character<'a>(text: &Text<'a>, at: usize) -> Value<'a> {
    let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) else {
        return Value::Nil;
    };
    match text {
        Text::Borrowed(text) => {
            let part = text.get(at..at + first.len_utf8()).unwrap_or_default();
            Value::Text(Text::Borrowed(part))
        }
        _ => Text::inline(first.encode_utf8(&mut [0; 4])).map_or(Value::Nil, Value::Text),
    }
}
