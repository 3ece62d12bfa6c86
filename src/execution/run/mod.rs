//! A burst in progress: the loop that takes work items from the queue until it is empty.
//!
//! - `instructions` turns instructions into work items. One activity runs at a time, so that "parallel" branches are
//!   executed in one sequence.
//! - `commands` carries out the commands of an activity after its call has returned, with `outputs`; `transitions`
//!   handles completion and cancellation, and `faults` handles faults and the guards around an activity. A parent is
//!   not called from within its child's call: it gets a notification, and all notifications are delivered before the
//!   next work item. So no recursion occurs.
//! - `retry` schedules faulted executions again, and `execution_limits` faults an instance that would run without end.
//! - `spans` tells of calls in the trace of the burst.
//! - `links` keeps the resume links that are made.
//! - `requests` ends the requests of clients that wait. `children` runs the child of an activity after its call; `activity_test` runs one activity alone.
//! - Between two work items the state is consistent and can be committed: a burst yields there.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use serde_json::{Map, Value};

use crate::activity::{
    ActivityCommands, ActivityContext, ActivityNode, ChildRequest, EndedChild, EventPublication, Fault, InputEvaluator,
    Resumption, Step,
};
use crate::error::panic_text;
use crate::execution::bounds::{self, InterpreterOptions, admit, admit_name};
use crate::execution::cause::Cause;
use crate::execution::child::{AwaitedChild, ChildStart, Children};
use crate::execution::evaluate::Evaluator;
use crate::execution::journal::{EntryDetails, Recorder};
use crate::execution::node_id::WORKFLOW_ID;
use crate::execution::program::Program;
use crate::execution::request::EndedRequest;
use crate::execution::scope;
use crate::execution::state::{Context, ContextStatus, InstanceState, WorkItem};
use crate::execution::status::{Status, SubStatus};
use crate::execution::workflow_options::CommitPoints;
use crate::expression::{CallLinks, ScriptSession};
use crate::spool::SpoolFile;
use crate::trace::{CurrentTrace, OpenSpan};
use faults::fault_of;

mod activity_test;
mod children;
mod commands;
mod execution_limits;
mod faults;
mod instructions;
mod links;
mod outputs;
mod requests;
mod retry;
mod secrets;
mod spans;
mod transitions;

pub(super) use instructions::LeftInstructions;
pub(super) use links::BurstLinks;
pub use retry::ActivityRetry;

pub(super) struct BurstRun<'p> {
    pub(super) program: &'p Program,
    pub(super) options: &'p InterpreterOptions,
    /// It yields before the next work item.
    pub(super) stops: &'p AtomicBool,
    pub(super) session: ScriptSession,
    pub(super) state: InstanceState,
    pub(super) definitions: &'p dyn Children,
    pub(super) attempt: u32,
    /// Rows of the lost burst that this one does not have follow.
    pub(super) is_followed: bool,
    pub(super) child_seed: i64,
    /// What has set off the current work; `None` when its row is unknown.
    pub(super) cause: Option<Cause>,
    /// How many things it has set off so far, and how many cancellations.
    pub(super) set_off: (u64, u64),
    /// The children that it starts.
    pub(super) children: Vec<ChildStart>,
    /// The children that ran in it, live, and are waited for.
    pub(super) awaited: Vec<AwaitedChild>,
    /// A child could not be committed, or found no capacity for a script. The burst is discarded.
    pub(super) stop: Option<ChildStop>,
    /// When it began, by the database's clock.
    pub(super) began_at: DateTime<Utc>,
    pub(super) notifications: VecDeque<ChildNotification>,
    /// The ended child about which an execution is being notified.
    pub(super) ended: Option<u64>,
    pub(super) recorder: Recorder,
    pub(super) executed: usize,
    /// The state has changed since the burst began.
    pub(super) is_dirty: bool,
    /// The last activity asks for a commit.
    pub(super) commits_now: bool,
    pub(super) yielded: bool,
    /// The instructions contain a cancel: no work item runs before it.
    pub(super) has_cancel: bool,
    /// The events to publish with the commit.
    pub(super) events: Vec<EventPublication>,
    pub(super) links: BurstLinks,
    pub(super) ended_requests: Vec<EndedRequest>,
    /// Files that activities have received, until the burst ends.
    pub(super) files: Vec<SpoolFile>,
    /// The span of the burst.
    pub(super) trace: Option<CurrentTrace>,
    /// That of the activity that is being called.
    pub(super) call_span: Option<OpenSpan>,
}

