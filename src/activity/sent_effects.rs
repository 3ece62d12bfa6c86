//! What a request to another server leaves behind besides outputs: a failure in the journal, and files.
#![cfg_attr(
    not(feature = "http"),
    allow(dead_code, reason = "only HTTP activities send requests")
)]

use super::fault::Fault;
use crate::spool::SpoolFile;

/// What a call leaves behind of the requests that it has sent.
#[derive(Debug, Default)]
pub(crate) struct SentEffects {
    pub(crate) failures: Vec<SentFailure>,
    /// They live as long as the burst.
    pub(crate) files: Vec<SpoolFile>,
}

/// A request without an answer, which does not fault its activity. The journal has an entry `Error`, and the payload of the
/// activity's end the message or, where the time ran out, `Cancelled`, as in Elsa.
#[derive(Debug)]
pub(crate) struct SentFailure {
    /// Why, with what of it may be shown where a secret was read.
    pub(crate) reason: Fault,
    pub(crate) was_cancelled: bool,
}
