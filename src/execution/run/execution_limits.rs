//! The limits of what an instance executes without waiting and at once. Each message names its setting, so that an
//! operator can raise it for a workflow that needs more.

use serde_json::Value;

use super::BurstRun;
use crate::activity::Fault;

impl BurstRun<'_> {
    /// The fault of an instance that exceeds a limit.
    pub(super) fn exceeded_limit(&self, number: u64) -> Option<Fault> {
        let (without_wait, open) = (self.options.executions_without_wait, self.options.open_executions);
        let message = if self.state.since_wait > without_wait {
            let found = format!(
                "The instance has executed {without_wait} activities without waiting, as many as the setting \
                 executions-without-wait allows"
            );
            match self.loop_over_items(number, 1) {
                Some(items) => format!(
                    "{found}: {items}; give it fewer items at a time, let its body wait, or start a workflow for each item with \
                     BulkDispatchWorkflows"
                ),
                None => format!("{found}: this looks like an endless loop"),
            }
        } else if self.state.contexts.len() > open {
            let found = format!(
                "More than {open} activities of the instance are executing at once, which the setting open-executions does not \
                 allow"
            );
            match self.loop_over_items(number, 1) {
                Some(items) => format!(
                    "{found}: {items}; give it fewer items at a time, by MainspringDegreeOfParallelism where it has that input"
                ),
                None => format!("{found}: does a loop fork in each iteration?"),
            }
        } else {
            return None;
        };
        Some(Fault::new(message).code("execution-limit"))
    }

    /// The fault of an instance that could not run what it schedules without waiting.
    pub(super) fn too_much_scheduled(&self, number: u64) -> Fault {
        let most = self.options.executions_without_wait;
        let found = format!(
            "More than {most} activities of the instance are scheduled at once, which the setting executions-without-wait \
             does not allow"
        );
        let message = match self.loop_over_items(number, 0) {
            Some(items) => format!("{found}: {items}; give it fewer items at a time, by MainspringDegreeOfParallelism"),
            None => format!("{found}: does a loop fork in each iteration?"),
        };
        Fault::new(message).code("execution-limit")
    }

    /// The innermost activity that goes through a list, and the length of the list, among an execution and its
    /// ancestors without the first ones.
    fn loop_over_items(&self, number: u64, without: usize) -> Option<String> {
        let chain = self.state.chain(number).into_iter().skip(without);
        chain.into_iter().find_map(|number| {
            let context = self.state.contexts.get(&number)?;
            let node = self.program.tree.find(&context.node_id)?;
            let listed = context.inputs.get("Items").and_then(Value::as_array).map(Vec::len);
            let started = context
                .properties
                .get("DispatchedInstancesCount")
                .and_then(Value::as_u64);
            let count = listed.map_or(started, |items| u64::try_from(items).ok())?;
            Some(format!(
                "the input Items of {} has {count} items",
                node.title().with_id()
            ))
        })
    }
}
