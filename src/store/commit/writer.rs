//! The commit writer of a node: the handle through which outcomes of bursts reach its three lanes.
//!
//! Each lane is one task with one connection and one row in `fence`; the second lane and the contended lane connect when
//! they are needed. A request is never dropped: its sender gets a reply even when the connection is lost at commit, and the
//! guard that travels with it (the instance's lock) is held until then. A full queue makes senders wait: the lock and the
//! memory of a burst are the back-pressure.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::breaker::Breaker;
use super::lanes::LaneTask;
use super::options::WriterOptions;
use super::pending::Pending;
use super::pipeline::{CommitConnection, LockedRows};
use super::queue::{CloseOnDrop, Queue};
use super::{CommitGuard, CommitReply, CommitRequest};
use crate::db::Connector;
use crate::id::Incarnation;
use crate::watchdog::{Part, Watchdog};
use crate::{Error, Result};

/// The numbers of a node's rows in `fence`: one per lane.
pub(crate) const WRITERS: [i16; 3] = [0, 1, 2];

/// The handle of a commit writer; `G` is the guard that travels with each request. Cheap to clone; the lanes end when the
/// last clone is dropped and every request has its reply.
pub(crate) struct CommitWriter<G> {
    queue: Arc<CloseOnDrop<Pending<G>>>,
    breaker: Arc<Breaker>,
}

/// The tasks of a writer, for an owner that waits for their end.
pub(crate) struct WriterTasks {
    pub(crate) first: AbortOnDropHandle<()>,
    pub(crate) second: AbortOnDropHandle<()>,
    pub(crate) contended: AbortOnDropHandle<()>,
}

impl<G> Clone for CommitWriter<G> {
    fn clone(&self) -> Self {
        Self {
            queue: Arc::clone(&self.queue),
            breaker: Arc::clone(&self.breaker),
        }
    }
}

impl<G: CommitGuard + 'static> CommitWriter<G> {
    /// Starts the lanes. Their rows in `fence` must exist.
    pub(crate) async fn start(
        connector: &Connector,
        incarnation: Incarnation,
        options: WriterOptions,
        watchdog: &Watchdog,
    ) -> Result<(Self, WriterTasks)> {
        let queue = Arc::new(Queue::new(options.batch * 2, options.second_lane_min));
        let (to_contended, contended_queue) = mpsc::channel(options.contended);
        let breaker = Arc::<Breaker>::default();
        let [first_writer, contended_writer, second_writer] = WRITERS;
        let connection =
            CommitConnection::open(connector, incarnation, first_writer, LockedRows::Skip, options.send).await?;
        // From here on they answer.
        let lane = |writer, mode| {
            let watched = watchdog.watch(Part::CommitWriter, Some(incarnation));
            LaneTask::new(connector, incarnation, writer, mode, &options, &breaker, watched)
        };
        let mut first = lane(first_writer, LockedRows::Skip);
        first.connection = Some(connection);
        let second = lane(second_writer, LockedRows::Skip);
        let contended = lane(contended_writer, LockedRows::Wait);
        let tasks = WriterTasks {
            second: AbortOnDropHandle::new(tokio::spawn(
                second.run_second(Arc::clone(&queue), to_contended.clone()),
            )),
            first: AbortOnDropHandle::new(tokio::spawn(first.run_first(Arc::clone(&queue), to_contended))),
            contended: AbortOnDropHandle::new(tokio::spawn(contended.run_contended(contended_queue))),
        };
        let queue = Arc::new(CloseOnDrop(queue));
        Ok((Self { queue, breaker }, tasks))
    }

    /// Whether the database takes commits.
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Sends a request and waits for its outcome. `guard` is held until the outcome is known and comes back with it. If the
    /// future is dropped halfway, the commit continues and then drops the guard.
    pub(crate) async fn commit(&self, request: Box<CommitRequest>, guard: G) -> Result<CommitReply<G>> {
        let instance = request.instance.clone();
        let (reply, outcome) = oneshot::channel();
        let ended = || Error::unknown_outcome("the commit writer ended").instance(instance.as_str());
        if !self.queue.0.push(Pending::new(request, guard, reply)).await {
            return Err(ended());
        }
        outcome.await.map_err(|_| ended())
    }
}
