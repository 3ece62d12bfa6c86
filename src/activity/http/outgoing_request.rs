//! The request that the inputs of an activity describe.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::content::{Unmatched, WrittenBody, WrittenContent, check_content_type, content_type_hint, reads_bytes};
use super::header_fields::{HeaderFields, is_token, value_problem};
use super::services::HttpServices;
use super::{invalid_input, problems_of};
use crate::activity::{ActivityContext, AddedOutcomes, AnswerBody, Choice, Fault, InputDescriptor, UiHint};
use crate::expression::TimeSpan;
use crate::outgoing::{OutgoingBody, OutgoingRequest};

/// The longest time that an activity can give a request.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// The input of the timeout. `timeout` is the port of `Elsa.SendHttpRequest` for requests whose time has run out.
const TIMEOUT: &str = "MainspringTimeout";

/// Of a repeat, the same: a service that knows the header acts once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Of the W3C: what belongs together.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// The names of the inputs that differ between activities.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestInputs {
    /// Also under this name, if `Content` is null.
    pub(super) content: &'static str,
    pub(super) content_type: &'static str,
}

impl RequestInputs {
    /// Reads the request.
    /// Errors: names the input that cannot be sent.
    pub(super) fn read(
        self,
        context: &ActivityContext<'_>,
        services: &HttpServices,
    ) -> Result<(OutgoingRequest, Duration), Fault> {
        let of_input = |name: &str| {
            let name = name.to_owned();
            move |problem: String| invalid_input(&name, &problem)
        };
        let url = context.text("Url").unwrap_or_default();
        let url = parse_url(&url).map_err(of_input("Url"))?;
        let method = method(context.input("Method")).map_err(of_input("Method"))?;
        let fields = HeaderFields::read(context.input("RequestHeaders")).map_err(of_input("RequestHeaders"))?;
        let chosen = fields.get("content-type").map(str::to_owned);
        let mut headers = HeaderMap::new();
        for (name, value) in fields.into_list() {
            let unusable = |problem: &str| invalid_input("RequestHeaders", &format!("the header {name} {problem}"));
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable("has no usable name"))?;
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unusable("has no usable value"))?;
            // That of the content is its own.
            if header != CONTENT_TYPE {
                headers.append(header, value);
            }
        }
        if let Some(given) = context.text("Authorization").filter(|text| !text.trim().is_empty()) {
            let is_checked = context.input("DisableAuthorizationHeaderValidation") != &Value::Bool(true);
            check_authorization(&given, is_checked).map_err(of_input("Authorization"))?;
            let mut value = HeaderValue::from_bytes(given.trim().as_bytes())
                .map_err(|_| invalid_input("Authorization", "it cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut body = match method {
            // Some servers wait for a body of these methods unless its length says that there is none.
            Method::POST | Method::PUT | Method::PATCH => OutgoingBody::Bytes(Vec::new().into()),
            _ => OutgoingBody::None,
        };
        if let Some((content_type, content)) = self.content(context, services, chosen)? {
            let value = HeaderValue::from_bytes(content_type.as_bytes())
                .map_err(|_| invalid_input(self.content_type, "it cannot be sent"))?;
            headers.insert(CONTENT_TYPE, value);
            body = content;
        }
        if services.outgoing.options().idempotency_key && !headers.contains_key(IDEMPOTENCY_KEY) {
            let key = context.idempotency_key();
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(key)?);
        }
        if !headers.contains_key(TRACE_PARENT) {
            headers.insert(TRACE_PARENT, HeaderValue::try_from(trace_parent(context))?);
        }
        let timeout = timeout(context.input(TIMEOUT)).map_err(of_input(TIMEOUT))?;
        let timeout = timeout.unwrap_or_else(|| services.outgoing.options().timeout.min(LONGEST));
        let request = OutgoingRequest {
            method,
            url,
            headers,
            body,
        };
        Ok((request, timeout))
    }

    /// The content type, and the content; nothing where either is missing, as in Elsa.
    fn content(
        self,
        context: &ActivityContext<'_>,
        services: &HttpServices,
        chosen: Option<String>,
    ) -> Result<Option<(String, OutgoingBody)>, Fault> {
        let (name, content) = match context.input("Content") {
            Value::Null => (self.content, context.input(self.content)),
            content => ("Content", content),
        };
        let Some(chosen) = context
            .text(self.content_type)
            .or(chosen)
            .filter(|_| !content.is_null())
        else {
            return Ok(None);
        };
        // The empty choice of a designer.
        let chosen = match chosen.trim() {
            "" => "application/json",
            chosen => chosen,
        };
        let is_bytes = reads_bytes(context, name);
        let written = WrittenContent::write(content, Some(chosen), is_bytes, Unmatched::Json);
        let written = written.map_err(|problem| invalid_input(name, &problem))?;
        let body = match written.body {
            WrittenBody::Bytes(bytes) => OutgoingBody::Bytes(bytes.into()),
            WrittenBody::File(file) => match services.content_of(&file)? {
                AnswerBody::Bytes(bytes) => OutgoingBody::Bytes(bytes.into()),
                AnswerBody::File(file) => OutgoingBody::File(file),
            },
        };
        Ok(Some((written.content_type, body)))
    }

    /// What is wrong with inputs whose value is known, for the publish.
    pub(super) fn problems(self, inputs: &Map<String, Value>) -> Vec<String> {
        let text = |name: &str| {
            inputs
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.trim().is_empty())
        };
        // Without an expression it is null, and a workflow that is not complete yet can be published in Elsa.
        let url = text("Url").map(|url| parse_url(url).map(drop));
        let method = inputs.get("Method").map(|value| method(value).map(drop));
        let headers = inputs
            .get("RequestHeaders")
            .map(|fields| HeaderFields::read(fields).map(drop));
        let is_checked = inputs.get("DisableAuthorizationHeaderValidation") == Some(&Value::Bool(false));
        let authorization = text("Authorization").map(|given| check_authorization(given, is_checked));
        let chosen = text(self.content_type).map(|chosen| check_content_type(chosen.trim()));
        let timeout = inputs.get(TIMEOUT).map(|value| timeout(value).map(drop));
        let codes = inputs
            .get("ExpectedStatusCodes")
            .map(|codes| status_codes(codes).map(drop));
        let checked = [
            ("Url", url),
            ("Method", method),
            ("RequestHeaders", headers),
            ("Authorization", authorization),
            (self.content_type, chosen),
            (TIMEOUT, timeout),
            ("ExpectedStatusCodes", codes),
        ];
        problems_of(checked)
    }
}

