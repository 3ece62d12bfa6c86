//! Which generated functions a script needs: `getCounter()`, `setCounter(v)`, `getName()` of an input,
//! `getResultFromHttpRequest()`.
//!
//! Elsa generates one per variable, input and output. Defining them all for every evaluation would cost more than the
//! scripts themselves, so a script's text is searched for words that match one. For a script that can construct names
//! at run time (`eval`, `Function`, `globalThis`), all of them are defined.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use crate::expression::script::ScriptScope;

/// What a generated function does; `prelude.js` has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessorKind {
    /// Reads a variable.
    Read = 0,
    /// Reads an input of the workflow.
    Input = 1,
    /// Reads an output of an activity.
    Output = 2,
    /// Writes a variable.
    Write = 5,
}

/// A function to define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accessor {
    /// Its name in the global object.
    pub(super) name: String,
    pub(super) kind: AccessorKind,
    /// The variable, input, or activity.
    pub(super) target: String,
    /// The output.
    pub(super) part: Option<String>,
}

/// The functions that `script` may call; a later one replaces an earlier one of the same name. As in Elsa, a declared
/// input takes precedence over a variable, and an output over both.
pub(super) fn required_accessors(script: &str, scope: &ScriptScope) -> Vec<Accessor> {
    let mut list = Vec::new();
    let mut seen = HashSet::new();
    let names = Names::of(scope);
    let mut dynamic = false;
    for word in script.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')) {
        dynamic |= matches!(word, "eval" | "Function" | "globalThis");
        let Some(rest) = word.strip_prefix("get").or_else(|| word.strip_prefix("set")) else {
            continue;
        };
        if !rest.is_empty() && seen.insert(word) {
            resolve(word, rest, &names, seen.len(), &mut list);
        }
    }
    if dynamic {
        all_accessors(scope, &mut list);
    }
    list.retain(|accessor| !FIXED.contains(&accessor.name.as_str()));
    list
}

/// Elsa's own functions, which no variable can replace.
const FIXED: &[&str] = &[
    "getVariable",
    "setVariable",
    "getInput",
    "getOutputFrom",
    "getLastResult",
    "getWorkflowInstanceId",
    "getWorkflowDefinitionId",
    "getWorkflowDefinitionVersionId",
    "getWorkflowDefinitionVersion",
    "getCorrelationId",
    "setCorrelationId",
    "getWorkflowInstanceName",
    "setWorkflowInstanceName",
    "setOutcome",
    "setOutcomes",
    "getConfig",
    "getSecret",
    "createEventTriggerUrl",
    "createResumeUrl",
    "getGuid",
    "getGuidString",
    "getShortGuid",
];

/// The maximum number of comparisons of words with names one by one; beyond it the names are looked up in an index.
const MOST_COMPARED: usize = 20_000;

/// The maximum number of places at which a word is divided into an output and an activity.
pub(super) const MOST_DIVISIONS: usize = 16;

/// The names of a scope, with an index by Pascal case for scripts and scopes so large that comparing each word with
/// each name takes long.
struct Names<'s> {
    scope: &'s ScriptScope,
    count: usize,
    index: OnceCell<Index<'s>>,
}

/// Of several names with the same Pascal case the first one counts, as without an index.
struct Index<'s> {
    variables: HashMap<String, &'s str>,
    inputs: HashMap<String, &'s str>,
    /// The names of activity and output, by the Pascal case of the activity and then of the output.
    outputs: HashMap<String, HashMap<String, (&'s str, &'s str)>>,
}

impl<'s> Names<'s> {
    fn of(scope: &'s ScriptScope) -> Self {
        Self {
            scope,
            count: scope.variables.len() + scope.inputs.len() + scope.outputs.len(),
            index: OnceCell::new(),
        }
    }

