//! The C# of a definition, compiled with its program.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use mainspring_csharp::{DeclaredType, Names, Position, Problem, Script};

use crate::activity::{ActivityTree, NodeIndex, NodeInput, RUN_CSHARP, SCRIPT};
use crate::definition::{Argument, Variable};

type Compiled = Result<Arc<Script>, Problem>;

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
        let mut names: HashMap<NodeIndex, Names> = HashMap::new();
        for node in tree.iter() {
            for (text, is_activity) in node.inputs.iter().filter_map(|input| script_of(&node.type_name, input)) {
                let of_workflow = names
                    .entry(node.workflow)
                    .or_insert_with(|| names_of(tree, node.workflow, &child_variables, &inputs));
                of_workflow.is_activity = is_activity;
                let known = scripts.compiled.entry((node.workflow, is_activity)).or_default();
                known
                    .entry(text.to_owned())
                    .or_insert_with(|| compile(text, of_workflow).map(Arc::new));
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
) -> Names {
    let mut names = Names::default();
    let mut add = |name: &str, ty: DeclaredType| {
        let known = names.variables.entry(name.to_owned()).or_insert_with(|| ty.clone());
        if *known != ty {
            *known = DeclaredType::default();
        }
    };
    for node in tree.of_workflow(workflow) {
        for variable in &node.variables {
            add(&variable.name, type_of(variable));
        }
        for (name, _) in child_variables(node.index) {
            add(&name, DeclaredType::default());
        }
    }
    for input in inputs(workflow) {
        let ty = DeclaredType::named(&input.type_name, input.is_array);
        names.inputs.insert(input.name, ty);
    }
    names
}

pub(super) fn type_of(variable: &Variable) -> DeclaredType {
    DeclaredType::named(&variable.type_name, variable.is_array)
}

/// Compiles a script, on a stack that is large enough for it.
pub(super) fn compile(text: &str, names: &Names) -> Result<Script, Problem> {
    if Script::is_short(text) {
        return Script::compile(text, names);
    }
    on_large_stack(|| Script::compile(text, names)).unwrap_or_else(|| {
        Err(Problem {
            at: Position::default(),
            message: "there is no thread to check the script on".to_owned(),
        })
    })
}

/// None: the thread cannot be started, or it panicked.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new()
            .stack_size(Script::STACK)
            .spawn_scoped(scope, work);
        started.ok()?.join().ok()
    })
}