/// A URL of the web.
/// Errors: why it is none, without quoting more of it than its scheme.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    const REMEDY: &str = "begin it with https:// or http://";
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("it is empty; {REMEDY}"));
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(_) if !text.contains("://") => return Err(format!("the URL has no scheme; {REMEDY}")),
        Err(error) => return Err(format!("it is no URL: {error}")),
    };
    match url.scheme() {
        "http" | "https" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "http" | "https" => Err("the URL names no host".to_owned()),
        // `localhost:8080/x` is read so.
        scheme => Err(format!(
            "the URL has the scheme {scheme:?}, which is none of the web; {REMEDY}"
        )),
    }
}

fn method(value: &Value) -> Result<Method, String> {
    let text = match value {
        Value::Null => return Ok(Method::GET),
        Value::String(text) => text.trim(),
        _ => "",
    };
    // As .NET does with those that it knows; others are sent as they are.
    let upper = text.to_ascii_uppercase();
    let text = if METHODS.contains(&upper.as_str()) {
        &upper
    } else {
        text
    };
    let is_sent = is_token(text) && text.len() <= 50 && upper != "CONNECT";
    let method = Method::from_bytes(text.as_bytes()).ok().filter(|_| is_sent);
    method.ok_or_else(|| format!("{value} is no method of a request; use one as {}", METHODS.join(", ")))
}

/// The methods that a designer offers.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];

/// A scheme, and what follows it.
fn check_authorization(text: &str, is_checked: bool) -> Result<(), String> {
    if let Some(problem) = value_problem(text.trim()) {
        return Err(format!("it {problem}"));
    }
    let scheme = text.split_whitespace().next().unwrap_or_default();
    if is_checked && !is_token(scheme) {
        return Err(
            "it does not begin with a scheme; write it as Bearer TOKEN, or set DisableAuthorizationHeaderValidation"
                .to_owned(),
        );
    }
    Ok(())
}

/// A length of time above zero.
fn timeout(value: &Value) -> Result<Option<Duration>, String> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text.as_str(),
        _ => "",
    };
    let length = TimeSpan::parse(text).and_then(TimeSpan::to_duration);
    match length.filter(|length| !length.is_zero() && *length <= LONGEST) {
        Some(length) => Ok(Some(length)),
        None => Err(format!(
            "{value} is no length of time above zero and of at most 01:00:00; write it as 00:00:30"
        )),
    }
}

/// The codes that an activity expects.
pub(super) fn status_codes(value: &Value) -> Result<Vec<u16>, String> {
    let items = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        _ => return Err("it is no list of status codes; write it as [200, 404]".to_owned()),
    };
    let code = |item: &Value| status_code(item).ok_or_else(|| format!("{item} is no status code, which is 100 to 599"));
    items.iter().map(code).collect()
}

/// A number, also as text: lists of designers have texts.
pub(super) fn status_code(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|code| (100..=599).contains(code))
}

/// The span of the activity. Where the run belongs to no trace, all requests of an instance have one, and each attempt a part of its
/// own. That is marked as sampled: the services behind it drop what is not.
fn trace_parent(context: &ActivityContext<'_>) -> String {
    if let Some(trace) = context.trace {
        return trace.to_string();
    }
    let number = |text: &str| {
        let digest = Sha256::digest(text.as_bytes());
        digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes))
    };
    let trace = number(context.instance_id().as_str());
    let part = number(&format!("{}/{}", context.execution_id().as_str(), context.attempt())) >> 64;
    format!("00-{trace:032x}-{part:016x}-01")
}