/// Why a child ends the burst of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildStop {
    /// No capacity for a script was free; the burst is retried after this time.
    Deferred(Duration),
    /// The burst can no longer be committed.
    Lost,
}

/// Notifies an execution that one of its children has ended.
pub(super) struct ChildNotification {
    pub(super) to: u64,
    /// The execution of the child.
    pub(super) from: u64,
    pub(super) child: EndedChild,
    pub(super) was_cancelled: bool,
    /// What the notification sets off comes from this.
    pub(super) cause: Option<Cause>,
}

enum ActivityCall {
    Execute,
    Resume(Resumption),
    Completed(EndedChild),
    Cancelled(EndedChild),
}

impl BurstRun<'_> {
    /// Runs work items until the queue is empty, a bound is reached or a commit is due.
    pub(super) async fn run_queue(&mut self) {
        self.state.sub_status = match self.state.status {
            Status::Running => SubStatus::Executing,
            Status::Finished => self.state.sub_status,
        };
        loop {
            while let Some(notification) = self.notifications.pop_front() {
                if self.is_discarded() {
                    return;
                }
                let call = if notification.was_cancelled {
                    ActivityCall::Cancelled(notification.child)
                } else {
                    ActivityCall::Completed(notification.child)
                };
                self.ended = Some(notification.from);
                self.follows(notification.cause);
                self.call(notification.to, call).await;
                self.ended = None;
            }
            if self.is_discarded() || self.state.status == Status::Finished || self.state.queue.is_empty() {
                return;
            }
            let is_at_bound = self.executed >= self.options.activities_per_burst
                || self.recorder.bytes >= self.options.bytes_per_burst;
            let stops = (self.stops.load(Relaxed) || self.definitions.must_yield()) && !self.has_cancel;
            if is_at_bound || stops || self.is_commit_due() {
                self.yielded = true;
                return;
            }
            if let Some(item) = self.state.queue.pop_front() {
                self.executed += 1;
                self.is_dirty = true;
                self.commits_now = self.commit_points(&item).after;
                self.run_item(item).await;
            }
        }
    }

    /// Whether nothing of the burst is kept.
    fn is_discarded(&self) -> bool {
        self.session.deferral().is_some() || self.stop.is_some()
    }

    /// Whether the commit strategies of the workflow or its activities ask for a commit before the next work item.
    fn is_commit_due(&self) -> bool {
        let begun = self.recorder.began.elapsed();
        let strategy = self.program.commits;
        let before = self
            .state
            .queue
            .front()
            .is_some_and(|next| next.context.is_none() && self.commit_points(next).before);
        self.is_dirty
            && (self.commits_now || before || strategy.is_due(self.executed, begun, self.options.commit_period))
    }

    fn commit_points(&self, item: &WorkItem) -> CommitPoints {
        // The workflow itself has no strategy as an activity.
        let node = self
            .program
            .tree
            .find(&item.node_id)
            .filter(|node| node.id != WORKFLOW_ID);
        let commit_points = |node: &ActivityNode| {
            let descriptor = self.program.descriptor(node.index);
            let is_container = descriptor.is_some_and(|descriptor| descriptor.is_container);
            self.program.commits.commit_points(node, is_container)
        };
        node.map(commit_points).unwrap_or_default()
    }

    /// Sets the cause of what runs next.
    pub(super) fn follows(&mut self, cause: Option<Cause>) {
        self.cause = cause;
        self.set_off = (0, 0);
        self.links.begin();
    }

    /// The cause of the next thing that the current work sets off.
    pub(super) fn next_cause(&mut self) -> Option<Cause> {
        let cause = self.cause?.nth(self.set_off.0);
        self.set_off.0 += 1;
        Some(cause)
    }

    /// The same for the notification of a cancellation. These are counted separately, because their number depends on
    /// how far other branches have come.
    pub(super) fn next_cancellation(&mut self) -> Option<Cause> {
        self.set_off.1 += 1;
        Some(self.cause?.nth(u64::MAX - self.set_off.1))
    }

    async fn run_item(&mut self, mut item: WorkItem) {
        // A scheduled item has its node in its place.
        self.follows(match (item.cause, item.owner) {
            (Some(cause), None) => Some(cause.of_node(&item.node_id)),
            (cause, _) => cause,
        });
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
        if self.takes_retry(number) {
            let Some(node) = self.program.tree.find(&item.node_id) else {
                return;
            };
            return self.begin_again(number, node).await;
        }
        let resumption = item.resumption();
        // A guard goes on because of what happened below it, not at a bookmark.
        let is_guard = self.program.tree.find(&item.node_id).is_some_and(|node| node.is_guard);
        if !is_guard {
            self.recorder.add_entry(
                self.program,
                &mut self.state,
                number,
                "Resumed",
                EntryDetails::default(),
            );
        }
        self.call(number, ActivityCall::Resume(resumption)).await;
    }

    async fn begin(&mut self, item: WorkItem) {
        let Some(node) = self.program.tree.find(&item.node_id) else {
            return;
        };
        let (number, id) = self.state.next_execution();
        let mut variables = scope::defaults(&node.variables);
        for (name, value) in item.variables {
            let declared = node.variables.iter().find(|variable| variable.name == name);
            variables.insert(name, scope::convert(value, declared));
        }
        let mut invalid = item.invalid.as_ref().map(fault_of);
        if let Err(fault) = self.check_values(&variables) {
            invalid = Some(fault);
            variables.clear();
        }
        self.state.contexts.insert(
            number,
            Context {
                tag: item.tag,
                is_invalid: invalid.is_some(),
                ..Context::new(id, item.node_id, item.owner, variables)
            },
        );
        let scheduled_after = item.scheduled_after.filter(|after| Some(*after) != item.owner);
        self.recorder
            .record_start(self.program, &self.state, number, scheduled_after);
        self.execute(number, node, invalid).await;
    }

    /// Executes an activity that is in the state: evaluates its inputs, and calls it.
    async fn execute(&mut self, number: u64, node: &ActivityNode, invalid: Option<Fault>) {
        let evaluated = self.evaluate_inputs(number, node).await;
        let context = self.state.contexts.get(&number).filter(|_| self.recorder.is_on());
        let details = EntryDetails {
            activity_state: context.map(|context| Value::Object(context.inputs.clone())),
            ..EntryDetails::default()
        };
        self.recorder
            .add_entry(self.program, &mut self.state, number, "Started", details);
        self.state.since_wait += 1;
        if let Some(fault) = self.exceeded_limit(number) {
            return self.fault_beyond_guards(number, fault);
        }
        if let Some(fault) = invalid {
            return self.fault(number, fault);
        }
        match evaluated {
            Ok(()) => self.call(number, ActivityCall::Execute).await,
            Err(fault) => self.fault(number, fault),
        }
    }

    /// Evaluates the inputs of a new execution in their order; each sees the variables that scripts of earlier ones set.
    async fn evaluate_inputs(&mut self, number: u64, node: &ActivityNode) -> Result<(), Fault> {
        let links = self.call_links(number);
        for input in node.inputs.iter().filter(|input| !input.is_lazy) {
            let evaluator = Evaluator::of(self.program, &self.state, &self.session, number).with_links(&links);
            let evaluated = evaluator.input(input).await?;
            // First: what is refused below is quoted by the message.
            if evaluated.may_hold_secret {
                self.note_secrets(number, vec![input.name.clone()]);
            }
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

    /// Calls an activity and carries out its commands; then runs the child that it asked for.
    async fn call(&mut self, number: u64, call: ActivityCall) {
        if self.trace.is_some() {
            self.begin_call_span(number, &call);
        }
        if let Some(request) = self.call_once(number, call).await {
            // Boxed, as it is rare.
            if let Some(resumption) = Box::pin(self.execute_child(number, request)).await {
                self.call_once(number, ActivityCall::Resume(resumption)).await;
            }
        }
        self.call_span = None;
    }

    /// Returns the child that the activity is to go on with.
    async fn call_once(&mut self, number: u64, call: ActivityCall) -> Option<ChildRequest> {
        let context = self.state.contexts.get_mut(&number)?;
        if context.status != ContextStatus::Running {
            return None;
        }
        let node = self.program.tree.find(&context.node_id)?;
        let Some(activity) = self.program.activity(node.index) else {
            let message = format!(
                "The activity type {} (version {}) is unknown",
                node.type_name, node.version
            );
            self.fault(number, Fault::new(message).code("unknown-activity-type"));
            return None;
        };
        let trigger_payload = match (&mut self.state.trigger, &call) {
            (Some(trigger), ActivityCall::Execute)
                if !trigger.is_consumed && node.is_own() && trigger.activity_id.as_str() == node.id =>
            {
                trigger.is_consumed = true;
                context.is_triggered = true;
                Some(trigger.payload.clone())
            }
            _ => None,
        };
        let properties = std::mem::take(&mut context.properties);
        let links = self.call_links(number);
        let evaluator = Evaluator::of(self.program, &self.state, &self.session, number).with_links(&links);
        let mut context = self.activity_context(number, node, &evaluator, &links)?;
        context.trigger_payload = trigger_payload;
        context.properties = properties;
        let result = {
            let context = &mut context;
            let calling = async move {
                match call {
                    ActivityCall::Execute => activity.execute(context).await,
                    ActivityCall::Resume(resumption) => activity.resumed(context, resumption).await,
                    ActivityCall::Completed(child) => activity.child_completed(context, child).await,
                    ActivityCall::Cancelled(child) => activity.child_cancelled(context, child).await,
                }
            };
            let timeout =
                || bounds::activity_timeout(node, self.program.descriptor(node.index), self.options.activity_timeout);
            // Outside the timeout: a call that panics when it is dropped faults, too.
            AssertUnwindSafe(bounds::with_timeout(node, timeout, calling))
                .catch_unwind()
                .await
        };
        let properties = std::mem::take(&mut context.properties);
        let changed_properties = std::mem::take(&mut context.changed_properties);
        let mut commands = std::mem::take(&mut context.commands);
        let asked_key = context.asked_key();
        drop(context);
        let executes = commands.executes.take();
        if let Some(context) = self.state.contexts.get_mut(&number) {
            context.properties = properties;
            context.key = context.key.or(asked_key);
        }
        match result {
            Ok(Ok(step)) => {
                self.apply_step(number, &changed_properties, commands, step);
                return executes;
            }
            Ok(Err(fault)) => {
                self.fail_call_span(&fault);
                self.fault_of_call(number, commands, fault);
            }
            Err(panic) => {
                let fault = Fault::new(panic_message(&*panic)).code("panic");
                self.fail_call_span(&fault);
                self.fault_of_call(number, commands, fault);
            }
        }
        None
    }

    fn apply_step(&mut self, number: u64, changed_properties: &[String], commands: ActivityCommands, step: Step) {
        let outcomes = match &step {
            Step::Outcomes(outcomes) => {
                admit("The outcomes", &outcomes.clone().into(), self.options.max_value_bytes).map(drop)
            }
            Step::Done | Step::Wait => Ok(()),
        };
        let scheduled = self.state.queue.len() + commands.schedule.len();
        if u64::try_from(scheduled).unwrap_or(u64::MAX) > self.options.executions_without_wait {
            return self.fault_beyond_guards(number, self.too_much_scheduled(number));
        }
        let admitted = outcomes.and_then(|()| self.admit_properties(number, changed_properties));
        if let Err(fault) = admitted.and_then(|()| self.apply_commands(number, commands)) {
            return self.fault(number, fault);
        }
        match step {
            Step::Done => self.complete(number, vec!["Done".to_owned()]),
            Step::Outcomes(outcomes) => self.complete(number, outcomes),
            Step::Wait => self.record_wait(number),
        }
    }

    /// Records that an execution waits, if it does so at a bookmark.
    fn record_wait(&mut self, number: u64) {
        self.recorder.update(self.program, &self.state, number);
        let Some(context) = self.state.contexts.get(&number) else {
            return;
        };
        // Those that the call has made are the last ones.
        let waits = self
            .state
            .bookmarks
            .iter()
            .rev()
            .any(|bookmark| bookmark.activity_execution_id == context.id);
        if waits && context.status == ContextStatus::Running {
            self.recorder.add_entry(
                self.program,
                &mut self.state,
                number,
                "Suspended",
                EntryDetails::default(),
            );
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

    /// Fails if a name or value is longer than an instance keeps, or cannot be stored.
    pub(super) fn check_values(&self, values: &Map<String, Value>) -> Result<(), Fault> {
        for (name, value) in values {
            admit_name("A name", name)?;
            admit(&format!("The value of {name}"), value, self.options.max_value_bytes)?;
        }
        Ok(())
    }

    fn activity_context<'v>(
        &'v self,
        number: u64,
        node: &'v ActivityNode,
        evaluator: &'v dyn InputEvaluator,
        call_links: &'v CallLinks,
    ) -> Option<ActivityContext<'v>> {
        let context = self.state.contexts.get(&number)?;
        Some(ActivityContext {
            node,
            tree: &self.program.tree,
            evaluator,
            console: &*self.options.console,
            inputs: &context.inputs,
            instance_id: &self.state.instance_id,
            execution_id: &context.id,
            key: self.key_of(number),
            call_links,
            resume_links: &self.options.script.links,
            is_key_asked: AtomicBool::new(false),
            attempt: self.attempt.saturating_add(context.attempts),
            definitions: self.definitions,
            // A retry starts children anew: those of the try that has faulted may have ended.
            child_seed: self.child_seed ^ i64::from(context.attempts).rotate_left(40),
            depth: self.state.parent.as_ref().map_or(0, |parent| parent.depth),
            max_value_bytes: self.options.max_value_bytes,
            now: self.now(),
            trigger_activity_id: self.trigger_of(node),
            trigger_payload: None,
            is_breaking: context.is_breaking,
            flowchart_mode: self.program.flowchart_mode(node).unwrap_or(self.options.flowchart_mode),
            children: OnceLock::new(),
            answer_status: self.answer_status(),
            trace: self.current_trace(),
            pending_notifications: self
                .notifications
                .iter()
                .filter(|notification| notification.to == number)
                .count(),
            properties: Map::new(),
            changed_properties: Vec::new(),
            commands: ActivityCommands::default(),
        })
    }

    /// The idempotency key of an execution after the instance; `None` when the id of the execution is the key.
    fn key_of(&self, number: u64) -> Option<u64> {
        let context = self.state.contexts.get(&number)?;
        let of_cause = || Some(self.cause?.key()).filter(|_| number > self.state.numbered_keys);
        context.key.or_else(of_cause)
    }

    /// The trigger that started the instance, for a container in its definition: ids inside a workflow as an activity
    /// are separate.
    fn trigger_of(&self, node: &ActivityNode) -> Option<&str> {
        let trigger = self.state.trigger.as_ref().filter(|_| node.is_own());
        trigger.map(|trigger| trigger.activity_id.as_str())
    }

    /// The current time by the database's clock.
    fn now(&self) -> DateTime<Utc> {
        let passed = TimeDelta::from_std(self.recorder.began.elapsed()).unwrap_or_default();
        self.began_at.checked_add_signed(passed).unwrap_or(self.began_at)
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    format!("The activity panicked: {}", panic_text(panic))
}
