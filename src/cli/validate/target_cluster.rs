//! The nodes that the URLs lead to, and whether they are distinct nodes of one cluster.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use super::node_api::NodeApi;
use crate::harness::client::text_field;
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// The fewest nodes of the checklist.
const FEWEST: usize = 3;

/// The pause between two questions.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Lists all nodes; the one that answers is marked.
const NODES: &str = "cluster/nodes?pageSize=1000";

/// A node as it names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeIdentity {
    pub(super) id: String,
    pub(super) incarnation: i64,
}

/// A node that answers.
pub(super) struct TargetNode {
    pub(super) api: NodeApi,
    pub(super) identity: NodeIdentity,
    /// The nodes that are live in its list.
    live: Vec<NodeIdentity>,
}

/// The cluster under validation.
pub(super) struct TargetCluster {
    /// The nodes that answered at the beginning, in the order of their URLs; at least one.
    pub(super) nodes: Vec<TargetNode>,
    pub(super) through: Option<NodeApi>,
    /// What is wrong with the URLs: point 1 names it.
    pub(super) problems: Vec<String>,
}

impl TargetCluster {
    /// Asks each URL which node it leads to. Errors: wrong usage, and no node at all.
    pub(super) async fn find(urls: &[String], through: Option<&str>, key: Option<&Secret>) -> Result<Self, Failure> {
        let apis: Vec<NodeApi> = urls.iter().map(|url| NodeApi::of(url, key)).collect::<Result<_, _>>()?;
        let through = through.map(|url| NodeApi::of(url, key)).transpose()?;
        let asked = join_all(apis.iter().map(look)).await;
        let (mut nodes, mut problems) = (Vec::new(), Vec::new());
        for (api, found) in apis.into_iter().zip(asked) {
            match found {
                Ok((identity, live)) => nodes.push(TargetNode { api, identity, live }),
                Err(problem) => problems.push(problem),
            }
        }
        if nodes.is_empty() {
            let why = problems.join("; ");
            return Err(Failure::failed(format!("none of the nodes can be validated: {why}")));
        }
        problems.extend(differences(&nodes));
        if let Some(through) = &through {
            problems.extend(through_problem(through, &nodes).await);
        }
        Ok(Self {
            nodes,
            through,
            problems,
        })
    }

    /// URL and id of each node.
    pub(super) fn listed(&self) -> Vec<(String, String)> {
        let named = |node: &TargetNode| (node.api.url(), node.identity.id.clone());
        self.nodes.iter().map(named).collect()
    }

    /// Sends something to each node in turn until one answers it as wanted. Errors: the last problem.
    pub(super) async fn any<T>(&self, mut ask: impl AsyncFnMut(&NodeApi) -> Result<T, String>) -> Result<T, String> {
        let mut last = "there is no node".to_owned();
        for api in self.nodes.iter().map(|node| &node.api).chain(&self.through) {
            match ask(api).await {
                Ok(answer) => return Ok(answer),
                Err(problem) => last = problem,
            }
        }
        Err(last)
    }

    /// The nodes that are live now, as any node lists them.
    pub(super) async fn live(&self) -> Result<Vec<NodeIdentity>, String> {
        self.any(async |api| api.get(NODES).await.map(|listed| live(&listed)))
            .await
    }
}

/// Which node answers there, and which nodes are live in its list.
pub(super) async fn look(api: &NodeApi) -> Result<(NodeIdentity, Vec<NodeIdentity>), String> {
    let listed = api.get(NODES).await?;
    let answering = items(&listed).find(|item| item.get("answering") == Some(&Value::Bool(true)));
    match answering.and_then(identity) {
        Some(own) => Ok((own, live(&listed))),
        None => Err(format!(
            "{} does not say which node it is: it is not registered now, or runs an older version",
            api.url()
        )),
    }
}

fn items(listed: &Value) -> impl Iterator<Item = &Value> {
    listed.get("items").and_then(Value::as_array).into_iter().flatten()
}

fn identity(item: &Value) -> Option<NodeIdentity> {
    Some(NodeIdentity {
        id: text_field(item, "nodeId").to_owned(),
        incarnation: item.get("incarnation")?.as_i64()?,
    })
}

fn live(listed: &Value) -> Vec<NodeIdentity> {
    let live = items(listed).filter(|item| text_field(item, "state") == "live");
    live.filter_map(identity).collect()
}

/// Nodes that are the same, of two clusters, or too few.
fn differences(nodes: &[TargetNode]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut distinct: HashMap<&str, String> = HashMap::new();
    for node in nodes {
        let (id, url) = (node.identity.id.as_str(), node.api.url());
        match distinct.get(id) {
            Some(first) => problems.push(format!("{url} and {first} lead to the same node, {id}")),
            None => drop(distinct.insert(id, url.clone())),
        }
        for other in nodes.iter().filter(|other| !node.live.contains(&other.identity)) {
            let (other, at) = (&other.identity.id, other.api.url());
            problems.push(format!(
                "{id} at {url} does not list {other} at {at} as live: they are of two clusters, or {other} does not \
                 check in"
            ));
        }
    }
    if distinct.len() < FEWEST {
        problems.push(format!(
            "the checklist asks for {FEWEST} distinct nodes, and the URLs lead to {}",
            distinct.len()
        ));
    }
    problems
}

async fn through_problem(through: &NodeApi, nodes: &[TargetNode]) -> Option<String> {
    match look(through).await {
        Err(problem) => Some(format!("--through: {problem}")),
        Ok((own, _)) if nodes.iter().any(|node| node.live.contains(&own)) => None,
        Ok((own, _)) => Some(format!(
            "--through leads to {}, which no other node lists: it is of another cluster",
            own.id
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(url: &str, id: &str, incarnation: i64, live: &[(&str, i64)]) -> TargetNode {
        let identity = |(id, incarnation): (&str, i64)| NodeIdentity {
            id: id.to_owned(),
            incarnation,
        };
        TargetNode {
            api: NodeApi::of(url, None).unwrap(),
            identity: identity((id, incarnation)),
            live: live.iter().copied().map(identity).collect(),
        }
    }

    #[test]
    fn three_distinct_nodes_of_one_cluster_are_right() {
        let all = [("one", 1), ("two", 2), ("three", 3)];
        let nodes = all.map(|(id, incarnation)| node(&format!("http://{id}"), id, incarnation, &all));
        assert_eq!(differences(&nodes), [""; 0]);
        assert_eq!(
            differences(&nodes[..2]),
            ["the checklist asks for 3 distinct nodes, and the URLs lead to 2"]
        );
    }

    #[test]
    fn the_same_node_and_another_cluster_are_seen() {
        let one = [("one", 1)];
        let twice = [node("http://a", "one", 1, &one), node("http://b", "one", 1, &one)];
        assert_eq!(
            differences(&twice)[0],
            "http://b and http://a lead to the same node, one"
        );
        let foreign = [
            node("http://a", "one", 1, &one),
            node("http://b", "two", 1, &[("two", 1)]),
        ];
        let found = differences(&foreign);
        assert!(
            found[0].contains("one at http://a does not list two at http://b"),
            "{found:?}"
        );
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn only_live_nodes_are_listed() {
        let item = |id: &str, state: &str| json!({"nodeId": id, "incarnation": 7, "state": state});
        let listed = json!({"items": [item("a", "live"), item("b", "silent"), json!({"nodeId": "c"})]});
        let ids: Vec<String> = live(&listed).into_iter().map(|node| node.id).collect();
        assert_eq!(ids, ["a"]);
        assert!(live(&Value::Null).is_empty());
    }
}
