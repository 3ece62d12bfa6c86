//! Resume links that an activity of a program makes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{
    Activity, ActivityContext, BookmarkRequest, Descriptor, Fault, ResumeLinkOptions, Resumption, Step,
};
use mainspring::runtime::{LinkUseRequest, LinkUsed};
use serde_json::{Value, json};

use crate::support::TestDatabase;
use crate::support::engine::{TestEngine, start};

type Sent = Arc<Mutex<Vec<String>>>;

/// Asks two people, waits for the second one, and then for an event.
struct Asks(Sent);

impl Activity for Asks {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Asks")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        for name in ["one", "two"] {
            context.bookmark(BookmarkRequest {
                auto_burn: name == "one",
                ..BookmarkRequest::new(json!({ "name": name }))
            });
        }
        for options in [
            ResumeLinkOptions {
                bookmark: 1,
                uses: 2,
                ..ResumeLinkOptions::default()
            },
            ResumeLinkOptions::default(),
        ] {
            self.0.lock().unwrap().push(context.resume_url(options)?);
        }
        for refused in [
            ResumeLinkOptions {
                uses: 0,
                ..ResumeLinkOptions::default()
            },
            ResumeLinkOptions {
                lifetime: Duration::ZERO,
                ..ResumeLinkOptions::default()
            },
            ResumeLinkOptions {
                lifetime: Duration::from_secs(u64::MAX),
                ..ResumeLinkOptions::default()
            },
        ] {
            assert_eq!(context.resume_url(refused).unwrap_err().code, "invalid-resume-link");
        }
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let url = context.event_url("Next", ResumeLinkOptions::default())?;
        self.0.lock().unwrap().push(url);
        let count = context.property("count").as_u64().unwrap_or_default() + 1;
        context.set_property("count", count);
        context.set_workflow_output("By", resumption.input.get("by").cloned().unwrap_or_default());
        Ok(if count == 2 { Step::Done } else { Step::Wait })
    }
}

/// Makes a link to a bookmark that it does not make.
struct Lost;

impl Activity for Lost {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Lost")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.bookmark(BookmarkRequest::new(json!({})));
        context.resume_url(ResumeLinkOptions {
            bookmark: 1,
            ..ResumeLinkOptions::default()
        })?;
        Ok(Step::Wait)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_sends_links_to_its_bookmarks() {
    let database = TestDatabase::create().await;
    let sent = Sent::default();
    let builder = Engine::builder(database.url())
        .public_url("https://x.example")
        .require_https_links(true)
        .activity(Asks(Arc::clone(&sent)))
        .activity(Lost);
    let test = TestEngine::start(database, builder).await;
    test.publish(json!({"definitionId": "asks", "root": {"type": "Asks", "id": "a"}, "outputs": [{"name": "By", "type": "Object"}]}))
        .await;
    test.publish(json!({"definitionId": "lost", "root": {"type": "Lost", "id": "l"}}))
        .await;
    let id = test.engine.execute(start("asks")).await.unwrap().instance_id;
    let links = sent.lock().unwrap().clone();
    assert_eq!(links.len(), 2);
    let uses = async |url: &str| {
        let text = url
            .strip_prefix("https://x.example/workflows/resume/")
            .unwrap_or_else(|| panic!("{url}"));
        let link = test.engine.verify_link(text).await.unwrap();
        let mut request = LinkUseRequest::default();
        request.input.insert("by".to_owned(), json!("Ann"));
        test.engine.use_link(link, request, ()).await
    };
    assert!(matches!(uses(&links[0]).await, Ok(LinkUsed::Resumed(_))));
    // Its bookmark stays, so it can be used once more.
    let LinkUsed::Resumed(done) = uses(&links[0]).await.unwrap() else {
        panic!("it was awaited")
    };
    assert_eq!(done.sub_status(), Some("Finished"));
    assert_eq!(uses(&links[0]).await.unwrap_err().code(), "link-used");
    assert_eq!(uses(&links[1]).await.unwrap_err().code(), "link-ended");
    let state = test.finishes(&id).await;
    assert_eq!(state["output"]["By"], "Ann");
    let listed = test.engine.resume_links(&id, None, 100).await.unwrap();
    let made: Vec<(u32, Option<String>)> = listed
        .iter()
        .map(|link| (link.uses as u32, link.event_name.clone()))
        .collect();
    assert_eq!(made.len(), 4, "each later call makes another link: {listed:?}");
    assert_eq!(
        made.iter()
            .filter(|(_, event)| event.as_deref() == Some("Next"))
            .count(),
        2
    );
    let distinct: std::collections::HashSet<Value> = sent.lock().unwrap().iter().map(|url| json!(url)).collect();
    assert_eq!(distinct.len(), 4);
    let failed = test.engine.execute(start("lost")).await.unwrap();
    assert!(failed.faulted);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_are_not_https_are_refused_at_the_start() {
    let database = TestDatabase::create().await;
    for url in [None, Some("http://x.example"), Some("x.example")] {
        let mut builder = Engine::builder(database.url()).require_https_links(true);
        if let Some(url) = url {
            builder = builder.public_url(url);
        }
        assert_eq!(builder.start().await.err().expect("a refusal").code(), "insecure-links");
    }
}
