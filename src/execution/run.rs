//! A burst in progress: the loop that takes work items until nothing is left to do but wait.
//!
//! - Work items stand in a queue; one activity runs at a time, so that what "parallel" branches do is one sequence.
//! - What an activity commands is carried out after it has returned (`commands`), and what follows from that (completion,
//!   cancellation, faults) is in `transitions`. A parent is not called from within its child's call: the news goes
//!   through `notices`, which are all delivered before the next work item. So nothing here recurses.
//! - Between two work items the state is whole and could be committed: that is where a burst yields.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use serde_json::{Map, Value};

use super::commit_strategy::Around;
use super::evaluate::Evaluator;
use super::options::InterpreterOptions;
use super::program::{Program, WORKFLOW_ID};
use super::record::{Note, Record};
use super::scope;
use super::state::{Context, ContextStatus, InstanceState, WorkItem};
use super::status::{Status, SubStatus};
use super::time_limit;
use super::value::admit;
use crate::activity::{
    ActivityCommands, ActivityContext, ActivityNode, Child, ChildStatus, EndedChild, Fault, InputEvaluator, Resumption,
    Step,
};
use crate::expression::ScriptSession;

pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    pub(super) options: &'p InterpreterOptions,
    pub(super) session: ScriptSession,
    pub(super) state: InstanceState,
    pub(super) attempt: u32,
    /// When it began, by the clock that timers are due by.
    pub(super) began_at: DateTime<Utc>,
    pub(super) notices: VecDeque<Notice>,
    pub(super) record: Record,
    pub(super) executed: usize,
    /// Something happened that is not committed.
    pub(super) is_dirty: bool,
    /// The activity that was just executed is to be committed.
    pub(super) commits_now: bool,
    pub(super) yielded: bool,
    /// The burst has a cancel to carry out: nothing runs before it.
    pub(super) doomed: bool,
    /// What is wrong with the values that the instance was to begin with.
    pub(super) refused: Option<Fault>,
}

/// News for an execution about one of its children.
pub(super) struct Notice {
    pub(super) to: u64,
    pub(super) child: EndedChild,
    pub(super) was_cancelled: bool,
}

enum Call {
    Execute,
    Resume(Resumption),
    Completed(EndedChild),
    Cancelled(EndedChild),
}

