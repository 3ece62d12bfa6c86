//! The interpreter: definitions in, bursts out.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::burst::{Burst, Instruction, Outcome};
use super::evaluate::Evaluator;
use super::options::InterpreterOptions;
use super::program::{self, Program};
use super::record::Record;
use super::run::Run;
use super::state::InstanceState;
use super::stimulus::stimulus_hash;
use super::validate;
use crate::activity::{Catalogue, Kind};
use crate::definition::{Trigger, ValidationError, WorkflowDefinition};
use crate::expression::ScriptEngine;
use crate::id::{ActivityId, BookmarkId, InstanceId};
use crate::{Error, Result};

/// Runs definitions. It knows no database: what a burst did is in its [`Outcome`], and becomes true by being committed.
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

    /// The triggers of a definition: activities that can start a workflow and are of a kind that waits for a stimulus.
    /// Their inputs are evaluated as they would be in an instance in which nothing has happened yet.
    ///
    /// # Errors
    /// `invalid-trigger` when an input cannot be evaluated or names nothing to wait for.
    ///
    /// Cancellation safe.
    pub async fn triggers(&self, program: &Program) -> Result<Vec<Trigger>> {
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
        let mut triggers = Vec::new();
        for node in program.tree.iter().filter(|node| node.can_start) {
            let is_trigger = program
                .descriptor(node.index)
                .is_some_and(|descriptor| descriptor.kind == Kind::Trigger);
            let Some(activity) = program.activity(node.index).filter(|_| is_trigger) else {
                continue;
            };
            let wrong = |message: String| {
                let message = format!("The trigger {} cannot be used: {message}", node.id);
                Error::invalid("invalid-trigger", message.clone()).field(node.id.clone(), message)
            };
            let mut inputs = Map::new();
            for input in &node.inputs {
                let evaluated = evaluator.input(input).await.map_err(|fault| wrong(fault.message))?;
                inputs.insert(input.name.clone(), evaluated.value);
            }
            let payload: Value = activity
                .trigger_payload(&inputs)
                .ok_or_else(|| wrong("it names nothing to wait for".to_owned()))?;
            triggers.push(Trigger {
                activity_id: ActivityId::new(node.id.clone()),
                activity_type: node.type_name.clone(),
                hash: stimulus_hash(&node.type_name, &payload, None),
                payload,
            });
        }
        Ok(triggers)
    }

    /// Runs one burst. It never panics and never fails: what goes wrong is an incident in the outcome.
    ///
    /// Dropping the future leaves nothing behind, except for what activities have done outside.
    pub async fn run(&self, program: &Arc<Program>, burst: Burst) -> Outcome {
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
            notices: VecDeque::new(),
            record: Record::new(),
            executed: 0,
            is_dirty: false,
            commits_now: false,
            yielded: false,
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

fn outcome(run: Run<'_>, loaded: Vec<BookmarkId>, unmatched: Vec<usize>) -> Outcome {
    let Run {
        state,
        record,
        program,
        yielded,
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
    Outcome {
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
