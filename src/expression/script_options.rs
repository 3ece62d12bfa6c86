//! The limits of scripts, and what they read of the host.

use std::time::Duration;

use super::named_values::NamedValues;
use super::resume_links::ResumeLinks;

/// The bounds within which scripts run.
#[derive(Clone, Debug)]
pub struct ScriptOptions {
    /// Threads that serve queues of scripts, at least 1. They start when first needed. Default: 2.
    pub threads: usize,
    /// Threads for scripts that have run for more than 50 ms; one definition gets at most a quarter of them. They run
    /// in time slices, on half of the processors at once, but on at least one. Each may have a heap of `memory_limit`.
    /// Default: 32.
    pub slow_threads: usize,
    /// How long one evaluation may run; the time that it waits does not count. Default: 5 s (Elsa's is 30 s), because
    /// scripts do no I/O here.
    pub time_limit: Duration,
    /// Bytes of heap of one script. Default: 64 MiB.
    pub memory_limit: usize,
    /// Bytes of all scripts that run at once. Each may take `memory_limit`, so this bounds `slow_threads`, and the slots of
    /// long scripts in C# and Liquid: a quarter of all, at most 8. A script for which no room is left waits, or its burst is
    /// deferred. Default: 2,752 MiB, enough for the defaults of the others.
    pub total_memory: usize,
    /// Bytes of stack of one script. Default: 512 KiB, enough for some thousand nested calls.
    pub stack_limit: usize,
    /// Evaluations of each definition that a thread's queue holds. When it is full, `evaluate` waits. Default: 256.
    pub queue: usize,
    /// Bytes of JSON that one evaluation may return: its value and its variables together. Default: 4 MiB.
    pub max_result_bytes: usize,
    /// What `getConfig` and `getSecret` return. Default: nothing.
    pub named: NamedValues,
    /// What makes resume links. An engine sets this at its start.
    pub links: ResumeLinks,
}

/// The most slots for long scripts of languages that count steps.
const MOST_SLOTS: usize = 8;

impl ScriptOptions {
    /// How many scripts have room at once.
    fn heaps(&self) -> usize {
        self.total_memory / self.memory_limit.max(1)
    }

    /// How many long scripts of languages that count steps have a slot.
    pub(super) fn slots(&self) -> usize {
        (self.heaps() / 4).clamp(1, MOST_SLOTS)
    }

    /// How many slow scripts of JavaScript can have a whole heap beside those of the queues and so many others.
    pub(super) fn slow_heaps(&self, others: usize) -> usize {
        self.heaps().saturating_sub(self.threads.max(1) + self.slots() + others)
    }
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            threads: 2,
            slow_threads: 32,
            time_limit: Duration::from_secs(5),
            memory_limit: 64 << 20,
            total_memory: 2752 << 20,
            stack_limit: 512 << 10,
            queue: 256,
            max_result_bytes: 4 << 20,
            named: NamedValues::default(),
            links: ResumeLinks::default(),
        }
    }
}
