//! Long templates beside short ones: slots, turns, and callers that leave.

use std::time::{Duration, Instant};

use super::rendering::render;
use crate::expression::language::ScriptRun;
use crate::expression::script::{EvaluationResult, ScriptErrorKind, ScriptScope, WorkflowFacts};
use crate::expression::script_options::ScriptOptions;
use crate::expression::script_view::ViewSnapshot;
use crate::expression::session::ScriptEngine;

/// Some times as many steps as are run on the caller's thread.
const MEDIUM: &str = "{% for i in (1..30000) %}{% assign last = i %}{% endfor %}{{ last }}";

fn engine(time_limit: Duration) -> ScriptEngine {
    let options = ScriptOptions {
        time_limit,
        ..ScriptOptions::default()
    };
    ScriptEngine::new(options)
}

/// What a template of a definition sees that needs nothing.
fn view(definition: &str) -> ViewSnapshot {
    let workflow = WorkflowFacts {
        definition_id: definition.to_owned(),
        ..WorkflowFacts::default()
    };
    ViewSnapshot::from(ScriptScope {
        workflow,
        ..ScriptScope::default()
    })
}

async fn ended(run: ScriptRun<'_>) -> EvaluationResult {
    match run {
        ScriptRun::Ended(result) => result,
        ScriptRun::GoesOn(running) => running.await,
    }
}

#[tokio::test]
async fn short_templates_do_not_wait_for_long_ones() {
    let engine = engine(Duration::from_secs(600));
    let (session, one, two) = (engine.session(), view("one"), view("two"));
    let forever = "{% for i in (1..2000000000) %}{% endfor %}";
    let mut long: Vec<_> = (0..2)
        .map(|_| Box::pin(ended(render(forever, &one, &session))))
        .collect();
    for one in &mut long {
        // The first poll takes the slot.
        assert!(futures_util::poll!(one.as_mut()).is_pending());
    }
    assert_eq!(engine.long(), 2);
    let short = render("{{ 1 | plus: 1 }}", &one, &session);
    assert!(matches!(&short, ScriptRun::Ended(Ok(result)) if result.value == "2"));
    // Another definition has slots of its own, and a turn among the others.
    assert_eq!(ended(render(MEDIUM, &two, &session)).await.unwrap().value, "30000");
    drop(long);
    let deadline = Instant::now() + Duration::from_secs(30);
    while engine.long() > 0 {
        assert!(Instant::now() < deadline, "a template goes on without a caller");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_long_template_ends_at_its_limit() {
    let engine = engine(Duration::from_millis(100));
    let (session, one) = (engine.session(), view("one"));
    let forever = "{% for i in (1..2000000000) %}{% endfor %}";
    let late = ended(render(forever, &one, &session)).await.unwrap_err();
    assert_eq!(late.kind, ScriptErrorKind::Timeout, "{late}");
    assert_eq!(engine.long(), 0);
}

#[tokio::test]
async fn a_template_of_medium_length_ends_on_its_thread() {
    let engine = engine(Duration::from_secs(60));
    let (session, one) = (engine.session(), view("one"));
    let run = render(MEDIUM, &one, &session);
    assert!(matches!(run, ScriptRun::GoesOn(_)));
    assert_eq!(ended(run).await.unwrap().value, "30000");
    assert_eq!(engine.long(), 0);
}
