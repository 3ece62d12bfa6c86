//! Samples the cluster on one node at a time, and reads the sample that this node serves.
//!
//! Whichever node claims the job when it is due takes the sample; from then on it keeps each second and claims the job again,
//! until another node was faster. If it ends, a check-in of another node shows that the job is due.

use std::time::{Duration, Instant};

use crate::Result;
use crate::cluster::SAMPLE_INTERVAL;
use crate::metric;
use crate::runtime::context::known_sample::KnownSample;
use crate::runtime::context::node_context::NodeContext;
use crate::store::cluster_sample;
use crate::store::maintenance::{self, Job};

/// Between two looks, and two seconds that are kept.
const TICK: Duration = Duration::from_secs(1);

/// Between two reads of the sample.
const READ_INTERVAL: Duration = Duration::from_secs(5);

/// How far back of the first unclaimed row the counts begin: the clock of the check-in is a moment old.
const MARGIN: Duration = Duration::from_secs(2);

/// What a node knows of its turn.
#[derive(Default)]
struct Sampler {
    /// When this node has to claim the job again; `None` while another node samples.
    again: Option<Instant>,
    read: Option<Instant>,
}

/// Samples and reads until the incarnation stops; returns at once if this node takes no part.
pub(super) async fn run(node: &NodeContext) {
    let Some(known) = &node.sample else { return };
    let mut sampler = Sampler::default();
    let mut ticks = tokio::time::interval(TICK);
    // After a stall only one tick follows.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // A step that is dropped halfway leaves a sample that the next claim makes again.
        let stepped = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            stepped = sampler.step(node, known) => stepped,
        };
        if let Err(error) = stepped {
            tracing::debug!(%error, "the cluster could not be sampled; the next second tries again");
            sampler.again = None;
        }
    }
}

impl Sampler {
    async fn step(&mut self, node: &NodeContext, known: &KnownSample) -> Result<()> {
        let pool = node.database.reads.by_key();
        let own = node.database.incarnation;
        let (since, sample_due) = {
            let report = node.lifecycle.reports.borrow();
            (report.check_in.head - MARGIN, report.check_in.sample_due)
        };
        let now = Instant::now();
        let is_due = self.again.map_or(sample_due, |again| again <= now);
        if is_due && maintenance::claim_job(pool, own, Job::SampleCluster, SAMPLE_INTERVAL).await? {
            self.again = Some(now + SAMPLE_INTERVAL);
            cluster_sample::take(pool, since, metric::TABLES).await?;
            self.read = None;
        }
        if self.again.is_some() && !cluster_sample::keep_second(pool, own, since).await? {
            self.again = None;
        }
        if self.read.is_none_or(|read| read.elapsed() >= READ_INTERVAL) {
            self.read = Some(now);
            if let Some(sample) = cluster_sample::read(pool).await? {
                known.set(&sample);
            }
        }
        Ok(())
    }
}
