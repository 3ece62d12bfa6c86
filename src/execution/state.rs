//! The state of an instance: what a burst needs to go on where the last one ended.
//!
//! It stays bounded in loops: an execution that has ended is removed at once (it is in the journal), and only the
//! newest outputs of each activity are kept, if the definition can read them. Its content comes from instructions,
//! definitions and activity results; ids and sequence numbers come from counters in it. It depends on no clock and no
//! random number, so a burst that runs again on the same state has the same effects. Keys and executed children, which
//! must be the same even when a burst takes another path in the repeat, come from causes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::bookmark::Bookmark;
use super::bounds::admit;
use super::cause::Cause;
use super::child::{ChildEnd, ParentLink, is_false};
use super::incident::Incident;
use super::request::OpenRequest;
use super::status::{Status, SubStatus};
use crate::activity::Resumption;
use crate::id::{ActivityExecutionId, ActivityId, BookmarkId, DefinitionId, InstanceId, VersionId};
use crate::trace::TraceContext;
use crate::{Error, Result};

/// The format of the bytes. A newer binary reads older formats; an older one refuses newer formats.
const FORMAT: u32 = 2;

/// What follows the fields that the row has, too.
const FIRST_FIELD: &[u8] = br#","format":"#;

/// Beside this many open bookmarks a new one is crowded.
const CROWDED: usize = 64;

/// What is kept of an instance between two bursts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceState {
    // Up to the sub-status: what the columns of the row say, too.
    pub(super) instance_id: InstanceId,
    pub(super) definition_id: DefinitionId,
    pub(super) version_id: VersionId,
    pub(super) version: i32,
    pub(super) status: Status,
    pub(super) sub_status: SubStatus,
    pub(super) format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) correlation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// The source of ids; grows by one with each execution and each bookmark.
    pub(super) counter: u64,
    /// The sequence number of the next journal entry.
    pub(super) sequence: i64,
    /// Executions since the instance last waited.
    pub(super) since_wait: u64,
    /// The executions up to this number have their ids as idempotency keys, as those of the first format had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) numbered_keys: u64,
    /// How often the state was changed from outside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) alterations: u64,
    /// The executed children that it has asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) executed_children: u64,
    /// Instructions after a yield follow the work items that it has left.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) holds: bool,
    /// An input or a result of one of its executions was derived from a secret.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) reads_secrets: bool,
    /// An output that was derived from a secret and is bound to nothing is kept for later expressions.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) keeps_secrets: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) input: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) output: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outcomes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trigger: Option<StartTrigger>,
    pub(super) contexts: BTreeMap<u64, Context>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(super) queue: VecDeque<WorkItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) bookmarks: Vec<Bookmark>,
    /// Of an instance that has faulted: what a retry goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) halted: Option<Box<Halted>>,
    /// The newest outputs by node id.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) activity_outputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_result: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) incidents: Vec<Incident>,
    /// The parent, if the instance is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<ParentLink>,
    /// Clients that wait for it, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) requests: Vec<OpenRequest>,
    /// The last burst of which there is a span. It decides nothing that a burst does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<TraceContext>,
}

/// What other branches of an instance were about to do when it faulted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Halted {
    pub(super) queue: VecDeque<WorkItem>,
    pub(super) bookmarks: Vec<Bookmark>,
    /// It is not known, as the instance was imported.
    pub(super) is_lost: bool,
}

/// The trigger that started an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartTrigger {
    pub(super) activity_id: ActivityId,
    pub(super) payload: Value,
    pub(super) is_consumed: bool,
}

/// The status of an execution. Ended ones stay in state only if they faulted, or are the workflow itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ContextStatus {
    Running,
    Completed,
    Canceled,
    Faulted,
}

impl ContextStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Canceled => "Canceled",
            Self::Faulted => "Faulted",
        }
    }
}

/// An execution of an activity.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Context {
    /// Follows from its number; not in the bytes.
    #[serde(skip)]
    pub(super) id: ActivityExecutionId,
    pub(super) node_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<u64>,
    pub(super) status: ContextStatus,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) properties: Map<String, Value>,
    /// By name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) variables: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) inputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) outputs: Map<String, Value>,
    /// Names of inputs and outputs that may hold a secret: not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unrecorded: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_breaking: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) faults: i32,
    /// The tries that have faulted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) attempts: u32,
    /// Its next work item executes it anew.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_retried: bool,
    /// The values that it was to start with were invalid, and are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_invalid: bool,
    /// It was executed with the payload of the trigger that started the instance.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_triggered: bool,
    /// For a guard in its last part, what continues afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interruption: Option<Interruption>,
    /// The idempotency key after the instance, once the activity has asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<u64>,
    /// The key of the resume links that it had made when it faulted, until a retry has succeeded: that makes the same ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link_key: Option<u64>,
    /// For an owner, what the causes of its children are derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scheduled: Option<Box<Scheduled>>,
}

/// What an owner has scheduled.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scheduled {
    /// The place of the owner.
    pub(super) place: u64,
    /// How often, by the last part of the node id.
    counts: BTreeMap<String, u64>,
}

