//! Runs the child of an activity within the burst after the call has returned, so no time limit of the activity
//! applies, and a child may run children in turn.
//!
//! The activities and bytes of a child count towards the bounds of the burst. So a loop that executes children yields
//! like any other loop, and what a crash repeats stays bounded; committed children are found again and not repeated.

use serde_json::json;

use super::{BurstRun, ChildStop};
use crate::activity::{BookmarkRequest, CHILD_INSTANCE_ID, ChildRequest, ChildWait, Fault, Resumption, not_published};
use crate::execution::cause::Cause;
use crate::execution::child::{AwaitedChild, ChildRun, ChildStart, digest};
use crate::execution::state::ContextStatus;

impl BurstRun<'_> {
    /// Runs the child of an execution. Returns what the execution continues with, or `None` when it waits for the
    /// child, has faulted, or the burst has stopped.
    pub(super) async fn execute_child(&mut self, number: u64, request: ChildRequest) -> Option<Resumption> {
        let context = self.state.contexts.get(&number)?;
        // The commands of the call may have ended it.
        if context.status != ContextStatus::Running {
            return None;
        }
        let (execution, node_id) = (context.id.clone(), context.node_id.clone());
        let cause = self.next_cause();
        let cause = cause.unwrap_or_else(|| Cause::of_execution(&execution, self.child_seed));
        let id = |which: &str| cause.child_id(&self.state.instance_id, &node_id, which);
        let wait = request.wait;
        let mut child = match self.child_start(number, id(""), request) {
            Ok(child) => child,
            Err(fault) => {
                self.fault(number, fault);
                return None;
            }
        };
        let digest = digest(&child.definition_id, &child.correlation_id, &child.input);
        // A second replay finds what the first one ran with the same inputs.
        let other_ids = [id(&digest), id(&cause.lineage())];
        if let Some(started_by) = &mut child.parent.started_by {
            started_by.lineage = Some(cause.lineage());
            started_by.digest = Some(digest);
        }
        let mut ran = self.definitions.run(&child).await;
        self.state.executed_children += 1;
        for id in other_ids {
            if !matches!(ran, ChildRun::OfAnotherLineage) {
                break;
            }
            child.id = id;
            ran = self.definitions.run(&child).await;
            self.state.executed_children += 1;
        }
        match ran {
            ChildRun::Committed(run) => {
                self.executed += run.executed;
                self.recorder.bytes += run.bytes;
                self.is_dirty = true;
                let goes_on = run.has_ended || run.rests && wait != ChildWait::End;
                if goes_on {
                    return Some(Resumption {
                        payload: Some(run.result),
                        ..Resumption::default()
                    });
                }
                self.wait_for(number, child, true);
            }
            ChildRun::Elsewhere => self.wait_for(number, child, false),
            ChildRun::NotPublished => self.fault(number, not_published(child.definition_id.as_str())),
            ChildRun::OfAnotherLineage => self.fault(number, Fault::new("The child of this lineage is another one")),
            ChildRun::Deferred(pause) => self.stop = Some(ChildStop::Deferred(pause)),
            ChildRun::Stopped => self.stop = Some(ChildStop::Lost),
        }
        None
    }

    /// Waits for a child that was committed, or that the commit of the burst starts.
    fn wait_for(&mut self, number: u64, mut child: ChildStart, is_committed: bool) {
        let bookmark = BookmarkRequest {
            publishable: false,
            ..BookmarkRequest::new(json!({ (CHILD_INSTANCE_ID): child.id }))
        };
        if let Err(fault) = self.make_bookmark(number, bookmark) {
            return self.fault(number, fault);
        }
        let Some(bookmark_id) = self.state.bookmarks.last().map(|bookmark| bookmark.id.clone()) else {
            return self.fault(number, Fault::new("The bookmark for the child is missing"));
        };
        if is_committed {
            self.awaited.push(AwaitedChild {
                id: child.id,
                bookmark_id,
                until_rest: child.parent.until_rest,
            });
        } else {
            child.bookmark_id = Some(bookmark_id);
            self.children.push(child);
        }
        self.record_wait(number);
    }
}
