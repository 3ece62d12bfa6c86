//! The interpreter: compiles and validates definitions, and runs bursts.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::bookmark::stimulus_hash;
use super::bounds::InterpreterOptions;
use super::burst_contract::{Burst, BurstResult, Instruction};
use super::cause::InstructionOrigin;
use super::child::Children;
use super::composition::{self, Composition, Targets, UsingActivity, WorkflowReference};
use super::drawable::{Drawable, WorkflowType};
use super::endpoint_routes::EndpointRoutes;
use super::evaluate::Evaluator;
use super::id_bounds;
use super::journal::Recorder;
use super::node_id;
use super::program::{self, Program};
use super::run::{ActivityRetry, BurstLinks, BurstRun, ChildStop, LeftInstructions};
use super::script_names;
use super::state::InstanceState;
use super::status::{Status, SubStatus};
use super::validate;
use crate::activity::{ActivityKind, ActivityNode, AllPublished, Catalogue, HTTP_ENDPOINT, NodeInput, TriggerStimulus};
use crate::definition::{Problems, Trigger, ValidationError, WorkflowDefinition};
use crate::expression::{LANGUAGES, ScriptEngine, ScriptSession};
use crate::id::{ActivityId, BookmarkId, InstanceId, VersionId};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// How long the triggers of a definition are computed before other tasks of the thread run.
const LONGEST_TURN: Duration = Duration::from_millis(1);

/// The triggers of a definition.
#[derive(Clone, Debug, Default)]
pub struct WorkflowTriggers {
    /// Triggers that start an instance on a stimulus.
    pub triggers: Vec<Trigger>,
    /// Triggers that start an instance on a schedule.
    pub schedules: Vec<ScheduledTrigger>,
}

impl WorkflowTriggers {
    /// Adds a stimulus of a trigger. Returns what is wrong with it.
    fn add(
        &mut self,
        node: &ActivityNode,
        stimulus: TriggerStimulus,
        endpoints: &mut EndpointRoutes,
    ) -> Option<String> {
        let hash = stimulus_hash(&node.type_name, &stimulus.key, None);
        if node.type_name == HTTP_ENDPOINT {
            match endpoints.add(node, hash, &stimulus.payload) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(ambiguous) => return Some(ambiguous),
            }
        }
        self.triggers.push(Trigger {
            activity_id: ActivityId::new(node.id.clone()),
            activity_type: node.type_name.clone(),
            hash,
            payload: stimulus.payload,
        });
        None
    }
}

/// A trigger with a schedule.
#[derive(Clone, Debug)]
pub struct ScheduledTrigger {
    /// The activity at which the instance begins.
    pub activity_id: ActivityId,
    /// Its type.
    pub activity_type: String,
    /// When it fires.
    pub schedule: Schedule,
    /// An input is no literal: another computation may give another schedule.
    pub is_computed: bool,
}

/// Runs definitions. It knows no database: the effects of a burst are in its [`BurstResult`], and take effect when it is
/// committed. Clones are cheap and share the threads that run scripts.
#[derive(Clone)]
pub struct Interpreter {
    catalogue: Arc<Catalogue>,
    options: Arc<InterpreterOptions>,
    scripts: ScriptEngine,
    stops: Arc<AtomicBool>,
}

impl Interpreter {
    /// An interpreter for these activities, within these bounds.
    pub fn new(catalogue: Catalogue, options: InterpreterOptions) -> Self {
        Self {
            catalogue: Arc::new(catalogue),
            scripts: ScriptEngine::new(options.script.clone()),
            options: Arc::new(options),
            stops: Arc::default(),
        }
    }

    /// Sets whether bursts yield before their next activity; all clones share this.
    pub(crate) fn stop_bursts(&self, stops: bool) {
        self.stops.store(stops, Relaxed);
    }

    /// The activities.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The bounds.
    pub fn options(&self) -> &InterpreterOptions {
        &self.options
    }

    /// Returns when no thread for scripts is left because eight of them hang. Cancellation safe.
    pub(crate) async fn scripts_exhausted(&self) {
        self.scripts.exhausted().await;
    }

    /// Scripts of one burst.
    pub(super) fn script_session(&self) -> ScriptSession {
        self.scripts.session()
    }

    /// What the scripts of a definition can name, as declarations for an editor.
    pub(crate) fn script_declarations(&self, definition: &WorkflowDefinition, composition: &Composition) -> String {
        let names = script_names::of(&self.catalogue, definition, composition);
        LANGUAGES
            .iter()
            .filter_map(|language| language.declare(&names))
            .collect()
    }

    /// Every error that keeps a definition from being published; empty if it can be published.
    pub fn validate(&self, definition: &WorkflowDefinition) -> Vec<ValidationError> {
        self.validate_composed(definition, &Composition::default())
    }

