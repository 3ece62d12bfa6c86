//! The end of executions and of the instance: completion, cancellation, faults.

use serde_json::{Map, Value, json};

use super::{BurstRun, ChildNotification};
use crate::activity::{EndedChild, Fault};
use crate::execution::journal::EntryDetails;
use crate::execution::state::{ContextStatus, Incident};
use crate::execution::status::{Status, SubStatus};
use crate::id::ActivityId;

impl BurstRun<'_> {
    /// Completes an execution, cancels its running descendants, and notifies its parent.
    pub(super) fn complete(&mut self, number: u64, outcomes: Vec<String>) {
        let Some(notification) = self.end_as_completed(number, &outcomes) else {
            return;
        };
        match notification {
            Some(notification) => self.notifications.push_back(notification),
            None => {
                self.state.outcomes = outcomes;
                self.finish(SubStatus::Finished);
            }
        }
    }

    /// Completes an execution without notifying its parent. `None`: it is not running. `Some(None)`: it is the workflow
    /// itself.
    fn end_as_completed(&mut self, number: u64, outcomes: &[String]) -> Option<Option<ChildNotification>> {
        let context = self.state.contexts.get(&number)?;
        if context.status != ContextStatus::Running {
            return None;
        }
        self.cancel_below(number);
        let context = self.state.contexts.get_mut(&number)?;
        context.status = ContextStatus::Completed;
        let activity_state: Map<String, Value> = context
            .inputs
            .iter()
            .chain(&context.outputs)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let payload = json!({ "Outcomes": outcomes });
        let details = EntryDetails {
            activity_state: Some(Value::Object(activity_state)),
            payload: Some(payload.clone()),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Completed", details);
        self.clear_waiting(number);
        self.recorder
            .record_end(self.program, &self.state, number, Some(payload));
        Some(self.remove_execution(number, outcomes.to_vec(), false))
    }

    /// Removes an ended execution from the state; the workflow's own stays, for its variables.
    fn remove_execution(
        &mut self,
        number: u64,
        outcomes: Vec<String>,
        was_cancelled: bool,
    ) -> Option<ChildNotification> {
        let parent = self.state.contexts.get(&number)?.parent?;
        let context = self.state.contexts.remove(&number)?;
        let index = self.program.tree.find(&context.node_id)?.index;
        Some(ChildNotification {
            to: parent,
            from: number,
            child: EndedChild {
                index,
                outcomes,
                tag: context.tag,
            },
            was_cancelled,
        })
    }

    fn clear_waiting(&mut self, number: u64) {
        let state = &mut self.state;
        let Some(context) = state.contexts.get(&number) else {
            return;
        };
        state
            .bookmarks
            .retain(|bookmark| bookmark.activity_execution_id != context.id);
        state
            .queue
            .retain(|item| item.owner != Some(number) && item.context != Some(number));
    }

    /// Cancels the descendants of an execution, innermost first.
    fn cancel_below(&mut self, number: u64) {
        for child in self.state.descendants(number).into_iter().rev() {
            self.cancel_one(child);
        }
    }

    fn cancel_one(&mut self, number: u64) -> Option<ChildNotification> {
        let context = self.state.contexts.get_mut(&number)?;
        if context.status == ContextStatus::Running {
            context.status = ContextStatus::Canceled;
            self.recorder.add_entry(
                self.program,
                &mut self.state,
                number,
                "Canceled",
                EntryDetails::default(),
            );
            self.clear_waiting(number);
            self.recorder.record_end(self.program, &self.state, number, None);
        }
        self.remove_execution(number, Vec::new(), true)
    }

    /// Cancels an execution and its descendants.
    pub(super) fn cancel(&mut self, number: u64, notify_parent: bool) {
        self.cancel_below(number);
        let notification = self.cancel_one(number);
        if notify_parent {
            self.notifications.extend(notification);
        }
    }

    pub(super) fn cancel_instance(&mut self) {
        if let Some(root) = self.state.root() {
            self.cancel(root, false);
        }
        self.finish(SubStatus::Cancelled);
    }

    /// Completes an execution and its ancestors; all others are cancelled.
    pub(super) fn complete_workflow(&mut self, number: u64, outcomes: Vec<String>) {
        let done = ["Done".to_owned()];
        for ancestor in self.state.chain(number) {
            let is_root = self
                .state
                .contexts
                .get(&ancestor)
                .is_some_and(|context| context.parent.is_none());
            let given = if is_root { outcomes.as_slice() } else { done.as_slice() };
            self.end_as_completed(ancestor, given);
        }
        self.state.outcomes = outcomes;
        self.finish(SubStatus::Finished);
    }

    /// Faults an execution. By Elsa's default incident strategy the instance ends with it.
    pub(super) fn fault(&mut self, number: u64, fault: Fault) {
        for ancestor in self.state.chain(number) {
            if let Some(context) = self.state.contexts.get_mut(&ancestor) {
                context.faults += 1;
            }
            self.recorder.update(self.program, &self.state, ancestor);
        }
        let exception = exception(&fault);
        if let Some(context) = self.state.contexts.get_mut(&number) {
            context.status = ContextStatus::Faulted;
            let execution = context.id.clone();
            let Some(node) = self.program.tree.find(&context.node_id) else {
                return;
            };
            self.state.incidents.push(Incident {
                activity_id: ActivityId::new(node.id.clone()),
                activity_node_id: node.node_id.clone(),
                activity_type: node.type_name.clone(),
                activity_instance_id: execution,
                message: storable(&fault.message),
                exception: exception.clone(),
            });
        }
        let details = EntryDetails {
            message: Some(storable(&fault.message)),
            payload: Some(exception.clone()),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Faulted", details);
        // Its children and bookmarks can no longer reach it.
        self.cancel_below(number);
        self.clear_waiting(number);
        self.recorder.copy_values(self.program, &self.state, number);
        if let Some(execution) = self.recorder.update(self.program, &self.state, number) {
            execution.exception = Some(exception);
        }
        if !self.program.continues_with_incidents || self.state.root() == Some(number) {
            self.finish(SubStatus::Faulted);
        }
    }

    /// Ends the instance: bookmarks, work items and notifications are removed.
    pub(super) fn finish(&mut self, sub_status: SubStatus) {
        self.state.status = Status::Finished;
        self.state.sub_status = sub_status;
        let burned = std::mem::take(&mut self.state.bookmarks);
        let waiting = self.state.contexts.iter().filter(|(_, context)| {
            burned
                .iter()
                .any(|bookmark| bookmark.activity_execution_id == context.id)
        });
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.recorder.update(self.program, &self.state, number);
        }
        self.state.queue.clear();
        self.notifications.clear();
    }

    /// Sets the status at the end of a burst: an instance that cannot go on and has nothing to wait for faults.
    pub(in crate::execution) fn end_burst(&mut self) {
        if self.yielded || self.state.status == Status::Finished || self.state.sub_status == SubStatus::Pending {
            return;
        }
        self.state.sub_status = SubStatus::Suspended;
        self.state.since_wait = 0;
        let waits = !self.state.bookmarks.is_empty() || !self.state.incidents.is_empty();
        if let (false, Some(root)) = (waits, self.state.root()) {
            let innermost = self.state.contexts.keys().next_back().copied().unwrap_or(root);
            let message = "The activity waits, but has no child and no bookmark";
            self.fault(innermost, Fault::new(message).code("nothing-to-wait-for"));
        }
    }
}

/// A text that can be stored: without U+0000, and cut after 4,000 characters, with `…` for the rest.
fn storable(text: &str) -> String {
    let mut characters = text.chars().filter(|character| *character != '\0');
    let mut stored: String = characters.by_ref().take(4000).collect();
    if characters.next().is_some() {
        stored.push('…');
    }
    stored
}

fn exception(fault: &Fault) -> Value {
    json!({
        "type": "Fault",
        "message": storable(&fault.message),
        "code": storable(&fault.code),
        "category": storable(&fault.category),
        "faultType": storable(&fault.fault_type),
    })
}
