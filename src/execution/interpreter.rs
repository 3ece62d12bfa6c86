//! The interpreter: definitions in, bursts out.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;

use super::burst::{Burst, BurstResult, Instruction};
use super::evaluate::Evaluator;
use super::options::InterpreterOptions;
use super::program::{self, Program};
use super::record::Record;
use super::run::Run;
use super::state::InstanceState;
use super::stimulus::stimulus_hash;
use super::validate;
use crate::activity::{ActivityKind, Catalogue, NodeInput};
use crate::definition::{Trigger, ValidationError, WorkflowDefinition};
use crate::expression::ScriptEngine;
use crate::id::{ActivityId, BookmarkId, InstanceId, VersionId};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// What starts a definition by itself.
#[derive(Clone, Debug, Default)]
pub struct WorkflowTriggers {
    /// What waits for a stimulus.
    pub triggers: Vec<Trigger>,
    /// What waits for time.
    pub schedules: Vec<ScheduledTrigger>,
}

/// An activity that starts an instance when it is time.
#[derive(Clone, Debug)]
pub struct ScheduledTrigger {
    /// The activity at which an instance then begins.
    pub activity_id: ActivityId,
    /// Its type.
    pub activity_type: String,
    /// When.
    pub schedule: Schedule,
}

/// Runs definitions. It knows no database: what a burst did is in its [`BurstResult`], and becomes true by being committed.
/// Clones are cheap and share the threads that run scripts.
#[derive(Clone)]
pub struct Interpreter {
    catalogue: Arc<Catalogue>,
    options: Arc<InterpreterOptions>,
    scripts: ScriptEngine,
}

impl Interpreter {
    /// An interpreter for these activities, within these bounds.
    pub fn new(catalogue: Catalogue, options: InterpreterOptions) -> Self {
        Self {
            catalogue: Arc::new(catalogue),
            scripts: ScriptEngine::new(options.script.clone()),
            options: Arc::new(options),
        }
    }

    /// The activities.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The bounds.
    pub fn options(&self) -> &InterpreterOptions {
        &self.options
    }

    /// Everything that keeps a definition from being published; empty when nothing does.
    pub fn validate(&self, definition: &WorkflowDefinition) -> Vec<ValidationError> {
        validate::validate(&self.catalogue, definition)
    }

    /// Compiles a definition. An activity of an unknown type becomes one that faults when it is executed.
    ///
    /// # Errors
    /// `missing-root` when there is no root activity.
    pub fn compile(&self, definition: &WorkflowDefinition) -> Result<Program> {
        program::compile(&self.catalogue, definition)
    }

    /// What starts a definition by itself: activities that can start a workflow and are of a kind that waits for a
    /// stimulus, or for time. Their inputs are evaluated as they would be in an instance in which nothing has happened
    /// yet. Schedules that only wait inside a workflow are looked at, too, where all their inputs are literals.
    ///
    /// # Errors
    /// `invalid-trigger`, with all that is wrong by activity: an input cannot be evaluated, names nothing to wait for, or
    /// is no part of a schedule. `scripts-busy` when there was no room for a script.
    ///
    /// Cancellation safe.
    pub async fn triggers(&self, program: &Program) -> Result<WorkflowTriggers> {
        let state = InstanceState::new(
            InstanceId::default(),
            program.definition_id.clone(),
            program.version_id.clone(),
            program.version,
        );
        let session = self.scripts.session();
        let evaluator = Evaluator {
            program,
            state: &state,
            session: &session,
            context: 0,
        };
        let mut triggers = WorkflowTriggers::default();
        let mut wrong: Vec<(String, String)> = Vec::new();
        for node in program.tree.iter() {
            let is_trigger = program
                .descriptor(node.index)
                .is_some_and(|descriptor| descriptor.kind == ActivityKind::Trigger);
            let Some(activity) = program.activity(node.index).filter(|_| is_trigger) else {
                continue;
            };
            if !node.can_start && !node.inputs.iter().all(is_literal) {
                continue;
            }
            let mut inputs = Map::new();
            let mut problems = Vec::new();
            for input in &node.inputs {
                let evaluated = evaluator.input(input).await;
                if session.deferral().is_some() {
                    let message = "there is no room for another script now; try again in a moment";
                    return Err(Error::unavailable("scripts-busy", message));
                }
                match evaluated {
                    Ok(evaluated) => drop(inputs.insert(input.name.clone(), evaluated.value)),
                    Err(fault) => problems.push(fault.message),
                }
            }
            if problems.is_empty() {
                match activity.trigger_schedule(&inputs) {
                    Some(Ok(schedule)) if node.can_start => triggers.schedules.push(ScheduledTrigger {
                        activity_id: ActivityId::new(node.id.clone()),
                        activity_type: node.type_name.clone(),
                        schedule,
                    }),
                    Some(Ok(_)) => {}
                    // A delay of no length is over at once; only as a trigger it must be one.
                    Some(Err(_)) if !node.can_start && node.type_name == "Elsa.Delay" => {}
                    Some(Err(error)) => {
                        let fields = error.fields().iter();
                        problems.extend(fields.map(|(input, what)| format!("the input {input} is wrong: {what}")));
                    }
                    None if node.can_start => match activity.trigger_payload(&inputs) {
                        Some(payload) => triggers.triggers.push(Trigger {
                            activity_id: ActivityId::new(node.id.clone()),
                            activity_type: node.type_name.clone(),
                            hash: stimulus_hash(&node.type_name, &payload, None),
                            payload,
                        }),
                        None => problems.push("it names nothing to wait for".to_owned()),
                    },
                    None => {}
                }
            } else if !node.can_start {
                continue;
            }
            let what = if node.can_start { "trigger" } else { "activity" };
            let told = problems.into_iter();
            wrong.extend(told.map(|problem| {
                let message = format!("The {what} {} cannot be used: {problem}", node.id);
                (node.id.clone(), message)
            }));
        }
        match wrong.first() {
            None => Ok(triggers),
            Some((_, first)) => {
                let error = Error::invalid("invalid-trigger", first.clone());
                Err(wrong
                    .into_iter()
                    .fold(error, |error, (activity, message)| error.field(activity, message)))
            }
        }
    }