    /// The same for a definition that uses workflows as activities: these were validated by their own publish.
    pub fn validate_composed(
        &self,
        definition: &WorkflowDefinition,
        composition: &Composition,
    ) -> Vec<ValidationError> {
        match self.compile_composed(definition, composition) {
            Ok(program) => self.validate_compiled(definition, &program),
            Err(error) => vec![ValidationError::of("", error.message())],
        }
    }

    /// The same for a definition that is compiled: a publish needs the program, too, and compiles once.
    pub(crate) fn validate_compiled(&self, definition: &WorkflowDefinition, program: &Program) -> Vec<ValidationError> {
        validate::validate(&self.catalogue, definition, program)
    }

    /// Returns what the author of a definition that can be published hardly intends, such as a fork without branches:
    /// each activity, the effect and the remedy.
    pub fn warnings(&self, program: &Program, definition: &WorkflowDefinition) -> Vec<ValidationError> {
        validate::warnings(program, definition)
    }

    /// Compiles a definition. An activity of an unknown type becomes one that faults when it is executed.
    ///
    /// # Errors
    /// `missing-root` when there is no root activity.
    pub fn compile(&self, definition: &WorkflowDefinition) -> Result<Program> {
        self.compile_composed(definition, &Composition::default())
    }

    /// Compiles a definition together with the workflows that it uses as activities.
    ///
    /// # Errors
    /// `missing-root`; `definition-too-large` if the node ids of its activities are too large; `composition-too-large`
    /// if workflows as activities are nested too deeply, or have too many activities or bytes together.
    pub fn compile_composed(&self, definition: &WorkflowDefinition, composition: &Composition) -> Result<Program> {
        program::compile(&self.catalogue, definition, composition)
    }

    /// The workflows that a definition uses as activities, each with the activity that does.
    pub(crate) fn references(&self, definition: &WorkflowDefinition) -> Vec<(WorkflowReference, UsingActivity)> {
        composition::references(&self.catalogue, definition.root.as_ref())
    }

    /// Lets every activity of a tree with one of these references name the version that it maps to; returns whether there is
    /// any.
    pub(crate) fn update_references(&self, root: &mut Value, targets: &Targets) -> bool {
        composition::update(&self.catalogue, root, targets)
    }

    /// Writes into every activity of a tree its node id, by which the journal names it, and an id where it has none.
    pub(crate) fn write_node_ids(&self, root: &mut Value) {
        node_id::write(&self.catalogue, root);
    }

    /// Refuses a tree with activity ids that are too long, as the node ids of the activities inside repeat them:
    /// `definition-too-large`.
    pub(crate) fn check_ids(&self, root: &Value) -> Result<()> {
        id_bounds::check(&self.catalogue, root)
    }

    /// Removes the node ids from a tree that a client sent, and writes an id into every activity without one.
    pub(crate) fn remove_node_ids(&self, root: &mut Value) {
        node_id::remove(&self.catalogue, root);
    }

    /// Gives a tree the form that a designer can draw, with node ids.
    pub(crate) fn show_to_designers(&self, workflows: &[WorkflowType], root: &mut Value) {
        self.drawable(workflows).show(root);
        node_id::write(&self.catalogue, root);
    }

    /// A workflow as the activity that contains its root, which has the form for designers.
    pub(crate) fn workflow_node(&self, definition: &WorkflowDefinition, root: Value) -> Value {
        node_id::workflow(node_id::WORKFLOW_ID, definition, root)
    }

    /// The activity with a node id, in a tree that a designer is shown: `{activity, nodeId, port, children}`.
    pub(crate) fn subgraph(
        &self,
        workflows: &[WorkflowType],
        composition: &Composition,
        root: &Value,
        node_id: &str,
    ) -> Option<Value> {
        node_id::subgraph(self.drawable(workflows), composition, root, node_id)
    }

    /// The containers around an activity: `{childNode, container, pathSegments}`.
    pub(crate) fn path_segments(
        &self,
        workflows: &[WorkflowType],
        composition: &Composition,
        root: &Value,
        node_id: &str,
    ) -> Option<Value> {
        node_id::segments(self.drawable(workflows), composition, root, node_id)
    }

    fn drawable<'a>(&'a self, workflows: &'a [WorkflowType]) -> Drawable<'a> {
        Drawable {
            catalogue: &self.catalogue,
            workflows,
        }
    }

