//! The input and the result of the evaluation of a script, its limits and its errors.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::declared_kinds::DeclaredKinds;
use super::resume_links::{LinkOwner, LinkRequest, LinkSource};

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
    /// Those of them that have a function in JavaScript only where no variable has one of the same name.
    pub covered_inputs: HashSet<String>,
    /// The outputs of activities, by activity id and again by activity name: an object from output name to value each.
    pub outputs: Map<String, Value>,
    /// The ids and names of the workflow's activities; without any, `getOutputFrom` takes every name.
    pub activities: Arc<HashSet<String>>,
    /// The variables and inputs whose texts are dates, lengths of time or bytes to JavaScript.
    pub kinds: DeclaredKinds,
    /// The result of the activity that completed last.
    pub last_result: Option<Value>,
    /// `getSecret` refuses, because a reader of the result may not be allowed to see secrets.
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
    /// From what its resume links are derived; without it no script makes any.
    pub links: Option<LinkSource>,
}

impl WorkflowFacts {
    /// What makes the links of a script.
    pub(super) fn link_owner(&self) -> LinkOwner<'_> {
        LinkOwner {
            instance: &self.instance_id,
            source: self.links,
        }
    }
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
    /// The evaluation has read a secret, which the value and the changes may contain.
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
    /// The resume links that it made, in order.
    pub(crate) links: Vec<LinkRequest>,
}

/// Why a script has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptErrorKind {
    /// It is not a valid script of its language.
    Syntax,
    /// It threw or failed, or returned a value without a JSON form (a cycle).
    Thrown,
    /// It ran longer than [`ScriptOptions::time_limit`](super::ScriptOptions::time_limit).
    Timeout,
    /// It needs more than [`ScriptOptions::memory_limit`](super::ScriptOptions::memory_limit).
    Memory,
    /// A text of its result contains U+0000, or, in C#, half of a surrogate pair.
    InvalidText,
    /// Its result is larger than [`ScriptOptions::max_result_bytes`](super::ScriptOptions::max_result_bytes), or nested
    /// too deeply.
    TooLarge,
    /// No slot is free for it now, or the breaker of its version is open. The script is not at fault: its burst
    /// is to be deferred, see [`ScriptSession::deferral`](super::ScriptSession::deferral).
    Busy,
    /// Its session or its thread has ended.
    Closed,
}

/// The outcome of an evaluation.
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
        // The messages of some languages have it, at their beginning or within.
        if let Some((line, column)) = self.place {
            let place = format!("line {line}, column {column}");
            let mut found = self.message.match_indices(&place);
            let is_whole = |(at, _): (usize, &str)| {
                let behind = self
                    .message
                    .get(at + place.len()..)
                    .and_then(|rest| rest.chars().next());
                !behind.is_some_and(|character| character.is_ascii_digit())
            };
            if !found.any(is_whole) {
                write!(f, "{place}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptError {}
