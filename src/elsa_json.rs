//! JSON as Elsa's API writes it: what has no value is left out, and each point in time has its offset.
//!
//! A field of a type has `skip_serializing_if`, and one with a time `serialize_with`. Composed JSON passes [`without_nulls`].
//! Neither changes values of users: a null that they wrote stays, as an entry of a dictionary does in Elsa.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;
use serde_json::Value;

/// Writes a point in time with the offset `+00:00`, as .NET does, where chrono writes `Z`.
pub(crate) fn timestamp<T, S>(at: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Copy + Into<Option<DateTime<Utc>>>,
    S: Serializer,
{
    match (*at).into() {
        Some(at) => serializer.serialize_str(&timestamp_text(at)),
        None => serializer.serialize_none(),
    }
}

/// The text of a point in time.
pub(crate) fn timestamp_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

/// Leaves out the fields of an object that are null, but no field of a value inside it.
pub(crate) fn without_nulls(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Times {
        #[serde(serialize_with = "timestamp")]
        began: DateTime<Utc>,
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "timestamp")]
        ended: Option<DateTime<Utc>>,
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "timestamp")]
        never: Option<DateTime<Utc>>,
    }

    #[test]
    fn times_have_an_offset_and_what_has_no_value_is_left_out() {
        let at = DateTime::from_timestamp_micros(1_500_000).unwrap();
        let times = Times {
            began: DateTime::UNIX_EPOCH,
            ended: Some(at),
            never: None,
        };
        assert_eq!(
            serde_json::to_value(&times).unwrap(),
            json!({"began": "1970-01-01T00:00:00+00:00", "ended": "1970-01-01T00:00:01.500+00:00"})
        );
    }

    #[test]
    fn a_null_of_a_user_stays() {
        let composed = json!({"name": null, "input": {"a": null}});
        assert_eq!(without_nulls(composed), json!({"input": {"a": null}}));
    }
}
