//! Long templates beside short ones: slots, turns, and callers that leave.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mainspring_liquid::{ErrorKind, Fact, TemplateData};
use serde_json::Value;

use super::engine::{RenderError, TemplateEngine};
use crate::expression::ScriptOptions;
use crate::expression::processor::Turns;

const SHORT: Duration = Duration::from_millis(100);

/// What a template sees that needs nothing.
struct Empty;

impl TemplateData for Empty {
    fn variable(&self, _: &str) -> Option<&Value> {
        None
    }

    fn input(&self, _: &str) -> Option<&Value> {
        None
    }

    fn setting(&self, _: &str) -> Option<&str> {
        None
    }

    fn fact(&self, _: Fact) -> Value {
        Value::Null
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

fn options(time_limit: Duration) -> ScriptOptions {
    ScriptOptions {
        time_limit,
        ..ScriptOptions::default()
    }
}

fn turns() -> Arc<Turns> {
    Arc::new(Turns::new(1))
}

async fn render(engine: &TemplateEngine, template: &str, definition: &str) -> Result<String, RenderError> {
    let options = options(SHORT);
    engine
        .render(template, definition, &options, &turns(), &Empty, || Some(Empty))
        .await
}

#[tokio::test]
async fn short_templates_do_not_wait_for_long_ones() {
    let engine = TemplateEngine::new();
    let limits = options(Duration::from_secs(600));
    let (data, turns) = (Empty, turns());
    let forever = "{% for i in (1..2000000000) %}{% endfor %}";
    let mut long: Vec<_> = (0..4)
        .map(|_| Box::pin(engine.render(forever, "one", &limits, &turns, &data, || Some(Empty))))
        .collect();
    for one in &mut long {
        // The first poll takes the slot.
        assert!(futures_util::poll!(one.as_mut()).is_pending());
    }
    assert_eq!(engine.long(), 4);
    assert_eq!(render(&engine, "{{ 1 | plus: 1 }}", "one").await.unwrap(), "2");
    let busy = render(&engine, forever, "one").await.unwrap_err();
    assert!(matches!(busy, RenderError::Busy), "{busy:?}");
    // Another definition has slots of its own, and a turn among the others.
    let other = engine
        .render(forever, "two", &options(SHORT), &turns, &data, || Some(Empty))
        .await
        .unwrap_err();
    assert!(
        matches!(&other, RenderError::Template(error) if error.kind == ErrorKind::Timeout),
        "{other:?}"
    );
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
    let limits = options(Duration::from_secs(60));
    let data = Empty;
    let template = "{% for i in (1..30000) %}{% increment n %},{% endfor %}";
    let counted = engine
        .render(template, "one", &limits, &turns(), &data, || Some(Empty))
        .await;
    assert!(counted.unwrap().ends_with("29999,"));
    assert_eq!(engine.long(), 0);
}
