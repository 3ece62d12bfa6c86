//! How long one call of an activity may take.
//!
//! A call that takes longer is dropped, with all that it has asked for, and its execution faults: what it would still have
//! given reaches nothing. The limit does not change which executions there are or what ids they have: those are given out
//! before the first call. A call that blocks its thread cannot be dropped.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;

use crate::activity::{ActivityNode, Descriptor, Fault, Step};
use crate::expression::TimeSpan;

/// What a definition's custom property of an activity is called.
const PROPERTY: [&str; 2] = ["activityTimeout", "ActivityTimeout"];

/// The limit of an activity: its own in the definition, else its type's, else the server's.
pub(super) fn of(node: &ActivityNode, descriptor: Option<&Descriptor>, server: Duration) -> Duration {
    let own = given(node).and_then(read);
    own.or_else(|| descriptor.and_then(|descriptor| descriptor.timeout))
        .unwrap_or(server)
}

/// What is wrong with the limit that a definition gives an activity.
pub(super) fn problem(node: &ActivityNode) -> Option<String> {
    let wrong = given(node).filter(|value| read(value).is_none())?;
    Some(format!(
        "The custom property {} of the activity {} must be a length of time that is longer than nothing, as \"00:10:00\" or \
         \"PT10M\", and is {wrong}",
        PROPERTY[0], node.id
    ))
}

fn given(node: &ActivityNode) -> Option<&Value> {
    let custom = node.property("customProperties")?;
    let given = PROPERTY.iter().find_map(|name| custom.get(*name));
    given.filter(|value| !value.is_null())
}

fn read(value: &Value) -> Option<Duration> {
    let limit = TimeSpan::parse(value.as_str()?)?.to_duration()?;
    (!limit.is_zero()).then_some(limit)
}

/// Awaits a call for as long as `limit` says, and then drops it.
pub(super) async fn within(
    node: &ActivityNode,
    limit: impl FnOnce() -> Duration,
    calling: impl Future<Output = Result<Step, Fault>>,
) -> Result<Step, Fault> {
    let mut calling = pin!(calling);
    // Nearly all calls never wait: a timer for them would be for nothing.
    if let Poll::Ready(ended) = poll_fn(|context| Poll::Ready(calling.as_mut().poll(context))).await {
        return ended;
    }
    let limit = limit();
    if let Ok(ended) = tokio::time::timeout(limit, calling).await {
        return ended;
    }
    metrics::counter!("mainspring_activity_timeouts_total").increment(1);
    Err(Fault::new(format!(
        "The activity {} ({}) did not return within {limit:?} and was dropped. If it may take longer, give it the custom property \
         {}, its type a timeout, or the server a longer --activity-timeout",
        node.id, node.type_name, PROPERTY[0]
    ))
    .code("activity-timeout"))
}