    /// Returns the index if this many words justify building it.
    fn index(&self, words: usize) -> Option<&Index<'s>> {
        (words.saturating_mul(self.count) > MOST_COMPARED).then(|| self.index.get_or_init(|| Index::of(self.scope)))
    }

    fn variable(&self, word: &str, words: usize) -> Option<&'s str> {
        match self.index(words) {
            Some(index) => index.variables.get(word).copied(),
            None => {
                let mut names = self.scope.variables.keys();
                names.find(|name| is_pascal_of(word, name)).map(String::as_str)
            }
        }
    }

    fn input(&self, word: &str, words: usize) -> Option<&'s str> {
        match self.index(words) {
            Some(index) => index.inputs.get(word).copied(),
            None => {
                let mut names = self.scope.inputs.keys();
                names
                    .find(|name| *name == word || is_pascal_of(word, name))
                    .map(String::as_str)
            }
        }
    }

    /// The activity and the output that these words name.
    fn output(&self, activity: &str, part: &str, words: usize) -> Option<(&'s str, &'s str)> {
        if let Some(index) = self.index(words) {
            return index.outputs.get(activity)?.get(part).copied();
        }
        let mut named = self
            .scope
            .outputs
            .iter()
            .filter(|(name, _)| is_pascal_of(activity, name));
        named.find_map(|(activity, outputs)| {
            let name = outputs.as_object()?.keys().find(|name| is_pascal_of(part, name))?;
            Some((activity.as_str(), name.as_str()))
        })
    }
}

impl<'s> Index<'s> {
    fn of(scope: &'s ScriptScope) -> Self {
        let mut index = Self {
            variables: HashMap::new(),
            inputs: HashMap::new(),
            outputs: HashMap::new(),
        };
        for name in scope.variables.keys() {
            index.variables.entry(pascal(name)).or_insert(name);
        }
        for name in scope.inputs.keys() {
            index.inputs.entry(pascal(name)).or_insert(name);
            index.inputs.entry(name.clone()).or_insert(name);
        }
        for (name, outputs) in &scope.outputs {
            let of_activity = index.outputs.entry(pascal(name)).or_default();
            for part in outputs.as_object().into_iter().flat_map(serde_json::Map::keys) {
                of_activity.entry(pascal(part)).or_insert((name, part));
            }
        }
        index
    }
}

fn resolve(word: &str, rest: &str, names: &Names<'_>, words: usize, list: &mut Vec<Accessor>) {
    let write = word.starts_with("set");
    let kind = if write { AccessorKind::Write } else { AccessorKind::Read };
    let add = |kind, target: &str, part| Accessor {
        name: word.to_owned(),
        kind,
        target: target.to_owned(),
        part,
    };
    let variable = names.variable(rest, words);
    if let Some(name) = variable {
        list.push(add(kind, name, None));
    }
    if write {
        return;
    }
    let input = names.input(rest, words);
    let input = input.filter(|name| variable.is_none() || !names.scope.covered_inputs.contains(*name));
    if let Some(name) = input {
        list.push(add(AccessorKind::Input, name, None));
    }
    let is_taken = variable.is_some() || input.is_some();
    list.extend(output(word, rest, names, words, is_taken));
}

/// `ResultFromHttpRequest`: the existing outputs decide which "From" separates the names. An activity that has not run
/// yet has no outputs and reads as null, as in Elsa, unless the word names a variable or an input.
fn output(word: &str, rest: &str, names: &Names<'_>, words: usize, is_taken: bool) -> Option<Accessor> {
    let mut unknown = None;
    for (at, from) in rest.match_indices("From").take(MOST_DIVISIONS) {
        let (Some(part), Some(activity)) = (rest.get(..at), rest.get(at + from.len()..)) else {
            continue;
        };
        if part.is_empty() || activity.is_empty() {
            continue;
        }
        let make = |target: &str, part: &str| Accessor {
            name: word.to_owned(),
            kind: AccessorKind::Output,
            target: target.to_owned(),
            part: Some(part.to_owned()),
        };
        if let Some((target, name)) = names.output(activity, part, words) {
            return Some(make(target, name));
        }
        unknown.get_or_insert_with(|| make(activity, part));
    }
    unknown.filter(|_| !is_taken)
}

