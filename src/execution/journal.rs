//! The journal of a burst, and the activity executions that it changes.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::concealed::conceal;
use super::log_persistence::Recorded;
use super::program::Program;
use super::state::{Context, InstanceState};
use super::workflow_options::JournalLevel;
use crate::activity::{ActivityNode, Descriptor, is_recorded};
use crate::definition::check_json;
use crate::id::{ActivityExecutionId, ActivityId};

/// An entry of the journal (Elsa's execution log record).
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// The time since the burst began.
    pub at: Duration,
    /// The number of the entry within the instance; from a counter in state.
    pub sequence: i64,
    /// `Started`, `Suspended`, `Resumed`, `Completed`, `Canceled`, `Faulted`, or `Error` for a request without an answer.
    pub event_name: &'static str,
    /// The execution.
    pub activity_execution_id: ActivityExecutionId,
    /// Its parent.
    pub parent_activity_execution_id: Option<ActivityExecutionId>,
    /// The activity.
    pub activity_id: ActivityId,
    /// Its type.
    pub activity_type: String,
    /// The version of its type.
    pub activity_type_version: i32,
    /// Its name.
    pub activity_name: Option<String>,
    /// Its path in the tree.
    pub node_id: String,
    /// A message for people.
    pub message: Option<String>,
    /// The activity's source in a designer or a file.
    pub source: Option<String>,
    /// Evaluated inputs and, once completed, outputs, by names in Pascal case.
    pub activity_state: Option<Value>,
    /// Outcomes, or the exception of a fault.
    pub payload: Option<Value>,
}

/// The current state of one execution of an activity.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityExecution {
    /// Its id.
    pub id: ActivityExecutionId,
    /// Its parent.
    pub parent_id: Option<ActivityExecutionId>,
    /// The number of the execution after whose end its parent scheduled it. Known in the burst in which it starts;
    /// `None` when the parent scheduled it by itself.
    pub scheduled_after: Option<u64>,
    /// The activity.
    pub activity_id: ActivityId,
    /// Its path in the tree.
    pub node_id: String,
    /// Its type.
    pub activity_type: String,
    /// The version of its type.
    pub activity_type_version: i32,
    /// Its name.
    pub activity_name: Option<String>,
    /// `Running`, `Completed`, `Canceled` or `Faulted`.
    pub status: &'static str,
    /// The time from the beginning of the burst to its start; `None` when it started in an earlier burst.
    pub started: Option<Duration>,
    /// The time from the beginning of the burst to its end.
    pub completed: Option<Duration>,
    /// Evaluated inputs, by names in Pascal case.
    pub activity_state: Value,
    /// Outputs, by names in Pascal case.
    pub outputs: Value,
    /// Outcomes, once completed.
    pub payload: Option<Value>,
    /// Its stored properties.
    pub properties: Option<Value>,
    /// The exception of its fault.
    pub exception: Option<Value>,
    /// Whether it waits at a bookmark.
    pub has_bookmarks: bool,
    /// Faults of it and of its descendants.
    pub fault_count: i32,
}

/// Records the journal entries and activity executions of a burst.
pub(super) struct Recorder {
    pub(super) began: Instant,
    level: JournalLevel,
    pub(super) journal: Vec<JournalEntry>,
    /// Boxed, as a node of the map has space for eleven values.
    executions: BTreeMap<u64, Box<ActivityExecution>>,
    /// The estimated size of the journal.
    pub(super) bytes: usize,
    /// What the payload of an execution's end has besides its outcomes.
    for_end: BTreeMap<u64, (&'static str, Value)>,
}

/// The details of an entry, besides its execution.
#[derive(Default)]
pub(super) struct EntryDetails {
    pub(super) message: Option<String>,
    pub(super) activity_state: Option<Value>,
    pub(super) payload: Option<Value>,
}

impl Recorder {
    pub(super) fn new(level: JournalLevel) -> Self {
        Self {
            began: Instant::now(),
            level,
            journal: Vec::new(),
            executions: BTreeMap::new(),
            bytes: 0,
            for_end: BTreeMap::new(),
        }
    }

    /// Whether anything is recorded.
    pub(super) fn is_on(&self) -> bool {
        self.level != JournalLevel::Off
    }

