//! The scripts of a program: which texts are scripts, and those that are compiled with it.

use std::collections::HashMap;

use crate::activity::{ActivityTree, NodeIndex, NodeInput, SCRIPT};
use crate::expression::{
    CompiledScript, Compiler, DeclaredNames, Language, ScriptError, ScriptText, language, language_of_activity,
};

type Compiled = Result<CompiledScript, ScriptError>;

/// The scripts of one program, in the languages that compile them.
#[derive(Default)]
pub(super) struct ProgramScripts {
    /// By the workflow that they are in, their language, whether they are the script of an activity, and their text.
    compiled: HashMap<(NodeIndex, &'static str, bool), HashMap<String, Compiled>>,
}

/// The text of an input that is a script; `None` for a blank one.
pub(super) fn script_of<'n>(type_name: &str, input: &'n NodeInput) -> Option<(&'static dyn Language, ScriptText<'n>)> {
    let expression = input.expression.as_ref()?;
    let is_activity = input.name == SCRIPT && expression.kind == "Literal";
    let language = match is_activity {
        true => language_of_activity(type_name)?,
        false => language(&expression.kind)?,
    };
    let text = expression.value.as_str().filter(|text| !text.trim().is_empty())?;
    Some((language, ScriptText { text, is_activity }))
}

impl ProgramScripts {
    /// Compiles the scripts of a tree; `names` are those that are declared in a workflow.
    pub(super) fn of(tree: &ActivityTree, names: impl Fn(NodeIndex) -> DeclaredNames) -> Self {
        let mut scripts = Self::default();
        let mut compilers: HashMap<(NodeIndex, &str), Option<Compiler>> = HashMap::new();
        for node in tree.iter() {
            for input in &node.inputs {
                let Some((language, script)) = script_of(&node.type_name, input) else {
                    continue;
                };
                let compiler = compilers
                    .entry((node.workflow, language.name()))
                    .or_insert_with(|| language.compiler(&|| names(node.workflow)));
                let Some(compile) = compiler else { continue };
                let key = (node.workflow, language.name(), script.is_activity);
                let known = scripts.compiled.entry(key).or_default();
                known.entry(script.text.to_owned()).or_insert_with(|| compile(script));
            }
        }
        scripts
    }

    pub(super) fn find(
        &self,
        workflow: NodeIndex,
        language: &'static str,
        script: ScriptText<'_>,
    ) -> Option<&Compiled> {
        self.compiled
            .get(&(workflow, language, script.is_activity))?
            .get(script.text)
    }
}