    /// For how long a burst of that version and instance must not begin: its scripts keep timing out, and one of them was
    /// deferred for that. None: it may begin.
    pub(crate) fn deferral(&self, version: &VersionId, instance: &InstanceId) -> Option<Duration> {
        self.scripts.deferral(version, instance)
    }

    /// Runs one burst. It never panics and never fails: what goes wrong is an incident in the outcome.
    ///
    /// Dropping the future leaves nothing behind, except for what activities have done outside.
    pub async fn run(&self, program: &Arc<Program>, burst: Burst) -> BurstResult {
        let is_new = burst.state.is_none();
        let state = burst.state.unwrap_or_else(|| {
            InstanceState::new(
                burst.instance_id,
                program.definition_id.clone(),
                program.version_id.clone(),
                program.version,
            )
        });
        let loaded: Vec<BookmarkId> = state.bookmarks.iter().map(|bookmark| bookmark.id.clone()).collect();
        let mut run = Run {
            program,
            options: &self.options,
            session: self.scripts.session(),
            state,
            attempt: burst.attempt,
            began_at: burst.now,
            notices: VecDeque::new(),
            record: Record::new(program.journal),
            executed: 0,
            is_dirty: false,
            commits_now: false,
            yielded: false,
            doomed: burst.instructions.contains(&Instruction::Cancel),
            refused: None,
        };
        let mut unmatched = Vec::new();
        // What an earlier burst left undone comes first.
        if !is_new && !run.state.queue.is_empty() && burst.instructions.first() != Some(&Instruction::Continue) {
            run.instruct(Instruction::Continue, false).await;
        }
        for (position, instruction) in burst.instructions.into_iter().enumerate() {
            let is_continue = instruction == Instruction::Continue;
            if !run.instruct(instruction, is_new).await && !is_continue {
                unmatched.push(position);
            }
        }
        run.settle();
        outcome(run, loaded, unmatched)
    }
}

/// Whether an input says itself what it is.
fn is_literal(input: &NodeInput) -> bool {
    let expression = input.expression.as_ref();
    input.memory_reference.is_none() && expression.is_none_or(|expression| expression.kind == "Literal")
}

fn outcome(run: Run<'_>, loaded: Vec<BookmarkId>, unmatched: Vec<usize>) -> BurstResult {
    let Run {
        state,
        record,
        program,
        yielded,
        session,
        ..
    } = run;
    let elapsed = record.began.elapsed();
    let (journal, activity_executions) = record.into_executions(program, &state);
    let before: HashSet<&BookmarkId> = loaded.iter().collect();
    let bookmarks_created = state
        .bookmarks
        .iter()
        .filter(|bookmark| !before.contains(&bookmark.id))
        .cloned()
        .collect();
    let alive: HashSet<&BookmarkId> = state.bookmarks.iter().map(|bookmark| &bookmark.id).collect();
    let bookmarks_burned = loaded.iter().filter(|id| !alive.contains(id)).cloned().collect();
    BurstResult {
        status: state.status,
        sub_status: state.sub_status,
        correlation_id: state.correlation_id.clone(),
        name: state.name.clone(),
        incident_count: i32::try_from(state.incidents.len()).unwrap_or(i32::MAX),
        bookmarks_created,
        bookmarks_burned,
        journal,
        activity_executions,
        unmatched,
        yielded: yielded && state.status == super::status::Status::Running,
        deferred: session.deferral(),
        elapsed,
        state,
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
