//! The syntax of a script, parsed without running it.

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{Context, Error, Runtime, Value as JsValue};

use super::compiled_scripts::CompiledScripts;
use super::language_change::refused_change;
use crate::expression::script::{ScriptError, ScriptErrorKind};

/// What the parser may use; a script has at most 64 kB.
const MEMORY: usize = 64 << 20;
const STACK: usize = 192 << 10;

/// Compiled behind it nothing of a script runs: it can only throw 0.
const FIRST: &str = "throw 0;";

/// The texts around a script in the forms that a realm tries, and what each needs in it.
const FORMS: [(&str, &str, &str); 5] = [
    ("", "", ""),
    ("() => [", "\n]", ""),
    ("(function () {", "\n})", "return"),
    ("async () => [", "\n]", "await"),
    ("(async function () {", "\n})", "await"),
];

/// Why a script cannot run, with the place in its text: it has no form that parses, or changes the language.
pub(super) fn syntax_error(script: &str) -> Option<ScriptError> {
    refused_change(script).or_else(|| unparsable(script).unwrap_or_default())
}

/// An error of the parser itself says nothing of the script.
fn unparsable(script: &str) -> rquickjs::Result<Option<ScriptError>> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(MEMORY);
    runtime.set_max_stack_size(STACK);
    let context = Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler, intrinsic::RegExp)>(&runtime)?;
    let mut furthest: Option<ScriptError> = None;
    for (before, after, word) in FORMS {
        let is_list = before.ends_with('[');
        if !script.contains(word) || (is_list && !CompiledScripts::may_be_expression(script)) {
            continue;
        }
        let begin = format!("{FIRST}{before}");
        match context.with(|ctx| problem(&ctx, &begin, script, after))? {
            None => return Ok(None),
            // The form in which most of the text is read is the one that is meant.
            Some(problem) if furthest.as_ref().is_none_or(|known| known.place < problem.place) => {
                furthest = Some(problem);
            }
            Some(_) => {}
        }
    }
    Ok(furthest)
}

fn problem(ctx: &rquickjs::Ctx<'_>, begin: &str, script: &str, end: &str) -> rquickjs::Result<Option<ScriptError>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    match ctx.eval_with_options::<JsValue<'_>, _>(format!("{begin}{script}{end}"), options) {
        Ok(_) => return Ok(None),
        Err(Error::Exception) => {}
        Err(error) => return Err(error),
    }
    let thrown = ctx.catch();
    let Some(error) = thrown.as_object() else {
        return Ok(None);
    };
    let text = |name: &str| -> String {
        let text = error.get::<_, Option<String>>(name).ok().flatten();
        text.unwrap_or_default()
    };
    // Memory and stack are those of the parser: a realm has its own.
    if text("name") != "SyntaxError" {
        return Ok(None);
    }
    let indent = u32::try_from(begin.chars().count()).unwrap_or_default();
    let place = place_of(&text("stack"), indent, script);
    Ok(Some(ScriptError {
        place,
        ..ScriptError::new(ScriptErrorKind::Syntax, format!("SyntaxError: {}", text("message")))
    }))
}

/// The place of the innermost frame. An error behind the end of the text is at its end.
fn place_of(stack: &str, indent: u32, script: &str) -> Option<(u32, u32)> {
    let frame = |line: &str| {
        let mut parts = line.trim_end_matches(')').rsplitn(3, ':');
        let column = parts.next()?.parse::<u32>().ok()?;
        let line = parts.next()?.parse::<u32>().ok()?;
        Some((line, column))
    };
    let (line, column) = stack.lines().find_map(frame)?;
    let lines = script.lines().count().max(1);
    let last = u32::try_from(lines).unwrap_or(u32::MAX);
    if line > last {
        let end = script.lines().last().unwrap_or_default().chars().count();
        return Some((last, u32::try_from(end).unwrap_or(u32::MAX).saturating_add(1)));
    }
    let column = if line == 1 {
        column.saturating_sub(indent)
    } else {
        column
    };
    Some((line, column.max(1)))
}
