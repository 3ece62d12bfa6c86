//! Links that trigger an event, and those that resume the activity whose input a script is.

use std::time::Duration;

use chrono::{TimeDelta, Utc};

use crate::expression::resume_links::{LeadsTo, LinkExpiry, LinkRequest, LinkSource, ResumeLinks};
use crate::expression::script::{Evaluated, ScriptError, ScriptScope, WorkflowFacts};
use crate::expression::script_options::ScriptOptions;
use crate::expression::{ScriptEngine, ScriptErrorKind};

const SOURCE: LinkSource = LinkSource { key: 7, before: 0 };

fn signing() -> ResumeLinks {
    let links = ResumeLinks::default();
    links.sign_with(|id, _| Some((format!("https://x/{id}"), 1)));
    links
}

async fn evaluate(links: &ResumeLinks, source: Option<LinkSource>, script: &str) -> Result<Evaluated, ScriptError> {
    let engine = ScriptEngine::new(ScriptOptions {
        links: links.clone(),
        ..ScriptOptions::default()
    });
    let scope = ScriptScope {
        workflow: WorkflowFacts {
            instance_id: "i".to_owned(),
            links: source,
            ..WorkflowFacts::default()
        },
        ..ScriptScope::default()
    };
    engine.session().evaluate(script, scope).await
}

#[tokio::test]
async fn a_link_is_for_one_event_of_the_instance_of_its_script_or_its_bookmark() {
    let links = signing();
    let hours = |hours: u64| LinkExpiry::After(Duration::from_secs(hours * 3600));
    for (script, event, expiry, uses) in [
        ("createEventTriggerUrl('Go')", Some("Go"), hours(168), 1),
        ("createEventTriggerUrl('Go', null)", Some("Go"), hours(168), 1),
        ("createEventTriggerUrl('Go', '1.02:00:00', 3)", Some("Go"), hours(26), 3),
        ("createEventTriggerUrl(7, 'PT5H')", Some("7"), hours(5), 1),
        ("createResumeUrl()", None, hours(168), 1),
        ("createResumeUrl('02:00:00', 2)", None, hours(2), 2),
    ] {
        let done = evaluate(&links, Some(SOURCE), script).await.expect(script);
        let [made]: [LinkRequest; 1] = done.changes.links.try_into().expect(script);
        assert_eq!(done.value, format!("https://x/{}", made.id));
        let leads_to = event.map_or(LeadsTo::Bookmark(0), |name| LeadsTo::Event(name.to_owned()));
        assert_eq!(
            (made.leads_to, made.expiry, made.uses),
            (leads_to, expiry, uses),
            "{script}"
        );
    }
    let script = "createEventTriggerUrl('Go', new Date(Date.now() + 3 * 3600 * 1000))";
    let done = evaluate(&links, Some(SOURCE), script).await.unwrap();
    let LinkExpiry::At(time) = done.changes.links[0].expiry else {
        panic!("{done:?}")
    };
    assert_eq!((time - Utc::now() + TimeDelta::minutes(1)).num_hours(), 3);
}

#[tokio::test]
async fn a_repeated_script_makes_the_same_links_and_a_later_one_others() {
    let links = signing();
    let script = "[createEventTriggerUrl('A'), createEventTriggerUrl('A')]";
    let first = evaluate(&links, Some(SOURCE), script).await.unwrap();
    let again = evaluate(&links, Some(SOURCE), script).await.unwrap();
    assert_eq!(first.value, again.value);
    assert_ne!(first.value[0], first.value[1]);
    for other in [LinkSource { before: 2, ..SOURCE }, LinkSource { key: 8, ..SOURCE }] {
        let other = evaluate(&links, Some(other), script).await.unwrap();
        assert_ne!(other.value[0], first.value[0]);
    }
    for other in ["createEventTriggerUrl('B')", "createResumeUrl()"] {
        let other = evaluate(&links, Some(SOURCE), other).await.unwrap();
        assert_ne!(other.value, first.value[0], "a link does not lead elsewhere");
    }
}

#[tokio::test]
async fn what_makes_no_link_says_why() {
    let links = signing();
    for (source, script, part) in [
        (Some(SOURCE), "createEventTriggerUrl('')", "1 to 512"),
        (Some(SOURCE), "createEventTriggerUrl('x'.repeat(513))", "1 to 512"),
        (Some(SOURCE), "createEventTriggerUrl('a\\u0000b')", "control"),
        (Some(SOURCE), "createEventTriggerUrl('Go', 'tomorrow')", "time span"),
        (Some(SOURCE), "createEventTriggerUrl('Go', '-1.00:00:00')", "time span"),
        (Some(SOURCE), "createEventTriggerUrl('Go', '00:00:00')", "time span"),
        (
            Some(SOURCE),
            "createEventTriggerUrl('Go', '36500.00:00:00')",
            "ten years",
        ),
        (Some(SOURCE), "createEventTriggerUrl('Go', new Date(NaN))", "not a date"),
        (
            Some(SOURCE),
            "createEventTriggerUrl('Go', new Date(8.64e15 + 1))",
            "not a date",
        ),
        (Some(SOURCE), "createEventTriggerUrl('Go', new Date(4e12))", "ten years"),
        (Some(SOURCE), "createEventTriggerUrl('Go', null, 0)", "1 to 1000 times"),
        (
            Some(SOURCE),
            "createEventTriggerUrl('Go', null, 1.5)",
            "1 to 1000 times",
        ),
        (Some(SOURCE), "createResumeUrl(null, -1)", "1 to 1000 times"),
        (
            Some(SOURCE),
            "for (let i = 0; i < 200; i++) createResumeUrl()",
            "at most 100",
        ),
        (None, "createEventTriggerUrl('Go')", "needs an instance"),
    ] {
        let error = evaluate(&links, source, script).await.expect_err(script);
        assert_eq!(error.kind, ScriptErrorKind::Thrown, "{script}");
        assert!(error.message.contains(part), "{script}: {}", error.message);
    }
    let error = evaluate(&ResumeLinks::default(), Some(SOURCE), "createResumeUrl()").await;
    assert!(error.unwrap_err().message.contains("running engine"));
}
