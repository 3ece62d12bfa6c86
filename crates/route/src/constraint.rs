//! The constraints of parameters, each with the meaning of ASP.NET Core's constraint of that name.

use chrono::DateTime;
use mainspring_language::parse_date_text;

use crate::guid::is_guid;
use crate::number;
use crate::pattern::Pattern;

/// The names, as messages list them.
const NAMES: &str = "int, bool, datetime, decimal, double, float, guid, long, minlength(n), maxlength(n), length(n), \
                     length(a,b), min(n), max(n), range(a,b), alpha, regex(…), required, file, nonfile";

/// 2000-01-01: a date without a year is one of a leap year, so that whether it matches does not depend on the year.
const DAY_OF_LEAP_YEAR: i64 = 946_684_800;

#[derive(Clone, Debug)]
pub(crate) enum Constraint {
    Int,
    Bool,
    DateTime,
    Decimal,
    /// `double` and `float`, which accept the same texts.
    Double,
    Guid,
    Long,
    MinLength(i32),
    MaxLength(i32),
    Length(i32, i32),
    Min(i64),
    Max(i64),
    Range(i64, i64),
    Alpha,
    Regex(Pattern),
    Required,
    File,
    NonFile,
}

impl Constraint {
    /// In bytes: what its compiled regular expression takes at most.
    pub(crate) fn pattern_bytes(&self) -> usize {
        match self {
            Self::Regex(pattern) => pattern.weight,
            _ => 0,
        }
    }

    /// Reads `name` or `name(arguments)`; `left` is what the template may still have of compiled regular expressions.
    pub(crate) fn parse(text: &str, left: &mut usize) -> Result<Self, String> {
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(arguments) => (name, Some(arguments)),
                None => return Err(format!("the constraint {text} has a ( that its last ) does not close")),
            },
            None => (text, None),
        };
        let given = Arguments { text, list: arguments };
        let constraint = match name.to_ascii_lowercase().as_str() {
            "regex" => {
                let source = arguments.ok_or("the constraint regex needs an expression: write regex(^[a-z]+$)")?;
                let pattern = Pattern::compile(source, left);
                return pattern
                    .map(Self::Regex)
                    .map_err(|problem| format!("the regular expression {source} cannot be used: {problem}"));
            }
            "minlength" => Self::MinLength(given.length()?),
            "maxlength" => Self::MaxLength(given.length()?),
            "length" => match given.split().as_slice() {
                [_] => given.length().map(|length| Self::Length(length, length))?,
                _ => {
                    let (least, most) = given.two(|argument| number::int(argument).filter(|length| *length >= 0))?;
                    Self::Length(least, most)
                }
            },
            "min" => Self::Min(given.one(number::long)?),
            "max" => Self::Max(given.one(number::long)?),
            "range" => {
                let (least, most) = given.two(number::long)?;
                Self::Range(least, most)
            }
            known => {
                let constraint = match known {
                    "int" => Self::Int,
                    "bool" => Self::Bool,
                    "datetime" => Self::DateTime,
                    "decimal" => Self::Decimal,
                    "double" | "float" => Self::Double,
                    "guid" => Self::Guid,
                    "long" => Self::Long,
                    "alpha" => Self::Alpha,
                    "required" => Self::Required,
                    "file" => Self::File,
                    "nonfile" => Self::NonFile,
                    _ => return Err(format!("there is no constraint {name}; there are {NAMES}")),
                };
                if arguments.is_some() {
                    return Err(format!("the constraint {name} has no arguments; write {name}"));
                }
                constraint
            }
        };
        Ok(constraint)
    }

    /// Whether a value is allowed. A catch-all may have none, and that is no file.
    pub(crate) fn is_met(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return matches!(self, Self::NonFile);
        };
        let is_length = |least: i32, most: i32| (i64::from(least)..=i64::from(most)).contains(&utf16_length(value));
        let is_number =
            |least: i64, most: i64| number::long(value).is_some_and(|number| (least..=most).contains(&number));
        match self {
            Self::Int => number::int(value).is_some(),
            Self::Bool => {
                let word = value.trim();
                word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false")
            }
            Self::DateTime => {
                parse_date_text(value, DateTime::from_timestamp(DAY_OF_LEAP_YEAR, 0).unwrap_or_default()).is_some()
            }
            Self::Decimal => number::is_decimal(value),
            Self::Double => number::is_double(value),
            Self::Guid => is_guid(value),
            Self::Long => number::long(value).is_some(),
            Self::MinLength(least) => is_length(*least, i32::MAX),
            Self::MaxLength(most) => is_length(0, *most),
            Self::Length(least, most) => is_length(*least, *most),
            Self::Min(least) => is_number(*least, i64::MAX),
            Self::Max(most) => is_number(i64::MIN, *most),
            Self::Range(least, most) => is_number(*least, *most),
            // .NET's `$` allows a line break before the end.
            Self::Alpha => {
                let word = value.strip_suffix('\n').unwrap_or(value);
                word.bytes().all(|byte| byte.is_ascii_alphabetic())
            }
            Self::Regex(pattern) => pattern.is_match(value),
            Self::Required => !value.is_empty(),
            Self::File => is_file(value),
            Self::NonFile => !is_file(value),
        }
    }

    /// The least length that it allows, or the greatest one, where it bounds lengths.
    pub(crate) fn length_bounds(&self) -> Vec<i32> {
        match self {
            Self::MinLength(length) | Self::MaxLength(length) => vec![*length],
            Self::Length(least, most) => vec![*least, *most],
            _ => Vec::new(),
        }
    }

    /// The least number that it allows, or the greatest one, where it bounds whole numbers.
    pub(crate) fn number_bounds(&self) -> Vec<i64> {
        match self {
            Self::Min(number) | Self::Max(number) => vec![*number],
            Self::Range(least, most) => vec![*least, *most],
            Self::Int => vec![i64::from(i32::MIN)],
            _ => Vec::new(),
        }
    }

    /// Constraints with the same key allow the same values.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Int => "int".into(),
            Self::Bool => "bool".into(),
            Self::DateTime => "datetime".into(),
            Self::Decimal => "decimal".into(),
            Self::Double => "double".into(),
            Self::Guid => "guid".into(),
            Self::Long => "long".into(),
            Self::MinLength(least) => format!("minlength({least})"),
            Self::MaxLength(most) => format!("maxlength({most})"),
            Self::Length(least, most) if least == most => format!("length({least})"),
            Self::Length(least, most) => format!("length({least},{most})"),
            Self::Min(least) => format!("min({least})"),
            Self::Max(most) => format!("max({most})"),
            Self::Range(least, most) => format!("range({least},{most})"),
            Self::Alpha => "alpha".into(),
            // In quotes, for an expression may have the signs that end a constraint or a parameter.
            Self::Regex(pattern) => format!("regex(\"{}\")", pattern.source.replace('"', "\"\"")),
            Self::Required => "required".into(),
            Self::File => "file".into(),
            Self::NonFile => "nonfile".into(),
        }
    }
}

