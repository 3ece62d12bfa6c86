//! The names that scripts can use, as TypeScript declarations from which a script editor completes.
//!
//! `functions.d.ts` declares the functions that every script has (`prelude.js` makes them, and a test compares the two).
//! The rest depends on the workflow: its variables, its inputs, and the outputs of its activities.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::accessor::pascal;
use crate::expression::language::ScriptNames;
use crate::expression::type_name::TypeName;

const FUNCTIONS: &str = include_str!("functions.d.ts");

/// The maximum number of generated declarations; an editor is slow long before that.
const MOST: usize = 5_000;

/// Returns the declarations. A name that cannot be part of a function's name is left out: `getVariable` and similar
/// functions read it.
pub(super) fn declarations(names: &ScriptNames) -> String {
    let mut text = String::from("interface WorkflowVariables {\n");
    for (name, kind) in names.variables.iter().take(MOST) {
        // JSON's texts are TypeScript's.
        let quoted = serde_json::Value::from(name.as_str());
        let _ = writeln!(text, "  {quoted}: {};", typescript(kind));
    }
    text.push_str("  [name: string]: any;\n}\n");
    text.push_str(FUNCTIONS);
    // As for scripts, an output takes precedence over an input, and an input over a variable.
    let mut functions = BTreeMap::new();
    for (name, kind) in &names.variables {
        let (pascal, kind) = (pascal(name), typescript(kind));
        functions.insert(format!("set{pascal}"), format!("(value: {kind}): void"));
        functions.insert(format!("get{pascal}"), format!("(): {kind}"));
    }
    for (name, kind) in &names.inputs {
        functions.insert(format!("get{}", pascal(name)), format!("(): {}", typescript(kind)));
    }
    for ((activity, output), kind) in &names.outputs {
        let name = format!("get{}From{}", pascal(output), pascal(activity));
        functions.insert(name, format!("(): {} | null", typescript(kind)));
    }
    let fixed = |name: &str| FUNCTIONS.contains(&format!("declare function {name}("));
    let named = functions
        .iter()
        .filter(|(name, _)| is_identifier(name) && name.len() > 3 && !fixed(name));
    for (name, signature) in named.take(MOST) {
        let _ = writeln!(text, "declare function {name}{signature};");
    }
    text
}

fn is_identifier(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

fn typescript(kind: &TypeName) -> String {
    match kind {
        TypeName::Any | TypeName::Json | TypeName::Own => "any".to_owned(),
        TypeName::Object => "Record<string, any>".to_owned(),
        TypeName::Text | TypeName::Guid | TypeName::DateOnly => "string".to_owned(),
        TypeName::DateTime => "Date".to_owned(),
        TypeName::DateTimeOffset => "DateTimeOffset".to_owned(),
        TypeName::TimeSpan => "TimeSpan".to_owned(),
        TypeName::Bytes => "Uint8Array".to_owned(),
        TypeName::Boolean => "boolean".to_owned(),
        TypeName::Integer(..) | TypeName::Double | TypeName::Single | TypeName::Decimal => "number".to_owned(),
        TypeName::List(items) => format!("{}[]", typescript(items)),
    }
}