fn all_accessors(scope: &ScriptScope, list: &mut Vec<Accessor>) {
    for name in scope.variables.keys() {
        let pascal = pascal(name);
        list.push(Accessor {
            name: format!("get{pascal}"),
            kind: AccessorKind::Read,
            target: name.clone(),
            part: None,
        });
        list.push(Accessor {
            name: format!("set{pascal}"),
            kind: AccessorKind::Write,
            target: name.clone(),
            part: None,
        });
    }
    let variables: HashSet<String> = scope.variables.keys().map(|name| pascal(name)).collect();
    let is_seen = |name: &&String| !scope.covered_inputs.contains(*name) || !variables.contains(name.as_str());
    for name in scope.inputs.keys().filter(is_seen) {
        list.push(Accessor {
            name: format!("get{name}"),
            kind: AccessorKind::Input,
            target: name.clone(),
            part: None,
        });
    }
    for (activity, outputs) in &scope.outputs {
        for output in outputs.as_object().into_iter().flat_map(|outputs| outputs.keys()) {
            let name = format!("get{}From{}", pascal(output), pascal(activity));
            list.push(Accessor {
                name,
                kind: AccessorKind::Output,
                target: activity.clone(),
                part: Some(output.clone()),
            });
        }
    }
}

/// A name in Pascal case, as Elsa puts it into the name of a function: the first letter and each letter after spaces,
/// dashes or underscores become upper case, and these separators are removed.
pub(super) fn pascal(name: &str) -> String {
    pascal_chars(name).collect()
}

fn is_pascal_of(word: &str, name: &str) -> bool {
    word.chars().eq(pascal_chars(name))
}

fn pascal_chars(name: &str) -> impl Iterator<Item = char> + '_ {
    let mut start = true;
    name.chars().filter_map(move |c| match c {
        ' ' | '-' | '_' => {
            start = true;
            None
        }
        _ if std::mem::take(&mut start) => Some(c.to_uppercase().next().unwrap_or(c)),
        _ => Some(c),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::testing::thread_time;

    /// Names that are all `A` in Pascal case.
    fn crowded(count: usize) -> ScriptScope {
        let outputs = (0..count).map(|n| {
            let dashes: String = (0..16).map(|bit| if n >> bit & 1 == 1 { '-' } else { '_' }).collect();
            (format!("{dashes}a"), json!({"first": 1}))
        });
        ScriptScope {
            outputs: outputs.collect(),
            ..ScriptScope::default()
        }
    }

    #[test]
    fn the_work_grows_with_words_and_names_and_not_with_their_product() {
        let words: Vec<String> = (0..20_000).map(|n| format!("getB{n}FromA")).collect();
        let (script, scope) = (words.join(" "), crowded(20_000));
        let began = thread_time();
        let found = required_accessors(&script, &scope);
        let took = thread_time() - began;
        assert_eq!(found.len(), 20_000);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }

    #[test]
    fn the_work_grows_with_the_covered_inputs_and_not_with_their_square() {
        let names = || (0..50_000).map(|n| format!("I{n}"));
        let mut scope = ScriptScope {
            covered_inputs: names().collect(),
            ..ScriptScope::default()
        };
        scope.inputs = names().map(|name| (name, json!(1))).collect();
        scope.variables.insert("I7".to_owned(), json!(2));
        let began = thread_time();
        let found = required_accessors("globalThis", &scope);
        let took = thread_time() - began;
        assert_eq!(
            found.len(),
            50_001,
            "getI7 and setI7 of the variable, and the other inputs"
        );
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn an_index_finds_the_same_outputs() {
        let find = |scope: &ScriptScope, script: &str| {
            let found = required_accessors(script, scope);
            let target = |name: &str| found.iter().find(|it| it.name == name).map(|it| it.target.clone());
            target("getFirstFromA")
        };
        let many = format!(
            "getFirstFromA {}",
            (0..200).map(|n| format!("getB{n}FromA ")).collect::<String>()
        );
        let (few, crowd) = (crowded(3), crowded(3_000));
        assert_eq!(find(&few, "getFirstFromA"), find(&few, &many));
        assert_eq!(find(&crowd, "getFirstFromA"), find(&crowd, &many));
        assert!(find(&crowd, &many).is_some());
    }
}
