//! Typed access to the fields of a JSON body or of a query.
//!
//! As in Elsa, the case of a name does not matter, `null` counts as absent, and unknown fields are ignored. A known field
//! of the wrong type is an error that names it. A query has only text: there numbers and booleans are parsed from it, a
//! repeated name makes a list, and an empty value counts as absent.

use std::time::Duration;

use axum::extract::Query;
use axum::http::Uri;
use mainspring_language::TimeSpan;
use serde_json::{Map, Value};

use crate::http::{self, ApiError, BodyLimits, ReservedMemory};

/// The most parameters of a query. Each is compared with the names before it, so the cost is quadratic.
const MAX_PARAMETERS: usize = 1_000;

/// Fields that are taken out one by one.
#[derive(Debug)]
pub(super) struct Fields {
    values: Map<String, Value>,
    of_query: bool,
}

impl Fields {
    /// The fields of a body; an empty body has none.
    pub(super) fn from_body(value: Option<Value>) -> Result<Self, ApiError> {
        let values = match value {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(values)) => values,
            Some(_) => return Err(ApiError::bad_request("invalid-body", "The body must be a JSON object.")),
        };
        let of_query = false;
        Ok(Self { values, of_query })
    }

    /// The fields of a query.
    pub(super) fn from_query(uri: &Uri) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            ApiError::bad_request("invalid-query", "The query must consist of name=value pairs in UTF-8.")
        })?;
        Self::from_pairs("The query", pairs)
    }

    /// The names and values of a query or a form, which `what` names in errors.
    pub(super) fn from_pairs(what: &str, pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        if pairs.len() > MAX_PARAMETERS {
            let message = format!("{what} has more than {MAX_PARAMETERS} parameters.");
            return Err(ApiError::bad_request("invalid-query", message));
        }
        let mut values: Map<String, Value> = Map::new();
        for (name, text) in pairs {
            if name.contains('\0') || text.contains('\0') {
                return Err(http::nul_error(what));
            }
            let known = values.keys().find(|known| known.eq_ignore_ascii_case(&name)).cloned();
            match known.and_then(|known| values.get_mut(&known)) {
                _ if text.is_empty() => {}
                None => drop(values.insert(name, text.into())),
                Some(Value::Array(texts)) => texts.push(text.into()),
                Some(first) => *first = Value::Array(vec![first.take(), text.into()]),
            }
        }
        Ok(Self { values, of_query: true })
    }

    /// Reserves the memory of what is JSON in the texts of a query, as that of a body is, before it is parsed: brackets become a
    /// hundred times their size. To be held while the values are in use.
    pub(super) fn reserve(&self, limits: &BodyLimits) -> Result<ReservedMemory, ApiError> {
        let mut reserved = ReservedMemory::default();
        for text in self.values.values().filter_map(Value::as_str) {
            limits.reserve(text.as_bytes(), &mut reserved)?;
        }
        Ok(reserved)
    }

    /// The names of the remaining fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The name of a remaining field that says something: its value is neither null nor empty.
    pub(super) fn unknown(&self) -> Option<&str> {
        let says_nothing = |value: &Value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        let mut rest = self.values.iter().filter(|(_, value)| !says_nothing(value));
        rest.next().map(|(name, _)| name.as_str())
    }

    /// A value of any type.
    pub(super) fn any(&mut self, name: &str) -> Option<Value> {
        let found = match self.values.get(name) {
            Some(_) => self.values.shift_remove(name),
            None => {
                let known = self
                    .values
                    .keys()
                    .find(|known| known.eq_ignore_ascii_case(name))
                    .cloned();
                known.and_then(|known| self.values.shift_remove(&known))
            }
        };
        found.filter(|value| !value.is_null())
    }

    /// Text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.any(name).map(|value| text(name, value)).transpose()
    }

    /// An id. An empty one counts as absent.
    pub(super) fn id(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        Ok(self.text(name)?.filter(|id| !id.is_empty()))
    }

    /// A list of texts; empty if absent. In a query, a single text is a list of one.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, ApiError> {
        match self.any(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items.into_iter().map(|item| text(name, item)).collect(),
            Some(Value::String(text)) if self.of_query => Ok(vec![text]),
            Some(_) => Err(ApiError::invalid_field(
                name,
                format!("{name} must be a list of texts."),
            )),
        }
    }

    /// A list of texts, where an empty one says something else than none.
    pub(super) fn texts_if_any(&mut self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(value) => {
                self.values.insert(name.to_owned(), value);
                self.texts(name).map(Some)
            }
        }
    }

    /// A list of texts whose entries may be null; those are left out.
    pub(super) fn texts_or_null(&mut self, name: &str) -> Result<Vec<String>, ApiError> {
        match self.any(name) {
            Some(Value::Array(mut items)) => {
                items.retain(|item| !item.is_null());
                items.into_iter().map(|item| text(name, item)).collect()
            }
            other => {
                self.values.extend(other.map(|value| (name.to_owned(), value)));
                self.texts(name)
            }
        }
    }

    /// An object.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            // Elsa's GET routes pass JSON in a parameter.
            Some(Value::String(text)) if self.of_query => {
                let value: Value = serde_json::from_str(&text)
                    .map_err(|error| ApiError::invalid_field(name, format!("{name} is not valid JSON: {error}.")))?;
                match (
                    crate::definition::check_json(&value, crate::definition::MAX_DEPTH),
                    value,
                ) {
                    (Err(_), _) => Err(http::nul_error(name)),
                    (Ok(_), Value::Object(fields)) => Ok(Some(fields)),
                    (Ok(_), _) => Err(ApiError::invalid_field(name, format!("{name} must be a JSON object."))),
                }
            }
            Some(_) => Err(ApiError::invalid_field(name, format!("{name} must be a JSON object."))),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn number(&mut self, name: &str, least: u32) -> Result<Option<u32>, ApiError> {
        let Some(value) = self.any(name) else { return Ok(None) };
        let number = match &value {
            Value::String(text) if self.of_query => text.parse::<u64>().ok(),
            value => value.as_u64(),
        };
        // As in Elsa, a non-negative signed 32-bit number.
        match number.and_then(|number| u32::try_from(number).ok()) {
            Some(number) if number >= least && number <= i32::MAX.unsigned_abs() => Ok(Some(number)),
            _ => Err(ApiError::invalid_field(
                name,
                format!("{name} must be a whole number of at least {least}."),
            )),
        }
    }

    /// How long something lasts: a time span or a number of seconds, above zero. `example` is one, for the message.
    pub(super) fn lifetime(&mut self, name: &str, example: &str) -> Result<Option<Duration>, ApiError> {
        let Some(given) = self.any(name) else { return Ok(None) };
        let lifetime = match &given {
            Value::String(text) => TimeSpan::parse(text).and_then(TimeSpan::to_duration),
            Value::Number(seconds) => seconds
                .as_f64()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            _ => None,
        };
        let lifetime = lifetime.filter(|lifetime| !lifetime.is_zero());
        let wrong = || {
            let message =
                format!("{name} must be a time span above zero, such as \"{example}\", or a number of seconds.");
            ApiError::invalid_field(name, message)
        };
        lifetime.map(Some).ok_or_else(wrong)
    }

    /// True or false.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(Value::String(text)) if self.of_query && text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if self.of_query && text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(_) => Err(ApiError::invalid_field(name, format!("{name} must be true or false."))),
        }
    }

    /// One of these keywords, in any case.
    pub(super) fn keyword(&mut self, name: &str, keywords: &[&'static str]) -> Result<Option<&'static str>, ApiError> {
        self.text(name)?.map(|text| one_of(name, &text, keywords)).transpose()
    }

    /// One of the members of an enumeration of Elsa, by name in any case or by number: its place in `members`, as in .NET.
    /// `synonyms` have no numbers.
    pub(super) fn member(
        &mut self,
        name: &str,
        members: &[&'static str],
        synonyms: &[&'static str],
    ) -> Result<Option<&'static str>, ApiError> {
        let found = self.any(name);
        found.map(|value| member(name, &value, members, synonyms)).transpose()
    }

    /// A list of members of an enumeration of Elsa.
    pub(super) fn members(&mut self, name: &str, members: &[&'static str]) -> Result<Vec<String>, ApiError> {
        let items = match self.any(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(text @ Value::String(_)) if self.of_query => vec![text],
            Some(_) => return Err(ApiError::invalid_field(name, format!("{name} must be a list."))),
        };
        let items = items.iter();
        items
            .map(|item| member(name, item, members, &[]).map(str::to_owned))
            .collect()
    }

    /// A list of these keywords.
    pub(super) fn keywords(&mut self, name: &str, keywords: &[&'static str]) -> Result<Vec<String>, ApiError> {
        let texts = self.texts(name)?.into_iter();
        texts
            .map(|text| one_of(name, &text, keywords).map(str::to_owned))
            .collect()
    }
}

fn text(name: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(ApiError::invalid_field(name, format!("{name} must be text."))),
    }
}

/// A text may have the number, too, as the texts of a query do.
fn member(
    name: &str,
    value: &Value,
    members: &[&'static str],
    synonyms: &[&'static str],
) -> Result<&'static str, ApiError> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let place = number.and_then(|number| usize::try_from(number).ok());
    let named = |text: &str| {
        let mut words = members.iter().chain(synonyms);
        words.find(|word| word.eq_ignore_ascii_case(text))
    };
    let found = match place {
        Some(place) => members.get(place),
        None => value.as_str().and_then(named),
    };
    found.copied().ok_or_else(|| {
        let words = members.join(", ");
        ApiError::invalid_field(name, format!("{name} must be one of {words}, or its number from 0."))
    })
}

fn one_of(name: &str, text: &str, keywords: &[&'static str]) -> Result<&'static str, ApiError> {
    let known = keywords.iter().find(|word| word.eq_ignore_ascii_case(text));
    known
        .copied()
        .ok_or_else(|| ApiError::invalid_field(name, format!("{name} must be one of {}.", keywords.join(", "))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(value: Value) -> Fields {
        Fields::from_body(Some(value)).unwrap()
    }

    fn query(query: &str) -> Fields {
        Fields::from_query(&format!("/x?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn json_in_a_query_has_the_memory_of_bodies() {
        let limits = BodyLimits::new(std::time::Duration::from_secs(1), 1);
        let brackets = format!("input={}{}", "%5B".repeat(10_000), "%5D".repeat(10_000));
        let error = query(&brackets).reserve(&limits).unwrap_err();
        assert_eq!(error.status_and_code(), (413, "too-many-values"));
        assert!(query("input=%7B%7D&name=a").reserve(&limits).is_ok());
    }

    #[test]
    fn fields_of_the_wrong_type_are_named() {
        let wrong = |error: ApiError| {
            assert_eq!(error.status_and_code(), (400, "invalid-field"));
            assert!(format!("{error:?}").contains("(\"f\", "), "{error:?}");
        };
        wrong(body(json!({"f": 1})).text("f").unwrap_err());
        wrong(body(json!({"f": ["a", 1]})).texts("f").unwrap_err());
        wrong(body(json!({"f": "a"})).texts("f").unwrap_err());
        wrong(body(json!({"f": [null]})).texts_if_any("f").unwrap_err());
        wrong(body(json!({"f": [1]})).object("f").unwrap_err());
        wrong(body(json!({"f": "1"})).number("f", 0).unwrap_err());
        wrong(body(json!({"f": -1})).number("f", 0).unwrap_err());
        wrong(body(json!({"f": 0})).number("f", 1).unwrap_err());
        wrong(body(json!({"f": 3_000_000_000u32})).number("f", 0).unwrap_err());
        wrong(body(json!({"f": "true"})).flag("f").unwrap_err());
        wrong(body(json!({"f": "x"})).keyword("f", &["A", "B"]).unwrap_err());
        wrong(query("f=x").number("f", 0).unwrap_err());
        wrong(query("f=%7B").object("f").unwrap_err());
        assert_eq!(
            Fields::from_body(Some(json!([]))).unwrap_err().status_and_code(),
            (400, "invalid-body")
        );
    }

    #[test]
    fn a_member_of_an_enumeration_has_a_name_and_a_number() {
        let members = ["Running", "Finished"];
        for value in [json!("finished"), json!(1), json!("1")] {
            let found = body(json!({ "f": value })).member("f", &members, &["Ended"]);
            assert_eq!(found.unwrap(), Some("Finished"), "{value}");
        }
        assert_eq!(
            body(json!({"f": "ended"})).member("f", &members, &["Ended"]).unwrap(),
            Some("Ended")
        );
        assert_eq!(query("f=1").member("f", &members, &[]).unwrap(), Some("Finished"));
        assert_eq!(
            query("f=1&f=running").members("f", &members).unwrap(),
            ["Finished", "Running"]
        );
        assert_eq!(body(json!({"f": [0]})).members("f", &members).unwrap(), ["Running"]);
        for value in [
            json!(2),
            json!("2"),
            json!(-1),
            json!(1.5),
            json!(true),
            json!([0]),
            json!("x"),
            json!(""),
        ] {
            let refused = body(json!({ "f": value }))
                .member("f", &members, &["Ended"])
                .unwrap_err();
            assert_eq!(refused.status_and_code(), (400, "invalid-field"), "{value}");
        }
        assert!(body(json!({"f": 1})).members("f", &members).is_err());
    }

    #[test]
    fn names_are_found_in_any_case_and_null_is_absent() {
        let mut fields = body(json!({"CorrelationId": "c", "name": null}));
        assert_eq!(fields.text("correlationId").unwrap().as_deref(), Some("c"));
        assert_eq!(fields.text("name").unwrap(), None);
        let mut lists = body(json!({"A": [], "b": null, "c": ["x"]}));
        let read = ["a", "b", "c"].map(|name| lists.texts_if_any(name).unwrap());
        assert_eq!(read, [Some(vec![]), None, Some(vec!["x".to_owned()])]);
    }

    #[test]
    fn a_query_is_parsed_as_elsa_writes_it() {
        let mut fields = query("page=2&ids=a&Ids=b&versionOptions=&isSystem=False&input=%7B%22a%22%3A1%7D&one=x");
        assert_eq!(fields.number("page", 0).unwrap(), Some(2));
        assert_eq!(fields.texts("ids").unwrap(), ["a", "b"]);
        assert_eq!(fields.texts("one").unwrap(), ["x"]);
        assert_eq!(fields.text("versionOptions").unwrap(), None);
        assert_eq!(fields.flag("isSystem").unwrap(), Some(false));
        assert_eq!(fields.object("input").unwrap().unwrap()["a"], 1);
        let nul = Fields::from_query(&"/x?a=%00".parse().unwrap()).unwrap_err();
        assert_eq!(nul.status_and_code(), (400, "invalid-text"));
        let no_text = query("input=%7B%22a%22%3A%22%5Cu0000%22%7D")
            .object("input")
            .unwrap_err();
        assert_eq!(no_text.status_and_code(), (400, "invalid-text"));
    }
}
