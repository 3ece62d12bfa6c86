//! The C# of a definition: compiled with its program, run as an execution of an instance sees it.
//!
//! A script first runs where its burst runs, with few steps. One that needs more is abandoned, which undoes nothing as a script
//! is pure, and runs again from its start on a thread of its own, with all its steps and a time limit, in turns with the long
//! scripts of other languages. There are as many of those threads as half of the processors, at least one. A burst that is
//! dropped stops its script there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::activity::{ActivityTree, Fault, NodeIndex, NodeInput, RUN_CSHARP, RanScript, SCRIPT, ScriptChanges};
use crate::compute;
use crate::definition::{Argument, Variable};
use crate::expression::{
    Bounds, CSharpNames, CSharpResult, CSharpScript, Pace, Problem, ScriptScope, ScriptSession, Stop, StopKind,
    TurnLanguage, Ty, World, declared_type,
};

/// Steps where the burst runs: some 2 ms.
const FEW_STEPS: u64 = 20_000;
/// Steps on a thread of its own: more than fit into its time, whatever the processor.
const MOST_STEPS: u64 = 100_000_000_000;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(compute::half_of_processors())));

type Compiled = Result<Arc<CSharpScript>, Problem>;

/// The scripts of one program.
#[derive(Debug, Default)]
pub(super) struct CSharpScripts {
    /// By the workflow that they are in, whether they are the script of an activity, and their text.
    compiled: HashMap<(NodeIndex, bool), HashMap<String, Compiled>>,
}

/// The text of an input that is C#, and whether it is the script of an activity.
pub(super) fn script_of<'n>(type_name: &str, input: &'n NodeInput) -> Option<(&'n str, bool)> {
    let expression = input.expression.as_ref()?;
    let is_activity = type_name == RUN_CSHARP && input.name == SCRIPT && expression.kind == "Literal";
    let text = expression.value.as_str().filter(|text| !text.trim().is_empty())?;
    (is_activity || expression.kind == "CSharp").then_some((text, is_activity))
}

impl CSharpScripts {
    /// Compiles the scripts of a tree.
    pub(super) fn of(
        tree: &ActivityTree,
        child_variables: impl Fn(NodeIndex) -> Vec<(String, String)>,
        inputs: impl Fn(NodeIndex) -> Vec<Argument>,
    ) -> Self {
        let mut scripts = Self::default();
        let mut names: HashMap<NodeIndex, CSharpNames> = HashMap::new();
        for node in tree.iter() {
            for (text, is_activity) in node.inputs.iter().filter_map(|input| script_of(&node.type_name, input)) {
                let of_workflow = names
                    .entry(node.workflow)
                    .or_insert_with(|| names_of(tree, node.workflow, &child_variables, &inputs));
                of_workflow.is_activity = is_activity;
                let known = scripts.compiled.entry((node.workflow, is_activity)).or_default();
                known
                    .entry(text.to_owned())
                    .or_insert_with(|| CSharpScript::compile(text, of_workflow).map(Arc::new));
            }
        }
        scripts
    }

    pub(super) fn find(&self, workflow: NodeIndex, is_activity: bool, text: &str) -> Option<&Compiled> {
        self.compiled.get(&(workflow, is_activity))?.get(text)
    }
}

/// What the scripts of a workflow can name. A name that is declared twice with different types has none.
fn names_of(
    tree: &ActivityTree,
    workflow: NodeIndex,
    child_variables: &impl Fn(NodeIndex) -> Vec<(String, String)>,
    inputs: &impl Fn(NodeIndex) -> Vec<Argument>,
) -> CSharpNames {
    let mut names = CSharpNames::default();
    let mut add = |name: &str, ty: Ty| {
        let known = names.variables.entry(name.to_owned()).or_insert_with(|| ty.clone());
        if *known != ty {
            *known = Ty::Dynamic;
        }
    };
    for node in tree.of_workflow(workflow) {
        for variable in &node.variables {
            add(&variable.name, type_of(variable));
        }
        for (name, _) in child_variables(node.index) {
            add(&name, Ty::Dynamic);
        }
    }
    for input in inputs(workflow) {
        let ty = declared_type(&input.type_name, input.is_array);
        names.inputs.insert(input.name, ty);
    }
    names
}

pub(super) fn type_of(variable: &Variable) -> Ty {
    declared_type(&variable.type_name, variable.is_array)
}

/// What a script reads, on a thread of its own.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) scope: ScriptScope,
    pub(super) types: HashMap<String, Ty>,
}

impl World for Snapshot {
    fn variable(&self, name: &str) -> Option<Value> {
        self.scope.variables.get(name).cloned()
    }

