//! Point 5: clients notice nothing of a restart of all nodes, one after the other.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::entrance::Entrance;
use super::operator::Operator;
use super::own_workflows::{self, BRIEF};
use super::point_report::PointOutcome;
use super::started;
use super::target_cluster::{NodeIdentity, PAUSE, TargetCluster, look};
use crate::cli::settings::ValidateSettings;
use crate::harness::client::text_field;

/// How many clients send requests.
const CLIENTS: usize = 4;
/// The pause of a client between two requests.
const EVERY: Duration = Duration::from_millis(100);
/// The load before and after the restart.
const AROUND: Duration = Duration::from_secs(1);
/// How long the new nodes may take to be live, and the old ones to be gone.
const LIVE_WITHIN: Duration = Duration::from_secs(30);
/// How long the last instances may take.
const FINISHED_WITHIN: Duration = Duration::from_secs(30);

/// What one client has seen.
#[derive(Default)]
struct Seen {
    /// The instances of requests that were answered.
    ids: Vec<String>,
    failed: Vec<String>,
}

pub(super) async fn run(cluster: &TargetCluster, settings: &ValidateSettings) -> PointOutcome {
    let Some(operator) = Operator::of(settings.restart_command.as_deref()) else {
        return PointOutcome::NotRun(
            "no node was restarted: give --restart-command, or run it at a terminal, where it asks for that".to_owned(),
        );
    };
    let (before, live) = match before(cluster).await {
        Ok(found) => found,
        Err(problem) => return PointOutcome::failed(problem),
    };
    let (entrance, enough) = (Entrance::of(cluster), CancellationToken::new());
    let restart = async {
        tokio::time::sleep(AROUND).await;
        let outcome = operator.act("restart all nodes, one after the other", None).await;
        tokio::time::sleep(AROUND).await;
        enough.cancel();
        outcome
    };
    let clients = join_all((0..CLIENTS).map(|_| send_until(&entrance, &enough)));
    let (outcome, seen) = tokio::join!(restart, clients);
    let mut problems: Vec<String> = outcome.err().into_iter().collect();
    problems.extend(not_restarted(cluster, &before, live).await);
    let ids: Vec<String> = seen.iter().flat_map(|client| client.ids.clone()).collect();
    let failed: Vec<&String> = seen.iter().flat_map(|client| &client.failed).collect();
    let all = ids.len() + failed.len();
    if let Some(first) = failed.first() {
        problems.push(format!(
            "{} of {all} requests failed, the first with: {first}",
            failed.len()
        ));
    }
    problems.extend(started::unfinished(cluster, &ids, FINISHED_WITHIN).await);
    problems.extend(started::repeats(cluster, &ids).await);
    PointOutcome::of(problems, || {
        let (nodes, way) = (
            before.len(),
            if cluster.through.is_some() {
                " through --through"
            } else {
                ""
            },
        );
        format!("{nodes} nodes were restarted; of {all} requests{way} none failed, and what they started finished once")
    })
}

/// The nodes that answer, and how many are live.
async fn before(cluster: &TargetCluster) -> Result<(Vec<NodeIdentity>, usize), String> {
    own_workflows::publish_somewhere(cluster, &own_workflows::brief()).await?;
    let looks = join_all(cluster.nodes.iter().map(|node| look(&node.api))).await;
    let answering = looks.into_iter().flatten().map(|(identity, _)| identity).collect();
    Ok((answering, cluster.live().await?.len()))
}

/// One client: executes and dispatches in turn, until it is enough.
async fn send_until(entrance: &Entrance<'_>, enough: &CancellationToken) -> Seen {
    let mut seen = Seen::default();
    for route in ["execute", "dispatch"].into_iter().cycle() {
        if enough.is_cancelled() {
            break;
        }
        let path = format!("workflow-definitions/{BRIEF}/{route}");
        match entrance.post(&path, &Uuid::new_v4().to_string(), &json!({})).await {
            Ok(answer) => {
                let state = answer.body.get("workflowState");
                let id = state.map_or_else(
                    || text_field(&answer.body, "workflowInstanceId"),
                    |state| text_field(state, "id"),
                );
                seen.ids.push(id.to_owned());
            }
            Err(problem) => seen.failed.push(problem),
        }
        tokio::time::sleep(EVERY).await;
    }
    seen
}

/// What is wrong if a node of before is still there, or too few are live.
async fn not_restarted(cluster: &TargetCluster, before: &[NodeIdentity], count: usize) -> Vec<String> {
    let began = Instant::now();
    loop {
        let live = match cluster.live().await {
            Ok(live) => live,
            Err(problem) if began.elapsed() > LIVE_WITHIN => return vec![problem],
            Err(_) => Vec::new(),
        };
        let old = before.iter().filter(|node| live.contains(node));
        let mut problems: Vec<String> = old.map(|node| format!("{} was not restarted", node.id)).collect();
        if live.len() < count {
            problems.push(format!(
                "{count} nodes were live before the restart, and {} are after it",
                live.len()
            ));
        }
        if problems.is_empty() || began.elapsed() > LIVE_WITHIN {
            return problems;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