    /// Keeps what the payload of an execution's end is to have besides its outcomes, if it ends in this burst.
    pub(super) fn note_for_end(&mut self, number: u64, data: (&'static str, Value)) {
        self.for_end.insert(number, data);
    }

    /// The payload of an execution's end, with what was noted for it.
    pub(super) fn payload_of_end(&mut self, number: u64, mut payload: Value) -> Value {
        if let Some((name, value)) = self.for_end.remove(&number)
            && let Value::Object(fields) = &mut payload
        {
            fields.shift_insert(0, name.to_owned(), value);
        }
        payload
    }

    /// Adds an entry about an execution that is in the state.
    pub(super) fn add_entry(
        &mut self,
        program: &Program,
        state: &mut InstanceState,
        number: u64,
        event_name: &'static str,
        mut details: EntryDetails,
    ) {
        if self.level == JournalLevel::Off {
            return;
        }
        let sequence = state.sequence;
        let Some(context) = state.contexts.get(&number) else {
            return;
        };
        let Some(node) = program.tree.find(&context.node_id) else {
            return;
        };
        if let Some(values) = &mut details.activity_state {
            let is_output = |name: &str| context.outputs.contains_key(name);
            program.log_persistence.retain(node.index, values, is_output);
            withhold(values, context, is_output);
            conceal_in(values, program.descriptor(node.index));
            if state.is_below_secret(number) {
                withhold_read(values, node);
            }
        }
        let size_of_json = |value: &Option<Value>| {
            value
                .as_ref()
                .and_then(|value| check_json(value, usize::MAX).ok())
                .unwrap_or(0)
        };
        let message = details.message.as_ref().map_or(0, String::len);
        self.bytes += 200 + message + size_of_json(&details.activity_state) + size_of_json(&details.payload);
        self.journal.push(JournalEntry {
            at: self.began.elapsed(),
            sequence,
            event_name,
            activity_execution_id: context.id.clone(),
            parent_activity_execution_id: parent_of(state, context),
            activity_id: ActivityId::new(node.id.clone()),
            activity_type: node.type_name.clone(),
            activity_type_version: node.version,
            activity_name: node.name.clone(),
            node_id: node.node_id.clone(),
            message: details.message,
            source: node.properties.get("source").and_then(Value::as_str).map(str::to_owned),
            activity_state: details.activity_state,
            payload: details.payload,
        });
        state.sequence += 1;
    }

    /// Records that an execution starts now.
    pub(super) fn record_start(
        &mut self,
        program: &Program,
        state: &InstanceState,
        number: u64,
        scheduled_after: Option<u64>,
    ) {
        let at = self.began.elapsed();
        if let Some(execution) = self.update(program, state, number) {
            execution.started = Some(at);
            execution.scheduled_after = scheduled_after;
        }
    }

    /// Updates the record of an execution that is in the state; none if executions are not recorded.
    pub(super) fn update(
        &mut self,
        program: &Program,
        state: &InstanceState,
        number: u64,
    ) -> Option<&mut ActivityExecution> {
        if self.level == JournalLevel::Off {
            return None;
        }
        let context = state.contexts.get(&number)?;
        let node = program.tree.find(&context.node_id)?;
        let execution = self
            .executions
            .entry(number)
            .or_insert_with(|| Box::new(new_execution(node, context, parent_of(state, context))));
        execution.status = context.status.as_str();
        execution.fault_count = context.faults;
        Some(execution)
    }

    /// Copies inputs, outputs and properties of an execution; once per burst, because they may be large.
    pub(super) fn copy_values(&mut self, program: &Program, state: &InstanceState, number: u64) {
        if let Some(context) = state.contexts.get(&number).filter(|_| self.is_on()) {
            let (inputs, outputs) = (context.inputs.clone(), context.outputs.clone());
            self.set_values(program, state, number, inputs, outputs);
        }
    }

    fn set_values(
        &mut self,
        program: &Program,
        state: &InstanceState,
        number: u64,
        inputs: Map<String, Value>,
        outputs: Map<String, Value>,
    ) {
        let Some(context) = state.contexts.get(&number) else {
            return;
        };
        let persistence = &program.log_persistence;
        let node = program.tree.find(&context.node_id).map(|node| node.index);
        if let (Some(execution), Some(node)) = (self.update(program, state, number), node) {
            execution.activity_state = Value::Object(inputs);
            persistence.retain(node, &mut execution.activity_state, |_| false);
            withhold(&mut execution.activity_state, context, |name| {
                outputs.contains_key(name)
            });
            conceal_in(&mut execution.activity_state, program.descriptor(node));
            execution.outputs = Value::Object(outputs);
            persistence.retain(node, &mut execution.outputs, |_| true);
            withhold(&mut execution.outputs, context, |_| true);
            conceal_in(&mut execution.outputs, program.descriptor(node));
            let is_below_secret = state.is_below_secret(number);
            if let (true, Some(node)) = (is_below_secret, program.tree.find(&context.node_id)) {
                withhold_read(&mut execution.activity_state, node);
                execution.outputs = Value::Object(Map::new());
            }
            let properties = context.properties.iter().filter(|(name, _)| is_recorded(name));
            execution.properties = Some(properties)
                .filter(|_| {
                    let holds_none = context.unrecorded.is_empty() && !is_below_secret;
                    holds_none && persistence.includes(node, Recorded::InternalState)
                })
                .map(|properties| properties.map(|(name, value)| (name.clone(), value.clone())).collect())
                .filter(|properties: &Map<String, Value>| !properties.is_empty())
                .map(Value::Object);
        }
    }

    /// Records that an execution has ended.
    pub(super) fn record_end(&mut self, program: &Program, state: &InstanceState, number: u64, payload: Option<Value>) {
        self.copy_values(program, state, number);
        self.set_end(number, payload);
    }

    /// Records the end of an execution that the caller removes from the state next: its inputs and outputs move. That of the
    /// workflow stays there.
    pub(super) fn record_removal(
        &mut self,
        program: &Program,
        state: &mut InstanceState,
        number: u64,
        payload: Option<Value>,
    ) {
        match state.contexts.get_mut(&number) {
            Some(context) if context.parent.is_some() => {
                let (inputs, outputs) = (
                    std::mem::take(&mut context.inputs),
                    std::mem::take(&mut context.outputs),
                );
                self.set_values(program, state, number, inputs, outputs);
            }
            _ => self.copy_values(program, state, number),
        }
        self.set_end(number, payload);
    }

    fn set_end(&mut self, number: u64, payload: Option<Value>) {
        let at = self.began.elapsed();
        if let Some(execution) = self.executions.get_mut(&number) {
            execution.completed = Some(at);
            execution.payload = payload;
            execution.has_bookmarks = false;
        }
    }

    /// The journal, and the executions in the order of their start.
    pub(super) fn finish(
        mut self,
        program: &Program,
        state: &InstanceState,
    ) -> (Vec<JournalEntry>, Vec<ActivityExecution>) {
        let alive: Vec<u64> = self
            .executions
            .keys()
            .copied()
            .filter(|number| state.contexts.contains_key(number))
            .collect();
        let waiting = state.bookmarks.iter().map(|bookmark| &bookmark.activity_execution_id);
        let waiting: HashSet<&ActivityExecutionId> = waiting.collect();
        for number in alive {
            self.copy_values(program, state, number);
            if let Some(execution) = self.executions.get_mut(&number) {
                execution.has_bookmarks = waiting.contains(&execution.id);
            }
        }
        (
            self.journal,
            self.executions.into_values().map(|execution| *execution).collect(),
        )
    }
}

/// Leaves out the values that may hold a secret: those derived from one, and all outputs of an execution that received
/// one, such as the item of a loop.
fn withhold(values: &mut Value, context: &Context, is_output: impl Fn(&str) -> bool) {
    if let (Value::Object(values), false) = (values, context.unrecorded.is_empty()) {
        values.retain(|name, _| !context.unrecorded.contains(name) && !is_output(name));
    }
}

/// Conceals the credentials among values.
fn conceal_in(values: &mut Value, descriptor: Option<&Descriptor>) {
    if let Value::Object(values) = values {
        conceal(values, descriptor);
    }
}

/// Leaves out all but literal inputs: what an activity inside reads may be the secret that the one around it was given.
fn withhold_read(values: &mut Value, node: &ActivityNode) {
    if let Value::Object(values) = values {
        values.retain(|name, _| {
            let input = node.inputs.iter().find(|input| input.name == *name);
            let expression = input.and_then(|input| input.expression.as_ref());
            expression.is_some_and(|expression| expression.kind == "Literal")
        });
    }
}

fn parent_of(state: &InstanceState, context: &Context) -> Option<ActivityExecutionId> {
    context
        .parent
        .and_then(|parent| state.contexts.get(&parent))
        .map(|parent| parent.id.clone())
}

fn new_execution(node: &ActivityNode, context: &Context, parent_id: Option<ActivityExecutionId>) -> ActivityExecution {
    ActivityExecution {
        id: context.id.clone(),
        parent_id,
        scheduled_after: None,
        activity_id: ActivityId::new(node.id.clone()),
        node_id: node.node_id.clone(),
        activity_type: node.type_name.clone(),
        activity_type_version: node.version,
        activity_name: node.name.clone(),
        status: context.status.as_str(),
        started: None,
        completed: None,
        activity_state: Value::Object(Map::new()),
        outputs: Value::Object(Map::new()),
        payload: None,
        properties: None,
        exception: None,
        has_bookmarks: false,
        fault_count: context.faults,
    }
}