pub(super) fn url_input() -> InputDescriptor {
    InputDescriptor::new("Url", "Uri")
}

pub(super) fn method_input(methods: &[&'static str]) -> InputDescriptor {
    InputDescriptor::new("Method", "String")
        .hint(UiHint::Dropdown(methods.iter().copied().map(Choice::from).collect()))
        .default("GET")
        .describe("The HTTP method to use when sending the request.")
}

/// All of them.
pub(super) fn any_method_input() -> InputDescriptor {
    method_input(&METHODS)
}

pub(super) fn content_input(name: &'static str) -> InputDescriptor {
    InputDescriptor::new(name, "Object")
        .describe("The content to send with the request. Can be a string, an object, a byte array or a stream.")
}

pub(super) fn content_type_input(name: &'static str) -> InputDescriptor {
    InputDescriptor::new(name, "String")
        .display_name("Content Type")
        .hint(content_type_hint())
        .describe("The content type to use when sending the request.")
}

pub(super) fn authorization_input() -> InputDescriptor {
    InputDescriptor::new("Authorization", "String")
        .sensitive()
        .category("Security")
        .describe("The Authorization header value to send with the request. For example: Bearer {some-access-token}")
}

pub(super) fn validation_input() -> InputDescriptor {
    InputDescriptor::new("DisableAuthorizationHeaderValidation", "Boolean")
        .category("Security")
        .default(false)
        .describe("A value that allows to add the Authorization header without validation.")
}

pub(super) fn headers_input() -> InputDescriptor {
    InputDescriptor::new("RequestHeaders", "HttpHeaders")
        .hint(UiHint::JsonEditor)
        .category("Advanced")
        .default(json!({}))
        .describe("The headers to send along with the request.")
}

pub(super) fn expected_codes_input() -> InputDescriptor {
    InputDescriptor::new("ExpectedStatusCodes", "ICollection<Int32>")
        .hint(UiHint::MultiText)
        .default(json!([200]))
        .describe("A list of expected status codes to handle.")
        .adds_outcomes(AddedOutcomes::EachNumber)
}

/// Ours.
pub(super) fn timeout_input() -> InputDescriptor {
    InputDescriptor::new(TIMEOUT, "TimeSpan")
        .display_name("Timeout")
        .category("Advanced")
        .describe(
            "How long the request may take, to the last byte of its answer: as long as the server allows unless given, and an hour at most. \
             Mainspring's own.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_scheme_and_a_host() {
        for url in [
            "http://a.example",
            " https://a.example/x?y#z ",
            "HTTP://A.example:8080",
            "https://é.example/ü",
        ] {
            assert!(parse_url(url).is_ok(), "{url}");
        }
        for (url, part) in [
            ("", "empty"),
            ("a.example/x", "no scheme"),
            ("/x", "no scheme"),
            ("//a.example", "no scheme"),
            ("localhost:8080/x", "\"localhost\""),
            ("ftp://a.example", "\"ftp\""),
            ("file:///etc/passwd", "\"file\""),
            ("javascript:alert(1)", "\"javascript\""),
            ("http://", "no URL"),
            ("http://a b/", "no URL"),
            ("https://a.example:99999", "no URL"),
        ] {
            let problem = parse_url(url).unwrap_err();
            assert!(problem.contains(part), "{url}: {problem}");
        }
    }

    #[test]
    fn wrong_inputs_are_known_before_the_publish() {
        let inputs = |given: Value| given.as_object().unwrap().clone();
        let names = RequestInputs {
            content: "Content",
            content_type: "ContentType",
        };
        assert_eq!(
            names.problems(&inputs(json!({"Url": null, "Method": null, "MainspringTimeout": null}))),
            [""; 0]
        );
        for (given, part) in [
            (json!({"Url": "a.example"}), "Url is invalid: the URL has no scheme"),
            (json!({"Method": "GE T"}), "no method"),
            (json!({"Method": "CONNECT"}), "no method"),
            (json!({"RequestHeaders": {"a b": "c"}}), "RequestHeaders"),
            (json!({"RequestHeaders": {"a": "b\r\nc: d"}}), "line break"),
            (json!({"Authorization": "Bearer x\ny"}), "line break"),
            (
                json!({"Authorization": "\"x\" y", "DisableAuthorizationHeaderValidation": false}),
                "scheme",
            ),
            (json!({"ContentType": "json"}), "no content type"),
            (json!({"MainspringTimeout": "-00:00:01"}), "length of time"),
            (json!({"MainspringTimeout": "02:00:00"}), "01:00:00"),
            (json!({"ExpectedStatusCodes": [99]}), "99 is no status code"),
            (json!({"ExpectedStatusCodes": ["1000"]}), "no status code"),
        ] {
            let problems = names.problems(&inputs(given.clone()));
            assert!(
                problems.len() == 1 && problems[0].contains(part),
                "{given}: {problems:?}"
            );
        }
        assert_eq!(method(&json!("post")).unwrap(), Method::POST);
        assert_eq!(method(&json!("Purge")).unwrap().as_str(), "Purge");
    }
}
