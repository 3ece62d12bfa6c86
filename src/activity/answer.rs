//! The answer to an HTTP request: an effect of the burst that writes it.
#![cfg_attr(
    not(feature = "http"),
    allow(dead_code, reason = "only HTTP activities answer requests")
)]

use crate::spool::SpoolFile;

/// What a client receives, after the commit of the burst that wrote it and never without it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// 100 to 599 are sent; 200 to 599 can be written.
    pub(crate) status: u16,
    /// Names and values, checked; in order, a name may be repeated.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: AnswerBody,
}

impl Answer {
    /// Whether it sets a cookie, which belongs to its client alone.
    pub(crate) fn sets_cookie(&self) -> bool {
        self.headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
    }
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub(crate) enum AnswerBody {
    Bytes(Vec<u8>),
    /// A file of this node. It is not kept beyond the request.
    File(SpoolFile),
}

/// Whether an activity can answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerStatus {
    /// A client waits, and nothing has answered it.
    Open,
    /// The request of this run has its answer.
    Answered,
    /// No request waits: a timer, an event or the API runs the instance, or the request has been answered with 202.
    NoRequest,
}

impl AnswerBody {
    /// The bytes that it takes in memory.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(_) => 0,
        }
    }
}
