//! Webhooks: events that other programs receive (sinks), and events that they send (sources).
//!
//! This room knows what an event, a signature, a sink and a source are, and no database, no socket and no workflow. What a burst
//! causes becomes rows of its commit (`store::webhook`), which any node sends (`runtime::sender`).
//!
//! # Layout
//!
//! - `event_type`: the events of this engine · `message`: the body that a sink receives, and the id of an event.
//! - `secret`: what signs · `signature`: the convention of Standard Webhooks, for both directions.
//! - `sink`: a receiver, as a program or a client describes and changes it · `source`: a sender, and the activities that wait for its events.
//! - `retry`: when a delivery is tried again.

mod event_type;
mod message;
mod retry;
mod secret;
mod signature;
mod sink;
mod source;

pub(crate) use event_type::{EventType, is_known};
pub(crate) use message::{InstanceEvent, body, event_id};
pub(crate) use retry::{delivery_pause, retry_after, sink_pause};
pub use secret::WebhookSecret;
pub(crate) use signature::{SIGNATURE, SignatureProblem, TIMESTAMP, WEBHOOK_ID, signatures, verify};
pub(crate) use sink::{DEFAULT_RETRY_FOR, MOST_SINKS, check_url};
pub use sink::{WebhookSink, WebhookSinkChange};
pub use source::{WebhookSource, WebhookSourceEvent};
