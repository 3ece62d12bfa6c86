//! How executions end, and the instance with them.

use serde_json::{Map, Value, json};

use super::record::Note;
use super::run::{Notice, Run};
use super::state::{ContextStatus, Incident};
use super::status::{Status, SubStatus};
use crate::activity::{EndedChild, Fault};
use crate::id::ActivityId;

impl Run<'_> {
    /// Completes an execution, cancels what is still running in it, and tells its parent.
    pub(super) fn complete(&mut self, number: u64, outcomes: Vec<String>) {
        let Some(notice) = self.complete_quietly(number, &outcomes) else {
            return;
        };
        match notice {
            Some(notice) => self.notices.push_back(notice),
            None => {
                self.state.outcomes = outcomes;
                self.finish(SubStatus::Finished);
            }
        }
    }

    /// `None`: there was nothing to complete. `Some(None)`: it was the workflow itself.
    fn complete_quietly(&mut self, number: u64, outcomes: &[String]) -> Option<Option<Notice>> {
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
        let note = Note {
            activity_state: Some(Value::Object(activity_state)),
            payload: Some(payload.clone()),
            ..Note::default()
        };
        self.record
            .note(self.program, &mut self.state, number, "Completed", note);
        self.burn_of(number);
        self.record.end(self.program, &self.state, number, Some(payload));
        Some(self.retire(number, outcomes.to_vec(), false))
    }

    /// Takes an ended execution out of the state; the workflow's own stays, for its variables.
    fn retire(&mut self, number: u64, outcomes: Vec<String>, was_cancelled: bool) -> Option<Notice> {
        let parent = self.state.contexts.get(&number)?.parent?;
        let context = self.state.contexts.remove(&number)?;
        let index = self.program.tree.find(&context.node_id)?.index;
        Some(Notice {
            to: parent,
            child: EndedChild {
                index,
                outcomes,
                tag: context.tag,
            },
            was_cancelled,
        })
    }

    fn burn_of(&mut self, number: u64) {
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

    /// Cancels all executions within one, innermost first.
    fn cancel_below(&mut self, number: u64) {
        for child in self.state.descendants(number).into_iter().rev() {
            self.cancel_one(child);
        }
    }

    fn cancel_one(&mut self, number: u64) -> Option<Notice> {
        let context = self.state.contexts.get_mut(&number)?;
        if context.status == ContextStatus::Running {
            context.status = ContextStatus::Canceled;
            self.record
                .note(self.program, &mut self.state, number, "Canceled", Note::default());
            self.burn_of(number);
            self.record.end(self.program, &self.state, number, None);
        }
        self.retire(number, Vec::new(), true)
    }

    /// Cancels an execution and all within it.
    pub(super) fn cancel(&mut self, number: u64, tells_parent: bool) {
        self.cancel_below(number);
        let notice = self.cancel_one(number);
        if tells_parent {
            self.notices.extend(notice);
        }
    }

    pub(super) fn cancel_instance(&mut self) {
        if let Some(root) = self.state.root() {
            self.cancel(root, false);
        }
        self.finish(SubStatus::Cancelled);
    }

    /// Completes the one that asks and all that it is a part of; everything else is cancelled.
    pub(super) fn complete_workflow(&mut self, number: u64, outcomes: Vec<String>) {
        let done = ["Done".to_owned()];
        for ancestor in self.state.chain(number) {
            let is_root = self
                .state
                .contexts
                .get(&ancestor)
                .is_some_and(|context| context.parent.is_none());
            let given = if is_root { outcomes.as_slice() } else { done.as_slice() };
            self.complete_quietly(ancestor, given);
        }
        self.state.outcomes = outcomes;
        self.finish(SubStatus::Finished);
    }

    /// Faults an execution. By Elsa's default strategy the instance ends with it.
    pub(super) fn fault(&mut self, number: u64, fault: Fault) {
        for ancestor in self.state.chain(number) {
            if let Some(context) = self.state.contexts.get_mut(&ancestor) {
                context.faults += 1;
            }
            self.record.touch(self.program, &self.state, ancestor);
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
                message: clean(&fault.message),
                exception: exception.clone(),
            });
        }
        let note = Note {
            message: Some(clean(&fault.message)),
            payload: Some(exception.clone()),
            ..Note::default()
        };
        self.record.note(self.program, &mut self.state, number, "Faulted", note);
        // What the failed one has scheduled or waits for can no longer reach it.
        self.cancel_below(number);
        self.burn_of(number);
        self.record.fill(self.program, &self.state, number);
        if let Some(execution) = self.record.touch(self.program, &self.state, number) {
            execution.exception = Some(exception);
        }
        if !self.program.continues_with_incidents || self.state.root() == Some(number) {
            self.finish(SubStatus::Faulted);
        }
    }

    /// Ends the instance: nothing of it waits or runs any more.
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
            self.record.touch(self.program, &self.state, number);
        }
        self.state.queue.clear();
        self.notices.clear();
    }

    /// Decides, at the end of a burst, whether the instance waits.
    pub(super) fn settle(&mut self) {
        if self.yielded || self.state.status == Status::Finished || self.state.sub_status == SubStatus::Pending {
            return;
        }
        self.state.sub_status = SubStatus::Suspended;
        self.state.since_wait = 0;
        let waits = !self.state.bookmarks.is_empty() || !self.state.incidents.is_empty();
        if let (false, Some(root)) = (waits, self.state.root()) {
            let innermost = self.state.contexts.keys().next_back().copied().unwrap_or(root);
            let message = "The activity waits for a child or a bookmark, but there is none";
            self.fault(innermost, Fault::new(message).code("nothing-to-wait-for"));
        }
    }
}

/// Messages come from anywhere, and go where U+0000 and endless text cannot.
fn clean(message: &str) -> String {
    let mut text: String = message
        .chars()
        .filter(|character| *character != '\0')
        .take(4000)
        .collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}

fn exception(fault: &Fault) -> Value {
    json!({
        "type": "Fault",
        "message": clean(&fault.message),
        "code": clean(&fault.code),
        "category": clean(&fault.category),
        "faultType": clean(&fault.fault_type),
    })
}
