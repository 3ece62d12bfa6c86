//! Credentials of HTTP in what is recorded of an execution. A workflow works with them; who reads its journal must not.

use serde_json::{Map, Value};

use crate::activity::Descriptor;

/// What stands in place of a credential.
const CONCEALED: &str = "***";

/// The header fields whose values are credentials.
const CREDENTIALS: [&str; 5] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
    "x-api-key",
];

/// Conceals credentials among the inputs and outputs of an execution: sensitive inputs, header fields, and the user of a URL.
/// `descriptor`: that of its type, where it is at hand.
pub(super) fn conceal(values: &mut Map<String, Value>, descriptor: Option<&Descriptor>) {
    let inputs = descriptor.map_or(&[][..], |descriptor| &descriptor.inputs);
    for sensitive in inputs.iter().filter(|input| input.is_sensitive) {
        values.get_mut(&sensitive.name).into_iter().for_each(conceal_all);
    }
    for (name, value) in values {
        match (name.as_str(), value) {
            ("Authorization", value) => conceal_all(value),
            ("Url", Value::String(url)) => conceal_user(url),
            ("Attachments", value) => conceal_attachments(value),
            ("Headers" | "RequestHeaders" | "ResponseHeaders", Value::Object(fields)) => conceal_fields(fields),
            ("Response" | "Result", Value::Object(message)) => {
                if let Some(Value::Object(fields)) = message.get_mut("headers") {
                    conceal_fields(fields);
                }
            }
            _ => {}
        }
    }
}

fn conceal_all(value: &mut Value) {
    if !value.is_null() {
        *value = CONCEALED.into();
    }
}

fn conceal_fields(fields: &mut Map<String, Value>) {
    let is_credential = |name: &str| CREDENTIALS.iter().any(|it| name.eq_ignore_ascii_case(it));
    let credentials = fields.iter_mut().filter(|(name, _)| is_credential(name));
    credentials.for_each(|(_, value)| conceal_all(value));
}

/// Conceals the users of URLs among attachments, also where a text is JSON of them.
fn conceal_attachments(value: &mut Value) {
    match value {
        Value::String(text) if text.trim_start().starts_with(['[', '{']) => {
            let read = serde_json::from_str::<Value>(text).map(|mut read| {
                conceal_attachments(&mut read);
                read.to_string()
            });
            *text = read.unwrap_or_else(|_| CONCEALED.to_owned());
        }
        Value::String(url) => conceal_user_of_web(url),
        Value::Array(items) => items.iter_mut().for_each(|item| {
            if let Value::String(url) = item {
                conceal_user_of_web(url);
            }
        }),
        _ => {}
    }
}

/// The same for a text that may be something else than a URL.
fn conceal_user_of_web(text: &mut String) {
    let begin = text.trim_start().get(..5).unwrap_or_default();
    if begin.eq_ignore_ascii_case("http:") || begin.eq_ignore_ascii_case("https") {
        conceal_user(text);
    }
}

/// Conceals the user and the password of a URL, which end at the last `@` before its path. Clients read any number of slashes in
/// either direction behind the scheme.
fn conceal_user(url: &mut String) {
    let Some((scheme, rest)) = url.split_once(':') else {
        return;
    };
    let authority = rest.trim_start_matches(['/', '\\']);
    let end = authority.find(['/', '\\', '?', '#']).unwrap_or(authority.len());
    let Some((_, host)) = authority.get(..end).and_then(|it| it.rsplit_once('@')) else {
        return;
    };
    let after = authority.get(end..).unwrap_or_default();
    *url = format!("{scheme}://{CONCEALED}@{host}{after}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_concealed_and_nothing_else() {
        let Value::Object(mut values) = json!({
            "Authorization": "Bearer hunter2", "Url": "https://me:hunter2@example.org/a@b?c=d@e", "Content": {"cookie": "kept"},
            "RequestHeaders": {"X-API-Key": ["hunter2", "hunter2"], "Accept": "*/*"}, "Headers": "kept",
            "Result": {"statusCode": 200, "headers": {"set-cookie": ["hunter2"], "etag": ["kept"]}},
            "Attachments": ["https://me:hunter2@example.org/a", {"content": "kept"}, "{\"a\": \"b@c\"}"],
        }) else {
            panic!()
        };
        conceal(&mut values, None);
        assert_eq!(
            Value::Object(values),
            json!({
                "Authorization": "***", "Url": "https://***@example.org/a@b?c=d@e", "Content": {"cookie": "kept"},
                "RequestHeaders": {"X-API-Key": "***", "Accept": "*/*"}, "Headers": "kept",
                "Result": {"statusCode": 200, "headers": {"set-cookie": "***", "etag": ["kept"]}},
                "Attachments": ["https://***@example.org/a", {"content": "kept"}, "{\"a\": \"b@c\"}"],
            })
        );
    }

    #[test]
    fn attachments_that_are_json_in_a_text_are_concealed_within_it() {
        for (given, concealed) in [
            (json!("https://me:hunter2@h/a"), json!("https://***@h/a")),
            (
                json!(" [\"https://me:hunter2@h/a\", {\"content\": \"aGk=\"}]"),
                json!("[\"https://***@h/a\",{\"content\":\"aGk=\"}]"),
            ),
            (json!("[\"https://me:hunter2@h/a\""), json!("***")),
            (json!("{\"content\":\"aGk=\"}"), json!("{\"content\":\"aGk=\"}")),
            (json!("aGk="), json!("aGk=")),
        ] {
            let mut values = Map::from_iter([("Attachments".to_owned(), given.clone())]);
            conceal(&mut values, None);
            assert_eq!(values["Attachments"], concealed, "{given}");
        }
    }

    #[test]
    fn the_user_of_a_url_ends_before_its_host() {
        for (url, concealed) in [
            ("http://u@h", "http://***@h"),
            ("http://u:p@q@h:1?x", "http://***@h:1?x"),
            ("http:\\\\u:p@h\\x", "http://***@h\\x"),
            ("http:u:p@h/x", "http://***@h/x"),
            ("http://h/@x", "http://h/@x"),
            ("http://h?@x", "http://h?@x"),
            ("u@h", "u@h"),
            ("", ""),
        ] {
            let mut text = url.to_owned();
            conceal_user(&mut text);
            assert_eq!(text, concealed, "{url}");
        }
    }
}
