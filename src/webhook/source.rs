//! A sender of events, as settings describe it, and the activities that wait for its events.

use super::WebhookSecret;
use crate::{Error, Result};

/// What begins the type of such an activity, as in Elsa.
const PREFIX: &str = "Webhooks.";

/// A program that sends events to `POST /webhooks`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhookSource {
    /// Its name, which its activities have, too: `Shop`.
    pub name: String,
    /// What its events are signed with; several while one replaces another.
    pub secrets: Vec<WebhookSecret>,
    /// The events that it sends.
    pub events: Vec<WebhookSourceEvent>,
}

/// A type of events of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookSourceEvent {
    /// The text in `eventType`, compared exactly: `order.paid`.
    pub event_type: String,
    /// Elsa's name of the type of its payload. Default: `Object`.
    pub payload_type: String,
    /// What designers call the activity. Default: from the event type.
    pub display_name: Option<String>,
    /// What designers say of it.
    pub description: Option<String>,
}

impl WebhookSourceEvent {
    /// An event whose payload is any object.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self {
            event_type: event_type.into(),
            payload_type: "Object".to_owned(),
            display_name: None,
            description: None,
        }
    }
}

impl WebhookSource {
    /// A source with one secret.
    pub fn new(name: impl Into<String>, secret: WebhookSecret, events: Vec<WebhookSourceEvent>) -> Self {
        Self {
            name: name.into(),
            secrets: vec![secret],
            events,
        }
    }

    /// The type of the activity that waits for an event: `Webhooks.Shop.OrderPaid` for `order.paid`.
    pub(crate) fn activity_type(&self, event_type: &str) -> String {
        format!("{PREFIX}{}.{}", pascal(&self.name), pascal(event_type))
    }

    pub(crate) fn has(&self, event_type: &str) -> bool {
        self.events.iter().any(|event| event.event_type == event_type)
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// `invalid-settings`.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |problem: String| {
            let message = format!("the webhook source {:?} cannot be used: {problem}", self.name);
            Err(Error::invalid("invalid-settings", message))
        };
        if pascal(&self.name).is_empty() {
            return wrong("its name needs a letter or a digit".to_owned());
        }
        if self.secrets.is_empty() {
            return wrong(
                "it has no secret, so anyone could send its events; give the one that it signs with (whsec_…)"
                    .to_owned(),
            );
        }
        if self.events.is_empty() {
            return wrong(
                "it has no event types, so nothing could be received from it; list those that it sends".to_owned(),
            );
        }
        for (place, event) in self.events.iter().enumerate() {
            if pascal(&event.event_type).is_empty() || event.event_type.chars().any(char::is_control) {
                return wrong(format!(
                    "the event type {:?} needs a letter or a digit, and no control characters",
                    event.event_type
                ));
            }
            let of_type = self.activity_type(&event.event_type);
            let earlier = self.events.iter().take(place);
            if let Some(other) = earlier
                .map(|other| &other.event_type)
                .find(|other| self.activity_type(other) == of_type)
            {
                return wrong(format!(
                    "the event types {other:?} and {:?} have the same activity {of_type}",
                    event.event_type
                ));
            }
        }
        Ok(())
    }
}

/// Words as one name: `order.paid` and `Order paid` are `OrderPaid`.
fn pascal(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    let mut name = String::with_capacity(text.len());
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, events: &[&str]) -> WebhookSource {
        let events = events.iter().map(|event| WebhookSourceEvent::new(*event)).collect();
        WebhookSource::new(name, WebhookSecret::random(), events)
    }

    #[test]
    fn an_activity_is_named_by_source_and_event() {
        let shop = source("my shop", &["order.paid"]);
        assert_eq!(shop.activity_type("order.paid"), "Webhooks.MyShop.OrderPaid");
        assert_eq!(
            source("Shop", &[]).activity_type("OrderPaid"),
            "Webhooks.Shop.OrderPaid"
        );
        assert!(shop.has("order.paid") && !shop.has("order.Paid"));
    }

    #[test]
    fn a_source_that_cannot_be_used_is_refused() {
        assert!(source("Shop", &["a", "b"]).check().is_ok());
        let mut open = source("Shop", &["a"]);
        open.secrets.clear();
        for (source, part) in [
            (open, "no secret"),
            (source("-", &["a"]), "its name"),
            (source("Shop", &[]), "no event types"),
            (source("Shop", &["."]), "the event type"),
            (source("Shop", &["order.paid", "order-paid"]), "same activity"),
        ] {
            let error = source.check().unwrap_err();
            assert_eq!(error.code(), "invalid-settings");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
