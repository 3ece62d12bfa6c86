//! Requests of HTTP clients that wait on this node, by their ids.
//!
//! A burst of this node that ends a request sends its end here, after the commit. A commit of another node keeps the end as a
//! row, and sends a hint; the rows of those that wait for one are read again and again, all in one statement.
#![cfg_attr(
    not(feature = "http"),
    allow(dead_code, reason = "only the endpoint registers requests")
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::activity::{Answer, AnswerBody};
use crate::execution::RequestEnd;
use crate::id::{InstanceId, RequestId};
use crate::spool::{RequestFiles, SpoolFile};
use crate::store::code::AnswerOutcome;
use crate::store::http_answer::KeptAnswer;

/// What a client receives.
#[derive(Clone, Debug)]
pub(crate) enum HttpEnd {
    /// What an activity has answered.
    Answered(Arc<Answer>),
    /// The instance has ended without an answer.
    Finished,
    /// An activity has faulted, or the instance was cancelled, before there was an answer.
    Faulted,
    /// The instance waits for something else.
    Waiting,
    /// The deadline of the request has passed. What was accepted goes on.
    Pending,
    /// It was answered, with more than is kept: the first client has received that, if it still waited, at the node that has run
    /// it.
    NotKept,
}

impl From<RequestEnd> for HttpEnd {
    fn from(end: RequestEnd) -> Self {
        match end {
            RequestEnd::Answered(answer) => Self::Answered(answer),
            RequestEnd::Finished => Self::Finished,
            RequestEnd::Faulted => Self::Faulted,
            RequestEnd::Waiting => Self::Waiting,
        }
    }
}

impl From<KeptAnswer> for HttpEnd {
    fn from(kept: KeptAnswer) -> Self {
        match kept.outcome {
            AnswerOutcome::Answered => Self::Answered(Arc::new(Answer {
                status: kept.status,
                headers: kept.headers,
                body: AnswerBody::Bytes(kept.body),
            })),
            AnswerOutcome::Finished => Self::Finished,
            AnswerOutcome::Faulted => Self::Faulted,
            AnswerOutcome::Waiting => Self::Waiting,
            AnswerOutcome::NotKept => Self::NotKept,
        }
    }
}

/// The end of a request, with its instance.
pub(crate) type EndOfInstance = (InstanceId, HttpEnd);

/// The requests that wait on this node. Bounded by the requests that are open.
#[derive(Default)]
pub(crate) struct WaitingRequests {
    waiting: Mutex<Waiting>,
    /// A row may be there for one of them.
    read_now: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    requests: HashMap<RequestId, Vec<Waiter>>,
}

struct Waiter {
    number: u64,
    /// An expired key that is used again gives another instance the id of the former request.
    instance: InstanceId,
    sender: oneshot::Sender<EndOfInstance>,
    /// The end comes as a row.
    reads: bool,
    /// Of the client whose request it is, not of one that repeats it.
    files: RequestFiles,
}

/// A request that waits; dropping it ends that.
pub(crate) struct WaitingRequest {
    pub(crate) id: RequestId,
    pub(crate) receiver: oneshot::Receiver<EndOfInstance>,
    number: u64,
    registry: Arc<WaitingRequests>,
}

impl WaitingRequest {
    /// Its burst has been committed: its end comes as a row from now on, and it needs its files no more.
    pub(crate) fn read_rows(&self) {
        let mut waiting = self.registry.waiting();
        let waiters = waiting.requests.get_mut(&self.id).into_iter().flatten();
        for waiter in waiters.filter(|waiter| waiter.number == self.number) {
            waiter.reads = true;
            waiter.files.release();
        }
        self.registry.read_now.notify_one();
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let mut waiting = self.registry.waiting();
        if let Some(waiters) = waiting.requests.get_mut(&self.id) {
            waiters.retain(|waiter| waiter.number != self.number);
            if waiters.is_empty() {
                waiting.requests.remove(&self.id);
            }
        }
    }
}

