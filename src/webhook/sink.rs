//! A receiver of events, as a program, a settings file or a client describes it.

use std::time::Duration;

use reqwest::Url;

use super::{EventType, WebhookSecret, is_known};
use crate::{Error, Result};

/// The most sinks of a tenant.
pub(crate) const MOST_SINKS: i64 = 100;

/// How long a delivery is tried, if nothing else is said.
pub(crate) const DEFAULT_RETRY_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
pub(crate) const LONGEST_RETRY_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

const LONGEST_ID: usize = 128;
const LONGEST_URL: usize = 2_048;
const MOST_ENTRIES: usize = 256;
const LONGEST_DEFINITION: usize = 255;

/// A receiver of events. Its secret signs what it receives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhookSink {
    /// By which it is named: letters, digits and `-._~`.
    pub id: String,
    /// What an operator calls it.
    pub name: Option<String>,
    /// `http` or `https`, without user and password.
    pub url: String,
    /// The types of the events that it receives; all, if the list is empty.
    pub event_types: Vec<String>,
    /// Only events of these definitions; of all, if the list is empty.
    pub definitions: Vec<String>,
    /// What signs.
    pub secret: WebhookSecret,
    /// How long a delivery is tried before it is given up. Default: three days.
    pub retry_for: Duration,
    /// Events are written for it, and not sent.
    pub paused: bool,
}

impl WebhookSink {
    /// A sink for all events of all definitions.
    pub fn new(id: impl Into<String>, url: impl Into<String>, secret: WebhookSecret) -> Self {
        Self {
            id: id.into(),
            name: None,
            url: url.into(),
            event_types: Vec::new(),
            definitions: Vec::new(),
            secret,
            retry_for: DEFAULT_RETRY_FOR,
            paused: false,
        }
    }

    /// Whether it can be registered.
    ///
    /// # Errors
    /// `invalid-sink`, with the fields that are wrong.
    pub(crate) fn check(&self) -> Result<()> {
        check_id(&self.id)?;
        check_url(&self.url)?;
        check_lists(Some(&self.event_types), Some(&self.definitions))?;
        check_name(self.name.as_deref())?;
        check_retry_for(self.retry_for)
    }
}

/// What changes of a sink; `None` stays.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WebhookSinkChange {
    /// What an operator calls it; `Some(None)`: no longer anything.
    pub name: Option<Option<String>>,
    /// Where the events go.
    pub url: Option<String>,
    /// The types of its events; all, if it is empty.
    pub event_types: Option<Vec<String>>,
    /// The definitions of its events; all, if it is empty.
    pub definitions: Option<Vec<String>>,
    /// How long a delivery is tried.
    pub retry_for: Option<Duration>,
    /// Whether events wait; `false` also enables a sink that is disabled, and tries it at once.
    pub paused: Option<bool>,
}

impl WebhookSinkChange {
    /// Whether a sink can have it.
    ///
    /// # Errors
    /// `invalid-sink`, with the fields that are wrong.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(self.name.as_ref().and_then(|name| name.as_deref()))?;
        check_lists(self.event_types.as_deref(), self.definitions.as_deref())?;
        self.retry_for.map_or(Ok(()), check_retry_for)?;
        self.url.as_deref().map_or(Ok(()), |url| check_url(url).map(drop))
    }
}

fn invalid(field: &str, problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::invalid(
        "invalid-sink",
        format!("the webhook sink cannot be used: its {field} {problem}"),
    )
    .field(field, problem)
}

fn check_id(id: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(is_plain) || id.bytes().all(|byte| byte == b'.') {
        let problem = format!("must have 1 to {LONGEST_ID} letters, digits and -._~");
        return Err(invalid("id", problem));
    }
    Ok(())
}

fn check_name(name: Option<&str>) -> Result<()> {
    if name.is_some_and(|name| name.len() > LONGEST_ID || name.chars().any(char::is_control)) {
        let problem = format!("must have at most {LONGEST_ID} bytes, and no control characters");
        return Err(invalid("name", problem));
    }
    Ok(())
}

/// The URL of a sink. What it leads to is for the rules on targets to say.
pub(crate) fn check_url(text: &str) -> Result<Url> {
    if text.is_empty() {
        return Err(invalid(
            "url",
            "is missing: give the URL that receives the events, such as https://crm.example/hooks",
        ));
    }
    if text.len() > LONGEST_URL {
        return Err(invalid("url", format!("must have at most {LONGEST_URL} bytes")));
    }
    let url = Url::parse(text).map_err(|error| {
        invalid(
            "url",
            format!("is no absolute URL ({error}); give one such as https://crm.example/hooks"),
        )
    })?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("url", "must begin with https:// or http://, and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "url",
            "must not have a user or a password: the receiver verifies the signature instead",
        ));
    }
    Ok(url)
}

fn check_lists(event_types: Option<&[String]>, definitions: Option<&[String]>) -> Result<()> {
    let too_many = format!("must have at most {MOST_ENTRIES} entries");
    if event_types.is_some_and(|types| types.len() > MOST_ENTRIES) {
        return Err(invalid("eventTypes", too_many));
    }
    if let Some(unknown) = event_types.into_iter().flatten().find(|text| !is_known(text)) {
        let known: Vec<&str> = EventType::ALL.iter().map(|event| event.as_str()).collect();
        let problem = format!(
            "must not have {unknown:?}: there is no such event; there are {}",
            known.join(", ")
        );
        return Err(invalid("eventTypes", problem));
    }
    if definitions.is_some_and(|ids| ids.len() > MOST_ENTRIES) {
        return Err(invalid("definitionIds", too_many));
    }
    if definitions
        .into_iter()
        .flatten()
        .any(|id| id.len() > LONGEST_DEFINITION)
    {
        let problem = format!("must have ids of at most {LONGEST_DEFINITION} bytes");
        return Err(invalid("definitionIds", problem));
    }
    Ok(())
}

fn check_retry_for(time: Duration) -> Result<()> {
    if time.as_secs() == 0 || time > LONGEST_RETRY_FOR {
        let problem = format!("must be 1 to {}", LONGEST_RETRY_FOR.as_secs());
        return Err(invalid("retryForSeconds", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> WebhookSink {
        WebhookSink::new("crm", "https://crm.example/hooks", WebhookSecret::random())
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(sink().check().is_ok());
        type Spoil = fn(&mut WebhookSink);
        let wrong: [(&str, Spoil); 10] = [
            ("id", |sink| sink.id = "a/b".to_owned()),
            ("id", |sink| sink.id = "..".to_owned()),
            ("url", |sink| sink.url = String::new()),
            ("url", |sink| sink.url = "crm.example".to_owned()),
            ("url", |sink| sink.url = "ftp://crm.example".to_owned()),
            ("url", |sink| sink.url = "https://u:s3cret@crm.example".to_owned()),
            ("eventTypes", |sink| sink.event_types = vec!["Elsa.Nothing".to_owned()]),
            ("definitionIds", |sink| sink.definitions = vec!["d".repeat(256)]),
            ("name", |sink| sink.name = Some("\n".to_owned())),
            ("retryForSeconds", |sink| sink.retry_for = Duration::ZERO),
        ];
        for (field, spoil) in wrong {
            let mut sink = sink();
            spoil(&mut sink);
            let error = sink.check().unwrap_err();
            assert_eq!(
                (error.code(), error.fields()[0].0.as_str()),
                ("invalid-sink", field),
                "{error}"
            );
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
