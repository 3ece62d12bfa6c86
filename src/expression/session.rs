//! The engine that runs scripts, and the session of a burst.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::javascript::{PoolSession, ScriptPool};
use super::named_values::NamedValues;
use super::processor::{LongScripts, RunningScript, ScriptOwner, Turns};
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope, WorkflowFacts};
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

    /// For how long a burst of this version and instance must not begin: the breaker of the version is open, and
    /// the burst was deferred before. None: it may begin.
    pub(crate) fn deferral(&self, version: &VersionId, instance: &InstanceId) -> Option<Duration> {
        self.pool.deferral(version.as_str(), instance.as_str())
    }

    /// Returns when eight threads hang in scripts that cannot be interrupted: the process is to end, so that others run what is
    /// left. Cancellation safe.
    pub(crate) async fn exhausted(&self) {
        self.pool.exhausted().cancelled().await;
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
    /// Evaluates a script: an expression, a program (its value is that of its last expression statement), or a program
    /// with `return` outside of any function. A promise is awaited.
    ///
    /// No evaluation sees anything of another one.
    /// Cancellation safe: dropping the future interrupts the script, and nothing of it remains.
    ///
    /// # Errors
    /// See [`ScriptErrorKind`].
    pub async fn evaluate(&self, script: &str, scope: ScriptScope) -> Result<ScriptResult, ScriptError> {
        let version = scope.workflow.definition_version_id.clone();
        let result = self.inner.evaluate(script, scope).await;
        if result.as_ref().is_err_and(|error| error.kind == ScriptErrorKind::Busy) {
            self.deferral.get_or_init(|| self.inner.pause(&version));
        }
        result
    }

    /// The turns of long scripts, in whatever language.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.inner.long().turns
    }

    /// The limits of scripts in other languages.
    pub(crate) fn options(&self) -> &ScriptOptions {
        self.inner.options()
    }

    /// Begins a long script of another language. None: the burst is to be deferred, as the breaker of the version is open.
    pub(crate) fn begin_long(&self, facts: &WorkflowFacts) -> Option<RunningScript> {
        let begun = LongScripts::begin(self.inner.long(), &ScriptOwner::of(facts));
        if begun.is_none() {
            self.deferral
                .get_or_init(|| self.inner.pause(&facts.definition_version_id));
        }
        begun
    }

    /// Reports to the breaker of a version how a long script of another language ended.
    pub(crate) fn long_ended(&self, facts: &WorkflowFacts, has_timed_out: bool) {
        let (breakers, owner) = (&self.inner.long().breakers, ScriptOwner::of(facts));
        if has_timed_out {
            breakers.timed_out(&owner);
        } else {
            breakers.succeeded(&owner);
        }
    }

    /// What the operator lets expressions read.
    pub(crate) fn named(&self) -> &NamedValues {
        &self.inner.options().named
    }

    /// The burst is to be deferred: a template found no slot.
    pub(crate) fn defer(&self, pause: Duration) {
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
