//! Requests that wait for what an instance does: a run that a client of an HTTP endpoint waits for.
//!
//! A request comes with an instruction and ends once: with the answer that an activity gives, or else with what the instance
//! has come to when nothing is left to do for the instruction. A *held* request waits on while the instance does, until its
//! time has passed. Only open requests are in the state, so the state of a run without one has the same bytes as before.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::child::is_false;
use crate::activity::Answer;
use crate::id::{Incarnation, RequestId};

/// The request that an instruction comes with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// Its id.
    pub id: RequestId,
    /// The registration of the node at which the client waits. The commit of another one keeps the end of the request, where
    /// that node reads it.
    pub holder: Incarnation,
    /// The end is kept in any case: the client may repeat the request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_kept: bool,
    /// It waits until this time for the answer of a later burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<DateTime<Utc>>,
    /// Its row can be lost with the process that received it, and comes again as another one under the id of the request.
    #[serde(skip)]
    pub recurs: bool,
}

/// A request in the state: it has not ended, or what its instruction has set off still runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenRequest {
    #[serde(flatten)]
    pub(super) request: RunRequest,
    /// By which the work that its instruction sets off names it, see [`Cause`](super::cause::Cause).
    pub(super) number: u64,
    /// The incidents of the instance before it.
    #[serde(default)]
    pub(super) incidents: usize,
    /// It has ended with an answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_answered: bool,
}

impl OpenRequest {
    /// The request of a test, which no client waits for.
    pub(super) fn of_test() -> Self {
        Self {
            request: RunRequest {
                id: RequestId(uuid::Uuid::nil()),
                holder: Incarnation::default(),
                is_kept: false,
                held_until: None,
                recurs: false,
            },
            number: 0,
            incidents: 0,
            is_answered: false,
        }
    }
}

/// A request that a burst has ended. Its client receives that after the commit of the burst, and never without it.
#[derive(Clone, Debug)]
pub(crate) struct EndedRequest {
    pub(crate) request: RunRequest,
    pub(crate) end: RequestEnd,
}

/// How a request has ended.
#[derive(Clone, Debug)]
pub(crate) enum RequestEnd {
    /// An activity has answered it.
    Answered(Arc<Answer>),
    /// The instance has ended without an answer.
    Finished,
    /// An activity has faulted, or the instance was cancelled, before there was an answer.
    Faulted,
    /// The instance waits for something else.
    Waiting,
}
