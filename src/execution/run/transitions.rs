//! The end of executions and of the instance: completion and cancellation.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{BurstRun, ChildNotification};
use crate::activity::{EndedChild, Fault, NodeIndex};
use crate::execution::bookmark::Bookmark;
use crate::execution::journal::EntryDetails;
use crate::execution::scope;
use crate::execution::state::{Context, ContextStatus, Halted, Interruption};
use crate::execution::status::{Status, SubStatus};
use crate::id::ActivityExecutionId;

impl BurstRun<'_> {
    /// Completes an execution, cancels its running descendants, and notifies its parent.
    pub(super) fn complete(&mut self, number: u64, outcomes: Vec<String>) {
        let context = self.state.contexts.get_mut(&number);
        match context.and_then(|context| context.interruption.take()) {
            None => {}
            Some(Interruption::Break) => self.break_loop(number),
            Some(Interruption::Fault(incident)) => return self.fault_again(number, *incident),
            Some(Interruption::Completion(held)) => return self.complete_workflow(number, held),
            Some(Interruption::NestedCompletion(held)) => return self.complete_definition(number, held),
        }
        let Some(notification) = self.end_as_completed(number, &outcomes) else {
            return;
        };
        match notification {
            Some(notification) => self.notify(notification),
            None => {
                self.state.outcomes = outcomes;
                self.finish(SubStatus::Finished);
            }
        }
    }

    fn notify(&mut self, notification: ChildNotification) {
        let cause = if notification.was_cancelled {
            self.next_cancellation()
        } else {
            self.next_cause()
        };
        self.notifications
            .push_back(ChildNotification { cause, ..notification });
    }

    /// Completes an execution without notifying its parent. Returns `None` when it is not running, and `Some(None)`
    /// when it is the workflow itself.
    fn end_as_completed(&mut self, number: u64, outcomes: &[String]) -> Option<Option<ChildNotification>> {
        let context = self.state.contexts.get(&number)?;
        if context.status != ContextStatus::Running {
            return None;
        }
        self.cancel_below(number);
        let context = self.state.contexts.get_mut(&number)?;
        context.status = ContextStatus::Completed;
        // It schedules nothing any more.
        context.scheduled = None;
        let activity_state = self.recorder.is_on().then(|| {
            let values = context.inputs.iter().chain(&context.outputs);
            Value::Object(values.map(|(name, value)| (name.clone(), value.clone())).collect())
        });
        let payload = self.recorder.payload_of_end(number, json!({ "Outcomes": outcomes }));
        let details = EntryDetails {
            activity_state,
            payload: Some(payload.clone()),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Completed", details);
        self.clear_waiting(number);
        self.recorder
            .record_removal(self.program, &mut self.state, number, Some(payload));
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
            cause: None,
        })
    }

    pub(super) fn clear_waiting(&mut self, number: u64) {
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

    /// Removes what these executions wait for, and what they have scheduled, in one pass.
    fn clear_all_waiting(&mut self, numbers: &[u64]) {
        let state = &mut self.state;
        let contexts = numbers
            .iter()
            .filter_map(|number| Some((*number, state.contexts.get(number)?)));
        let ids: HashMap<&ActivityExecutionId, u64> = contexts.map(|(number, context)| (&context.id, number)).collect();
        if ids.is_empty() {
            return;
        }
        state
            .bookmarks
            .retain(|bookmark| !ids.contains_key(&bookmark.activity_execution_id));
        let numbers: HashSet<u64> = ids.into_values().collect();
        let is_theirs = |number: Option<u64>| number.is_some_and(|number| numbers.contains(&number));
        state
            .queue
            .retain(|item| !is_theirs(item.owner) && !is_theirs(item.context));
    }

    /// Cancels the descendants of an execution, innermost first.
    pub(super) fn cancel_below(&mut self, number: u64) {
        let below = self.state.descendants(number);
        self.cancel_all(&below);
    }

    /// Cancels executions, the last one first.
    fn cancel_all(&mut self, numbers: &[u64]) {
        self.clear_all_waiting(numbers);
        for number in numbers.iter().rev() {
            self.cancel_one(*number);
        }
    }

    /// Cancels an execution that waits for nothing any more.
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
            self.recorder
                .record_removal(self.program, &mut self.state, number, None);
        }
        self.remove_execution(number, Vec::new(), true)
    }

    /// Records an execution that is cancelled before it begins, with the reason.
    pub(super) fn skip(&mut self, owner: u64, child: NodeIndex, reason: String) {
        let Some(node) = self.program.tree.get(child) else {
            return;
        };
        let (number, id) = self.state.next_execution();
        let mut context = Context::new(id, node.node_id.clone(), Some(owner), Map::new());
        context.status = ContextStatus::Canceled;
        self.state.contexts.insert(number, context);
        self.recorder.record_start(self.program, &self.state, number, None);
        let details = EntryDetails {
            message: Some(reason),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Canceled", details);
        self.recorder
            .record_removal(self.program, &mut self.state, number, None);
        self.state.contexts.remove(&number);
    }

    /// Cancels an execution and its descendants.
    pub(super) fn cancel(&mut self, number: u64, notify_parent: bool) {
        self.cancel_below(number);
        self.clear_waiting(number);
        let notification = self.cancel_one(number);
        if let Some(notification) = notification.filter(|_| notify_parent) {
            self.notify(notification);
        }
    }

    pub(super) fn cancel_instance(&mut self) {
        if let Some(root) = self.state.root() {
            self.cancel(root, false);
        }
        self.finish(SubStatus::Cancelled);
    }

    /// Completes an execution and its ancestors; all others are cancelled. A guard among them runs its last part before
    /// it completes, after all other branches have ended.
    pub(super) fn complete_workflow(&mut self, number: u64, outcomes: Vec<String>) {
        let done = ["Done".to_owned()];
        for ancestor in self.state.chain(number) {
            if self.guarding(ancestor, &Value::Null).is_some() {
                return self.hold_end(ancestor, outcomes);
            }
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

    /// Completes the workflow that an execution is in: inside a workflow as an activity that workflow, otherwise the
    /// instance. A guard in between runs its last part first.
    pub(super) fn complete_definition(&mut self, number: u64, outcomes: Vec<String>) {
        let inside = scope::chain(self.program, &self.state, number);
        let Some((workflow, inside)) = inside.split_last() else {
            return;
        };
        if self.state.root() == Some(*workflow) {
            return self.complete_workflow(number, outcomes);
        }
        let done = ["Done".to_owned()];
        for execution in inside {
            if self.guarding(*execution, &Value::Null).is_some() {
                return self.hold_nested_end(*execution, *workflow, outcomes);
            }
            self.end_as_completed(*execution, &done);
        }
        self.complete(*workflow, outcomes);
    }

    /// Ends what a workflow as an activity runs beside a guard; that workflow ends after the last part of the guard.
    fn hold_nested_end(&mut self, guard: u64, workflow: u64, outcomes: Vec<String>) {
        let kept = scope::chain(self.program, &self.state, guard);
        let mut others = self.state.descendants(workflow);
        others.retain(|other| !kept.contains(other));
        self.cancel_all(&others);
        self.notifications
            .retain(|notification| !kept.contains(&notification.to));
        for ancestor in kept {
            self.clear_waiting(ancestor);
            self.recorder.update(self.program, &self.state, ancestor);
        }
        self.interrupt(guard, Some(Interruption::NestedCompletion(outcomes)), Value::Null);
    }

    /// Ends everything but a guard and its ancestors; the workflow ends after the last part of the guard.
    fn hold_end(&mut self, guard: u64, outcomes: Vec<String>) {
        let kept = self.state.chain(guard);
        // Children have greater numbers than their parents.
        let others = self.state.contexts.keys().filter(|other| !kept.contains(other));
        let others: Vec<u64> = others.copied().collect();
        self.cancel_all(&others);
        self.notifications.clear();
        self.state.queue.clear();
        self.state.bookmarks.clear();
        for ancestor in kept {
            self.recorder.update(self.program, &self.state, ancestor);
        }
        self.interrupt(guard, Some(Interruption::Completion(outcomes)), Value::Null);
    }

    /// Ends the instance: bookmarks, work items and notifications are removed. A retry of a fault goes on with the first two.
    pub(super) fn finish(&mut self, sub_status: SubStatus) {
        self.state.status = Status::Finished;
        self.state.sub_status = sub_status;
        let burned = std::mem::take(&mut self.state.bookmarks);
        self.update_waiting(&burned);
        let queue = std::mem::take(&mut self.state.queue);
        self.notifications.clear();
        if sub_status == SubStatus::Faulted && !(queue.is_empty() && burned.is_empty()) {
            self.state.halted = Some(Box::new(Halted {
                queue,
                bookmarks: burned,
                is_lost: false,
            }));
        }
    }

    /// Records the executions that wait at these bookmarks.
    pub(super) fn update_waiting(&mut self, bookmarks: &[Bookmark]) {
        let ids: HashSet<&ActivityExecutionId> = bookmarks.iter().map(|it| &it.activity_execution_id).collect();
        let contexts = self.state.contexts.iter();
        let waiting = contexts.filter(|(_, context)| ids.contains(&context.id));
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.recorder.update(self.program, &self.state, number);
        }
    }

    /// Gives the variables in memory their initial values: they do not outlive a wait.
    pub(super) fn forget_memory(&mut self) {
        for context in self.state.contexts.values_mut() {
            let node = self.program.tree.find(&context.node_id);
            let declared = node.map(|node| node.variables.as_slice()).unwrap_or_default();
            let forgotten = declared.iter().filter(|variable| variable.is_in_memory);
            context.variables.extend(scope::defaults(forgotten));
        }
    }

    /// Sets the status at the end of a burst: an instance that cannot continue and waits for nothing faults.
    pub(in crate::execution) fn end_burst(&mut self) {
        if self.yielded || self.state.status == Status::Finished || self.state.sub_status == SubStatus::Pending {
            return;
        }
        self.state.sub_status = SubStatus::Suspended;
        self.state.since_wait = 0;
        self.forget_memory();
        let waits = !self.state.bookmarks.is_empty() || !self.state.incidents.is_empty();
        if let (false, Some(root)) = (waits, self.state.root()) {
            let innermost = self.state.contexts.keys().next_back().copied().unwrap_or(root);
            let message = "The activity waits, but has no child and no bookmark";
            self.fault_beyond_guards(innermost, Fault::new(message).code("nothing-to-wait-for"));
            self.end_requests_of_fault();
        }
    }
}
