//! Point 3: what is published at one node is what the others start at once, and soon show.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::own_workflows::{self, OUTPUT, PUBLISHED};
use super::point_report::PointOutcome;
use super::target_cluster::{PAUSE, TargetCluster, TargetNode};
use crate::harness::client::text_field;

/// How often it is published, at each node in turn.
const ROUNDS: usize = 10;
/// Within what time each node must show it: a signal takes milliseconds, and a lost one a check-in.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// A version that was just published.
struct Publish<'a> {
    by: &'a TargetNode,
    version: i64,
    /// What its instances put out.
    text: String,
}

pub(super) async fn run(cluster: &TargetCluster) -> PointOutcome {
    let (mut problems, mut latest) = (Vec::new(), Duration::ZERO);
    for (round, by) in cluster.nodes.iter().cycle().take(ROUNDS).enumerate() {
        // Of an earlier validation there are editions of the same number.
        let text = format!("{round} {}", uuid::Uuid::new_v4());
        match own_workflows::publish(&by.api, &own_workflows::edition(&text)).await {
            Err(problem) => problems.push(problem),
            Ok(version) => {
                let publish = Publish { by, version, text };
                for seen in join_all(cluster.nodes.iter().map(|node| publish.seen_at(node))).await {
                    match seen {
                        Ok(after) => latest = latest.max(after),
                        Err(problem) => problems.push(problem),
                    }
                }
            }
        }
    }
    PointOutcome::of(problems, || {
        let (nodes, latest) = (cluster.nodes.len(), latest.as_millis());
        format!("{nodes} nodes started each of {ROUNDS} versions at once, and showed it at most {latest} ms later")
    })
}

impl Publish<'_> {
    /// Starts an instance at a node, and waits until the node shows the version. Returns how long that took.
    async fn seen_at(&self, node: &TargetNode) -> Result<Duration, String> {
        self.start(node).await?;
        let path = format!("workflow-definitions/by-definition-id/{PUBLISHED}?versionOptions=Published");
        let began = Instant::now();
        loop {
            let shown = node.api.get(&path).await?;
            let version = shown.get("version").and_then(Value::as_i64).unwrap_or_default();
            if version == self.version {
                return Ok(began.elapsed());
            }
            if began.elapsed() > SHOWN_WITHIN {
                let does = format!("still shows version {version}, {} s", SHOWN_WITHIN.as_secs());
                return Err(self.stale(node, &does));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Errors: what is wrong if the instance does not run the version that was published.
    async fn start(&self, node: &TargetNode) -> Result<(), String> {
        let path = format!("workflow-definitions/{PUBLISHED}/execute");
        let answer = node.api.post(&path, &json!({})).await?;
        let state = answer.get("workflowState").unwrap_or(&Value::Null);
        let version = state
            .get("definitionVersion")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let output = state.get("output").map(|output| text_field(output, OUTPUT));
        if (version, output) == (self.version, Some(self.text.as_str())) {
            return Ok(());
        }
        Err(self.stale(node, &format!("started version {version}")))
    }

    fn stale(&self, node: &TargetNode, does: &str) -> String {
        let (node, by, version) = (&node.identity.id, &self.by.identity.id, self.version);
        format!(
            "{node} {does} after {by} had published version {version}: its cache is stale; does it hear of changes \
             (--signal), and is its --check-in short?"
        )
    }
}
