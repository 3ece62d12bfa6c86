//! C# as one of the languages. The crate `mainspring-csharp` implements the language itself.
//!
//! A script first runs where its burst runs, with few steps. A script that needs more is abandoned, which is safe
//! because scripts are pure, and starts again on a thread of its own, with all its steps and a time limit. There it
//! takes turns with the long scripts of all languages, and stops when its burst is dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mainspring_csharp::{Bounds, DeclaredType, Names, Outcome, Position, Problem, Script, Stop, StopKind, World};
use mainspring_language::Steps;
use serde_json::Value;

use super::language::{Compiler, DeclaredNames, KnownNames, Language, LanguageFacts, Place, ScriptRun, UnknownName};
use super::processor::on_stack_of;
use super::resume_links::{LinkMaker, ResumeLinks};
use super::script::{Evaluated, EvaluationResult, ScriptChanges, ScriptError, ScriptErrorKind, ScriptText};
use super::script_view::{ScriptView, ViewSnapshot, input_named};
use super::session::ScriptSession;

/// Steps where the burst runs: about 2 ms.
const FEW_STEPS: u64 = 20_000;
/// Steps on a thread of its own: more than any processor executes within the time limit.
const MOST_STEPS: u64 = 100_000_000_000;

/// A subset of C# that is checked at publish.
#[derive(Debug)]
pub(crate) struct CSharp;

impl Language for CSharp {
    fn facts(&self) -> &'static LanguageFacts {
        &LanguageFacts {
            name: "CSharp",
            display_name: "C#",
            editor: "csharp",
            chooses_by: Some("Outcome.Set(name)"),
            is_script: true,
            code_prefix: "script",
            refusal: " is not C# that runs here",
        }
    }

    /// A value that is not text is not a script.
    fn text_of<'v>(&self, value: &'v Value) -> Cow<'v, str> {
        Cow::Borrowed(value.as_str().unwrap_or_default())
    }

    fn compiler(&self, declared: &dyn Fn() -> DeclaredNames) -> Option<Compiler> {
        let mut names = names_of(declared());
        Some(Box::new(move |script| {
            names.is_activity = script.is_activity;
            Ok(Arc::new(compile(script.text, &names)?))
        }))
    }

    /// A variable that is read by a name which is written out.
    fn unknown_names(&self, text: &str, known: &KnownNames) -> Vec<UnknownName> {
        let unknown = named_variables(text).filter(|(name, _)| !known.names.variables.contains_key(*name));
        let unknown = unknown.take(KnownNames::MOST).map(|(name, place)| UnknownName {
            shown: name.to_owned(),
            variable: Some(name.to_owned()),
            place,
            becomes: "it is null, or the default of its type",
        });
        unknown.collect()
    }

    fn evaluate<'a>(
        &'a self,
        script: ScriptText<'a>,
        view: &'a dyn ScriptView,
        session: &'a ScriptSession,
    ) -> ScriptRun<'a> {
        let compiled = match view.compiled(self.name(), script) {
            Some(Ok(compiled)) => Arc::clone(compiled).downcast::<Script>().ok(),
            Some(Err(problem)) => return ScriptRun::Ended(Err(problem.clone())),
            None => None,
        };
        let open = || compile(script.text, &open_names(view.variable_names(), script.is_activity)).map(Arc::new);
        match compiled.map_or_else(open, Ok) {
            Ok(compiled) => run(compiled, view, session),
            Err(problem) => ScriptRun::Ended(Err(problem)),
        }
    }
}

/// The longest text behind the name of a call that is searched.
const LONGEST_CALL: usize = 200;

/// The names in `Variables.Get("Name")` and `GetVariable<int>("Name")`; none of a text with block comments, and none that stands
/// behind `//` or in a text.
fn named_variables(text: &str) -> impl Iterator<Item = (&str, Place)> {
    let lines = text.lines().enumerate().filter(|_| !text.contains("/*"));
    lines.flat_map(|(number, line)| {
        let line = line.split("//").next().unwrap_or_default();
        let calls = ["Variables.Get", "Variable.Get", ".GetVariable"].into_iter();
        let named = calls.flat_map(|call| line.match_indices(call)).take(KnownNames::MOST);
        let named = named.filter_map(move |(at, call)| {
            let (before, rest) = (line.get(..at)?, line.get(at + call.len()..)?);
            let rest = rest.get(..LONGEST_CALL).unwrap_or(rest);
            let arguments = match rest.strip_prefix('<') {
                Some(generic) => generic.split_once(">(")?.1,
                None => rest.strip_prefix('(')?,
            };
            let (name, _) = arguments.strip_prefix('"')?.split_once('"')?;
            let column = before.chars().count() + call.len() + rest.len() - arguments.len() + 1;
            let is_code = before.matches('"').count() % 2 == 0;
            let place = (u32::try_from(number + 1).ok()?, u32::try_from(column).ok()?);
            is_code.then_some((name, place))
        });
        named.collect::<Vec<_>>()
    })
}

