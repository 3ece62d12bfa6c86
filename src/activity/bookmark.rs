//! What an activity that waits asks for: a bookmark.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

/// A bookmark to create: a point at which the activity waits.
#[derive(Clone, Debug)]
pub struct BookmarkRequest {
    /// The name of the stimulus; the activity's type unless another is given.
    pub name: Option<String>,
    /// The payload that a stimulus must have to match, unless there is a key.
    pub payload: Value,
    /// What a stimulus must have to match, if that is not the payload.
    pub key: Option<Value>,
    /// A published stimulus of the same name and payload resumes it.
    pub publishable: bool,
    /// It is resumed after this time, counted from the commit.
    pub delay: Option<Duration>,
    /// It is resumed at this time, by the clock of [`ActivityContext::now`](super::ActivityContext::now).
    pub due: Option<DateTime<Utc>>,
    /// It is deleted once resumed. Default: true.
    pub auto_burn: bool,
}

impl BookmarkRequest {
    /// Waits for a stimulus with this payload.
    pub fn new(payload: impl Into<Value>) -> Self {
        Self {
            name: None,
            payload: payload.into(),
            key: None,
            publishable: true,
            delay: None,
            due: None,
            auto_burn: true,
        }
    }

    /// Waits for a length of time.
    pub fn delay(delay: Duration, payload: impl Into<Value>) -> Self {
        Self {
            publishable: false,
            delay: Some(delay),
            ..Self::new(payload)
        }
    }

    /// Waits for a point in time. One in the past resumes the bookmark right after the commit that creates it. No published
    /// stimulus resumes it.
    pub fn at(due: DateTime<Utc>, payload: impl Into<Value>) -> Self {
        Self {
            publishable: false,
            due: Some(due),
            ..Self::new(payload)
        }
    }
}