    /// The triggers of a definition: activities that can start a workflow, and wait for a stimulus or a time. Their
    /// inputs are evaluated as in a new instance. Schedules inside a workflow are validated, too, where all their inputs
    /// are literals.
    ///
    /// # Errors
    /// `invalid-trigger`, with every error by activity: an input that cannot be evaluated, no stimulus to wait for, or an
    /// invalid schedule. `scripts-busy` when no slot for a script was free.
    ///
    /// Cancellation safe.
    pub async fn triggers(&self, program: &Program) -> Result<WorkflowTriggers> {
        let state = InstanceState::new(
            InstanceId::default(),
            program.definition_id.clone(),
            program.version_id.clone(),
            program.version,
        );
        let session = self.script_session();
        let evaluator = Evaluator::of(program, &state, &session, 0);
        let mut triggers = WorkflowTriggers::default();
        let mut errors = Problems::default();
        let mut endpoints = EndpointRoutes::default();
        let mut begun = Instant::now();
        for node in program.tree.iter() {
            if errors.is_full() {
                break;
            }
            // Other tasks of the thread run between the triggers of a large definition.
            if begun.elapsed() > LONGEST_TURN {
                tokio::task::yield_now().await;
                begun = Instant::now();
            }
            let is_trigger = program
                .descriptor(node.index)
                .is_some_and(|descriptor| descriptor.kind == ActivityKind::Trigger);
            let Some(activity) = program.activity(node.index).filter(|_| is_trigger) else {
                continue;
            };
            // What is inside a workflow as an activity starts that workflow, not its consumer.
            if !node.is_own() || (!node.can_start && !node.inputs.iter().all(is_literal)) {
                continue;
            }
            let mut inputs = Map::new();
            let mut problems = Vec::new();
            let mut secret = None;
            for input in &node.inputs {
                let evaluated = evaluator.input(input).await;
                if session.deferral().is_some() {
                    let message = "no slot for scripts is free now; try again later";
                    return Err(Error::unavailable("scripts-busy", message));
                }
                match evaluated {
                    Ok(evaluated) => {
                        if evaluated.may_hold_secret {
                            secret = Some(&input.name);
                        }
                        inputs.insert(input.name.clone(), evaluated.value);
                    }
                    Err(fault) => problems.push(fault.message),
                }
            }
            if problems.is_empty() {
                match activity.trigger_schedule(&inputs) {
                    Some(Ok(schedule)) if node.can_start => triggers.schedules.push(ScheduledTrigger {
                        activity_id: ActivityId::new(node.id.clone()),
                        activity_type: node.type_name.clone(),
                        schedule,
                        is_computed: !node.inputs.iter().all(is_literal),
                    }),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        let fields = error.fields().iter();
                        problems.extend(fields.map(|(input, error)| format!("the input {input} is invalid: {error}")));
                    }
                    None if node.can_start => match activity.trigger_stimuli(&inputs) {
                        Ok(stimuli) => {
                            for stimulus in stimuli {
                                problems.extend(triggers.add(node, stimulus, &mut endpoints));
                            }
                        }
                        Err(why) => problems.extend(why),
                    },
                    None => {}
                }
            } else if !node.can_start {
                continue;
            }
            if let (Some(name), false) = (secret, problems.is_empty()) {
                let withheld = "what is wrong with it is withheld, as it is derived from a secret";
                problems = vec![format!("{withheld}: the input {name}")];
            }
            let what = if node.can_start { "trigger" } else { "activity" };
            errors.extend(problems.into_iter().map(|problem| {
                let message = format!("The {what} {} cannot be used: {problem}", node.title());
                ValidationError::of(&node.id, message)
            }));
        }
        let errors = errors.into_list();
        match errors.first() {
            None => Ok(triggers),
            Some(first) => {
                let error = Error::invalid("invalid-trigger", first.message.clone());
                Err(errors
                    .into_iter()
                    .fold(error, |error, problem| error.field(problem.key(), problem.message)))
            }
        }
    }

    /// How long a burst of this version and instance must not begin, because scripts of the version keep timing out and
    /// the burst was deferred before; `None` when it may begin.
    pub(crate) fn deferral(&self, version: &VersionId, instance: &InstanceId) -> Option<Duration> {
        self.scripts.deferral(version, instance)
    }

    /// Runs one burst. It never panics and never fails: failures are incidents in the result.
    ///
    /// Cancellation safe: a dropped future has no effects except the external ones of its activities.
    pub async fn run(&self, program: &Arc<Program>, burst: Burst) -> BurstResult {
        self.run_among(program, burst, &AllPublished).await
    }

    /// The same, where activities see which definitions are published, and children run within the burst.
    pub(crate) async fn run_among(
        &self,
        program: &Arc<Program>,
        burst: Burst,
        definitions: &dyn Children,
    ) -> BurstResult {
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
        let has_cancel = burst.instructions.contains(&Instruction::Cancel);
        let mut run = BurstRun {
            attempt: burst.attempt,
            is_followed: burst.is_followed,
            child_seed: burst.child_seed,
            has_cancel,
            trace: burst.trace,
            ..self.burst_run(program, state, burst.now, definitions)
        };
        let origins = burst.origins.into_iter().map(Some).chain(std::iter::repeat(None));
        let instructions = burst.instructions.into_iter().zip(origins).enumerate();
        let instructions = instructions
            .map(|(position, (instruction, origin))| (position, instruction, origin.unwrap_or_default()))
            .collect();
        let left = run.carry_out(instructions, is_new).await;
        run.end_burst();
        burst_result(run, loaded, left)
    }

    /// Schedules what has faulted in an instance again: these activities, or all that incidents name. What became of each, and
    /// what to commit; nothing if none is executed again. A burst that follows the commit runs them.
    pub(crate) fn retry(
        &self,
        program: &Arc<Program>,
        state: InstanceState,
        activities: &[ActivityId],
        origin: &InstructionOrigin,
        now: DateTime<Utc>,
    ) -> (Vec<ActivityRetry>, Option<BurstResult>) {
        let loaded = state.bookmarks.iter().map(|bookmark| bookmark.id.clone()).collect();
        let mut run = self.burst_run(program, state, now, &AllPublished);
        let retries = run.retry(activities, origin);
        let is_changed = run.yielded;
        let result = is_changed.then(|| burst_result(run, loaded, LeftInstructions::default()));
        (retries, result)
    }

    fn burst_run<'a>(
        &'a self,
        program: &'a Program,
        state: InstanceState,
        began_at: DateTime<Utc>,
        definitions: &'a dyn Children,
    ) -> BurstRun<'a> {
        BurstRun {
            program,
            options: &self.options,
            stops: &self.stops,
            session: self.script_session(),
            state,
            definitions,
            attempt: 1,
            is_followed: false,
            child_seed: 0,
            cause: None,
            set_off: (0, 0),
            children: Vec::new(),
            awaited: Vec::new(),
            stop: None,
            began_at,
            notifications: VecDeque::new(),
            ended: None,
            recorder: Recorder::new(program.journal),
            executed: 0,
            is_dirty: false,
            commits_now: false,
            yielded: false,
            has_cancel: false,
            events: Vec::new(),
            links: BurstLinks::default(),
            ended_requests: Vec::new(),
            files: Vec::new(),
            trace: None,
            call_span: None,
        }
    }
}