impl Run<'_> {
    /// Runs until there is nothing left to run, or enough was run.
    pub(super) async fn drain(&mut self) {
        self.state.sub_status = match self.state.status {
            Status::Running => SubStatus::Executing,
            Status::Finished => self.state.sub_status,
        };
        loop {
            while let Some(notice) = self.notices.pop_front() {
                if self.session.deferral().is_some() {
                    return;
                }
                let call = if notice.was_cancelled {
                    Call::Cancelled(notice.child)
                } else {
                    Call::Completed(notice.child)
                };
                self.call(notice.to, call).await;
            }
            // What this burst has done is thrown away: it does no more.
            let is_deferred = self.session.deferral().is_some();
            if is_deferred || self.state.status == Status::Finished || self.state.queue.is_empty() {
                return;
            }
            let is_enough = self.executed >= self.options.activities_per_burst
                || self.record.weight >= self.options.bytes_per_burst;
            if is_enough || self.is_commit_due() {
                self.yielded = true;
                return;
            }
            if let Some(item) = self.state.queue.pop_front() {
                self.executed += 1;
                self.is_dirty = true;
                self.commits_now = self.around(&item).after;
                self.work(item).await;
            }
        }
    }

    /// Whether the strategies of the workflow and of its activities ask for a commit before the next work item.
    fn is_commit_due(&self) -> bool {
        let begun = self.record.began.elapsed();
        let strategy = self.program.commits;
        let before = self
            .state
            .queue
            .front()
            .is_some_and(|next| next.context.is_none() && self.around(next).before);
        self.is_dirty
            && (self.commits_now || before || strategy.is_due(self.executed, begun, self.options.commit_period))
    }

    fn around(&self, item: &WorkItem) -> Around {
        // The workflow itself is no activity that anybody gave a strategy.
        let node = self
            .program
            .tree
            .find(&item.node_id)
            .filter(|node| node.id != WORKFLOW_ID);
        let around = |node: &ActivityNode| {
            let descriptor = self.program.descriptor(node.index);
            let is_container = descriptor.is_some_and(|descriptor| descriptor.is_container);
            self.program.commits.around(node, is_container)
        };
        node.map(around).unwrap_or_default()
    }

    async fn work(&mut self, mut item: WorkItem) {
        let Some(number) = item.context else {
            return self.begin(item).await;
        };
        if self
            .state
            .contexts
            .get(&number)
            .is_none_or(|context| context.status != ContextStatus::Running)
        {
            return;
        }
        let resumption = item.resumption();
        self.record
            .note(self.program, &mut self.state, number, "Resumed", Note::default());
        self.call(number, Call::Resume(resumption)).await;
    }

    async fn begin(&mut self, item: WorkItem) {
        let Some(node) = self.program.tree.find(&item.node_id) else {
            return;
        };
        let (number, id) = self.state.next_execution();
        let mut variables = scope::defaults(&node.variables);
        for (name, value) in item.variables {
            let declared = node.variables.iter().find(|variable| variable.name == name);
            variables.insert(name, scope::fit(value, declared));
        }
        if let Err(fault) = self.admit_all(&variables) {
            self.refused = Some(fault);
            variables.clear();
        }
        self.state.contexts.insert(
            number,
            Context {
                id,
                node_id: item.node_id,
                parent: item.owner,
                status: ContextStatus::Running,
                properties: Map::new(),
                variables,
                inputs: Map::new(),
                outputs: Map::new(),
                tag: item.tag,
                is_breaking: false,
                faults: 0,
            },
        );
        self.record.begin(self.program, &self.state, number);
        let evaluated = self.evaluate_inputs(number, node).await;
        let inputs = self
            .state
            .contexts
            .get(&number)
            .map(|context| context.inputs.clone())
            .unwrap_or_default();
        let note = Note {
            activity_state: Some(Value::Object(inputs)),
            ..Note::default()
        };
        self.record.note(self.program, &mut self.state, number, "Started", note);
        self.state.since_wait += 1;
        if let Some(fault) = self.excess() {
            return self.fault(number, fault);
        }
        if let Some(fault) = self.refused.take() {
            return self.fault(number, fault);
        }
        match evaluated {
            Ok(()) => self.call(number, Call::Execute).await,
            Err(fault) => self.fault(number, fault),
        }
    }

    /// What the instance has too much of.
    fn excess(&self) -> Option<Fault> {
        let (without_wait, open) = (self.options.executions_without_wait, self.options.open_executions);
        let message = if self.state.since_wait > without_wait {
            format!(
                "The instance has executed {without_wait} activities without ever waiting: this looks like an endless loop"
            )
        } else if self.state.contexts.len() > open {
            format!(
                "More than {open} activities of the instance are under way at once: does a loop fork in each round?"
            )
        } else {
            return None;
        };
        Some(Fault::new(message).code("execution-limit"))
    }

    /// Evaluates the inputs of a new execution in their order; each sees what scripts of earlier ones have set.
    async fn evaluate_inputs(&mut self, number: u64, node: &ActivityNode) -> Result<(), Fault> {
        for input in node.inputs.iter().filter(|input| !input.is_lazy) {
            let evaluator = Evaluator {
                program: self.program,
                state: &self.state,
                session: &self.session,
                context: number,
            };
            let evaluated = evaluator.input(input).await?;
            admit(
                &format!("The input {}", input.name),
                &evaluated.value,
                self.options.max_value_bytes,
            )?;
            self.apply_script(number, evaluated.changes)?;
            if let Some(context) = self.state.contexts.get_mut(&number) {
                context.inputs.insert(input.name.clone(), evaluated.value);
            }
        }
        Ok(())
    }

    /// Calls an activity and applies its commands.
    async fn call(&mut self, number: u64, call: Call) {
        let Some(context) = self.state.contexts.get_mut(&number) else {
            return;
        };
        if context.status != ContextStatus::Running {
            return;
        }
        let Some(node) = self.program.tree.find(&context.node_id) else {
            return;
        };
        let Some(activity) = self.program.activity(node.index) else {
            let message = format!(
                "The activity type {} (version {}) is not known here",
                node.type_name, node.version
            );
            return self.fault(number, Fault::new(message).code("unknown-activity-type"));
        };
        let trigger_payload = match (&mut self.state.trigger, &call) {
            (Some(trigger), Call::Execute) if !trigger.is_consumed && trigger.activity_id.as_str() == node.id => {
                trigger.is_consumed = true;
                Some(trigger.payload.clone())
            }
            _ => None,
        };
        let properties = std::mem::take(&mut context.properties);
        let evaluator = Evaluator {
            program: self.program,
            state: &self.state,
            session: &self.session,
            context: number,
        };
        let Some(mut view) = self.view(number, node, &evaluator) else {
            return;
        };
        view.trigger_payload = trigger_payload;
        view.properties = properties;
        let result = {
            let view = &mut view;
            let calling = async move {
                match call {
                    Call::Execute => activity.execute(view).await,
                    Call::Resume(resumption) => activity.resumed(view, resumption).await,
                    Call::Completed(child) => activity.child_completed(view, child).await,
                    Call::Cancelled(child) => activity.child_cancelled(view, child).await,
                }
            };
            let limit = || time_limit::of(node, self.program.descriptor(node.index), self.options.activity_timeout);
            // Around the limit: a call that panics when it is dropped faults, too.
            AssertUnwindSafe(time_limit::within(node, limit, calling))
                .catch_unwind()
                .await
        };
        let properties = std::mem::take(&mut view.properties);
        let changed_properties = std::mem::take(&mut view.changed_properties);
        let commands = std::mem::take(&mut view.commands);
        drop(view);
        if let Some(context) = self.state.contexts.get_mut(&number) {
            context.properties = properties;
        }
        match result {
            Ok(Ok(step)) => self.follow(number, &changed_properties, commands, step),
            Ok(Err(fault)) => self.fault(number, fault),
            Err(panic) => self.fault(number, Fault::new(panic_message(&*panic)).code("panic")),
        }
    }

    fn follow(&mut self, number: u64, changed_properties: &[String], commands: ActivityCommands, step: Step) {
        let outcomes = match &step {
            Step::Outcomes(outcomes) => {
                admit("The outcomes", &outcomes.clone().into(), self.options.max_value_bytes).map(drop)
            }
            Step::Done | Step::Wait => Ok(()),
        };
        let admitted = outcomes.and_then(|()| self.admit_properties(number, changed_properties));
        if let Err(fault) = admitted.and_then(|()| self.apply_commands(number, commands)) {
            return self.fault(number, fault);
        }
        match step {
            Step::Done => self.complete(number, vec!["Done".to_owned()]),
            Step::Outcomes(outcomes) => self.complete(number, outcomes),
            Step::Wait => {
                self.record.touch(self.program, &self.state, number);
                let Some(context) = self.state.contexts.get(&number) else {
                    return;
                };
                let waits = self
                    .state
                    .bookmarks
                    .iter()
                    .any(|bookmark| bookmark.activity_execution_id == context.id);
                if waits && context.status == ContextStatus::Running {
                    self.record
                        .note(self.program, &mut self.state, number, "Suspended", Note::default());
                }
            }
        }
    }

    fn admit_properties(&self, number: u64, names: &[String]) -> Result<(), Fault> {
        let Some(context) = self.state.contexts.get(&number) else {
            return Ok(());
        };
        for name in names {
            let value = context.properties.get(name).unwrap_or(&Value::Null);
            admit(&format!("The property {name}"), value, self.options.max_value_bytes)?;
        }
        Ok(())
    }

    pub(super) fn admit_all(&self, values: &Map<String, Value>) -> Result<(), Fault> {
        for (name, value) in values {
            admit("A name", &Value::String(name.clone()), 1024)?;
            admit(&format!("The value of {name}"), value, self.options.max_value_bytes)?;
        }
        Ok(())
    }

    fn view<'v>(
        &'v self,
        number: u64,
        node: &'v ActivityNode,
        evaluator: &'v dyn InputEvaluator,
    ) -> Option<ActivityContext<'v>> {
        let context = self.state.contexts.get(&number)?;
        let may_have_children = !node.ports.is_empty() || !node.activities.is_empty();
        let children = if may_have_children {
            self.children(number)
        } else {
            Vec::new()
        };
        Some(ActivityContext {
            node,
            tree: &self.program.tree,
            evaluator,
            console: &*self.options.console,
            inputs: &context.inputs,
            instance_id: &self.state.instance_id,
            execution_id: &context.id,
            attempt: self.attempt,
            now: self.now(),
            trigger_activity_id: self.state.trigger.as_ref().map(|trigger| trigger.activity_id.as_str()),
            trigger_payload: None,
            is_breaking: context.is_breaking,
            children,
            pending_notices: self.notices.iter().filter(|notice| notice.to == number).count(),
            properties: Map::new(),
            changed_properties: Vec::new(),
            commands: ActivityCommands::default(),
        })
    }

    /// What time it is.
    fn now(&self) -> DateTime<Utc> {
        let passed = TimeDelta::from_std(self.record.began.elapsed()).unwrap_or_default();
        self.began_at.checked_add_signed(passed).unwrap_or(self.began_at)
    }

    fn children(&self, number: u64) -> Vec<Child> {
        let begun = self
            .state
            .contexts
            .values()
            .filter(|context| context.parent == Some(number))
            .filter_map(|context| {
                let status = match context.status {
                    ContextStatus::Running => ChildStatus::Running,
                    ContextStatus::Faulted => ChildStatus::Faulted,
                    ContextStatus::Completed | ContextStatus::Canceled => return None,
                };
                Some((&context.node_id, status))
            });
        let scheduled = self
            .state
            .queue
            .iter()
            .filter(|item| item.context.is_none() && item.owner == Some(number));
        let scheduled = scheduled.map(|item| (&item.node_id, ChildStatus::Scheduled));
        let known = begun.chain(scheduled).filter_map(|(node_id, status)| {
            let index = self.program.tree.find(node_id)?.index;
            Some(Child { index, status })
        });
        known.collect()
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("The activity panicked: {}", text.unwrap_or("without a message"))
}