/// What a constraint has in its parentheses.
struct Arguments<'t> {
    text: &'t str,
    list: Option<&'t str>,
}

impl<'t> Arguments<'t> {
    fn split(&self) -> Vec<&'t str> {
        let list = self.list.into_iter();
        list.flat_map(|list| list.split(',')).map(str::trim).collect()
    }

    fn wrong(&self, needs: &str) -> String {
        format!("the constraint {} needs {needs}", self.text)
    }

    fn one<N>(&self, read: impl Fn(&str) -> Option<N>) -> Result<N, String> {
        match self.split().as_slice() {
            [argument] => read(argument).ok_or_else(|| self.wrong("a whole number, as in min(1)")),
            _ => Err(self.wrong("one number, as in min(1)")),
        }
    }

    fn length(&self) -> Result<i32, String> {
        let length = |argument: &str| number::int(argument).filter(|length| *length >= 0);
        let wrong = || self.wrong("one length that is not negative, as in length(5)");
        match self.split().as_slice() {
            [argument] => length(argument).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    fn two<N: PartialOrd>(&self, read: impl Fn(&str) -> Option<N>) -> Result<(N, N), String> {
        let numbers = match self.split().as_slice() {
            [least, most] => read(least).zip(read(most)),
            _ => None,
        };
        let (least, most) =
            numbers.ok_or_else(|| self.wrong("two numbers, as in range(1,10); lengths are not negative"))?;
        if least > most {
            return Err(self.wrong("the smaller number first"));
        }
        Ok((least, most))
    }
}

/// .NET's length of a text.
fn utf16_length(text: &str) -> i64 {
    let units = if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    };
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// Whether the last segment of a value has a point and, behind it, something other than points.
fn is_file(value: &str) -> bool {
    let last = value.rsplit('/').next().unwrap_or(value);
    last.split_once('.')
        .is_some_and(|(_, rest)| rest.chars().any(|c| c != '.'))
}
