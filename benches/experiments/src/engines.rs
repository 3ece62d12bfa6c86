//! The engines of this process, and how many instances have finished in them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use mainspring::Engine;
use mainspring::activity::Console;
use mainspring::definition::WorkflowDefinition;
use mainspring::id::{DefinitionId, InstanceId};
use mainspring::internals::{Failure, ScratchDatabase, finished_instances};
use mainspring::runtime::{InterpreterOptions, StartRequest};

/// Instances are lost if none finishes for this time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The concurrent bursts of an engine.
const WORKERS: usize = 512;

/// How many dispatches are sent at the same time.
const CONCURRENT_DISPATCHES: usize = 256;

/// The engines of a measurement.
pub(crate) struct Engines(Vec<Engine>);

/// How they start.
pub(crate) struct EngineOptions {
    url: String,
    schema: String,
    count: usize,
    /// The time limit of scripts; none: the default.
    script_time_limit: Option<Duration>,
}

impl EngineOptions {
    /// So many engines in the schema of an experiment.
    pub(crate) fn new(scratch: &ScratchDatabase, count: usize) -> Self {
        Self {
            url: scratch.url.clone(),
            schema: scratch.schema.clone(),
            count,
            script_time_limit: None,
        }
    }

    /// With another URL of the same database.
    pub(crate) fn url(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    pub(crate) fn script_time_limit(mut self, limit: Duration) -> Self {
        self.script_time_limit = Some(limit);
        self
    }

    pub(crate) async fn start(&self) -> Result<Engines, Failure> {
        self.start_with(self.count, WORKERS).await
    }

    /// One engine that runs nothing.
    pub(crate) async fn start_idle(&self) -> Result<Engines, Failure> {
        self.start_with(1, 0).await
    }

    async fn start_with(&self, count: usize, workers: usize) -> Result<Engines, Failure> {
        finished_instances()?;
        let started = (1..=count).map(|number| {
            let mut options = InterpreterOptions {
                console: Arc::new(DiscardConsole),
                ..InterpreterOptions::default()
            };
            if let Some(limit) = self.script_time_limit {
                options.script.time_limit = limit;
            }
            let builder = Engine::builder(&self.url)
                .schema(&self.schema)
                .node_id(format!("node-{number}"))
                .workers(workers)
                .pool_size(8)
                .interpreter(options);
            builder.start()
        });
        Ok(Engines(stream::iter(started).buffered(2).try_collect().await?))
    }
}

impl Engines {
    pub(crate) fn first(&self) -> Result<&Engine, Failure> {
        self.0.first().ok_or_else(|| Failure::failed("no engine was started"))
    }

    pub(crate) async fn publish(&self, definitions: &[WorkflowDefinition]) -> Result<(), Failure> {
        for definition in definitions {
            self.first()?.save(definition.clone(), true).await?;
        }
        Ok(())
    }

    /// Dispatches so many instances of the definition `bench`.
    pub(crate) async fn dispatch(&self, count: usize) -> Result<(), Failure> {
        let dispatches = (0..count)
            .zip(self.0.iter().cycle())
            .map(async |(_, engine)| engine.dispatch(start("bench", None)).await);
        let dispatches = stream::iter(dispatches).buffer_unordered(CONCURRENT_DISPATCHES);
        dispatches.try_for_each(async |_| Ok(())).await?;
        Ok(())
    }

    pub(crate) async fn end(self) {
        join_all(self.0.iter().map(Engine::shutdown)).await;
    }
}

/// How many instances have finished so far.
pub(crate) fn finished() -> u64 {
    finished_instances().map_or(0, |counter| counter.load(Relaxed))
}

/// Waits until so many instances have finished, or none has for the timeout.
pub(crate) async fn wait_for(count: u64) {
    let (mut last, mut since, mut reported) = (finished(), Instant::now(), Instant::now());
    while finished() < count && since.elapsed() < TIMEOUT {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if finished() != last {
            (last, since) = (finished(), Instant::now());
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            eprintln!("{} to go", count.saturating_sub(last));
            reported = Instant::now();
        }
    }
}

/// A start of a definition.
pub(crate) fn start(definition: &str, instance_id: Option<InstanceId>) -> StartRequest {
    StartRequest {
        definition_id: DefinitionId::new(definition),
        instance_id,
        ..StartRequest::default()
    }
}

/// Discards the lines of workflows: a terminal would be the bottleneck.
struct DiscardConsole;

impl Console for DiscardConsole {
    fn write_line(&self, _line: &str) {}
}
