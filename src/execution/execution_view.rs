//! What a script sees of an instance, as one execution does.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::evaluate::Evaluator;
use super::scope;
use crate::activity::ActivityNode;
use crate::expression::{CompiledScript, ScriptError, ScriptScope, ScriptText, ScriptView, WorkflowFacts};

/// The state of an instance, as one execution sees it.
pub(super) struct ExecutionView<'a> {
    evaluator: &'a Evaluator<'a>,
    /// The executions whose variables are visible, innermost first.
    chain: OnceLock<Vec<u64>>,
    inputs: OnceLock<Cow<'a, Map<String, Value>>>,
    facts: OnceLock<WorkflowFacts>,
}

impl<'a> ExecutionView<'a> {
    pub(super) fn of(evaluator: &'a Evaluator<'a>) -> Self {
        Self {
            evaluator,
            chain: OnceLock::new(),
            inputs: OnceLock::new(),
            facts: OnceLock::new(),
        }
    }
}

impl ScriptView for ExecutionView<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        let seen = self.evaluator;
        let given = seen.arguments.and_then(|arguments| arguments.get(name));
        given.or_else(|| {
            let chain = self
                .chain
                .get_or_init(|| scope::chain(seen.program, seen.state, seen.context));
            let mut contexts = chain.iter().filter_map(|number| seen.state.contexts.get(number));
            contexts.find_map(|context| context.variables.get(name))
        })
    }

    fn variable_names(&self) -> Vec<String> {
        let seen = self.evaluator;
        let all = scope::visible(seen.program, seen.state, seen.context);
        all.into_iter().map(|(name, _)| name).collect()
    }

    fn variable_type(&self, name: &str) -> Option<(&str, bool)> {
        let seen = self.evaluator;
        let declared = scope::find(seen.program, seen.state, seen.context, name)?.declared?;
        Some((&declared.type_name, declared.is_array))
    }

    fn inputs(&self) -> &Map<String, Value> {
        let seen = self.evaluator;
        self.inputs
            .get_or_init(|| scope::inputs(seen.program, seen.state, seen.context))
    }

    fn output(&self, activity: &str, output: &str) -> Option<&Value> {
        let seen = self.evaluator;
        let of = |is_meant: &dyn Fn(&ActivityNode) -> bool| {
            let mut meant = seen.written_beside().filter(|node| is_meant(node));
            meant.find_map(|node| seen.state.activity_outputs.get(&node.node_id))
        };
        // An id takes precedence over an equal name.
        let outputs = of(&|node| node.id == activity);
        outputs
            .or_else(|| of(&|node| node.name.as_deref() == Some(activity)))?
            .get(output)
    }

    fn last_result(&self) -> Option<&Value> {
        self.evaluator.state.last_result.as_ref()
    }

    fn facts(&self) -> &WorkflowFacts {
        self.facts.get_or_init(|| self.evaluator.facts())
    }

    fn scope(&self) -> ScriptScope {
        self.evaluator.script_scope()
    }

    fn compiled(&self, language: &'static str, script: ScriptText<'_>) -> Option<&Result<CompiledScript, ScriptError>> {
        let seen = self.evaluator;
        seen.program.scripts.find(seen.workflow_node(), language, script)
    }
}
