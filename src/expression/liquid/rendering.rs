//! A rendering, which runs on the caller's thread if it is short and otherwise on a thread of its own.

use std::sync::LazyLock;

use mainspring_language::Steps;
use mainspring_liquid::{Bounds, ErrorKind, TemplateError};
use serde_json::Value;

use super::cache::TemplateCache;
use super::template_view::TemplateView;
use crate::expression::language::ScriptRun;
use crate::expression::resume_links::LinkMaker;
use crate::expression::script::{Evaluated, EvaluationResult, ScriptChanges, ScriptError, ScriptErrorKind};
use crate::expression::script_view::{ScriptView, ViewSnapshot};
use crate::expression::session::ScriptSession;

/// Steps on the caller's thread: about a millisecond.
pub(super) const INLINE_STEPS: u64 = 10_000;

/// Steps of a long rendering: more than the time limit allows on any processor.
const MOST_STEPS: u64 = 1_000_000_000;

/// Bytes that the values of one rendering hold.
const MEMORY: usize = 16 << 20;

/// The templates of this process: they are the same for all.
static TEMPLATES: LazyLock<TemplateCache> = LazyLock::new(TemplateCache::default);

/// Renders a template. If it is long, it goes on with a copy of what it sees.
///
/// Cancellation safe: a dropped future stops the rendering, and nothing of it remains.
pub(super) fn render<'a>(text: &str, view: &'a dyn ScriptView, session: &'a ScriptSession) -> ScriptRun<'a> {
    let template = match TEMPLATES.get(text) {
        Ok(template) => template,
        Err(failure) => return ScriptRun::Ended(Err(error(failure))),
    };
    let output = session.options().max_result_bytes;
    let bounds = move |steps| Bounds {
        steps,
        memory: MEMORY,
        output,
        caller: None,
    };
    let named = session.named();
    let links = &LinkMaker::new(&session.options().links);
    match template.render(&TemplateView { view, named, links }, bounds(INLINE_STEPS)) {
        Err(error) if error.kind == ErrorKind::Timeout => {}
        rendered => return ScriptRun::Ended(result(rendered, links)),
    }
    ScriptRun::GoesOn(Box::pin(async move {
        let prepare = move || {
            let (snapshot, named) = (ViewSnapshot::of(view), named.clone());
            // Those of the attempt above are dropped with it.
            let links = LinkMaker::new(&session.options().links);
            move |caller: &dyn Steps| {
                let (view, named, links) = (&snapshot, &named, &links);
                let bounds = Bounds {
                    caller: Some(caller),
                    ..bounds(MOST_STEPS)
                };
                result(template.render(&TemplateView { view, named, links }, bounds), links)
            }
        };
        session.run_long("Liquid", view.facts(), None, prepare).await
    }))
}

fn result(rendered: Result<String, TemplateError>, links: &LinkMaker) -> EvaluationResult {
    let text = rendered.map_err(error)?;
    if text.contains('\0') {
        let message = "the text of the template contains U+0000, which cannot be stored; remove it by a filter";
        return Err(ScriptError::new(ScriptErrorKind::InvalidText, message));
    }
    Ok(Evaluated {
        value: Value::String(text),
        changes: ScriptChanges {
            links: links.take(),
            ..ScriptChanges::default()
        },
        ..Evaluated::default()
    })
}

/// The error of a template as that of a script.
pub(super) fn error(error: TemplateError) -> ScriptError {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    ScriptError {
        kind: match error.kind {
            ErrorKind::Syntax => ScriptErrorKind::Syntax,
            ErrorKind::Invalid => ScriptErrorKind::Thrown,
            ErrorKind::Timeout => ScriptErrorKind::Timeout,
            ErrorKind::Memory => ScriptErrorKind::Memory,
            ErrorKind::TooLarge => ScriptErrorKind::TooLarge,
            ErrorKind::Cancelled => ScriptErrorKind::Closed,
        },
        message: error.to_string(),
        place: (error.line > 0).then(|| (number(error.line), number(error.column))),
    }
}
