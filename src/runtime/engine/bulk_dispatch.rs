//! Starts of many instances of one workflow.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures_util::{StreamExt, stream};

use super::Engine;
use crate::id::{ActivityId, InstanceId};
use crate::runtime::context::request::{Idempotency, StartRequest};
use crate::{Error, Result, weight};

/// The most instances of one call, and the most bytes that all of them are given.
const MOST_INSTANCES: u32 = 1_000;
const MOST_BYTES: usize = 64 << 20;

/// How many starts are accepted at the same time: they share transactions. Fewer of large inputs, each of which is copied.
const CONCURRENT: usize = 64;
const CONCURRENT_BYTES: usize = 4 << 20;

impl Engine {
    /// Accepts the starts of many instances durably, and returns their ids. With an idempotency key, a repeat starts what the
    /// first call has not started. Dropped, it goes on in the background.
    ///
    /// # Errors
    /// [`Error::is_invalid`] for no instances or too many, or too large inputs; else the error of the first start that was not
    /// accepted, after which no further one is tried. Its field `count` says how many were accepted.
    pub async fn dispatch_many(&self, request: StartRequest, count: u32) -> Result<Vec<InstanceId>> {
        let node = self.accepting()?;
        let invalid = |message: String| Error::invalid("invalid-field", message.clone()).field("count", message);
        if count == 0 || count > MOST_INSTANCES {
            return Err(invalid(format!("1 to {MOST_INSTANCES} instances are started at once")));
        }
        let ids = [
            request.correlation_id.as_deref(),
            request.name.as_deref(),
            request.trigger_activity_id.as_ref().map(ActivityId::as_str),
            request.trigger_node_id.as_deref(),
        ];
        let texts: usize = ids.into_iter().flatten().map(weight::text).sum();
        let bytes: usize = weight::map(&request.input) + weight::map(&request.variables) + texts;
        if bytes.saturating_mul(count as usize) > MOST_BYTES {
            return Err(invalid(format!(
                "the inputs, variables and names of all instances have more than {MOST_BYTES} bytes together; start fewer at once"
            )));
        }
        let (engine, request) = (self.clone(), Arc::new(request));
        // The request has one entry in the audit, in the transaction of its first start that is accepted: until then they go one
        // after another.
        let silent = self.without_origin();
        let concurrent = (CONCURRENT_BYTES / bytes.max(1)).clamp(1, CONCURRENT);
        let starting = node.lifecycle.tasks.spawn(async move {
            let (silent, request, has_failed) = (&silent, &request, &AtomicBool::new(false));
            let (mut ids, mut first, mut next) = (Vec::new(), None, 0);
            while next < count && first.is_none() && engine.is_to_note() {
                match engine.dispatch(numbered(request, next)).await {
                    Ok(id) => ids.push(id),
                    Err(error) => first = Some(error),
                }
                next += 1;
            }
            has_failed.store(first.is_some(), Relaxed);
            let start = |number: u32| async move {
                if has_failed.load(Relaxed) {
                    return None;
                }
                let accepted = silent.dispatch(numbered(request, number)).await;
                has_failed.fetch_or(accepted.is_err(), Relaxed);
                Some(accepted)
            };
            let mut starts = pin!(stream::iter(next..count).map(start).buffered(concurrent));
            while let Some(accepted) = starts.next().await {
                match accepted {
                    Some(Ok(id)) => ids.push(id),
                    Some(Err(error)) => first = first.or(Some(error)),
                    None => {}
                }
            }
            (ids, first)
        });
        let (ids, first) = starting.await.map_err(|_| Error::internal("the starts failed"))?;
        match first {
            None => Ok(ids),
            Some(error) => Err(error.field("count", format!("{} of {count} starts were accepted", ids.len()))),
        }
    }
}

/// One of the starts. No key of a client has a space.
fn numbered(request: &StartRequest, number: u32) -> StartRequest {
    StartRequest {
        idempotency: request.idempotency.as_ref().map(|given| Idempotency {
            key: format!("{} {number}", given.key),
            ..given.clone()
        }),
        ..request.clone()
    }
}