impl Scheduled {
    pub(super) fn at(place: u64) -> Box<Self> {
        Box::new(Self {
            place,
            counts: BTreeMap::new(),
        })
    }

    /// Returns how often the owner has scheduled a node before, and counts this time.
    pub(super) fn count(&mut self, node_id: &str) -> u64 {
        let name = node_id.rsplit(':').next().unwrap_or(node_id);
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return *count - 1;
        }
        self.counts.insert(name.to_owned(), 1);
        0
    }
}

impl Context {
    /// The execution of an activity that has done nothing yet.
    pub(super) fn new(
        id: ActivityExecutionId,
        node_id: String,
        parent: Option<u64>,
        variables: Map<String, Value>,
    ) -> Self {
        Self {
            id,
            node_id,
            parent,
            status: ContextStatus::Running,
            properties: Map::new(),
            variables,
            inputs: Map::new(),
            outputs: Map::new(),
            unrecorded: Vec::new(),
            tag: None,
            is_breaking: false,
            faults: 0,
            attempts: 0,
            is_retried: false,
            is_invalid: false,
            is_triggered: false,
            interruption: None,
            key: None,
            link_key: None,
            scheduled: None,
        }
    }
}

/// What a guard has held up for its last part, and what continues once that part has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Interruption {
    /// A fault that the guard does not catch.
    Fault(Box<Incident>),
    /// A break out of a loop around the guard.
    Break,
    /// The end of the workflow, with these outcomes.
    Completion(Vec<String>),
    /// The end of the workflow as an activity that the guard is in, with these outcomes.
    NestedCompletion(Vec<String>),
}

/// An activity to execute or resume.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkItem {
    pub(super) node_id: String,
    /// What set it off; `None` when that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Cause>,
    /// The execution that scheduled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<u64>,
    /// The execution whose end made the owner schedule it; `None` when the owner scheduled it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scheduled_after: Option<u64>,
    /// The execution to resume; `None` when a new one starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<u64>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) variables: Map<String, Value>,
    /// The exception of the fault that it begins with, if the values that it starts with were invalid and are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invalid: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) input: Map<String, Value>,
}

impl WorkItem {
    pub(super) fn resumption(&mut self) -> Resumption {
        Resumption {
            payload: self.payload.take(),
            input: std::mem::take(&mut self.input),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

impl InstanceState {
    pub(super) fn new(
        instance_id: InstanceId,
        definition_id: DefinitionId,
        version_id: VersionId,
        version: i32,
    ) -> Self {
        Self {
            format: FORMAT,
            instance_id,
            definition_id,
            version_id,
            version,
            status: Status::Running,
            sub_status: SubStatus::Pending,
            correlation_id: None,
            name: None,
            counter: 0,
            sequence: 0,
            since_wait: 0,
            numbered_keys: 0,
            alterations: 0,
            executed_children: 0,
            holds: false,
            reads_secrets: false,
            keeps_secrets: false,
            input: Map::new(),
            output: Map::new(),
            outcomes: Vec::new(),
            trigger: None,
            contexts: BTreeMap::new(),
            queue: VecDeque::new(),
            bookmarks: Vec::new(),
            halted: None,
            activity_outputs: Map::new(),
            last_result: None,
            incidents: Vec::new(),
            parent: None,
            requests: Vec::new(),
            trace: None,
        }
    }

    /// The state as bytes for a row that has the ids, the version and the two statuses in columns: without them. The function
    /// `whole_state` of the schema puts them back.
    pub(crate) fn to_row(&self) -> Result<Vec<u8>> {
        let mut bytes = self.to_bytes()?;
        // No text in JSON has quotes that are not escaped.
        let columns = bytes.windows(FIRST_FIELD.len()).position(|at| at == FIRST_FIELD);
        let columns = columns.ok_or_else(|| Error::internal("The state cannot be written"))?;
        bytes.drain(1..=columns);
        Ok(bytes)
    }

    /// The state as bytes, which [`InstanceState::from_bytes`] reads.
    ///
    /// # Errors
    /// `internal-error` if it cannot be serialized, which would be a defect.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal("The state cannot be written").caused_by(error))
    }

    /// The state from its bytes.
    ///
    /// # Errors
    /// `internal-error` if the bytes are invalid or of a newer format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut state: Self = serde_json::from_slice(bytes)
            .map_err(|error| Error::internal("The state of the instance cannot be read").caused_by(error))?;
        if state.format > FORMAT {
            return Err(Error::internal(format!(
                "The state of the instance has format {}, this binary reads formats up to {FORMAT}",
                state.format
            )));
        }
        if state.format < FORMAT {
            state.format = FORMAT;
            state.numbered_keys = state.counter;
        }
        for (number, context) in &mut state.contexts {
            context.id = ActivityExecutionId::of(state.instance_id.as_str(), *number);
        }
        Ok(state)
    }

    /// The instance.
    pub fn instance_id(&self) -> &InstanceId {
        &self.instance_id
    }

    /// The definition that it runs.
    pub fn definition_id(&self) -> &DefinitionId {
        &self.definition_id
    }

    /// The number of the version that it runs.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The id of the version that it runs.
    pub fn version_id(&self) -> &VersionId {
        &self.version_id
    }

    /// Elsa's status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Elsa's sub-status.
    pub fn sub_status(&self) -> SubStatus {
        self.sub_status
    }

    /// Its correlation id.
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id.as_deref()
    }

    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The bookmarks at which it waits.
    pub fn bookmarks(&self) -> &[Bookmark] {
        &self.bookmarks
    }

