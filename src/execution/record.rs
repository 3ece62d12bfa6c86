//! The record of a burst: the journal, and the executions that it touched.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value};

use super::burst::{ActivityExecution, JournalEntry};
use super::journal_level::JournalLevel;
use super::program::Program;
use super::state::{Context, InstanceState};
use crate::activity::ActivityNode;
use crate::definition::check_json;
use crate::id::{ActivityExecutionId, ActivityId};

pub(super) struct Record {
    pub(super) began: Instant,
    level: JournalLevel,
    pub(super) journal: Vec<JournalEntry>,
    /// Apart: a node of the map has room for eleven.
    executions: BTreeMap<u64, Box<ActivityExecution>>,
    /// Bytes, about.
    pub(super) weight: usize,
}

/// What an entry says besides which execution it is about.
#[derive(Default)]
pub(super) struct Note {
    pub(super) message: Option<String>,
    pub(super) activity_state: Option<Value>,
    pub(super) payload: Option<Value>,
}

impl Record {
    pub(super) fn new(level: JournalLevel) -> Self {
        Self {
            began: Instant::now(),
            level,
            journal: Vec::new(),
            executions: BTreeMap::new(),
            weight: 0,
        }
    }

    /// Adds an entry about an execution that is in the state.
    pub(super) fn note(
        &mut self,
        program: &Program,
        state: &mut InstanceState,
        number: u64,
        event_name: &'static str,
        note: Note,
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
        let weigh = |value: &Option<Value>| {
            value
                .as_ref()
                .and_then(|value| check_json(value, usize::MAX).ok())
                .unwrap_or(0)
        };
        self.weight += 200 + weigh(&note.activity_state) + weigh(&note.payload);
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
            message: note.message,
            source: node.properties.get("source").and_then(Value::as_str).map(str::to_owned),
            activity_state: note.activity_state,
            payload: note.payload,
        });
        state.sequence += 1;
    }

    /// Takes note that an execution begins now.
    pub(super) fn begin(&mut self, program: &Program, state: &InstanceState, number: u64) {
        let at = self.began.elapsed();
        if let Some(execution) = self.touch(program, state, number) {
            execution.started = Some(at);
        }
    }

    /// The record of an execution that is in the state, brought up to date; none if executions are not recorded.
    pub(super) fn touch(
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
            .or_insert_with(|| Box::new(fresh(node, context, parent_of(state, context))));
        execution.status = context.status.as_str();
        execution.fault_count = context.faults;
        execution.has_bookmarks = state
            .bookmarks
            .iter()
            .any(|bookmark| bookmark.activity_execution_id == context.id);
        Some(execution)
    }

    /// Copies what an execution was given and gave; once per burst and at its end, because it may be large.
    pub(super) fn fill(&mut self, program: &Program, state: &InstanceState, number: u64) {
        let Some(context) = state.contexts.get(&number) else {
            return;
        };
        if let Some(execution) = self.touch(program, state, number) {
            execution.activity_state = Value::Object(context.inputs.clone());
            execution.outputs = Value::Object(context.outputs.clone());
            execution.properties = Some(context.properties.clone())
                .filter(|properties| !properties.is_empty())
                .map(Value::Object);
        }
    }

    /// Takes note that an execution has ended.
    pub(super) fn end(&mut self, program: &Program, state: &InstanceState, number: u64, payload: Option<Value>) {
        let at = self.began.elapsed();
        self.fill(program, state, number);
        if let Some(execution) = self.executions.get_mut(&number) {
            execution.completed = Some(at);
            execution.payload = payload;
            execution.has_bookmarks = false;
        }
    }

    /// The executions, in the order of their beginning.
    pub(super) fn into_executions(
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
        for number in alive {
            self.fill(program, state, number);
        }
        (
            self.journal,
            self.executions.into_values().map(|execution| *execution).collect(),
        )
    }
}

fn parent_of(state: &InstanceState, context: &Context) -> Option<ActivityExecutionId> {
    context
        .parent
        .and_then(|parent| state.contexts.get(&parent))
        .map(|parent| parent.id.clone())
}

fn fresh(node: &ActivityNode, context: &Context, parent_id: Option<ActivityExecutionId>) -> ActivityExecution {
    ActivityExecution {
        id: context.id.clone(),
        parent_id,
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
