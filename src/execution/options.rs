//! The bounds of the interpreter, and what it writes to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::activity::{Console, Stdout};
use crate::expression::ScriptOptions;

/// How far a burst may go.
#[derive(Clone)]
pub struct InterpreterOptions {
    /// Activities that one burst executes before it yields. Default: 1000.
    pub activities_per_burst: usize,
    /// Bytes of journal (about) that one burst gathers before it yields. Default: 4 MiB.
    pub bytes_per_burst: usize,
    /// How often a burst commits whose workflow asks for it periodically. Default: 10 s.
    pub commit_period: Duration,
    /// Activities that an instance executes without ever waiting, over all its bursts, before it is taken for an
    /// endless loop and faulted. Default: 100,000.
    pub executions_without_wait: u64,
    /// Executions of activities that an instance may have begun and not ended; one more faults. A loop that forks in
    /// each round grows without ever being endless. Default: 10,000.
    pub open_executions: usize,
    /// Bytes of JSON of one value that enters state or journal; a larger one faults its activity. Default: 1 MiB.
    pub max_value_bytes: usize,
    /// How long one call of an activity may take before it is dropped and its execution faults, unless its type
    /// ([`Descriptor::timeout`](crate::activity::Descriptor::timeout)) or the definition (its custom property
    /// `activityTimeout`) says otherwise. What an activity waits for at a bookmark does not count. Default: 10 minutes.
    pub activity_timeout: Duration,
    /// Where `Elsa.WriteLine` writes. Default: standard output.
    pub console: Arc<dyn Console>,
    /// The bounds of scripts.
    pub script: ScriptOptions,
}

impl Default for InterpreterOptions {
    fn default() -> Self {
        Self {
            activities_per_burst: 1000,
            bytes_per_burst: 4 << 20,
            commit_period: Duration::from_secs(10),
            executions_without_wait: 100_000,
            open_executions: 10_000,
            max_value_bytes: 1 << 20,
            activity_timeout: Duration::from_secs(600),
            console: Arc::new(Stdout),
            script: ScriptOptions::default(),
        }
    }
}

impl fmt::Debug for InterpreterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterpreterOptions")
            .field("activities_per_burst", &self.activities_per_burst)
            .field("bytes_per_burst", &self.bytes_per_burst)
            .field("commit_period", &self.commit_period)
            .field("executions_without_wait", &self.executions_without_wait)
            .field("open_executions", &self.open_executions)
            .field("max_value_bytes", &self.max_value_bytes)
            .field("activity_timeout", &self.activity_timeout)
            .finish_non_exhaustive()
    }
}
