//! The baseline: locks without the engine's provider, one connection per client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::unbatched::{UnbatchedForm, UnbatchedLocks};
use crate::harness::failure::Failure;

/// The numbers of connections; the best result is the baseline.
const CONNECTIONS: [usize; 3] = [4, 16, 64];

/// The maximum duration of a measurement: a longer one changes the result by less than its variance.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Pairs per second, at the best number of connections.
pub(super) struct Baseline {
    pub(super) two_trips: Best,
    pub(super) pipelined: Best,
    pub(super) one_statement: Best,
    /// With one connection and two round trips per pair.
    pub(super) single_client: f64,
}

pub(super) struct Best {
    pub(super) per_second: f64,
    pub(super) connections: usize,
}

pub(super) async fn run(url: &str, schema: &str, seconds: Duration) -> Result<Baseline, Failure> {
    let time = seconds.min(MAX_TIME);
    Ok(Baseline {
        two_trips: best(url, schema, UnbatchedForm::TwoTrips, time).await?,
        pipelined: best(url, schema, UnbatchedForm::Pipelined, time).await?,
        one_statement: best(url, schema, UnbatchedForm::OneStatement, time).await?,
        single_client: measure(url, schema, UnbatchedForm::TwoTrips, 1, time).await?,
    })
}

async fn best(url: &str, schema: &str, form: UnbatchedForm, time: Duration) -> Result<Best, Failure> {
    let mut best = Best {
        per_second: 0.0,
        connections: 0,
    };
    for connections in CONNECTIONS {
        let per_second = measure(url, schema, form, connections, time).await?;
        eprintln!("baseline: {form:?}, {connections} connections: {per_second:.0} pairs/s");
        if per_second > best.per_second {
            best = Best {
                per_second,
                connections,
            };
        }
    }
    Ok(best)
}

async fn measure(
    url: &str,
    schema: &str,
    form: UnbatchedForm,
    connections: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let pairs = Arc::new(AtomicU64::new(0));
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let locks = UnbatchedLocks::connect(url, schema).await?;
        let (pairs, stop, key) = (Arc::clone(&pairs), stop.clone(), rand::random());
        tasks.push(tokio::spawn(async move {
            while !stop.is_cancelled() {
                locks.pair(form, key).await?;
                pairs.fetch_add(1, Relaxed);
            }
            Ok::<_, crate::Error>(())
        }));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, began) = (pairs.load(Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let (after, took) = (pairs.load(Relaxed), began.elapsed());
    stop.cancel();
    for task in tasks {
        task.await.map_err(|error| Failure::failed(error.to_string()))??;
    }
    Ok((after - before) as f64 / took.as_secs_f64())
}
