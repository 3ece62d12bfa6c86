//! Templates that want more than they may have: each is stopped inside its limit, and the others do not notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Data;
use crate::expression::liquid::engine::{TemplateEngine, TemplateLimits};
use crate::expression::liquid::error::{TemplateError, TemplateErrorKind};
use crate::expression::processor::Turns;

const LIMITS: TemplateLimits = TemplateLimits {
    time: Duration::from_millis(100),
    output: 1 << 20,
};

/// Growth: twenty loops around it reach any limit.
const DOUBLE: &str = "{% assign x = x | append: x %}";

fn hostile() -> Vec<String> {
    let forever = |body: &str| format!("{{% for i in (1..2000000000) %}}{body}{{% endfor %}}");
    let often = |body: &str| {
        format!(
            "{{% assign x = \"abcdefgh\" %}}{{% assign y = Variables.Many %}}{}",
            forever(body)
        )
    };
    let mut all = vec![
        forever(""),
        forever("x"),
        forever("{{ i }}"),
        forever(&forever("")),
        forever("{% if i == 0 %}{% endif %}"),
        forever("{% continue %}"),
        forever("{% increment n %}"),
        forever("{% cycle 1, 2, 3 %}"),
        forever("{% cycle i: 1, 2 %}"),
        forever("{% assign a = i %}"),
        forever("{% case i %}{% when 1, 2, 3 %}{% endcase %}"),
        forever("{% capture a %}{{ a }}{{ i }}{% endcapture %}"),
        format!("{{% capture a %}}{}{{% endcapture %}}", forever("x")),
        "{{ (1..2000000000) }}".to_owned(),
        "{{ (1..2000000000) | join: \"\" }}".to_owned(),
        "{{ (1..2000000000) | reverse | first }}".to_owned(),
        "{{ (1..2000000000) | sort | size }}".to_owned(),
        "{{ (1..2000000000) | uniq | size }}".to_owned(),
        "{{ (1..2000000000) | sum }}".to_owned(),
        "{{ (1..2000000000) | map: \"a\" | size }}".to_owned(),
        "{{ (1..2000000000) | where: \"a\" | size }}".to_owned(),
        "{{ (1..2000000000) | compact | size }}".to_owned(),
        "{{ (1..2000000000) | concat: Variables.Many | size }}".to_owned(),
        "{{ (1..2000000000) | json }}".to_owned(),
        "{{ (1..2000000000) | slice: 0, 2000000000 | size }}".to_owned(),
        "{{ (1..2000000000) | append: \"a\" }}".to_owned(),
        "{{ (1..2000000000) | find: \"a\", 1 }}".to_owned(),
        "{% assign a = (1..2000000000) %}{% if a contains 0 %}{% endif %}".to_owned(),
        "{% assign a = (1..2000000000) %}{% assign b = (1..2000000000) %}{% if a == b %}{% endif %}".to_owned(),
        "{% for i in (1..2000000000) reversed %}{% endfor %}".to_owned(),
        "{{ Variables.Long | replace: \"x\", Variables.Long }}".to_owned(),
        "{{ Variables.Long | split: \"\" | join: Variables.Long }}".to_owned(),
        "{{ Variables.When | date: \"%999999999999Y\" }}".to_owned(),
        "{{ Variables.When | date: \"%999999999t\" }}".to_owned(),
        "{{ Variables.When | date: \"%99999999N\" }}".to_owned(),
        "{{ \"{0,2000000000}\" | format_string: 1 }}".to_owned(),
        // More than may be written, and four times as much on its way there.
        format!(
            "{{{{ Variables.Long{} | escape | json | escape }}}}",
            " | append: Variables.Long".repeat(7)
        ),
    ];
    for body in [
        DOUBLE,
        "{% capture x %}{{ x }}{{ x }}{% endcapture %}",
        "{% assign x = x | prepend: x %}",
        "{% assign x = x | replace: \"a\", x %}",
        "{% assign x = x | json %}",
        "{% assign x = x | url_encode %}",
        "{% assign x = x | escape | append: \"<\" %}",
        "{% assign x = x | base64_encode %}",
        "{% assign y = y | concat: y %}",
        "{% assign z = Variables.Long | split: \"\" %}",
        "{% assign z = Variables.Long | upcase %}",
        "{% assign z = Variables.Long | sha256 %}",
        "{% assign z = Variables.Long | md5 %}",
        "{% assign z = Variables.Long | reverse %}",
        "{% assign z = Variables.Long | strip_html %}",
        "{% assign z = Variables.Long | handleize %}",
        "{% assign z = Variables.Long | truncatewords: 9 %}",
        "{% assign z = y | sort %}",
        "{% assign z = y | uniq %}",
        "{% assign z = y | sum %}",
        "{% assign z = y | json %}",
        "{% assign z = y | join: x %}",
        "{% if Variables.Long contains \"y\" %}{% endif %}",
        "{% if y == Variables.Many %}{% endif %}",
        "{% assign z = \"now\" | date: \"%c %c %c %c\" %}",
    ] {
        all.push(often(body));
    }
    all
}

