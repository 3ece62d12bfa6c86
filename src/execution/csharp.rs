//! The C# of a definition, run as an execution of an instance sees it.
//!
//! A script first runs where its burst runs, with few steps. One that needs more is abandoned, which undoes nothing as a script
//! is pure, and runs again from its start on a thread of its own, with all its steps and a time limit, in turns with the long
//! scripts of other languages. There are as many of those threads as half of the processors, at least one. A burst that is
//! dropped stops its script there.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use mainspring_csharp::{Bounds, DeclaredType, Names, Outcome, Problem, Script, Stop, StopKind, World};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::csharp_scripts::{compile, on_large_stack, type_of};
use super::evaluate::Evaluator;
use super::scope;
use crate::activity::{ActivityNode, Fault, RanScript, ScriptChanges};
use crate::compute;
use crate::expression::{Pace, ScriptScope, ScriptSession};

/// Steps where the burst runs: some 2 ms.
const FEW_STEPS: u64 = 20_000;
/// Steps on a thread of its own: more than fit into its time, whatever the processor.
const MOST_STEPS: u64 = 100_000_000_000;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(compute::half_of_processors())));

impl Evaluator<'_> {
    /// Runs a script, as this execution sees it.
    pub(super) async fn csharp(&self, text: &str, is_activity: bool) -> Result<RanScript, Fault> {
        if text.trim().is_empty() {
            return Ok(RanScript::default());
        }
        let workflow = self.workflow_node();
        let script = match self.program.csharp.find(workflow, is_activity, text) {
            Some(compiled) => compiled.clone().map_err(|problem| syntax_fault(&problem))?,
            // A script that another expression has made.
            None => {
                let names = open_names(&scope::visible(self.program, self.state, self.context), is_activity);
                let compiled = compile(text, &names);
                Arc::new(compiled.map_err(|problem| syntax_fault(&problem))?)
            }
        };
        let ran = run(self.session, &script, || self, || self.snapshot()).await;
        let mut ran = ran.map_err(|fault| self.without_kept_secrets(fault))?;
        ran.may_hold_secret |= self.state.keeps_secrets;
        Ok(ran)
    }

    fn snapshot(&self) -> Snapshot {
        let scope = self.script_scope();
        let names = scope.variables.keys();
        let types = names.map(|name| (name.clone(), self.variable_type(name))).collect();
        Snapshot { scope, types }
    }
}

/// What C# reads: only what a script names is copied.
impl World for &Evaluator<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.arguments.and_then(|arguments| arguments.get(name)) {
            return Some(value.clone());
        }
        let chain = scope::chain(self.program, self.state, self.context);
        let contexts = chain.iter().filter_map(|number| self.state.contexts.get(number));
        contexts
            .into_iter()
            .find_map(|context| context.variables.get(name))
            .cloned()
    }

    fn variable_names(&self) -> Vec<String> {
        let all = scope::visible(self.program, self.state, self.context);
        all.into_iter().map(|(name, _)| name).collect()
    }

    fn variable_type(&self, name: &str) -> DeclaredType {
        let location = scope::find(self.program, self.state, self.context, name);
        let declared = location.and_then(|location| location.declared);
        declared.map(type_of).unwrap_or_default()
    }

    fn input(&self, name: &str) -> Option<Value> {
        scope::inputs(self.program, self.state, self.context).get(name).cloned()
    }

    fn output(&self, activity: &str, output: Option<&str>) -> Option<Value> {
        let named = |by_id: bool| {
            let is_meant = move |node: &&ActivityNode| {
                if by_id {
                    node.id == activity
                } else {
                    node.name.as_deref() == Some(activity)
                }
            };
            self.written_beside()
                .filter(is_meant)
                .find_map(|node| self.state.activity_outputs.get(&node.node_id))
        };
        // An id takes precedence over an equal name.
        let outputs = named(true).or_else(|| named(false))?;
        outputs.get(output.unwrap_or("Result")).cloned()
    }

    fn last_result(&self) -> Option<Value> {
        self.state.last_result.clone()
    }

    fn instance_id(&self) -> String {
        self.state.instance_id.to_string()
    }

    fn correlation_id(&self) -> Option<String> {
        self.state.correlation_id.clone()
    }

    fn name(&self) -> Option<String> {
        self.state.name.clone()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// What a script reads, on a thread of its own.
#[derive(Debug)]
struct Snapshot {
    scope: ScriptScope,
    types: HashMap<String, DeclaredType>,
}

impl World for Snapshot {
    fn variable(&self, name: &str) -> Option<Value> {
        self.scope.variables.get(name).cloned()
    }

    fn variable_names(&self) -> Vec<String> {
        self.scope.variables.keys().cloned().collect()
    }

    fn variable_type(&self, name: &str) -> DeclaredType {
        self.types.get(name).cloned().unwrap_or_default()
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

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Runs a script: here while it is short, else on another thread, where it sees a snapshot.
async fn run<W: World>(
    session: &ScriptSession,
    script: &Arc<Script>,
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
            caller: None,
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
        let work = || {
            let pace = Pace::begin(&turns, "CSharp", &flag, time_limit).ok_or_else(cancelled)?;
            let bounds = Bounds {
                steps: MOST_STEPS,
                bytes,
                result_bytes,
                caller: Some(&pace),
            };
            script.run(&snapshot, bounds)
        };
        let ended = if script.is_shallow() {
            work()
        } else {
            on_large_stack(work).unwrap_or_else(|| Err(cancelled()))
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

fn cancelled() -> Box<Stop> {
    Box::new(Stop {
        kind: StopKind::Cancelled,
        at: None,
        message: "the script was cancelled".to_owned(),
    })
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ran(result: Outcome) -> RanScript {
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
fn syntax_fault(problem: &Problem) -> Fault {
    let place = (problem.at.line, problem.at.column);
    Fault::new(problem.to_string())
        .code("script-syntax")
        .category("Script")
        .at(Some(place))
}

/// The names that a script may have when its text is made while the instance runs.
fn open_names(variables: &Map<String, Value>, is_activity: bool) -> Names {
    let untyped = variables.keys().map(|name| (name.clone(), DeclaredType::default()));
    let mut names = Names::new(untyped.collect(), BTreeMap::new());
    names.is_activity = is_activity;
    names.is_open = true;
    names
}
