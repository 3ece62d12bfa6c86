//! `mainspring validate`: the validation checklist of a cluster that runs elsewhere, over its REST API alone.
//!
//! Each point of the checklist imports a workflow of its own, drives it through the given nodes, and reads from their answers
//! and journals whether the promise holds. A point that was not tried, as no node was stopped for it, is no success.
//!
//! # Layout
//! - `node_api`: requests to one node; `target_cluster`: the nodes of the URLs, and which of them are one; `entrance`: where the
//!   requests of clients come in.
//! - `own_workflows`: what is imported, and how it is removed; `started`: what has become of the instances.
//! - `operator`: who stops and restarts nodes.
//! - The points: `resumes` (1), `timers` (2), `publishes` (3), `failover` (4), `rolling_restart` (5), `lock_times` (6).
//! - `point_report`: what they found.

mod entrance;
mod failover;
mod lock_times;
mod node_api;
mod operator;
mod own_workflows;
mod point_report;
mod publishes;
mod resumes;
mod rolling_restart;
mod started;
mod target_cluster;
mod timers;

use std::time::Instant;

use super::settings::{Common, ValidateSettings};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime;
use point_report::{PointOutcome, PointReport, ValidationReport};
use target_cluster::TargetCluster;

/// The points in the order in which they run: what stops nodes comes last.
const ORDER: [u8; 6] = [1, 2, 3, 6, 4, 5];

/// Validates the cluster of the given nodes. Exit code 1 unless each point has passed.
pub(super) async fn run(common: &Common, settings: &ValidateSettings) -> Result<(), Failure> {
    let key = settings.api_key_file.as_ref();
    let cluster = TargetCluster::find(&settings.nodes, settings.through.as_deref(), key).await?;
    let mut points = Vec::new();
    for number in ORDER.into_iter().filter(|number| settings.points.contains(number)) {
        progress(&format!("point {number}: {} …", point_report::name(number)));
        let began = Instant::now();
        let outcome = point(number, &cluster, settings).await;
        let point = PointReport {
            number,
            outcome,
            took: began.elapsed(),
        };
        progress(&point.line());
        points.push(point);
    }
    points.sort_by_key(|point| point.number);
    // The report of the points is printed also where the database cannot be checked.
    let (violations, unchecked) = match common.target().database_url {
        None => (None, None),
        Some(url) => match runtime::check(&url, &common.schema).await {
            Ok(violations) => (Some(violations), None),
            Err(error) => (None, Some(error)),
        },
    };
    let report = ValidationReport {
        nodes: cluster.listed(),
        points,
        violations,
    };
    for line in report.lines(settings.json) {
        print_line(&line);
    }
    if settings.cleanup {
        progress("deleting the definitions and instances of validations …");
        own_workflows::remove(&cluster).await.map_err(Failure::failed)?;
    }
    match unchecked {
        Some(error) => Err(error.into()),
        None if report.has_passed() => Ok(()),
        None => Err(Failure::reported()),
    }
}

async fn point(number: u8, cluster: &TargetCluster, settings: &ValidateSettings) -> PointOutcome {
    match number {
        1 => resumes::run(cluster).await,
        2 => timers::run(cluster, settings.timer).await,
        3 => publishes::run(cluster).await,
        4 => failover::run(cluster, settings).await,
        5 => rolling_restart::run(cluster, settings).await,
        _ => lock_times::run(cluster, settings.lock_limit).await,
    }
}

/// Says on standard error what happens.
fn progress(line: &str) {
    eprintln!("mainspring: {}", crate::activity::printable(line));
}
