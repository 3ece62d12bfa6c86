//! The ends of requests of HTTP clients: the rows by which a commit keeps them, what is sent after the commit, and the reads
//! for clients of this node whose requests other nodes end.

use std::sync::Arc;
use std::time::Duration;

use crate::activity::{Answer, AnswerBody};
use crate::execution::{EndedRequest, RequestEnd};
use crate::failpoint;
use crate::id::{Incarnation, InstanceId};
use crate::runtime::context::node_context::NodeContext;
use crate::store::code::AnswerOutcome;
use crate::store::commit::AnswerRow;
use crate::store::http_answer;
use crate::wake::WakeNotification;

/// The longest body that is kept, in bytes.
const LONGEST_KEPT: usize = 1024 * 1024;

/// How often the rows are read of requests that wait for one. A hint comes sooner.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The most requests whose rows one statement reads: each may have [`LONGEST_KEPT`].
const READ_PAGE: usize = 256;

/// The rows of requests whose clients may repeat them, or wait at another registration than this one.
pub(super) fn kept_answers(ended: &[EndedRequest], by: Incarnation) -> Vec<AnswerRow> {
    let kept = ended
        .iter()
        .filter(|ended| ended.request.is_kept || is_awaited_elsewhere(ended, by));
    kept.map(|ended| kept_answer(ended, by)).collect()
}

/// Whether the client waits at another registration than this one, so that only the row can bring it the end.
fn is_awaited_elsewhere(ended: &EndedRequest, by: Incarnation) -> bool {
    ended.request.held_until.is_some() || ended.request.holder != by
}

/// Reads the files of answers into memory that are small enough to be kept, where their rows are. One that cannot be read
/// is not kept.
pub(super) async fn read_kept_files(ended: &mut [EndedRequest], by: Incarnation) {
    for ended in ended {
        let is_kept = ended.request.is_kept || is_awaited_elsewhere(ended, by);
        let RequestEnd::Answered(answer) = &mut ended.end else {
            continue;
        };
        let AnswerBody::File(file) = &answer.body else {
            continue;
        };
        if !is_kept || file.length() > LONGEST_KEPT as u64 {
            continue;
        }
        match file.read().await {
            Ok(bytes) => Arc::make_mut(answer).body = AnswerBody::Bytes(bytes),
            Err(error) => tracing::error!(%error, "a file of an answer cannot be read, so that the answer is not kept"),
        }
    }
}

fn kept_answer(ended: &EndedRequest, by: Incarnation) -> AnswerRow {
    let row = |outcome: AnswerOutcome| AnswerRow {
        no: 0,
        request_id: ended.request.id.0,
        outcome: outcome.number(),
        status: None,
        headers: None,
        body: None,
    };
    match &ended.end {
        RequestEnd::Finished => row(AnswerOutcome::Finished),
        RequestEnd::Faulted => row(AnswerOutcome::Faulted),
        RequestEnd::Waiting => row(AnswerOutcome::Waiting),
        RequestEnd::Answered(answer) if answer.sets_cookie() && !is_awaited_elsewhere(ended, by) => {
            row(AnswerOutcome::NotKept)
        }
        RequestEnd::Answered(answer) => match &**answer {
            Answer {
                status,
                headers,
                body: AnswerBody::Bytes(body),
            } if body.len() <= LONGEST_KEPT => {
                let texts = headers.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
                AnswerRow {
                    status: i16::try_from(*status).ok(),
                    headers: Some(texts.collect()),
                    body: Some(body.clone()),
                    ..row(AnswerOutcome::Answered)
                }
            }
            Answer { .. } => row(AnswerOutcome::NotKept),
        },
    }
}

/// Sends the ends of these requests, which the last commit has made true. The node at which the client of another one waits is
/// notified.
pub(super) async fn reply(node: &NodeContext, instance: &InstanceId, ended: Vec<EndedRequest>) {
    if ended.is_empty() {
        return;
    }
    if failpoint::hit("request.replying").await.is_err() {
        // As when the reply is lost: those that wait read the rows.
        return;
    }
    let mut elsewhere = Vec::new();
    for EndedRequest { request, end } in ended {
        let is_sent = node.notifications.requests.end(request.id, instance, end);
        if !is_sent && request.holder != node.database.incarnation {
            elsewhere.push(WakeNotification::RequestEnded(request.id));
        }
    }
    if !elsewhere.is_empty() {
        node.notifications.wake.notify(elsewhere);
    }
}

/// Reads the rows of requests that wait for one, until the incarnation stops. Without such a request nothing is read.
pub(super) async fn collect(node: &NodeContext) {
    let (requests, stop) = (&node.notifications.requests, &node.lifecycle.stop);
    let interval = READ_INTERVAL.min(node.lifecycle.check_in);
    loop {
        let ids = requests.to_read();
        for page in ids.chunks(READ_PAGE) {
            let read = tokio::select! {
                () = stop.cancelled() => return,
                read = http_answer::read(&node.database.pool, page) => read,
            };
            match read {
                Ok(kept) => {
                    for kept in kept {
                        // A burst of this node, whose row is read before it replies, has the answer itself.
                        let replies_later =
                            kept.outcome == AnswerOutcome::NotKept && node.claims.in_flight.runs(&kept.instance);
                        if !replies_later {
                            let (id, instance) = (kept.request, kept.instance.clone());
                            requests.end(id, &instance, kept);
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "the ends of requests cannot be read; they are read again"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = requests.read_now() => {}
            () = tokio::time::sleep(interval), if !ids.is_empty() => {}
        }
    }
}
