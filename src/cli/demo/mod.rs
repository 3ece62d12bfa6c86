//! `mainspring demo`: what this engine is for, in ten seconds. Three nodes, a workflow, kill -9 of the node in the
//! middle of it, another one that finishes. Exit code 0 means that it was so; else what differed is told.

mod story;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::settings::Common;
use crate::harness::client::{Client, text};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, Output, Plan};
use crate::harness::scratch::ScratchDatabase;
use crate::harness::{say, stop};
use crate::id::{InstanceId, TenantId};
use crate::runtime;
use crate::store::observe;
use story::{ACTIVITIES, Story, WORK_TIME, definition, differences, how_to_go_on, journal_table};

/// How long any step may take before the demo has failed: longer than the check-in tolerance, the slow way of noticing
/// that a node is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far into its work the node is killed.
const INTO_IT: Duration = Duration::from_millis(500);

pub(super) async fn run(common: &Common) -> Result<(), Failure> {
    let stop = stop::on_signals()?;
    let story = Arc::new(Story::begin());
    say("Three nodes on one PostgreSQL. One of them is killed in the middle of its work.\n");
    let mut scratch = match common.given_database_url() {
        Some(_) => {
            let scratch = ScratchDatabase::in_database(&common.database_url()?, "demo").await?;
            story.tell(&format!(
                "made the schema {} in the database that is given",
                scratch.schema
            ));
            scratch
        }
        None => {
            let folder = ScratchDatabase::folder().await;
            story.tell(&format!("starting a private PostgreSQL in {} …", folder.display()));
            ScratchDatabase::private(&folder).await?
        }
    };
    let outcome = with_nodes(common, &mut scratch, &story, &stop).await;
    let cleared = scratch.clear().await;
    outcome?;
    cleared?;
    say(&how_to_go_on());
    Ok(())
}

async fn with_nodes(
    common: &Common,
    scratch: &mut ScratchDatabase,
    story: &Arc<Story>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let teller = Arc::clone(story);
    let plan = Plan {
        database_url: scratch.url.clone(),
        schema: scratch.schema.clone(),
        // At the usual level nodes tell the same again.
        log: if common.log == "info" { "error" } else { &common.log }.to_owned(),
        arguments: vec!["--bench-activities".to_owned()],
        ear: Arc::new(move |name, output, line| match output {
            Output::Lines => teller.heard(name, line),
            Output::Log => eprintln!("{name} | {line}"),
        }),
    };
    let (url, schema) = (scratch.url.clone(), scratch.schema.clone());
    let session = scratch.open().await?;
    story.tell("the database is ready; starting three nodes …");
    let mut nodes = Vec::new();
    for number in 1..=3 {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        nodes.push(Node::start(&plan, &format!("node-{number}"), any)?);
    }
    let outcome = tokio::select! {
        outcome = play(&mut nodes, &session.client, story) => outcome,
        failure = scratch.died() => Err(failure),
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    nodes::stop_all(&mut nodes).await;
    let played = outcome?;
    // All nodes have ended: nothing is half done, and nobody would see to it.
    let mut wrong = differences(&played.journal, &story.heard_lines(), &played.victim);
    for violation in runtime::check(&url, &schema).await? {
        wrong.push(format!(
            "{} is violated, {} times",
            violation.invariant, violation.count
        ));
    }
    if !wrong.is_empty() {
        return Err(Failure::failed(format!("it was not so: {}", wrong.join("; "))));
    }
    story.tell("each step began and ended once, and every invariant of the database holds");
    say(&format!(
        "\nKilled in the middle of its work, taken up by another node {} ms later. Nothing lost, nothing done twice.",
        played.taken_up_after.as_millis()
    ));
    Ok(())
}

/// What came of it.
struct Played {
    victim: String,
    taken_up_after: Duration,
    journal: Vec<Value>,
}

async fn play(nodes: &mut Vec<Node>, client: &tokio_postgres::Client, story: &Story) -> Result<Played, Failure> {
    for node in nodes.iter_mut() {
        node.ready().await?;
        story.tell(&format!(
            "{} answers on {}, process {}",
            node.name,
            node.url(),
            node.pid()
        ));
    }
    let door = nodes.first().map(Node::url).unwrap_or_default();
    let api = Client::new(&door);
    api.post("workflow-definitions", &json!({"model": definition(), "publish": true}))
        .await?;
    story.tell(&format!("published a workflow: {}", story::IN_WORDS));
    let started = api.post("workflow-definitions/demo/dispatch", &json!({})).await?;
    let instance = InstanceId::new(text(&started, "workflowInstanceId"));
    story.tell(&format!("started it: instance {instance}"));

    let tenant = TenantId::default();
    let holder = async || Ok(observe::delay_holder(client, &tenant, &instance).await?);
    let victim = until("a node takes up the work", async || holder().await).await?;
    story.tell(&format!(
        "the first delay is over, and {victim} is at work, for {} ms",
        WORK_TIME.as_millis()
    ));
    tokio::time::sleep(INTO_IT).await;
    if holder().await?.as_ref() != Some(&victim) {
        return Err(Failure::failed(format!(
            "{victim} had let go of the work before it was killed"
        )));
    }
    let at = nodes.iter().position(|node| node.name == victim);
    let Some(at) = at else {
        return Err(Failure::failed(format!("{victim} is none of our nodes")));
    };
    let killed_at = Instant::now();
    let mut killed = nodes.remove(at);
    killed.kill()?;
    story.tell(&format!(
        "kill -9 {}: {victim}, in the middle of its work",
        killed.pid()
    ));
    let heir = until("another node takes up the work", async || {
        Ok(holder().await?.filter(|heir| *heir != victim))
    })
    .await?;
    let taken_up_after = killed_at.elapsed();
    story.tell(&format!(
        "{heir} has taken it up, {} ms after the kill, and does the work again",
        taken_up_after.as_millis()
    ));
    let status = killed.ended().await;
    killed.finish_reading().await;
    if status.is_some_and(|status| status.success()) {
        return Err(Failure::failed(format!(
            "{victim} ended by itself: {}",
            nodes::how(status)
        )));
    }
    let api = Client::new(&nodes.first().map(Node::url).unwrap_or_default());
    let done = async || {
        Ok(observe::delay_holder(client, &tenant, &instance)
            .await?
            .is_none()
            .then_some(()))
    };
    until("the work is committed", done).await?;
    story.tell("the work is done and committed; the second delay begins");
    let path = format!("workflow-instances/{instance}");
    until("the workflow finishes", async || {
        let found = api.get(&path).await?;
        Ok((text(&found, "status") == "Finished").then_some(()))
    })
    .await?;
    story.tell("the workflow is finished; its journal:");
    let journal = api.get(&format!("{path}/journal?pageSize=1000")).await?;
    let journal = journal
        .get("items")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for line in journal_table(&journal, &ACTIVITIES) {
        say(&line);
    }
    Ok(Played {
        victim,
        taken_up_after,
        journal,
    })
}

/// Asks again and again until the answer is there.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::failed(format!(
            "it was not so: {what} was to happen within {} s, and did not",
            PATIENCE.as_secs()
        ))),
    }
}
