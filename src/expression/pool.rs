//! The bounded threads on which scripts run.
use std::sync::Arc;

use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope};

pub(super) struct Pool {
    options: ScriptOptions,
}

pub(super) struct Seat {
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(options: ScriptOptions) -> Self {
        Self { options }
    }

    pub(super) fn seat(pool: &Arc<Self>) -> Seat {
        Seat { pool: Arc::clone(pool) }
    }
}

impl Seat {
    pub(super) async fn evaluate(&self, _script: &str, _scope: ScriptScope) -> Result<ScriptResult, ScriptError> {
        let _ = self.pool.options.threads;
        Err(ScriptError::new(ScriptErrorKind::Closed, "scripts cannot run yet"))
    }
}
