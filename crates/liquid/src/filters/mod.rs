//! The filters: Fluid's for texts, numbers, lists and the rest, and Elsa's `base64` and `keys`.
//!
//! Each is a function from a value and its arguments to a value, within the bounds of the rendering: its results grow
//! through a `Builder` or are counted before they are made, and its work is counted in steps.

mod date;
mod date_format;
mod date_text;
mod encoding;
mod format;
mod html;
mod json;
mod link;
mod list;
mod math;
mod number_digits;
mod number_format;
mod number_pattern;
mod text;
mod windows_zones;

use std::sync::LazyLock;

use super::budget::{Builder, TemplateBudget};
use super::data::TemplateData;
use super::error::TemplateFailure;
use super::value::{Text, Value};

/// A filter.
pub(super) struct Filter {
    pub(super) name: &'static str,
    /// The arguments without which it fails.
    pub(super) required: usize,
    pub(super) usage: &'static str,
    pub(super) apply: Apply,
}

type Apply = for<'a, 'b> fn(Call<'a, 'b>) -> Filtered<'a>;

type Filtered<'a> = Result<Value<'a>, TemplateFailure>;

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn filter(name: &'static str, apply: Apply) -> Filter {
    Filter {
        name,
        required: 0,
        usage: name,
        apply,
    }
}

const fn with(name: &'static str, required: usize, usage: &'static str, apply: Apply) -> Filter {
    Filter {
        name,
        required,
        usage,
        apply,
    }
}

static FILTERS: LazyLock<Vec<Filter>> = LazyLock::new(|| {
    let mut all: Vec<Filter> = [
        text::FILTERS.as_slice(),
        math::FILTERS.as_slice(),
        list::FILTERS.as_slice(),
        encoding::FILTERS.as_slice(),
        html::FILTERS.as_slice(),
        json::FILTERS.as_slice(),
        date::FILTERS.as_slice(),
        format::FILTERS.as_slice(),
        link::FILTERS.as_slice(),
    ]
    .into_iter()
    .flatten()
    .map(|filter| Filter { ..*filter })
    .collect();
    all.sort_unstable_by_key(|filter| filter.name);
    all
});

/// The filter of a name.
pub(super) fn find(name: &str) -> Option<&'static Filter> {
    let place = FILTERS.binary_search_by_key(&name, |filter| filter.name).ok()?;
    FILTERS.get(place)
}

/// All names, sorted.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.name)
}

/// What to write instead of a filter that does not exist.
pub(super) fn instead_of(name: &str) -> String {
    /// Of other Liquids, and of mistaken names.
    const MEANT: [(&str, &str); 14] = [
        ("upper", "upcase"),
        ("uppercase", "upcase"),
        ("to_upper", "upcase"),
        ("lower", "downcase"),
        ("lowercase", "downcase"),
        ("to_lower", "downcase"),
        ("length", "size"),
        ("count", "size"),
        ("trim", "strip"),
        ("to_json", "json"),
        ("jsonify", "json"),
        ("add", "plus"),
        ("subtract", "minus"),
        ("unique", "uniq"),
    ];
    let meant = MEANT.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let meant = meant.map(|(_, meant)| *meant);
    if let Some(meant) = meant.or_else(|| names().find(|known| is_near(known, name))) {
        return format!("write {meant}");
    }
    format!("known filters are {}", names().collect::<Vec<_>>().join(", "))
}

/// Whether two names differ by their case, by one character, or by two that changed places.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let longer = one.len().max(other.len());
    let differs_by_one = one.len().abs_diff(other.len()) <= 1 && start + end + 1 >= longer;
    let swapped = one.len() == other.len() && start + end + 2 == longer && one.get(start) == other.get(start + 1);
    longer > 3 && (differs_by_one || swapped)
}

/// A value that a filter is applied to.
pub(super) struct Call<'a, 'b> {
    pub(super) input: Value<'a>,
    /// Those with a name have a place, too.
    pub(super) arguments: &'b [(Option<&'a str>, Value<'a>)],
    pub(super) budget: &'b TemplateBudget<'b>,
    pub(super) data: &'a dyn TemplateData,
}

impl<'a, 'b> Call<'a, 'b> {
    fn argument(&self, place: usize) -> Value<'a> {
        self.given(place).cloned().unwrap_or(Value::Nil)
    }

    fn given(&self, place: usize) -> Option<&Value<'a>> {
        self.arguments.get(place).map(|(_, value)| value)
    }

    fn named(&self, name: &str) -> Option<&Value<'a>> {
        let found = self.arguments.iter().find(|(given, _)| *given == Some(name));
        found.map(|(_, value)| value)
    }

    /// The input as text.
    fn text(&self) -> Result<Text<'a>, TemplateFailure> {
        self.text_of(&self.input)
    }

    /// An argument as text.
    fn argument_text(&self, place: usize) -> Result<Text<'a>, TemplateFailure> {
        self.text_of(&self.argument(place))
    }

    fn text_of(&self, value: &Value<'a>) -> Result<Text<'a>, TemplateFailure> {
        let text = value.text(self.budget)?;
        self.budget.spend_bytes(text.len())?;
        Ok(text)
    }

    /// An argument as an integer; nil is `default`.
    fn argument_integer(&self, place: usize, default: i64) -> Result<i64, TemplateFailure> {
        match self.given(place) {
            Some(value) if !value.is_nil() => value.integer("the argument", self.budget),
            _ => Ok(default),
        }
    }

    fn builder(&self) -> Builder<'b, 'b> {
        Builder::new(self.budget)
    }

    /// A text that the filter made.
    fn made(&self, text: Builder<'_, '_>) -> Filtered<'a> {
        Value::made(text.finish()?, self.budget)
    }

    /// The same of a text that is no longer than a few times the input.
    fn made_of(&self, text: String) -> Filtered<'a> {
        self.budget.spend_bytes(text.len())?;
        Value::made(text, self.budget)
    }
}
