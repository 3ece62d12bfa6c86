//! `localeCompare`: the order of words that a collator of ECMA-402 gives.

use mainspring_language::{Collation, CollationOptions, Sensitivity};
use rquickjs::{Ctx, Exception, Object};

/// Compares two texts, by Unicode's root collation without a locale and options.
pub(super) fn locale_compare<'js>(
    ctx: Ctx<'js>,
    left: String,
    right: String,
    locale: Option<String>,
    options: Option<Object<'js>>,
) -> rquickjs::Result<i32> {
    if locale.is_none() && options.is_none() {
        return Ok(Collation::root().compare(&left, &right) as i32);
    }
    let read = match &options {
        Some(options) => read(options)?,
        None => Ok(CollationOptions::default()),
    };
    let made = read.and_then(|options| {
        Collation::new(&CollationOptions {
            locale: locale.unwrap_or_default(),
            ..options
        })
    });
    match made {
        Ok(collation) => Ok(collation.compare(&left, &right) as i32),
        Err(problem) => Err(Exception::throw_range(&ctx, &format!("localeCompare: {problem}"))),
    }
}

/// The options of a collator. Errors: a message, when one of them has no such value.
fn read(options: &Object<'_>) -> rquickjs::Result<Result<CollationOptions, String>> {
    let text = |name: &str| options.get::<_, Option<String>>(name);
    let sensitivity = match text("sensitivity")?.as_deref() {
        None | Some("variant") => Sensitivity::Variant,
        Some("base") => Sensitivity::Base,
        Some("accent") => Sensitivity::Accent,
        Some("case") => Sensitivity::Case,
        Some(other) => {
            return Ok(Err(format!(
                "{other:?} is no sensitivity: write base, accent, case or variant"
            )));
        }
    };
    let upper_first = match text("caseFirst")?.as_deref() {
        None | Some("false") => None,
        Some("upper") => Some(true),
        Some("lower") => Some(false),
        Some(other) => return Ok(Err(format!("{other:?} is no caseFirst: write upper, lower or false"))),
    };
    Ok(Ok(CollationOptions {
        locale: String::new(),
        sensitivity,
        is_numeric: options.get("numeric")?,
        upper_first,
        ignores_punctuation: options.get::<_, Option<bool>>("ignorePunctuation")?.unwrap_or_default(),
    }))
}
