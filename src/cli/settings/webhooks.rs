//! Settings of webhooks: the sinks and sources of a file, and how deliveries are sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::db;
use crate::harness::failure::Failure;
use crate::harness::settings::duration;
use crate::webhook::{WebhookSecret, WebhookSink, WebhookSource, WebhookSourceEvent};

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Receivers and senders of events.
#[derive(Debug, Args)]
pub(crate) struct WebhookSettings {
    /// A JSON file with the `sinks` that receive events and the `sources` that send them, each with its secret
    #[arg(long, value_name = "FILE")]
    webhooks_file: Option<PathBuf>,
    /// How long an attempt to deliver a webhook may take
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) webhook_timeout: Duration,
    /// How long a delivered webhook is listed
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub(crate) webhook_lifetime: Duration,
}

/// What the file has.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhooksOfFile {
    /// `None` without a file, or a list in it.
    pub(crate) sinks: Option<Vec<WebhookSink>>,
    pub(crate) sources: Vec<WebhookSource>,
}

impl WebhookSettings {
    /// Reads the file.
    /// Errors: Wrong usage, without a secret.
    pub(crate) fn read(&self) -> Result<WebhooksOfFile, Failure> {
        let Some(path) = &self.webhooks_file else {
            return Ok(WebhooksOfFile::default());
        };
        let refused = |problem: String| Failure::usage(format!("the webhooks-file {}: {problem}", path.display()));
        let text = text_of(path).map_err(refused)?;
        if let Some(readers) = db::readers(path) {
            tracing::warn!(
                "the file {} contains secrets and can be read by {readers}: chmod 600 it",
                path.display()
            );
        }
        parsed(&text).map_err(refused)
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileFields {
    sinks: Option<Vec<SinkFields>>,
    #[serde(default)]
    sources: Vec<SourceFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SinkFields {
    id: String,
    name: Option<String>,
    url: String,
    #[serde(default)]
    event_types: Vec<String>,
    #[serde(default)]
    definition_ids: Vec<String>,
    secret: Option<String>,
    #[serde(default)]
    is_paused: bool,
    retry_for_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SourceFields {
    name: String,
    secret: Option<String>,
    /// The ones before, while they are replaced.
    #[serde(default)]
    further_secrets: Vec<String>,
    event_types: Vec<EventFields>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EventFields {
    Name(String),
    Described(DescribedFields),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DescribedFields {
    event_type: String,
    activity_type: Option<String>,
    payload_type: Option<String>,
    display_name: Option<String>,
    description: Option<String>,
}

/// Errors: What is wrong, in one line and without a value: it may be a secret.
fn parsed(text: &str) -> Result<WebhooksOfFile, String> {
    let fields: FileFields = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let problem = match error.classify() {
            serde_json::error::Category::Data => "a field is unknown, missing or of a wrong type",
            _ => "it is not valid JSON",
        };
        format!("{problem} at line {line}, column {column}; docs/reference/webhooks.md shows a file")
    })?;
    let sinks = fields
        .sinks
        .map(|sinks| sinks.into_iter().map(sink).collect::<Result<_, _>>());
    Ok(WebhooksOfFile {
        sinks: sinks.transpose()?,
        sources: fields.sources.into_iter().map(source).collect::<Result<_, _>>()?,
    })
}

fn secret(of: &str, text: Option<&str>) -> Result<WebhookSecret, String> {
    let text = text.ok_or_else(|| {
        format!("{of} has no secret; give one, as whsec_ and the base64 of 24 to 64 bytes (`openssl rand -base64 32`)")
    })?;
    WebhookSecret::parse(text).map_err(|error| format!("{of}: {}", error.message()))
}

fn sink(fields: SinkFields) -> Result<WebhookSink, String> {
    let of = format!("the sink {:?}", fields.id);
    let secret = secret(&of, fields.secret.as_deref())?;
    let mut sink = WebhookSink::new(fields.id, fields.url, secret);
    sink.name = fields.name;
    sink.event_types = fields.event_types;
    sink.definitions = fields.definition_ids;
    sink.paused = fields.is_paused;
    if let Some(seconds) = fields.retry_for_seconds {
        sink.retry_for = Duration::from_secs(seconds);
    }
    sink.check().map_err(|error| format!("{of}: {}", error.message()))?;
    Ok(sink)
}

fn source(fields: SourceFields) -> Result<WebhookSource, String> {
    let of = format!("the source {:?}", fields.name);
    let first = secret(&of, fields.secret.as_deref())?;
    let events = fields.event_types.into_iter().map(|event| match event {
        EventFields::Name(event_type) => WebhookSourceEvent::new(event_type),
        EventFields::Described(fields) => {
            let mut event = WebhookSourceEvent::new(fields.event_type);
            if let Some(type_name) = fields.payload_type {
                event.payload_type = type_name;
            }
            event.activity_type = fields.activity_type;
            event.display_name = fields.display_name;
            event.description = fields.description;
            event
        }
    });
    let mut source = WebhookSource::new(fields.name, first, events.collect());
    for text in &fields.further_secrets {
        source.secrets.push(secret(&of, Some(text))?);
    }
    source.check().map_err(|error| error.message().to_owned())?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_file_has_sinks_and_sources() {
        let text = r#"{
            "sinks": [{"id": "crm", "url": "https://crm.example/hooks", "secret": "SECRET", "eventTypes": ["Elsa.RunTask"], "retryForSeconds": 60}],
            "sources": [{"name": "Shop", "secret": "SECRET", "furtherSecrets": ["SECRET"],
                         "eventTypes": ["order.paid", {"eventType": "order.sent", "payloadType": "ObjectDictionary", "activityType": "Orders.Sent"}]}]
        }"#;
        let read = parsed(&text.replace("SECRET", SECRET)).unwrap();
        let sinks = read.sinks.unwrap();
        assert_eq!(
            (sinks[0].id.as_str(), sinks[0].retry_for),
            ("crm", Duration::from_secs(60))
        );
        assert_eq!(read.sources[0].secrets.len(), 2);
        let sent = &read.sources[0].events[1];
        assert_eq!(
            (sent.payload_type.as_str(), sent.activity_type.as_deref()),
            ("ObjectDictionary", Some("Orders.Sent"))
        );
        assert!(parsed("{}").unwrap().sinks.is_none());
    }

    #[test]
    fn what_is_wrong_is_said_without_a_secret() {
        let sink = |more: &str| format!(r#"{{"sinks": [{{"id": "crm", "url": "https://crm.example"{more}}}]}}"#);
        let source = |more: &str| format!(r#"{{"sources": [{{"name": "Shop", "eventTypes": ["a"]{more}}}]}}"#);
        for (text, part) in [
            (sink(""), "has no secret"),
            (sink(r#", "secret": "c2hvcnQ=""#), "has 5 bytes"),
            (sink(r#", "secrett": "s3cret""#), "unknown"),
            (source(""), "has no secret"),
            (source(r#", "secret": ["s3cret"]"#), "wrong type"),
            ("{".to_owned(), "not valid JSON"),
            (
                source(&format!(r#", "secret": "{SECRET}""#))
                    .replace(r#""a""#, r#"{"eventType": "a", "payloadTyp": "Object"}"#),
                "unknown",
            ),
            (
                sink(&format!(r#", "secret": "{SECRET}", "eventTypes": ["x"]"#)),
                "no such event",
            ),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(part) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
