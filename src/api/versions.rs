//! Elsa's `versionOptions`: a keyword, or the number of a version.

use serde_json::Value;

use super::fields::Fields;
use crate::http::ApiError;
use crate::runtime::VersionOptions;

const NAME: &str = "versionOptions";

/// Takes the field out, if it is there.
pub(super) fn take(fields: &mut Fields) -> Result<Option<VersionOptions>, ApiError> {
    match fields.any(NAME) {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => parse(&text).map(Some),
        Some(Value::Number(number)) => parse(&number.to_string()).map(Some),
        Some(_) => Err(invalid()),
    }
}

fn parse(text: &str) -> Result<VersionOptions, ApiError> {
    let keywords = [
        ("Latest", VersionOptions::Latest),
        ("Published", VersionOptions::Published),
        ("LatestOrPublished", VersionOptions::LatestOrPublished),
        ("LatestAndPublished", VersionOptions::LatestAndPublished),
        ("Draft", VersionOptions::Draft),
        ("AllVersions", VersionOptions::All),
    ];
    if let Some((_, which)) = keywords
        .into_iter()
        .find(|(keyword, _)| keyword.eq_ignore_ascii_case(text))
    {
        return Ok(which);
    }
    let number = text.parse::<i32>().ok().filter(|number| *number >= 1);
    number.map(VersionOptions::Specific).ok_or_else(invalid)
}

fn invalid() -> ApiError {
    ApiError::invalid_field(
        NAME,
        "versionOptions must be Latest, Published, LatestOrPublished, LatestAndPublished, Draft, AllVersions or the \
         number of a version.",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_and_numbers_are_parsed() {
        for (value, which) in [
            (json!("Latest"), VersionOptions::Latest),
            (json!("published"), VersionOptions::Published),
            (json!("LatestOrPublished"), VersionOptions::LatestOrPublished),
            (json!("LatestAndPublished"), VersionOptions::LatestAndPublished),
            (json!("Draft"), VersionOptions::Draft),
            (json!("AllVersions"), VersionOptions::All),
            (json!("3"), VersionOptions::Specific(3)),
            (json!(4), VersionOptions::Specific(4)),
        ] {
            let mut fields = Fields::from_body(Some(json!({"versionOptions": value}))).unwrap();
            assert_eq!(take(&mut fields).unwrap(), Some(which));
        }
        for bad in [
            json!("newest"),
            json!("0"),
            json!(-1),
            json!(1.5),
            json!("99999999999"),
            json!([]),
        ] {
            let mut fields = Fields::from_body(Some(json!({"versionOptions": bad}))).unwrap();
            assert_eq!(take(&mut fields).unwrap_err().status_and_code(), (400, "invalid-field"));
        }
    }
}
