//! Long templates beside short ones: slots, turns, and callers that leave.

use std::time::{Duration, Instant};

use super::engine::TemplateEngine;
use crate::expression::language::ScriptRun;
use crate::expression::script::{EvaluationResult, ScriptErrorKind, ScriptScope, WorkflowFacts};
use crate::expression::script_options::ScriptOptions;
use crate::expression::script_view::ViewSnapshot;
use crate::expression::session::{ScriptEngine, ScriptSession};

const SHORT: Duration = Duration::from_millis(100);

fn session(time_limit: Duration) -> ScriptSession {
    let options = ScriptOptions {
        time_limit,
        ..ScriptOptions::default()
    };
    ScriptEngine::new(options).session()
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
    let engine = TemplateEngine::new();
    let (patient, hurried) = (session(Duration::from_secs(600)), session(SHORT));
    let (one, two) = (view("one"), view("two"));
    let forever = "{% for i in (1..2000000000) %}{% endfor %}";
    let mut long: Vec<_> = (0..4)
        .map(|_| Box::pin(ended(engine.render(forever, &one, &patient))))
        .collect();
    for one in &mut long {
        // The first poll takes the slot.
        assert!(futures_util::poll!(one.as_mut()).is_pending());
    }
    assert_eq!(engine.long(), 4);
    let short = engine.render("{{ 1 | plus: 1 }}", &one, &hurried);
    assert!(matches!(&short, ScriptRun::Ended(Ok(result)) if result.value == "2"));
    let busy = ended(engine.render(forever, &one, &hurried)).await.unwrap_err();
    assert_eq!(busy.kind, ScriptErrorKind::Busy);
    assert_eq!(hurried.deferral(), Some(Duration::from_secs(1)));
    // Another definition has slots of its own, and a turn among the others.
    let other = ended(engine.render(forever, &two, &hurried)).await.unwrap_err();
    assert_eq!(other.kind, ScriptErrorKind::Timeout, "{other}");
    drop(long);
    let deadline = Instant::now() + Duration::from_secs(30);
    while engine.long() > 0 {
        assert!(Instant::now() < deadline, "a template goes on without a caller");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_template_of_medium_length_ends_on_its_thread() {
    let engine = TemplateEngine::new();
    let (patient, one) = (session(Duration::from_secs(60)), view("one"));
    let template = "{% for i in (1..30000) %}{% increment n %},{% endfor %}";
    let run = engine.render(template, &one, &patient);
    assert!(matches!(run, ScriptRun::GoesOn(_)));
    let counted = ended(run).await.unwrap().value;
    assert!(counted.as_str().unwrap().ends_with("29999,"));
    assert_eq!(engine.long(), 0);
}