impl WaitingRequests {
    /// Registers a request. `files`: what its payload names.
    pub(crate) fn register(
        self: &Arc<Self>,
        id: RequestId,
        instance: &InstanceId,
        files: RequestFiles,
    ) -> WaitingRequest {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.next += 1;
        let number = waiting.next;
        waiting.requests.entry(id).or_default().push(Waiter {
            number,
            instance: instance.clone(),
            sender,
            reads: false,
            files,
        });
        WaitingRequest {
            id,
            receiver,
            number,
            registry: Arc::clone(self),
        }
    }

    /// Sends the end of a request of an instance to the clients that wait for it; false if there is none. That an answer is not
    /// kept is for those that read: a burst of this node, whose row is read before it replies, has the answer itself.
    pub(crate) fn end(&self, id: RequestId, instance: &InstanceId, end: impl Into<HttpEnd>) -> bool {
        let end = end.into();
        let is_kept = !matches!(end, HttpEnd::NotKept);
        let mut waiting = self.waiting();
        let Some(waiters) = waiting.requests.get_mut(&id) else {
            return false;
        };
        let is_ended = |waiter: &mut Waiter| waiter.instance == *instance && (is_kept || waiter.reads);
        let ended: Vec<Waiter> = waiters.extract_if(.., is_ended).collect();
        if waiters.is_empty() {
            waiting.requests.remove(&id);
        }
        drop(waiting);
        let is_sent = !ended.is_empty();
        for waiter in ended {
            let _ = waiter.sender.send((instance.clone(), end.clone()));
        }
        is_sent
    }

    /// The files of the clients that wait on this node for a request: those that repeat it while it is accepted have their own.
    pub(crate) fn files(&self, id: RequestId) -> Vec<SpoolFile> {
        let waiting = self.waiting();
        let waiters = waiting.requests.get(&id).into_iter().flatten();
        waiters.flat_map(|waiter| waiter.files.all()).collect()
    }

    /// Another node has ended this request: its row is read at once.
    pub(crate) fn ended_elsewhere(&self, id: RequestId) {
        let mut waiting = self.waiting();
        let Some(waiters) = waiting.requests.get_mut(&id) else {
            return;
        };
        waiters.iter_mut().for_each(|waiter| waiter.reads = true);
        self.read_now.notify_one();
    }

    /// The requests whose rows are to be read.
    pub(crate) fn to_read(&self) -> Vec<RequestId> {
        let waiting = self.waiting();
        let reads = |waiters: &Vec<Waiter>| waiters.iter().any(|waiter| waiter.reads);
        let requests = waiting.requests.iter().filter(|(_, waiters)| reads(waiters));
        requests.map(|(id, _)| *id).collect()
    }

    /// Returns once there may be a row for a request. Cancellation safe.
    pub(crate) async fn read_now(&self) {
        self.read_now.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_waiter_of_a_request_receives_its_end_once() {
        let requests = Arc::<WaitingRequests>::default();
        let (id, other, instance) = (RequestId::random(), RequestId::random(), InstanceId::new("i"));
        let register = |id| requests.register(id, &instance, RequestFiles::default());
        let (first, second) = (register(id), register(id));
        let gone = register(other);
        drop(gone);
        assert!(
            !requests.end(other, &instance, HttpEnd::Finished),
            "its client has left"
        );
        assert!(requests.to_read().is_empty());
        second.read_rows();
        assert_eq!(requests.to_read(), [id]);
        requests.read_now().await;
        let former = InstanceId::new("former");
        assert!(
            !requests.end(id, &former, HttpEnd::Waiting),
            "an end of its former instance"
        );
        assert!(requests.end(id, &instance, HttpEnd::Waiting));
        for mut waiter in [first, second] {
            let (of, end) = waiter.receiver.try_recv().unwrap();
            assert_eq!(of, instance);
            assert!(matches!(end, HttpEnd::Waiting));
        }
        assert!(!requests.end(id, &instance, HttpEnd::Waiting));
    }
}