/// Whether the value of an input does not depend on an instance.
fn is_literal(input: &NodeInput) -> bool {
    let expression = input.expression.as_ref();
    input.memory_reference.is_none() && expression.is_none_or(|expression| expression.kind == "Literal")
}

fn burst_result(run: BurstRun<'_>, loaded: Vec<BookmarkId>, left: LeftInstructions) -> BurstResult {
    let LeftInstructions { unmatched, held_over } = left;
    let BurstRun {
        mut state,
        recorder,
        program,
        yielded,
        session,
        events,
        links,
        ended_requests,
        mut children,
        options,
        mut awaited,
        stop,
        executed,
        ..
    } = run;
    // A bookmark that the same burst has burned again waits for nothing.
    let is_open = |id: &BookmarkId| state.bookmarks.iter().any(|bookmark| bookmark.id == *id);
    for child in &mut children {
        child.bookmark_id.take_if(|id| !is_open(id));
    }
    awaited.retain(|child| is_open(&child.bookmark_id));
    let child_deferral = match stop {
        Some(ChildStop::Deferred(pause)) => Some(pause),
        Some(ChildStop::Lost) | None => None,
    };
    let journal_bytes = recorder.bytes;
    let yielded = yielded && state.status == Status::Running;
    let child_end = if yielded {
        None
    } else {
        state.take_child_end(options.max_value_bytes)
    };
    let elapsed = recorder.began.elapsed();
    let (journal, activity_executions) = recorder.finish(program, &state);
    let before: HashSet<&BookmarkId> = loaded.iter().collect();
    let bookmarks_created = state
        .bookmarks
        .iter()
        .filter(|bookmark| !before.contains(&bookmark.id))
        .cloned()
        .collect();
    let open: HashSet<&BookmarkId> = state.bookmarks.iter().map(|bookmark| &bookmark.id).collect();
    let bookmarks_burned = loaded.iter().filter(|id| !open.contains(id)).cloned().collect();
    BurstResult {
        status: state.status,
        sub_status: state.sub_status,
        correlation_id: state.correlation_id.clone(),
        name: state.name.clone(),
        incident_count: i32::try_from(state.incidents.len()).unwrap_or(i32::MAX),
        bookmarks_created,
        bookmarks_burned,
        events,
        links: links.into_made(),
        ended_requests,
        children,
        child_end,
        awaited,
        cancels_children: state.sub_status == SubStatus::Cancelled,
        journal,
        activity_executions,
        unmatched,
        held_over,
        yielded,
        deferred: session.deferral().or(child_deferral),
        stopped: stop == Some(ChildStop::Lost),
        executed,
        journal_bytes,
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
