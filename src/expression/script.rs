//! JavaScript, as the rest of the crate sees it.
//!
//! A [`ScriptEngine`] owns a bounded pool of threads. A burst opens a [`ScriptSession`] and evaluates its scripts with
//! it, one [`ScriptScope`] each. What must hold, whatever a script does:
//!
//! - **A script ends.** When it has run for [`ScriptOptions::time_limit`] it is interrupted: in its own code, in a regular
//!   expression, in a sort, in a promise chain, in a getter that the conversion of its result calls. Should it sit in
//!   some native loop that does not look up, the caller gets its answer all the same, and the thread is replaced.
//! - **A script keeps no other one waiting.** One that takes longer than 50 ms goes on beside the others, in turns with
//!   those that take long as well; where there is no room for it, its burst is deferred ([`ScriptErrorKind::Busy`]).
//! - **A script fits.** Its heap, its stack and its result are bounded, and each bound has its own error kind.
//! - **A script is alone.** It sees its scope and the language, nothing of the host: no files, no network, no modules,
//!   no settings. Each session has a heap of its own, and what a script leaves in the global object is swept away
//!   before the next one of the same session. (Were it kept, a script would see it or not, depending on where a burst
//!   happened to end.)
//! - **A script changes nothing by itself.** Writes are collected and returned; if the script fails there are none.
//! - **No bad text gets out.** U+0000 and lone surrogates, which PostgreSQL cannot store, are refused
//!   ([`ScriptErrorKind::InvalidText`]).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};

use super::pool::{Pool, Seat};
use crate::id::{InstanceId, VersionId};

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
    /// What is known about the instance.
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

/// What a script has returned and asked for. Nothing of it has happened yet: the caller applies it.
#[derive(Clone, Debug, Default)]
pub struct ScriptResult {
    /// The value of the script; `undefined` is null.
    pub value: Value,
    /// The variables that it wrote, or whose value it changed in place, in the order of first use.
    pub variables_set: Vec<(String, Value)>,
    /// The new correlation id, if it called `setCorrelationId`; the inner `None` clears it.
    pub correlation_id_set: Option<Option<String>>,
    /// The new name of the instance, if it called `setWorkflowInstanceName`; the inner `None` clears it.
    pub name_set: Option<Option<String>>,
    /// The outcomes, if it called `setOutcome` or `setOutcomes`.
    pub outcomes: Option<Vec<String>>,
}

/// The bounds within which scripts run.
#[derive(Clone, Debug)]
pub struct ScriptOptions {
    /// Threads that take up scripts, at least 1. They start when first needed. Default: 2.
    pub threads: usize,
    /// Threads for scripts that have run for more than 50 ms; one definition has a quarter of them at most. They take turns:
    /// as many run at once as half of the processors, at least one. Each may have a heap of `memory_limit`. Default: 32.
    pub slow_threads: usize,
    /// How long one evaluation may run; the time that it waits for its turn does not count. Elsa's default is 30 s; ours is
    /// 5 s, because scripts do no I/O here.
    pub time_limit: Duration,
    /// Bytes of heap of one session. Default: 64 MiB.
    pub memory_limit: usize,
    /// Bytes of stack of one script. Default: 512 KiB, enough for some thousand nested calls.
    pub stack_limit: usize,
    /// Evaluations of each definition that may wait for each thread. When as many wait, `evaluate` waits for room.
    /// Default: 256.
    pub queue: usize,
    /// Heaps that each thread makes ahead while it has nothing to do, of some 260 KiB each. A session takes one, and nobody
    /// uses it again. To make one takes longer than most scripts. Default: 4.
    pub prepared: usize,
    /// Bytes of JSON that one evaluation may hand back: its value and its variables together. Default: 4 MiB.
    pub max_result_bytes: usize,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            threads: 2,
            slow_threads: 32,
            time_limit: Duration::from_secs(5),
            memory_limit: 64 << 20,
            stack_limit: 512 << 10,
            queue: 256,
            prepared: 4,
            max_result_bytes: 4 << 20,
        }
    }
}