fn turns() -> Arc<Turns> {
    Arc::new(Turns::new(1))
}

async fn render(engine: &TemplateEngine, template: &str, definition: &str) -> Result<String, TemplateError> {
    let data = Data::new();
    engine
        .render(template, definition, LIMITS, &turns(), &data, || Some(Data::new()))
        .await
}

#[tokio::test]
async fn each_hostile_template_is_stopped_inside_its_limit() {
    let engine = TemplateEngine::new();
    let all = hostile();
    assert!(all.len() >= 60, "{}", all.len());
    for template in all {
        let begun = Instant::now();
        let result = render(&engine, &template, "hostile").await;
        let shown: String = template.chars().take(150).collect();
        assert!(
            begun.elapsed() < LIMITS.time + Duration::from_secs(1),
            "{shown}: {:?}",
            begun.elapsed()
        );
        match result {
            Ok(text) => panic!("{shown} gives {} bytes", text.len()),
            Err(error) => assert!(
                matches!(
                    error.kind,
                    TemplateErrorKind::Timeout | TemplateErrorKind::Memory | TemplateErrorKind::TooLarge
                ),
                "{shown}: {error}"
            ),
        }
    }
    assert_eq!(engine.long(), 0);
}

#[tokio::test]
async fn short_templates_do_not_wait_for_long_ones() {
    let engine = TemplateEngine::new();
    let limits = TemplateLimits {
        time: Duration::from_secs(600),
        ..LIMITS
    };
    let (data, turns) = (Data::new(), turns());
    let forever = "{% for i in (1..2000000000) %}{% endfor %}";
    let mut long: Vec<_> = (0..4)
        .map(|_| Box::pin(engine.render(forever, "one", limits, &turns, &data, || Some(Data::new()))))
        .collect();
    for one in &mut long {
        // The first poll takes the slot.
        assert!(futures_util::poll!(one.as_mut()).is_pending());
    }
    assert_eq!(engine.long(), 4);
    assert_eq!(render(&engine, "{{ Variables.Name }}", "one").await.unwrap(), "Ada");
    let busy = render(&engine, forever, "one").await.unwrap_err();
    assert_eq!(busy.kind, TemplateErrorKind::Busy);
    // Another definition has slots of its own, and a turn among the others.
    let other = engine
        .render(forever, "two", LIMITS, &turns, &data, || Some(Data::new()))
        .await
        .unwrap_err();
    assert_eq!(other.kind, TemplateErrorKind::Timeout);
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
    let limits = TemplateLimits {
        time: Duration::from_secs(60),
        ..LIMITS
    };
    let data = Data::new();
    let template = "{% for i in (1..30000) %}{% increment n %},{% endfor %}";
    let counted = engine
        .render(template, "one", limits, &turns(), &data, || Some(Data::new()))
        .await;
    assert!(counted.unwrap().ends_with("29999,"));
    assert_eq!(engine.long(), 0);
}
