//! The requests of clients that wait for this instance.
//!
//! The request of a call is that of the instruction which set its work off: the number of the request is part of the cause, so
//! it survives a yield and distinguishes the requests of two instructions whose work is mixed. Work of an instruction without
//! one answers the oldest request that is held.

use std::sync::Arc;

use super::BurstRun;
use crate::activity::{Answer, AnswerStatus};
use crate::execution::request::{EndedRequest, OpenRequest, RequestEnd, RunRequest};
use crate::execution::status::{Status, SubStatus};

impl BurstRun<'_> {
    /// What the current instruction sets off belongs to this request.
    pub(super) fn open_request(&mut self, request: Option<RunRequest>) {
        let Some(request) = request else { return };
        let last = self.state.requests.iter().map(|open| open.number).max();
        let number = last.unwrap_or(0).max(self.state.counter) + 1;
        self.cause = self.cause.map(|cause| cause.of_request(number));
        self.state.requests.push(OpenRequest {
            request,
            number,
            incidents: self.state.incidents.len(),
            is_answered: false,
        });
    }

    /// Whether the current call can answer a request.
    pub(super) fn answer_status(&self) -> AnswerStatus {
        if self.state.requests.is_empty() {
            return AnswerStatus::NoRequest;
        }
        match self.current_request().and_then(|place| self.state.requests.get(place)) {
            Some(open) if open.is_answered => AnswerStatus::Answered,
            Some(_) => AnswerStatus::Open,
            None => AnswerStatus::NoRequest,
        }
    }

    /// The place of the request of the current call in the state.
    fn current_request(&self) -> Option<usize> {
        let requests = &self.state.requests;
        let number = self.cause.map_or(0, |cause| cause.request());
        let own = requests.iter().position(|open| open.number == number);
        own.or_else(|| {
            let now = self.now();
            let waits = |open: &OpenRequest| !open.is_answered && open.request.held_until.is_some_and(|end| now < end);
            requests.iter().position(waits)
        })
    }

    /// Carries out the answer of a call. One that came too late for every request is dropped: the activity had asked before.
    pub(super) fn answer_request(&mut self, answer: Arc<Answer>) {
        let place = self.current_request();
        let Some(open) = place.and_then(|place| self.state.requests.get_mut(place)) else {
            return;
        };
        if !std::mem::replace(&mut open.is_answered, true) {
            // The commit may write it.
            self.recorder.bytes += answer.body.bytes_in_memory();
            self.ended_requests.push(EndedRequest {
                request: open.request.clone(),
                end: RequestEnd::Answered(answer),
            });
        }
    }

    /// Ends the requests for which nothing is left to do: all that are not held, and those whose time has passed, whose
    /// instance has ended or which met a fault.
    pub(super) fn end_requests(&mut self) {
        if self.yielded || self.is_discarded() || self.state.requests.is_empty() {
            return;
        }
        let (has_ended, now) = (self.state.status == Status::Finished, self.now());
        let is_stopped = matches!(self.state.sub_status, SubStatus::Faulted | SubStatus::Cancelled);
        for open in std::mem::take(&mut self.state.requests) {
            if open.is_answered {
                continue;
            }
            let has_faulted = self.state.incidents.len() > open.incidents || has_ended && is_stopped;
            let is_held = open.request.held_until.is_some_and(|end| now < end);
            let end = match (has_faulted, has_ended) {
                (true, _) => RequestEnd::Faulted,
                (false, true) => RequestEnd::Finished,
                (false, false) if is_held => {
                    self.state.requests.push(open);
                    continue;
                }
                (false, false) => RequestEnd::Waiting,
            };
            self.ended_requests.push(EndedRequest {
                request: open.request,
                end,
            });
        }
    }

    /// The end of the burst has faulted the instance, which waits for nothing.
    pub(super) fn end_requests_of_fault(&mut self) {
        for ended in &mut self.ended_requests {
            if matches!(ended.end, RequestEnd::Waiting) {
                ended.end = RequestEnd::Faulted;
            }
        }
        self.end_requests();
    }
}