/// Runs a short script here, and a longer one on another thread, where it sees a snapshot.
fn run<'a>(script: Arc<Script>, view: &'a dyn ScriptView, session: &'a ScriptSession) -> ScriptRun<'a> {
    let options = session.options();
    let few = Bounds {
        steps: FEW_STEPS,
        bytes: options.memory_limit,
        result_bytes: options.max_result_bytes,
        caller: None,
    };
    if script.is_shallow() {
        let world = CSharpWorld::of(view, &options.links);
        match script.run(&world, few) {
            Err(stop) if stop.kind == StopKind::Steps => {}
            ended => return ScriptRun::Ended(result(ended, &world.links)),
        }
    }
    ScriptRun::GoesOn(Box::pin(async move {
        let stack = (!script.is_shallow()).then_some(Script::STACK);
        let (bytes, result_bytes) = (few.bytes, few.result_bytes);
        let prepare = move || {
            let snapshot = ViewSnapshot::of(view);
            let links = options.links.clone();
            move |caller: &dyn Steps| {
                let bounds = Bounds {
                    steps: MOST_STEPS,
                    bytes,
                    result_bytes,
                    caller: Some(caller),
                };
                let world = CSharpWorld::of(&snapshot, &links);
                result(script.run(&world, bounds), &world.links)
            }
        };
        session.run_long(CSharp.name(), view.facts(), stack, prepare).await
    }))
}

fn result(ran: Result<Outcome, Box<Stop>>, links: &LinkMaker) -> EvaluationResult {
    let outcome = ran.map_err(|stop| ScriptError {
        kind: match stop.kind {
            StopKind::Thrown => ScriptErrorKind::Thrown,
            StopKind::Steps | StopKind::Time => ScriptErrorKind::Timeout,
            StopKind::Memory => ScriptErrorKind::Memory,
            StopKind::InvalidText => ScriptErrorKind::InvalidText,
            StopKind::TooLarge => ScriptErrorKind::TooLarge,
            StopKind::Cancelled => ScriptErrorKind::Closed,
        },
        message: stop.to_string(),
        place: stop.at.map(|at| (at.line, at.column)),
    })?;
    Ok(Evaluated {
        value: outcome.value,
        changes: ScriptChanges {
            variables: outcome.variables,
            correlation_id: outcome.correlation_id,
            name: outcome.name,
            links: links.take(),
        },
        outcomes: outcome.outcomes,
        may_hold_secret: false,
    })
}

/// Compiles a script, on a stack that is large enough for it.
fn compile(text: &str, names: &Names) -> Result<Script, ScriptError> {
    let compiled = if Script::is_short(text) {
        Script::compile(text, names)
    } else {
        on_stack_of(Script::STACK, || Script::compile(text, names)).unwrap_or_else(|| {
            Err(Problem {
                at: Position::default(),
                message: "there is no thread to check the script on".to_owned(),
            })
        })
    };
    compiled.map_err(|problem| ScriptError {
        kind: ScriptErrorKind::Syntax,
        message: problem.to_string(),
        place: Some((problem.at.line, problem.at.column)),
    })
}

/// The names that the scripts of a workflow can use. A name that is declared twice with different types has no type.
fn names_of(declared: DeclaredNames) -> Names {
    let mut names = Names::default();
    for (name, type_name, is_array) in declared.variables {
        let ty = DeclaredType::named(&type_name, is_array);
        let known = names.variables.entry(name).or_insert_with(|| ty.clone());
        if *known != ty {
            *known = DeclaredType::default();
        }
    }
    names.is_open = declared.is_open;
    let inputs = declared.inputs.into_iter();
    names.inputs = inputs
        .map(|(name, type_name, is_array)| (name, DeclaredType::named(&type_name, is_array)))
        .collect();
    names
}

/// The names that a script may use when its text is created while the instance runs.
fn open_names(variables: Vec<String>, is_activity: bool) -> Names {
    let untyped = variables.into_iter().map(|name| (name, DeclaredType::default()));
    let mut names = Names::new(untyped.collect(), BTreeMap::new());
    names.is_activity = is_activity;
    names.is_open = true;
    names
}

/// What C# reads: only what a script names is copied.
struct CSharpWorld<'a> {
    view: &'a dyn ScriptView,
    links: LinkMaker,
}

impl<'a> CSharpWorld<'a> {
    fn of(view: &'a dyn ScriptView, links: &ResumeLinks) -> Self {
        Self {
            view,
            links: LinkMaker::new(links),
        }
    }
}

impl World for CSharpWorld<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        self.view.variable(name).cloned()
    }

    fn has_variable(&self, name: &str) -> bool {
        self.view.variable(name).is_some()
    }

    fn variable_names(&self) -> Vec<String> {
        self.view.variable_names()
    }

    fn variable_type(&self, name: &str) -> DeclaredType {
        let declared = self.view.variable_type(name);
        declared
            .map(|(type_name, is_array)| DeclaredType::named(type_name, is_array))
            .unwrap_or_default()
    }

    fn input(&self, name: &str) -> Option<Value> {
        input_named(self.view.inputs(), name).map(|(_, value)| value.clone())
    }

    fn output(&self, activity: &str, output: Option<&str>) -> Option<Value> {
        self.view.output(activity, output.unwrap_or("Result")).cloned()
    }

    fn last_result(&self) -> Option<Value> {
        self.view.last_result().cloned()
    }

    fn instance_id(&self) -> String {
        self.view.facts().instance_id.clone()
    }

    fn correlation_id(&self) -> Option<String> {
        self.view.facts().correlation_id.clone()
    }

    fn name(&self) -> Option<String> {
        self.view.facts().name.clone()
    }

    fn link(&self, event: Option<&str>, until: Option<&str>, uses: Option<f64>) -> Result<String, String> {
        self.links.of_texts(self.view.facts().link_owner(), event, until, uses)
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
