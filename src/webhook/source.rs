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
    /// The type of the activity that waits for it. Default: from the names of the source and of the event.
    pub activity_type: Option<String>,
}

impl WebhookSourceEvent {
    /// An event whose payload is any object.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self {
            event_type: event_type.into(),
            payload_type: "Object".to_owned(),
            display_name: None,
            description: None,
            activity_type: None,
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

    /// The type of the activity that waits for an event: `Webhooks.Shop.OrderPaid` for `order.paid`, unless it has another one.
    pub(crate) fn activity_type(&self, event: &WebhookSourceEvent) -> String {
        match &event.activity_type {
            Some(type_name) => type_name.clone(),
            None => format!("{PREFIX}{}.{}", pascal(&self.name), pascal(&event.event_type)),
        }
    }

    pub(crate) fn find(&self, event_type: &str) -> Option<&WebhookSourceEvent> {
        self.events.iter().find(|event| event.event_type == event_type)
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
            let of_type = self.activity_type(event);
            let is_plain = |character: char| character.is_alphanumeric() || "._-".contains(character);
            if of_type.is_empty() || !of_type.chars().all(is_plain) {
                return wrong(format!(
                    "the activity type {of_type:?} needs letters or digits, and only . _ - beside them"
                ));
            }
            let mut earlier = self.events.iter().take(place);
            if let Some(other) = earlier.find(|other| self.activity_type(other) == of_type) {
                return wrong(format!(
                    "the event types {:?} and {:?} have the same activity {of_type}",
                    other.event_type, event.event_type
                ));
            }
        }
        Ok(())
    }
}

/// Words as one name: `order.paid` and `Order paid` are `OrderPaid`.
fn pascal(text: &str) -> String {
    let words = text.split(|character: char| !character.is_alphanumeric());
    let mut name = String::with_capacity(text.len());
    for word in words {
        let mut characters = word.chars();
        name.extend(characters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(characters.as_str());
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
        let mut shop = source("my shop", &["order.paid", "OrderSent"]);
        let types = |source: &WebhookSource| -> Vec<String> {
            let events = source.events.iter();
            events.map(|event| source.activity_type(event)).collect()
        };
        assert_eq!(types(&shop), ["Webhooks.MyShop.OrderPaid", "Webhooks.MyShop.OrderSent"]);
        shop.events[1].activity_type = Some("Orders.Sent".to_owned());
        assert_eq!(types(&shop), ["Webhooks.MyShop.OrderPaid", "Orders.Sent"]);
        assert!(shop.check().is_ok());
        assert!(shop.find("order.paid").is_some() && shop.find("order.Paid").is_none());
    }

    #[test]
    fn a_source_that_cannot_be_used_is_refused() {
        assert!(source("Shop", &["a", "b"]).check().is_ok());
        let mut open = source("Shop", &["a"]);
        open.secrets.clear();
        let mut odd = source("Shop", &["a"]);
        odd.events[0].activity_type = Some("a b".to_owned());
        for (source, part) in [
            (open, "no secret"),
            (odd, "the activity type"),
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