    fn variable_names(&self) -> Vec<String> {
        self.scope.variables.keys().cloned().collect()
    }

    fn variable_type(&self, name: &str) -> Ty {
        self.types.get(name).cloned().unwrap_or(Ty::Dynamic)
    }

    fn input(&self, name: &str) -> Option<Value> {
        self.scope.inputs.get(name).cloned()
    }

    fn output(&self, activity: &str, output: Option<&str>) -> Option<Value> {
        let outputs = self.scope.outputs.get(activity)?;
        outputs.get(output.unwrap_or("Result")).cloned()
    }

    fn last_result(&self) -> Option<Value> {
        self.scope.last_result.clone()
    }

    fn instance_id(&self) -> String {
        self.scope.workflow.instance_id.clone()
    }

    fn correlation_id(&self) -> Option<String> {
        self.scope.workflow.correlation_id.clone()
    }

    fn name(&self) -> Option<String> {
        self.scope.workflow.name.clone()
    }
}

/// Runs a script: here while it is short, else on another thread, where it sees a snapshot.
pub(super) async fn run<W: World + Sync>(
    session: &ScriptSession,
    script: &Arc<CSharpScript>,
    world: impl FnOnce() -> W,
    snapshot: impl FnOnce() -> Snapshot,
) -> Result<RanScript, Fault> {
    let options = session.options();
    let (time_limit, bytes, result_bytes) = (options.time_limit, options.memory_limit, options.max_result_bytes);
    if script.is_shallow() {
        let here = Bounds {
            steps: FEW_STEPS,
            bytes,
            result_bytes,
            pace: None,
        };
        match script.run(&world(), here) {
            Err(stop) if stop.kind == StopKind::Steps => {}
            ended => return ended.map(ran).map_err(|stop| fault(&stop)),
        }
    }
    let permit = Arc::clone(&PERMITS).acquire_owned().await;
    let closed = || {
        Fault::new("the node is shutting down")
            .code("script-closed")
            .category("Script")
    };
    let permit = permit.map_err(|_| closed())?;
    let snapshot = snapshot();
    let facts = snapshot.scope.workflow.clone();
    let Some(long) = session.begin_long(&facts) else {
        // Not visible, as the burst is deferred.
        return Err(Fault::new("no slot for slow scripts is free now").code("script-busy"));
    };
    let cancel = CancelOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&cancel.0);
    let (script, turns) = (Arc::clone(script), Arc::clone(session.turns()));
    let done = tokio::task::spawn_blocking(move || {
        let pace = Pace::begin(&turns, TurnLanguage::CSharp, &flag, time_limit);
        let ended = match pace {
            Some(_) => script.run(
                &snapshot,
                Bounds {
                    steps: MOST_STEPS,
                    bytes,
                    result_bytes,
                    pace,
                },
            ),
            None => Err(Stop::cancelled()),
        };
        drop((permit, long));
        ended
    });
    let ended = done.await.map_err(|_| closed())?;
    drop(cancel);
    match &ended {
        Err(stop) if stop.kind == StopKind::Time => session.long_ended(&facts, true),
        Err(stop) if stop.kind == StopKind::Cancelled => {}
        _ => session.long_ended(&facts, false),
    }
    ended.map(ran).map_err(|stop| fault(&stop))
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ran(result: CSharpResult) -> RanScript {
    RanScript {
        value: result.value,
        changes: ScriptChanges {
            variables: result.variables,
            correlation_id: result.correlation_id,
            name: result.name,
        },
        outcomes: result.outcomes,
        may_hold_secret: false,
    }
}

fn fault(stop: &Stop) -> Fault {
    let code = match stop.kind {
        StopKind::Thrown => "script-error",
        StopKind::Steps | StopKind::Time => "script-timeout",
        StopKind::Memory => "script-memory",
        StopKind::InvalidText => "invalid-text",
        StopKind::TooLarge => "value-too-large",
        StopKind::Cancelled => "script-closed",
    };
    let place = stop.at.map(|at| (at.line, at.column));
    Fault::new(stop.to_string()).code(code).category("Script").at(place)
}

/// The fault of a script that is no C#.
pub(super) fn syntax_fault(problem: &Problem) -> Fault {
    let place = (problem.at.line, problem.at.column);
    Fault::new(problem.to_string())
        .code("script-syntax")
        .category("Script")
        .at(Some(place))
}

/// The names that a script may have when its text is made while the instance runs.
pub(super) fn open_names(variables: &Map<String, Value>, is_activity: bool) -> CSharpNames {
    CSharpNames {
        variables: variables.keys().map(|name| (name.clone(), Ty::Dynamic)).collect(),
        is_activity,
        is_open: true,
        ..CSharpNames::default()
    }
}
