//! One activity alone, in an instance that exists only for it.
//!
//! Its containers have executions, so that it sees their variables. These have ended: nothing calls them, and what follows
//! the activity in the workflow does not run.

use std::time::Duration;

use serde_json::{Map, Value};

use super::BurstRun;
use crate::activity::Fault;
use crate::execution::scope;
use crate::execution::state::{Context, ContextStatus, WorkItem};
use crate::execution::status::SubStatus;

impl BurstRun<'_> {
    /// Runs the activity with this node id, and what it contains, until it waits, ends, exceeds a bound of a burst or the
    /// time limit. `variables` are values of the workflow's variables by name. Returns the number of its execution.
    pub(in crate::execution) async fn run_alone(
        &mut self,
        node_id: &str,
        variables: Map<String, Value>,
        time_limit: Duration,
    ) -> u64 {
        self.state.sub_status = SubStatus::Executing;
        let mut owner = None;
        let mut given = Some(variables);
        for (end, _) in node_id.match_indices(':') {
            let container = node_id.get(..end).and_then(|path| self.program.tree.find(path));
            let Some(container) = container else { continue };
            let mut variables = scope::defaults(&container.variables);
            variables.extend(given.take().unwrap_or_default());
            let (number, id) = self.state.next_execution();
            let context = Context {
                status: ContextStatus::Completed,
                ..Context::new(id, container.node_id.clone(), owner, variables)
            };
            self.state.contexts.insert(number, context);
            owner = Some(number);
        }
        self.state.queue.push_back(WorkItem {
            node_id: node_id.to_owned(),
            cause: None,
            owner,
            scheduled_after: None,
            context: None,
            variables: given.unwrap_or_default(),
            invalid: None,
            tag: None,
            payload: None,
            input: Map::new(),
        });
        let number = self.state.counter + 1;
        if tokio::time::timeout(time_limit, self.run_to_bound()).await.is_err() {
            let message = format!("The activity did not end within {time_limit:?}");
            self.fault(number, Fault::new(message).code("activity-timeout"));
        }
        number
    }

    /// Runs work items as [`BurstRun::run_queue`] does, without the pauses for commits.
    async fn run_to_bound(&mut self) {
        loop {
            let before = self.executed;
            self.run_queue().await;
            let is_at_bound = self.executed >= self.options.activities_per_burst
                || self.recorder.bytes >= self.options.bytes_per_burst;
            if !self.yielded || is_at_bound || self.executed == before {
                return;
            }
            self.yielded = false;
            self.is_dirty = false;
        }
    }
}