/// Why a script has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptErrorKind {
    /// It is not JavaScript.
    Syntax,
    /// It threw, or returned what has no JSON form (a cycle).
    Thrown,
    /// It ran longer than [`ScriptOptions::time_limit`].
    Timeout,
    /// It wanted more than [`ScriptOptions::memory_limit`].
    Memory,
    /// A text that it handed back contains U+0000 or a lone surrogate.
    InvalidText,
    /// What it handed back is larger than [`ScriptOptions::max_result_bytes`], or nested too deep.
    TooLarge,
    /// There is no room for it now, or scripts of its version keep timing out. It is not to blame: what it belongs to is
    /// to be tried again, see [`ScriptSession::deferral`].
    Busy,
    /// Its session or its thread is gone.
    Closed,
}

/// Why a script has no result, in words.
#[derive(Clone, Debug)]
pub struct ScriptError {
    /// The class of the failure.
    pub kind: ScriptErrorKind,
    /// For a person; bounded, and free of U+0000.
    pub message: String,
}

impl ScriptError {
    pub(super) fn new(kind: ScriptErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptError {}

/// Runs scripts on a bounded pool of threads. Clones share the pool; it ends with the last of them and of their
/// sessions.
#[derive(Clone)]
pub struct ScriptEngine {
    pool: Arc<Pool>,
}

impl ScriptEngine {
    /// Makes an engine. No thread starts before the first evaluation.
    pub fn new(options: ScriptOptions) -> Self {
        Self {
            pool: Arc::new(Pool::new(options)),
        }
    }

    /// Heaps that are made ahead, and how many a script had to wait for.
    #[cfg(test)]
    pub(super) fn realms(&self) -> (usize, usize) {
        self.pool.realms()
    }

    /// Slow scripts that have a place, and those that wait for one.
    #[cfg(test)]
    pub(super) fn slow(&self) -> (usize, usize) {
        self.pool.slow()
    }

    /// For how long a burst of this version and instance must not begin: scripts of the version keep timing out, and the
    /// burst was deferred for one of those. None: it may begin.
    pub(crate) fn deferral(&self, version: &VersionId, instance: &InstanceId) -> Option<Duration> {
        self.pool.deferral(version.as_str(), instance.as_str())
    }

    /// Opens a session, which costs nothing before its first evaluation. One burst, one session.
    pub fn session(&self) -> ScriptSession {
        ScriptSession {
            seat: Pool::seat(&self.pool),
            deferral: OnceLock::new(),
        }
    }
}

impl fmt::Debug for ScriptEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptEngine").finish_non_exhaustive()
    }
}

/// The scripts of one burst: a heap of its own, on one thread, made at the first evaluation and freed when the session
/// is dropped. Dropping it while a script runs interrupts the script.
pub struct ScriptSession {
    seat: Seat,
    deferral: OnceLock<Duration>,
}

impl ScriptSession {
    /// Evaluates a script: an expression, a program (its value is that of its last expression statement), or a program
    /// with `return` outside of any function. A promise is awaited.
    ///
    /// After a time-out or out of memory the session's heap is thrown away, and the next evaluation gets a fresh one.
    /// Cancellation safe: dropping the future interrupts the script, and nothing that it did remains.
    ///
    /// # Errors
    /// See [`ScriptErrorKind`].
    pub async fn evaluate(&self, script: &str, scope: ScriptScope) -> Result<ScriptResult, ScriptError> {
        let version = scope.workflow.definition_version_id.clone();
        let result = self.seat.evaluate(script, scope).await;
        if result.as_ref().is_err_and(|error| error.kind == ScriptErrorKind::Busy) {
            self.deferral.get_or_init(|| self.seat.pause(&version));
        }
        result
    }

    /// Once an evaluation was answered with [`ScriptErrorKind::Busy`]: for how long the burst is to be deferred.
    pub fn deferral(&self) -> Option<Duration> {
        self.deferral.get().copied()
    }
}

impl fmt::Debug for ScriptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSession").finish_non_exhaustive()
    }
}