    /// Its incidents so far.
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// The workflow's inputs.
    pub fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    /// The workflow's outputs so far.
    pub fn output(&self) -> &Map<String, Value> {
        &self.output
    }

    /// What the parent of this instance continues with after a burst that has not yielded. A child that comes to rest
    /// wakes its parent once. A child with outputs of more than `max_bytes` together, which the parent could not keep,
    /// counts as faulted, with a reason in place of the outputs.
    pub(super) fn take_child_end(&mut self, max_bytes: usize) -> Option<ChildEnd> {
        let ends = self.status == Status::Finished;
        let parent = self.parent.as_mut()?;
        if !ends && !std::mem::take(&mut parent.until_rest) {
            return None;
        }
        Some(ChildEnd {
            ends,
            result: self.child_result(max_bytes),
        })
    }

    /// What its parent gets as the result. `child_so_far` of the schema makes the same of a smaller one.
    pub(crate) fn child_result(&self, max_bytes: usize) -> Value {
        let mut result = json!({
            "workflowInstanceId": self.instance_id,
            "status": self.status.as_str(),
            "subStatus": self.sub_status.as_str(),
            "output": self.output,
        });
        let what = format!("The result of the child {}, with its outputs,", self.instance_id);
        if let (Err(fault), Value::Object(fields)) = (admit(&what, &result, max_bytes), &mut result) {
            fields.insert("subStatus".to_owned(), SubStatus::Faulted.as_str().into());
            fields.insert("output".to_owned(), Map::new().into());
            fields.insert("reason".to_owned(), fault.message.into());
        }
        result
    }

    /// The instance whose activity started this one.
    pub fn parent(&self) -> Option<&ParentLink> {
        self.parent.as_ref()
    }

    /// Records whether an executed child rests after its first burst, which a repeat of its parent's burst needs to
    /// know.
    pub(crate) fn note_first_rest(&mut self, rested: bool) {
        if let Some(started_by) = self.parent.as_mut().and_then(|parent| parent.started_by.as_mut()) {
            started_by.rested = rested;
        }
    }

    /// The workflow's own variables, by name.
    pub fn variables(&self) -> Map<String, Value> {
        let root = self.contexts.values().find(|context| context.parent.is_none());
        root.map(|root| root.variables.clone()).unwrap_or_default()
    }

    pub(super) fn next_execution(&mut self) -> (u64, ActivityExecutionId) {
        self.counter += 1;
        let id = ActivityExecutionId::of(self.instance_id.as_str(), self.counter);
        (self.counter, id)
    }

    /// The id of a crowded bookmark begins with `z`, others with a hexadecimal digit: an index covers only the former.
    pub(super) fn next_bookmark(&mut self) -> BookmarkId {
        self.counter += 1;
        let mut hasher = Sha256::new();
        hasher.update(self.instance_id.as_str().as_bytes());
        hasher.update(b"|");
        hasher.update(self.counter.to_string().as_bytes());
        let hash: [u8; 32] = hasher.finalize().into();
        let mut id = String::with_capacity(17);
        if self.bookmarks.len() >= CROWDED {
            id.push('z');
        }
        for byte in hash.iter().take(8) {
            id.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
        }
        BookmarkId::new(id)
    }

    /// Whether an execution with this number has begun, now or before.
    pub(crate) fn has_begun(&self, number: u64) -> bool {
        number > 0 && number <= self.counter
    }

    /// The number of the workflow's own execution, once it has started.
    pub(super) fn root(&self) -> Option<u64> {
        self.contexts
            .iter()
            .find(|(_, context)| context.parent.is_none())
            .map(|(number, _)| *number)
    }

    /// An execution and its ancestors, innermost first.
    pub(super) fn chain(&self, number: u64) -> Vec<u64> {
        let mut chain = Vec::new();
        let mut next = Some(number);
        while let Some(number) = next {
            let Some(context) = self.contexts.get(&number) else {
                break;
            };
            chain.push(number);
            next = context.parent;
        }
        chain
    }

    /// The descendants of an execution, parents first. A child has a greater number than its parent.
    pub(super) fn descendants(&self, number: u64) -> Vec<u64> {
        let later = || self.contexts.range(number.saturating_add(1)..);
        if !later().any(|(_, context)| context.parent == Some(number)) {
            return Vec::new();
        }
        let mut children: HashMap<u64, Vec<u64>> = HashMap::from([(number, Vec::new())]);
        for (child, context) in later() {
            if let Some(siblings) = context.parent.and_then(|parent| children.get_mut(&parent)) {
                siblings.push(*child);
                children.insert(*child, Vec::new());
            }
        }
        let mut found = children.remove(&number).unwrap_or_default();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(children.remove(&parent).unwrap_or_default());
            next += 1;
        }
        found
    }
}
