//! Retries: executions that have faulted are executed again, with their ids and idempotency keys, and a greater attempt.
//!
//! What contains them still runs, as far as the state knows, and goes on as if they had not faulted. An instance that the
//! fault has ended runs again: its other branches go on with what they were about to do, and wait at the same bookmarks.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::BurstRun;
use crate::activity::{ActivityNode, BULK_DISPATCH, CHILD_INSTANCE_ID, EXECUTE_WORKFLOW, started_children};
use crate::definition::ActivityTitle;
use crate::execution::bookmark::Bookmark;
use crate::execution::cause::{Cause, InstructionOrigin};
use crate::execution::child::AwaitedChild;
use crate::execution::incident::Incident;
use crate::execution::journal::EntryDetails;
use crate::execution::scope;
use crate::execution::state::{ContextStatus, Halted, WorkItem};
use crate::execution::status::{Status, SubStatus};
use crate::id::{ActivityId, InstanceId};

/// What a retry makes of one activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRetry {
    /// The activity.
    pub activity_id: ActivityId,
    /// How a message names it: `"Send mail" (Elsa.RunTask, a1)`, or only by its id if no incident does.
    pub title: String,
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
                    title: activity.to_string(),
                    attempt: Err(format!("The activity {activity} has not faulted")),
                });
            }
        }
        let is_wanted = |activity: &ActivityId| activities.is_empty() || activities.contains(activity);
        let (wanted, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.incidents)
            .into_iter()
            .partition(|incident| is_wanted(&incident.activity_id));
        self.state.incidents = kept;
        let halted = self.state.halted.as_ref();
        let lost = halted.and_then(|halted| self.what_is_lost(halted));
        let mut again = Vec::new();
        for incident in wanted {
            let activity_id = incident.activity_id.clone();
            let title = self.title_of(&incident);
            let number = executed_again(&incident);
            let attempt = match self.why_not(number, &incident).or_else(|| lost.clone()) {
                Some(reason) => Err(reason),
                None => {
                    again.push(number);
                    let context = self.state.contexts.get(&number);
                    Ok(context.map_or(0, |context| context.attempts).saturating_add(1))
                }
            };
            if attempt.is_err() {
                self.state.incidents.push(incident);
            }
            retries.push(ActivityRetry {
                activity_id,
                title,
                attempt,
            });
        }
        if !again.is_empty() {
            self.go_on(&again, origin);
        }
        retries
    }

    /// Why an execution cannot be executed again.
    fn why_not(&self, number: u64, incident: &Incident) -> Option<String> {
        let title = self.title_of(incident);
        let Some(context) = self.state.contexts.get(&number) else {
            return Some(format!(
                "The activity {title} has faulted, but what contains it has ended since"
            ));
        };
        if context.parent.is_none() {
            let message = &incident.message;
            return Some(format!(
                "The workflow itself has faulted: {message}; start a new instance"
            ));
        }
        if context.status != ContextStatus::Faulted || self.program.tree.find(&context.node_id).is_none() {
            return Some(format!("The activity {title} is not there any more"));
        }
        if context.is_invalid {
            return Some(format!(
                "The values that {title} was to begin with were invalid, and are gone; start a new instance"
            ));
        }
        let has_children = started_children(&context.properties);
        has_children.then(|| {
            format!("The activity {title} has started children, which a retry would start again; start a new instance")
        })
    }

    /// How a message names what has faulted.
    fn title_of(&self, incident: &Incident) -> String {
        let id = incident.activity_id.as_str();
        let node = self.program.tree.find(&incident.activity_node_id);
        let title = node.map_or_else(
            || ActivityTitle::new(None, &incident.activity_type, id),
            ActivityNode::title,
        );
        title.with_id().to_string()
    }

    fn go_on(&mut self, again: &[u64], origin: &InstructionOrigin) {
        self.follows(Cause::of(origin, 0));
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

    /// Why what the other branches were about to do is not known.
    fn what_is_lost(&self, halted: &Halted) -> Option<String> {
        if halted.is_lost {
            return Some(
                "The instance was imported, without what its branches wait for; start a new instance".to_owned(),
            );
        }
        // One bookmark waits for all children, and their ends since the fault were not kept.
        let is_for_many = |it: &&Bookmark| it.name == BULK_DISPATCH && it.delay.is_none() && it.due.is_none();
        let waiting = halted.bookmarks.iter().find(is_for_many)?;
        Some(format!(
            "Another branch waits at {} for many children, and which of them have ended since the fault is not known; start a new \
             instance",
            waiting.activity_id
        ))
    }

    /// The child that is waited for at a bookmark. It may have ended since the fault, and has woken no parent then.
    fn awaited_at(&self, bookmark: &Bookmark) -> Option<AwaitedChild> {
        let child = bookmark
            .payload
            .get(CHILD_INSTANCE_ID)
            .filter(|_| !bookmark.publishable)?;
        let context = self.state.contexts.get(&bookmark.activity_execution_id.number())?;
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
        // Incidents of what it contained: it begins anew.
        let inside = format!("{node_id}:");
        let contexts = &self.state.contexts;
        self.state.incidents.retain(|incident| {
            let is_gone = !contexts.contains_key(&executed_again(incident));
            !(is_gone && incident.activity_node_id.starts_with(&inside))
        });
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
        let own = scope::own_names_of_use(self.program, &self.state, number);
        if let Some(context) = self.state.contexts.get_mut(&number) {
            // The inputs and outputs of a workflow as an activity, which something inside has set as variables.
            context.variables.retain(|name, _| !own.contains(name.as_str()));
            context.properties = Map::new();
            context.inputs = Map::new();
            context.outputs = Map::new();
            context.unrecorded = Vec::new();
            context.is_breaking = false;
            context.interruption = None;
            if let (true, Some(trigger)) = (context.is_triggered, &mut self.state.trigger) {
                trigger.is_consumed = false;
            }
        }
        self.recorder.update(self.program, &self.state, number);
        self.execute(number, node, None).await;
    }
}

/// The number of the execution that a retry of an incident executes.
fn executed_again(incident: &Incident) -> u64 {
    let id = incident
        .guard_instance_id
        .as_ref()
        .unwrap_or(&incident.activity_instance_id);
    id.number()
}
