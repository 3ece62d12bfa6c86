//! Scripts of other languages that run for long: the breakers count them, and an open one bounds them, as it does for
//! JavaScript.

use std::sync::Arc;

use super::slow_scripts::SlowScripts;
use super::task::TaskHandle;

/// A long script of another language, while it runs.
pub(crate) struct LongScript {
    slow: Arc<SlowScripts>,
    handle: Arc<TaskHandle>,
}

impl LongScript {
    /// None: the breaker of its version is open, and another slow script of the version runs.
    pub(super) fn begin(slow: &Arc<SlowScripts>, handle: TaskHandle) -> Option<Self> {
        let handle = Arc::new(handle);
        if slow.begin_long(&handle) {
            let slow = Arc::clone(slow);
            return Some(Self { slow, handle });
        }
        slow.breakers.record_deferred(&handle);
        slow.report_deferred();
        None
    }
}

impl Drop for LongScript {
    fn drop(&mut self) {
        self.slow.end_long(&self.handle);
    }
}

#[cfg(test)]
mod tests {
    use crate::expression::{ScriptEngine, ScriptOptions, WorkflowFacts};

    #[test]
    fn an_open_breaker_lets_one_run_at_a_time() {
        let engine = ScriptEngine::new(ScriptOptions::default());
        let facts = |version: &str| WorkflowFacts {
            definition_version_id: version.to_owned(),
            ..WorkflowFacts::default()
        };
        let (bad, good) = (facts("bad"), facts("good"));
        let session = engine.session();
        assert!(session.begin_long(&bad).is_some() && session.begin_long(&bad).is_some());
        for _ in 0..5 {
            session.long_ended(&bad, true);
        }
        let first = session.begin_long(&bad);
        assert!(first.is_some() && session.deferral().is_none());
        assert!(session.begin_long(&good).is_some());
        assert!(session.begin_long(&bad).is_none());
        assert!(session.deferral().is_some());
        drop(first);
        let next = session.begin_long(&bad);
        assert!(next.is_some());
        session.long_ended(&bad, false);
        assert!(session.begin_long(&bad).is_some(), "closed");
    }
}
