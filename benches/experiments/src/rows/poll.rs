//! `poll` and `dead-rows`: the poll and the claim among many timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use mainspring::internals::{
    Failure, ScratchDatabase, Target, claim_statement, nearest_rank, poll_statement, print_line,
};
use tokio_postgres::types::ToSql;

use super::explain::{self, BATCH, Cost, ROOM, ROWS_PER_INSTANCE};
use super::{insert_timers, millis, with_schema};
use crate::database::{Session, execute, failed, open};
use crate::settings::{DeadRows, Poll};

/// The number of timers of the comparison.
const FEW: i64 = 10_000;

/// The number of executions of each statement.
const SAMPLES: usize = 50;

const DELETE: &str = "DELETE FROM timer t USING unnest($1::text[], $2::text[]) u(tenant, instance)
                      WHERE t.tenant_id = u.tenant AND t.instance_id = u.instance AND t.id = 'b'";

const HEAD: &str = "SELECT t.available_at FROM timer t WHERE t.claimed_by IS NULL ORDER BY t.available_at LIMIT 1";

/// Measures a poll and a claim of 64 due timers among few and among many future ones.
pub(crate) async fn measure_polls(target: &Target, settings: &Poll) -> Result<(), Failure> {
    let rows = i64::try_from(settings.rows).unwrap_or(i64::MAX).max(FEW);
    with_schema(target, async |scratch| {
        let session = open(scratch).await?;
        insert_timers(&session.client, -BATCH, -1, "-1 hour").await?;
        insert_timers(&session.client, 1, FEW, "1 year").await?;
        explain_both(scratch, FEW).await?;
        insert_timers(&session.client, FEW + 1, rows, "1 year").await?;
        explain_both(scratch, rows).await
    })
    .await
}

/// Explains poll and claim in a new session, and prints the first time, the median time and the median of the buffers.
async fn explain_both(scratch: &ScratchDatabase, rows: i64) -> Result<(), Failure> {
    let session = open(scratch).await?;
    let due: Vec<String> = (-BATCH..0).map(|number| format!("i{number}")).collect();
    let (mut polls, mut claims) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        polls.push(explain::poll_cost(&session.client).await?);
        claims.push(explain::claim(&session.client, &due).await?);
    }
    for (name, costs) in [("poll", polls), ("claim", claims)] {
        let times: Vec<f64> = costs.iter().map(|cost: &Cost| cost.millis).collect();
        let buffers: Vec<f64> = costs.iter().map(|cost| cost.buffers).collect();
        print_line(&format!(
            "{rows} future timers, {name}: first {:.2} ms, median {:.2} ms, {} buffers",
            times.first().copied().unwrap_or_default(),
            nearest_rank(&times, 50),
            nearest_rank(&buffers, 50)
        ));
    }
    Ok(())
}

/// The time of a poll and of a claim, and in which phase they ran.
struct Sample {
    phase: usize,
    poll: f64,
    claim: f64,
}

const PHASES: [&str; 3] = ["before the snapshot", "with the snapshot", "after the snapshot"];

/// Measures poll and claim while all timers are consumed, and while another session's snapshot retains the dead rows.
pub(crate) async fn dead_rows(target: &Target, settings: &DeadRows) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let session = open(scratch).await?;
        let rows = i64::try_from(settings.rows).unwrap_or(i64::MAX);
        insert_timers(&session.client, 1, rows, "-1 day").await?;
        let samples = consume(scratch, settings).await?;
        for (phase, name) in PHASES.iter().enumerate() {
            let of_phase: Vec<&Sample> = samples.iter().filter(|sample| sample.phase == phase).collect();
            let polls: Vec<f64> = of_phase.iter().map(|sample| sample.poll).collect();
            let claims: Vec<f64> = of_phase.iter().map(|sample| sample.claim).collect();
            for (statement, times) in [("poll", polls), ("claim", claims)] {
                print_line(&format!(
                    "{name}, {statement}: median {:.2} ms, p99 {:.2} ms, of {}",
                    nearest_rank(&times, 50),
                    nearest_rank(&times, 99),
                    times.len()
                ));
            }
        }
        Ok(())
    })
    .await
}

/// Polls, claims and deletes all timers, a transaction per batch. After a third of them a second session opens a snapshot.
async fn consume(scratch: &ScratchDatabase, settings: &DeadRows) -> Result<Vec<Sample>, Failure> {
    let session = open(scratch).await?;
    let client = &session.client;
    let prepare = async |statement: &str| client.prepare(statement).await.map_err(failed);
    let (poll, claim, delete) = (
        prepare(poll_statement()).await?,
        prepare(claim_statement()).await?,
        prepare(DELETE).await?,
    );
    let none: [&str; 0] = [];
    let phase = Arc::new(AtomicUsize::new(0));
    let mut holder = None;
    let mut samples = Vec::new();
    let (mut done, mut checked, mut head) = (0, None::<Instant>, None::<DateTime<Utc>>);
    loop {
        if holder.is_none() && done * 3 >= settings.rows {
            let (other, phase, seconds) = (open(scratch).await?, Arc::clone(&phase), settings.seconds);
            holder = Some(tokio::spawn(async move {
                phase.store(1, Relaxed);
                let held = hold_snapshot(other, Duration::from_secs(seconds as u64)).await;
                phase.store(2, Relaxed);
                held
            }));
        }
        // As a check-in reads it, less the two seconds for commits in progress.
        if checked.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            checked = Some(Instant::now());
            let row = client.query_opt(HEAD, &[]).await.map_err(failed)?;
            head = row.map(|row| row.get::<_, DateTime<Utc>>("available_at") - TimeDelta::seconds(2));
        }
        execute(client, "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan").await?;
        let began = Instant::now();
        let parameters: [&(dyn ToSql + Sync); 8] = [
            &BATCH,
            &&none[..],
            &&none[..],
            &false,
            &head,
            &None::<i64>,
            &1i32,
            &0i32,
        ];
        let found = client.query(&poll, &parameters).await.map_err(failed)?;
        let polled = Instant::now();
        let keys = found.iter().filter_map(|row| {
            Some((
                row.get::<_, Option<String>>("tenant_id")?,
                row.get::<_, String>("instance_id"),
            ))
        });
        let (tenants, instances): (Vec<String>, Vec<String>) = keys.unzip();
        if instances.is_empty() {
            execute(client, "COMMIT").await?;
            break;
        }
        let parameters: [&(dyn ToSql + Sync); 5] = [&1i64, &tenants, &instances, &ROWS_PER_INSTANCE, &ROOM];
        client.query(&claim, &parameters).await.map_err(failed)?;
        samples.push(Sample {
            phase: phase.load(Relaxed),
            poll: millis(polled - began),
            claim: millis(polled.elapsed()),
        });
        let deleted = client.execute(&delete, &[&tenants, &instances]).await.map_err(failed)?;
        done += usize::try_from(deleted).unwrap_or(0);
        execute(client, "COMMIT").await?;
    }
    if let Some(holder) = holder {
        if phase.load(Relaxed) == 1 {
            eprintln!("the timers were consumed before the snapshot ended: increase --rows");
        }
        holder.abort();
        if let Ok(held) = holder.await {
            held?;
        }
    }
    Ok(samples)
}

/// Holds a snapshot for the given time. It owns the session: its client alone would not keep the connection open.
pub(super) async fn hold_snapshot(session: Session, time: Duration) -> Result<(), Failure> {
    let database = &session.client;
    execute(database, "BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    execute(database, "SELECT FROM instance LIMIT 1").await?;
    tokio::time::sleep(time).await;
    execute(database, "COMMIT").await
}
