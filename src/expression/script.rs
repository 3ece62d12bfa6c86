//! What goes into the evaluation of a script and what comes out, its limits and its errors.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::event_urls::EventUrls;
use super::named_values::NamedValues;

/// The longest script, in bytes: parsing a text takes time that depends on its length.
const LONGEST: usize = 64 << 10;

/// Why a text is too long for a script, if it is.
pub(crate) fn too_long_script(text: &str) -> Option<String> {
    (text.len() > LONGEST).then(|| {
        format!(
            "the script has {} bytes, more than {LONGEST}; move parts of it into activities of their own, and long texts into \
             variables",
            text.len()
        )
    })
}

/// A text to evaluate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptText<'a> {
    pub(crate) text: &'a str,
    /// An activity runs it; otherwise it is the expression of an input.
    pub(crate) is_activity: bool,
}

/// A script as its language has compiled it.
pub(crate) type CompiledScript = Arc<dyn Any + Send + Sync>;

/// What a script can see.
#[derive(Clone, Debug, Default)]
pub struct ScriptScope {
    /// The visible variables by name; where scopes shadow each other, the innermost.
    pub variables: Map<String, Value>,
    /// The workflow's inputs by name.
    pub inputs: Map<String, Value>,
    /// The outputs of activities: by activity id, and once more by activity name, an object of output name to value.
    pub outputs: Map<String, Value>,
    /// The result of the activity that completed last.
    pub last_result: Option<Value>,
    /// `getSecret` refuses: who sees the result may not see secrets.
    pub hides_secrets: bool,
    /// Facts about the instance.
    pub workflow: WorkflowFacts,
}

/// What a script can ask about its own instance.
#[derive(Clone, Debug, Default)]
pub struct WorkflowFacts {
    /// The instance's id.
    pub instance_id: String,
    /// The definition's id, the same for all its versions.
    pub definition_id: String,
    /// The id of the version that runs.
    pub definition_version_id: String,
    /// The number of the version that runs.
    pub definition_version: i32,
    /// The correlation id, if one was set.
    pub correlation_id: Option<String>,
    /// The instance's name, if one was set.
    pub name: Option<String>,
}

/// What an expression or a script has returned and asked for. The caller applies it.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// Its value; `undefined` is null.
    pub value: Value,
    /// What it has set.
    pub changes: ScriptChanges,
    /// The outcomes, if it chose some.
    pub outcomes: Option<Vec<String>>,
    /// A secret was read to make it: the value and what it set may hold it.
    pub may_hold_secret: bool,
}

/// What a script has set.
#[derive(Clone, Debug, Default)]
pub struct ScriptChanges {
    /// The variables that it wrote, or whose value it changed in place, in the order of first use.
    pub variables: Vec<(String, Value)>,
    /// The new correlation id, if it set one; the inner `None` clears it.
    pub correlation_id: Option<Option<String>>,
    /// The new name of the instance, if it set one; the inner `None` clears it.
    pub name: Option<Option<String>>,
}

/// The bounds within which scripts run.
#[derive(Clone, Debug)]
pub struct ScriptOptions {
    /// Threads that serve queues of scripts, at least 1. They start when first needed. Default: 2.
    pub threads: usize,
    /// Threads for scripts that have run for more than 50 ms; one definition has a quarter of them at most. They run in
    /// time slices, at once as many as half of the processors, at least one. Each may have a heap of `memory_limit`.
    /// Default: 32.
    pub slow_threads: usize,
    /// How long one evaluation may run; the time that it waits does not count. Default: 5 s (Elsa's is 30 s), because
    /// scripts do no I/O here.
    pub time_limit: Duration,
    /// Bytes of heap of one script. Default: 64 MiB.
    pub memory_limit: usize,
    /// Bytes of heap of all scripts that run at once. Each may take `memory_limit`, so this bounds `slow_threads`: a script
    /// for which no room is left waits, or its burst is deferred. Default: 2,240 MiB, enough for the defaults of the others.
    pub total_memory: usize,
    /// Bytes of stack of one script. Default: 512 KiB, enough for some thousand nested calls.
    pub stack_limit: usize,
    /// Evaluations of each definition that a thread's queue holds. When it is full, `evaluate` waits. Default: 256.
    pub queue: usize,
    /// Bytes of JSON that one evaluation may return: its value and its variables together. Default: 4 MiB.
    pub max_result_bytes: usize,
    /// What `getConfig` and `getSecret` return. Default: nothing.
    pub named: NamedValues,
    /// What `createEventTriggerUrl` returns. An engine sets this at its start.
    pub event_urls: EventUrls,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            threads: 2,
            slow_threads: 32,
            time_limit: Duration::from_secs(5),
            memory_limit: 64 << 20,
            total_memory: 2240 << 20,
            stack_limit: 512 << 10,
            queue: 256,
            max_result_bytes: 4 << 20,
            named: NamedValues::default(),
            event_urls: EventUrls::default(),
        }
    }
}

/// Why a script has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptErrorKind {
    /// It is no script of its language.
    Syntax,
    /// It threw or failed, or returned what has no JSON form (a cycle).
    Thrown,
    /// It ran longer than [`ScriptOptions::time_limit`].
    Timeout,
    /// It needs more than [`ScriptOptions::memory_limit`].
    Memory,
    /// A text of its result contains U+0000 or a lone surrogate.
    InvalidText,
    /// Its result is larger than [`ScriptOptions::max_result_bytes`], or nested too deep.
    TooLarge,
    /// No slot is free for it now, or the breaker of its version is open. The script is not at fault: its burst
    /// is to be deferred, see [`ScriptSession::deferral`](super::ScriptSession::deferral).
    Busy,
    /// Its session or its thread has ended.
    Closed,
}

/// What an evaluation ends with.
pub(crate) type EvaluationResult = Result<Evaluated, ScriptError>;

/// The error of an evaluation.
#[derive(Clone, Debug)]
pub struct ScriptError {
    /// The class of the failure.
    pub kind: ScriptErrorKind,
    /// A message for people; bounded, without U+0000.
    pub message: String,
    /// Line and column of the script, both from 1, if the error has a place in it.
    pub place: Option<(u32, u32)>,
}

impl ScriptError {
    pub(super) fn new(kind: ScriptErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            place: None,
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptError {}
