//! Point 1: of simultaneous resumes of an instance, sent to all nodes, one runs.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};

use super::node_api::{ApiAnswer, LostRequest};
use super::own_workflows::{self, RESUMED};
use super::point_report::PointOutcome;
use super::started::ReadJournal;
use super::target_cluster::TargetCluster;
use crate::harness::client::text_field;

/// How many instances are resumed, each started by another node.
const ROUNDS: usize = 3;
/// As many as the checklist sends.
const RESUMES: usize = 30;

/// The answers to the simultaneous resumes of one instance.
pub(super) struct Resumes {
    pub(super) id: String,
    answers: Vec<Result<ApiAnswer, LostRequest>>,
}

pub(super) async fn run(cluster: &TargetCluster) -> PointOutcome {
    let mut problems = cluster.problems.clone();
    if let Err(problem) = own_workflows::publish_somewhere(cluster, &own_workflows::resumed()).await {
        problems.push(problem);
        return PointOutcome::Failed(problems);
    }
    for round in 0..ROUNDS {
        match Resumes::send(cluster, round, RESUMES).await {
            Ok(resumes) => problems.extend(resumes.problems(cluster).await),
            Err(problem) => problems.push(problem),
        }
    }
    PointOutcome::of(problems, || {
        let nodes = cluster.nodes.len();
        format!(
            "{nodes} distinct nodes; of {RESUMES} resumes of each of {ROUNDS} instances one ran, and the others were \
             refused"
        )
    })
}

impl Resumes {
    /// Starts an instance at one node, and resumes it so many times at once at all nodes.
    pub(super) async fn send(cluster: &TargetCluster, round: usize, count: usize) -> Result<Self, String> {
        let mut nodes = cluster
            .nodes
            .iter()
            .map(|node| &node.api)
            .cycle()
            .skip(round % cluster.nodes.len());
        let Some(first) = nodes.next() else {
            return Err("there is no node".to_owned());
        };
        let started = first
            .post(&format!("workflow-definitions/{RESUMED}/execute"), &json!({}))
            .await?;
        let state = started.get("workflowState").unwrap_or(&Value::Null);
        let (id, sub_status) = (text_field(state, "id").to_owned(), text_field(state, "subStatus"));
        if id.is_empty() || sub_status != "Suspended" {
            return Err(format!(
                "{}: an instance was started and does not wait at its bookmark: {started}; does a node have the role \
                 worker?",
                first.url()
            ));
        }
        let path = format!("workflow-instances/{id}/resume");
        let body = json!({});
        let sends = nodes
            .take(count)
            .map(|api| api.send(Method::POST, &path, None, Some(&body)));
        let answers = join_all(sends).await;
        Ok(Self { id, answers })
    }

    /// How long each answer took.
    pub(super) fn times(&self) -> impl Iterator<Item = Duration> {
        self.answers.iter().flatten().map(|answer| answer.took)
    }

    /// What is wrong with the answers, and with what the instance has come to.
    pub(super) async fn problems(&self, cluster: &TargetCluster) -> Vec<String> {
        let mut problems = self.wrong_answers();
        let path = format!("workflow-instances/{}", self.id);
        match cluster.any(async |api| api.get(&path).await).await {
            Err(problem) => problems.push(problem),
            Ok(instance) if text_field(&instance, "subStatus") != "Finished" => {
                let sub_status = text_field(&instance, "subStatus");
                problems.push(format!(
                    "instance {} is {sub_status} after its resumes, not Finished",
                    self.id
                ));
            }
            Ok(_) => match cluster.any(async |api| ReadJournal::read(api, &self.id).await).await {
                Err(problem) => problems.push(problem),
                Ok(journal) => problems.extend(journal.not_once(&self.id)),
            },
        }
        problems
    }

    fn wrong_answers(&self) -> Vec<String> {
        let (mut ran, mut refused, mut others) = (0, 0, Vec::new());
        for answer in &self.answers {
            match answer {
                Ok(answer) if answer.status == 200 => ran += 1,
                Ok(answer) if answer.status == 409 && text_field(&answer.body, "code") == "already-resumed" => {
                    refused += 1
                }
                Ok(answer) => others.push(answer.refusal()),
                Err(lost) => others.push(lost.problem.clone()),
            }
        }
        let (id, count) = (&self.id, self.answers.len());
        let mut problems = Vec::new();
        if ran != 1 {
            problems.push(format!(
                "instance {id}: {ran} of {count} resumes say that they ran it, and {refused} that it was resumed already"
            ));
        }
        if let Some(first) = others.first() {
            let failed = others.len();
            problems.push(format!(
                "instance {id}: {failed} of {count} resumes failed, the first with: {first}"
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumes(statuses: &[u16]) -> Resumes {
        let answer = |status: &u16| match status {
            0 => Err(LostRequest {
                was_sent: true,
                problem: "http://a: closed".to_owned(),
            }),
            409 => Ok((409, json!({"code": "already-resumed"}))),
            status => Ok((*status, Value::Null)),
        };
        let answers = statuses.iter().map(answer).map(|answer| {
            answer.map(|(status, body)| ApiAnswer {
                status,
                body,
                took: Duration::ZERO,
            })
        });
        Resumes {
            id: "i".to_owned(),
            answers: answers.collect(),
        }
    }

    #[test]
    fn one_runs_and_the_others_are_refused() {
        assert_eq!(resumes(&[409, 200, 409]).wrong_answers(), [""; 0]);
        let twice = resumes(&[200, 200, 409]).wrong_answers();
        assert_eq!(
            twice,
            ["instance i: 2 of 3 resumes say that they ran it, and 1 that it was resumed already"]
        );
        let lost = resumes(&[409, 0, 503]).wrong_answers();
        assert!(lost[0].contains("0 of 3 resumes say that they ran it"), "{lost:?}");
        assert!(
            lost[1].contains("2 of 3 resumes failed, the first with: http://a: closed"),
            "{lost:?}"
        );
    }
}
