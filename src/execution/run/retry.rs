//! Retries: executions that have faulted are executed again, with their ids and idempotency keys, and a greater attempt.
//!
//! What contains them still runs, as far as the state knows, and goes on as if they had not faulted. An instance that the
//! fault has ended runs again: its other branches go on with what they were about to do, and wait at the same bookmarks.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::BurstRun;
use crate::activity::{ActivityNode, BULK_DISPATCH, CHILD_INSTANCE_ID, EXECUTE_WORKFLOW};
use crate::execution::bookmark::Bookmark;
use crate::execution::cause::{Cause, InstructionOrigin};
use crate::execution::child::AwaitedChild;
use crate::execution::journal::EntryDetails;
use crate::execution::state::{ContextStatus, Halted, WorkItem};
use crate::execution::status::{Status, SubStatus};
use crate::id::{ActivityId, InstanceId};

/// What a retry makes of one activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRetry {
    /// The activity.
    pub activity_id: ActivityId,
    /// Its next attempt; or why it is not executed again.
    pub attempt: Result<u32, String>,
}

impl BurstRun<'_> {
    /// Schedules what has faulted again: these activities, or all that incidents name. No work item runs.
    pub(in crate::execution) fn retry(
        &mut self,
        activities: &[ActivityId],
        origin: &InstructionOrigin,
    ) -> Vec<ActivityRetry> {
        let mut retries = Vec::new();
        let incidents = &self.state.incidents;
        for activity in activities {
            if !incidents.iter().any(|incident| incident.activity_id == *activity) {
                retries.push(ActivityRetry {
                    activity_id: activity.clone(),
                    attempt: Err(format!("The activity {activity} has not faulted")),
                });
            }
        }
        let is_wanted = |activity: &ActivityId| activities.is_empty() || activities.contains(activity);
        let (wanted, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.incidents)
            .into_iter()
            .partition(|incident| is_wanted(&incident.activity_id));
        self.state.incidents = kept;
        let lost = self
            .state
            .halted
            .as_ref()
            .and_then(|halted| self.waiting_for_many(halted));
        let mut again = Vec::new();
        for incident in wanted {
            let mut contexts = self.state.contexts.iter();
            let found = contexts.find(|(_, context)| context.id == incident.activity_instance_id);
            let activity_id = incident.activity_id.clone();
            let attempt = match found {
                Some((_, context)) if context.parent.is_none() => Err(format!(
                    "The workflow itself has faulted: {}; start a new instance",
                    incident.message
                )),
                Some(_) if let Some(waiting) = &lost => Err(format!(
                    "Another branch waits at {waiting} for many children, and who of them has ended since the fault is not \
                     known; start a new instance"
                )),
                Some((number, context)) if context.status == ContextStatus::Faulted => {
                    again.push(*number);
                    Ok(context.attempts.saturating_add(1))
                }
                Some(_) | None => Err(format!(
                    "The activity {activity_id} has faulted, but what contains it has ended since"
                )),
            };
            if attempt.is_err() {
                self.state.incidents.push(incident);
            }
            retries.push(ActivityRetry { activity_id, attempt });
        }
        if !again.is_empty() {
            self.go_on(&again, origin);
        }
        retries
    }

    fn go_on(&mut self, again: &[u64], origin: &InstructionOrigin) {
        self.state.alterations += 1;
        self.follows(Cause::of(origin, self.state.alterations));
        let mut queue: VecDeque<WorkItem> = again.iter().filter_map(|number| self.work_item(*number)).collect();
        if let Some(halted) = self.state.halted.take() {
            queue.extend(halted.queue);
            self.update_waiting(&halted.bookmarks);
            let awaited: Vec<_> = halted.bookmarks.iter().filter_map(|it| self.awaited_at(it)).collect();
            self.awaited.extend(awaited);
            self.state.bookmarks.extend(halted.bookmarks);
        }
        self.state.queue.extend(queue);
        if self.state.status == Status::Finished {
            self.state.status = Status::Running;
            self.state.sub_status = SubStatus::Suspended;
        }
        self.state.since_wait = 0;
        self.yielded = true;
    }

    /// The activity that waits for many children at one bookmark: their ends since the fault were not kept.
    fn waiting_for_many(&self, halted: &Halted) -> Option<ActivityId> {
        let is_for_many = |it: &&Bookmark| it.name == BULK_DISPATCH && it.delay.is_none() && it.due.is_none();
        halted
            .bookmarks
            .iter()
            .find(is_for_many)
            .map(|bookmark| bookmark.activity_id.clone())
    }

    /// The child that is waited for at a bookmark. It may have ended since the fault, which nobody was told.
    fn awaited_at(&self, bookmark: &Bookmark) -> Option<AwaitedChild> {
        let child = bookmark
            .payload
            .get(CHILD_INSTANCE_ID)
            .filter(|_| !bookmark.publishable)?;
        let mut contexts = self.state.contexts.values();
        let context = contexts.find(|context| context.id == bookmark.activity_execution_id)?;
        let waits_for_end = context.inputs.get("WaitForCompletion") == Some(&Value::Bool(true));
        Some(AwaitedChild {
            id: InstanceId::new(child.as_str()?),
            bookmark_id: bookmark.id.clone(),
            until_rest: bookmark.name == EXECUTE_WORKFLOW && !waits_for_end,
        })
    }

    /// Makes a faulted execution run again; the work item that begins it.
    fn work_item(&mut self, number: u64) -> Option<WorkItem> {
        let cause = self.next_cause();
        for execution in self.state.chain(number) {
            if let Some(context) = self.state.contexts.get_mut(&execution) {
                context.faults = (context.faults - 1).max(0);
            }
            self.recorder.update(self.program, &self.state, execution);
        }
        let context = self.state.contexts.get_mut(&number)?;
        context.status = ContextStatus::Running;
        context.is_retried = true;
        let (node_id, attempt) = (context.node_id.clone(), context.attempts.saturating_add(1));
        let details = EntryDetails {
            message: Some(format!("Attempt {attempt}")),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Retried", details);
        self.recorder.update(self.program, &self.state, number);
        Some(WorkItem {
            node_id,
            cause,
            owner: None,
            scheduled_after: None,
            context: Some(number),
            variables: Map::new(),
            invalid: None,
            tag: None,
            payload: None,
            input: Map::new(),
        })
    }

    /// Whether an execution is to be executed again, which is so once.
    pub(super) fn takes_retry(&mut self, number: u64) -> bool {
        let context = self.state.contexts.get_mut(&number);
        context.is_some_and(|context| std::mem::take(&mut context.is_retried))
    }

    /// Executes an activity anew in its execution. Its variables are those that it has left.
    pub(super) async fn begin_again(&mut self, number: u64, node: &ActivityNode) {
        if let Some(context) = self.state.contexts.get_mut(&number) {
            context.properties = Map::new();
            context.inputs = Map::new();
            context.outputs = Map::new();
            context.unrecorded = Vec::new();
            context.is_breaking = false;
            if let (true, Some(trigger)) = (context.is_triggered, &mut self.state.trigger) {
                trigger.is_consumed = false;
            }
        }
        self.recorder.update(self.program, &self.state, number);
        self.execute(number, node, None).await;
    }
}
