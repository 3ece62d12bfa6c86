//! States that come from a file: whether a burst can continue with one.
//!
//! A file may be made by hand. What is checked here is what the interpreter relies on: ids that follow from numbers, numbers
//! below the counter, executions that exist, activities that the program has.

use std::collections::HashSet;

use serde_json::Value;

use super::bookmark::{Bookmark, stimulus_hash};
use super::node_id::WORKFLOW_ID;
use super::program::Program;
use super::state::{ContextStatus, Halted, InstanceState};
use super::status::{Status, SubStatus};
use crate::activity::waits_for_children;
use crate::id::ActivityExecutionId;

/// The greatest number in a state from a file, which leaves room for the rest of its life.
const GREATEST: u64 = 1 << 52;

/// The maximum number of faults that one execution counts.
const MOST_FAULTS: i32 = 1 << 30;

impl InstanceState {
    /// The state in a file.
    ///
    /// # Errors
    /// Why it is not a state, for people.
    pub(crate) fn from_file(state: &Value) -> Result<Self, String> {
        let bytes = serde_json::to_vec(state).map_err(|error| error.to_string())?;
        // The parser's message has a line and column of the text made above, which the client does not have.
        Self::from_bytes(&bytes)
            .map_err(|_| "it is not a state of this engine, or it is one of a newer version".to_owned())
    }

    /// The number of the next journal entry, and the greatest number of an execution.
    pub(crate) fn counts(&self) -> (i64, u64) {
        (self.sequence, self.counter)
    }

    /// Makes the state one of this version, and checks that a burst can continue with it.
    ///
    /// # Errors
    /// Why no burst can, for people.
    pub(crate) fn adopt(&mut self, program: &Program) -> Result<(), String> {
        self.version_id = program.version_id().clone();
        self.version = program.version();
        self.check_numbers()?;
        // Its parent waits for the instance that was exported, not for this one.
        self.parent = None;
        // Nor does a client.
        self.requests.clear();
        // The links of the exported instance do not lead to this one.
        self.contexts.values_mut().for_each(|context| context.link_key = None);
        match (self.status, self.sub_status) {
            (Status::Finished, SubStatus::Finished | SubStatus::Cancelled | SubStatus::Faulted) => {
                if !self.bookmarks.is_empty() || !self.queue.is_empty() {
                    return Err("the instance has ended, and something is left to do".to_owned());
                }
                // Nothing checks it against the definition.
                self.halted = (self.sub_status == SubStatus::Faulted).then(|| {
                    Box::new(Halted {
                        is_lost: true,
                        ..Halted::default()
                    })
                });
                Ok(())
            }
            (Status::Running, SubStatus::Suspended) => {
                self.halted = None;
                self.check_waiting(program)
            }
            _ => Err("the instance does not wait: export it once it waits or has ended".to_owned()),
        }
    }

    fn check_numbers(&self) -> Result<(), String> {
        let sequence = u64::try_from(self.sequence).unwrap_or(u64::MAX);
        if [self.counter, sequence, self.since_wait]
            .iter()
            .any(|count| *count > GREATEST)
        {
            return Err("a number is too great".to_owned());
        }
        for (number, context) in &self.contexts {
            let is_older = context.parent.is_none_or(|parent| parent < *number);
            if *number == 0 || *number > self.counter || !is_older {
                return Err(format!("the execution {number} has no place among the others"));
            }
            if !(0..=MOST_FAULTS).contains(&context.faults) {
                return Err("a number is too great".to_owned());
            }
        }
        let roots = self.contexts.values().filter(|context| context.parent.is_none());
        if roots.count() > 1 {
            return Err("there are two workflows in it".to_owned());
        }
        Ok(())
    }

