//! The engine that runs scripts, and the session of a burst.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mainspring_language::Steps;

use super::javascript::{PoolSession, ScriptPool};
use super::named_values::NamedValues;
use super::processor::{LongScripts, ScriptOwner};
use super::script::{EvaluationResult, ScriptErrorKind, ScriptScope, WorkflowFacts};
use super::script_options::ScriptOptions;
use crate::id::{InstanceId, VersionId};

/// Runs scripts on a bounded pool of threads. Clones share the pool, which ends with the last clone and session.
#[derive(Clone)]
pub struct ScriptEngine {
    pool: Arc<ScriptPool>,
}

impl ScriptEngine {
    /// Makes an engine. No thread starts before the first evaluation.
    pub fn new(options: ScriptOptions) -> Self {
        Self {
            pool: Arc::new(ScriptPool::new(options)),
        }
    }

    /// Heaps that a script had to wait for.
    #[cfg(test)]
    pub(super) fn realms(&self) -> usize {
        self.pool.realms()
    }

    /// Slow scripts that have a slot, and those that wait for one.
    #[cfg(test)]
    pub(super) fn slow(&self) -> (usize, usize) {
        self.pool.slow()
    }

    /// Scripts of languages that count steps which have a slot.
    #[cfg(test)]
    pub(super) fn long(&self) -> usize {
        self.pool.slow.options.slots() - self.pool.slow.long.free_slots()
    }

    /// Threads that hang in native code.
    #[cfg(test)]
    pub(super) fn hanging(&self) -> usize {
        self.pool.slow.hanging()
    }

    /// For how long a burst of this version and instance must not begin: the breaker of the version is open, and
    /// the burst was deferred before. None: it may begin.
    pub(crate) fn deferral(&self, version: &VersionId, instance: &InstanceId) -> Option<Duration> {
        self.pool.deferral(version.as_str(), instance.as_str())
    }

    /// Returns when eight threads hang in scripts that cannot be interrupted: the process is to end, so that others run what is
    /// left. Cancellation safe.
    pub(crate) async fn exhausted(&self) {
        self.pool.slow.exhausted.cancelled().await;
    }

    /// Opens a session: one per burst. It uses no resources before its first evaluation.
    pub fn session(&self) -> ScriptSession {
        ScriptSession {
            inner: ScriptPool::open_session(&self.pool),
            deferral: OnceLock::new(),
        }
    }
}

impl fmt::Debug for ScriptEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptEngine").finish_non_exhaustive()
    }
}

/// The scripts of one burst, on one queue. Dropping it while a script runs interrupts the script.
pub struct ScriptSession {
    inner: PoolSession,
    deferral: OnceLock<Duration>,
}

impl ScriptSession {
    /// Evaluates JavaScript: an expression, a program (its value is that of its last expression statement), or a program
    /// with `return` outside of any function. A promise is awaited.
    ///
    /// No evaluation sees anything of another one.
    /// Cancellation safe: dropping the future interrupts the script, and nothing of it remains.
    ///
    /// # Errors
    /// See [`ScriptErrorKind`].
    pub async fn evaluate(&self, script: &str, scope: ScriptScope) -> EvaluationResult {
        let version = scope.workflow.definition_version_id.clone();
        let result = self.inner.evaluate(script, scope).await;
        self.noting_deferral(&version, result)
    }

    /// Runs a script that counts its steps, for long: see [`LongScripts::run`].
    pub(super) async fn run_long<W>(
        &self,
        language: &'static str,
        facts: &WorkflowFacts,
        stack: Option<usize>,
        prepare: impl FnOnce() -> W,
    ) -> EvaluationResult
    where
        W: FnOnce(&dyn Steps) -> EvaluationResult + Send + 'static,
    {
        let owner = ScriptOwner::of(facts);
        let running = LongScripts::run(&self.inner.pool.slow.long, owner, language, stack, prepare);
        let result = self.inner.supervising(running).await;
        self.noting_deferral(&facts.definition_version_id, result)
    }

    fn noting_deferral(&self, version: &str, result: EvaluationResult) -> EvaluationResult {
        if result.as_ref().is_err_and(|error| error.kind == ScriptErrorKind::Busy) {
            self.defer(self.inner.pause(version));
        }
        result
    }

    /// The limits of scripts.
    pub(super) fn options(&self) -> &ScriptOptions {
        &self.inner.pool.slow.options
    }

    /// What the operator lets expressions read.
    pub(crate) fn named(&self) -> &NamedValues {
        &self.options().named
    }

    /// The burst is to be deferred: a script found no slot. The first one counts.
    pub(super) fn defer(&self, pause: Duration) {
        self.deferral.get_or_init(|| pause);
    }

    /// After an evaluation that ended with [`ScriptErrorKind::Busy`]: for how long the burst is to be deferred.
    pub fn deferral(&self) -> Option<Duration> {
        self.deferral.get().copied()
    }
}

impl fmt::Debug for ScriptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSession").finish_non_exhaustive()
    }
}