    fn check_waiting(&self, program: &Program) -> Result<(), String> {
        if self.bookmarks.is_empty() || !self.queue.is_empty() {
            return Err("the instance does not wait: export it once it waits or has ended".to_owned());
        }
        let root = self.root().and_then(|number| self.contexts.get(&number));
        if root.is_none_or(|root| root.node_id != WORKFLOW_ID || root.status != ContextStatus::Running) {
            return Err("the workflow itself does not run".to_owned());
        }
        for context in self.contexts.values() {
            if context
                .parent
                .is_some_and(|parent| !self.contexts.contains_key(&parent))
            {
                return Err(format!("what contains the execution of {} is missing", context.node_id));
            }
            if program.tree.find(&context.node_id).is_none() {
                return Err(format!("the definition has no activity {}", context.node_id));
            }
        }
        let mut ids = HashSet::new();
        for bookmark in &self.bookmarks {
            if waits_for_children(&bookmark.name) && !bookmark.publishable {
                return Err(
                    "it waits for child instances, which are not in the file: export it once they have ended"
                        .to_owned(),
                );
            }
            if !ids.insert(&bookmark.id) {
                return Err(format!("the bookmark {} occurs twice", bookmark.id));
            }
            self.check_bookmark(bookmark, program)?;
        }
        Ok(())
    }

    fn check_bookmark(&self, bookmark: &Bookmark, program: &Program) -> Result<(), String> {
        let number = bookmark.activity_execution_id.number();
        let context = self.contexts.get(&number);
        let own = ActivityExecutionId::of(self.instance_id.as_str(), number);
        let is_placed = context
            .is_some_and(|context| context.node_id == bookmark.node_id && context.status == ContextStatus::Running);
        let is_there = program
            .tree
            .find(&bookmark.node_id)
            .is_some_and(|node| node.id == bookmark.activity_id.as_str());
        if own != bookmark.activity_execution_id || !is_placed || !is_there {
            return Err(format!("no activity waits at the bookmark {}", bookmark.id));
        }
        let execution = (!bookmark.publishable).then_some(&own);
        let key = bookmark.key.as_ref().unwrap_or(&bookmark.payload);
        if stimulus_hash(&bookmark.name, key, execution) != bookmark.hash {
            return Err(format!(
                "the hash of the bookmark {} is not that of its payload",
                bookmark.id
            ));
        }
        if bookmark.id.as_str().is_empty() || bookmark.id.as_str().len() > 255 {
            return Err("the id of a bookmark is empty or too long".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::InstanceId;

    fn state() -> Value {
        let state = InstanceState::new(InstanceId::new("i"), "d".into(), "v".into(), 1);
        serde_json::to_value(&state).unwrap()
    }

    #[test]
    fn what_is_no_state_is_refused() {
        assert!(InstanceState::from_file(&state()).is_ok());
        for wrong in [json!(null), json!([]), json!({}), json!({"format": 1})] {
            assert!(InstanceState::from_file(&wrong).is_err(), "{wrong}");
        }
        let mut newer = state();
        newer["format"] = json!(99);
        assert!(InstanceState::from_file(&newer).is_err());
    }

    #[test]
    fn numbers_have_room_to_grow_and_parents_are_older() {
        let with = |field: &str, value: Value| {
            let mut state = state();
            state[field] = value;
            InstanceState::from_file(&state).unwrap().check_numbers()
        };
        assert!(with("counter", json!(7)).is_ok());
        assert!(with("counter", json!(u64::MAX)).is_err());
        assert!(with("sequence", json!(-1)).is_err());
        assert!(with("sequence", json!(i64::MAX)).is_err());
        assert!(with("sinceWait", json!(u64::MAX)).is_err());
        assert!(with("contexts", json!({"1": {"nodeId": "Workflow1", "status": "Running"}})).is_err());
        let mut cycle = state();
        cycle["counter"] = json!(2);
        cycle["contexts"] = json!({
            "1": {"nodeId": "a", "status": "Running", "parent": 2},
            "2": {"nodeId": "a", "status": "Running", "parent": 1}});
        assert!(InstanceState::from_file(&cycle).unwrap().check_numbers().is_err());
    }
}
