//! Check-ins, on a thread of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use tokio::sync::{Notify, watch};

use super::MembershipOptions;
use super::failure_detector::FailureDetector;
use crate::db::{Connector, Session, within};
use crate::id::Incarnation;
use crate::store::node::{self, CheckIn};
use crate::{Error, Result};

/// What a connection may take at least, however short the tolerance is: a busy machine is no dead one.
const LEAST_TO_CONNECT: Duration = Duration::from_secs(2);

/// What the last check-in learned.
#[derive(Clone, Debug)]
pub(crate) struct CheckInReport {
    /// When it was sent, by our monotonic clock: what it says is at least this old.
    pub(crate) sent: Instant,
    /// When the answer came: what it says is due then is never due before.
    pub(crate) received: Instant,
    pub(crate) check_in: CheckIn,
    /// Nodes that are to be taken for dead, as they check in no more.
    pub(crate) expired: Vec<Incarnation>,
    /// This registration is over.
    pub(crate) declared_dead: bool,
    /// Transactions of the server that wrote since the check-in before, per second, without the check-ins; none: this is the
    /// first one.
    pub(super) writes: Option<f64>,
    tolerance: Duration,
}

impl CheckInReport {
    /// A check-in that was sent at this moment and has just been answered.
    #[cfg(test)]
    pub(super) fn of(sent: Instant, tolerance: Duration) -> Self {
        Self {
            sent,
            ..Self::first(tolerance)
        }
    }

    /// Before there was any.
    fn first(tolerance: Duration) -> Self {
        Self {
            sent: Instant::now(),
            received: Instant::now(),
            check_in: CheckIn {
                registered: true,
                revision: 0,
                next_due: Some(Duration::ZERO),
                head: DateTime::UNIX_EPOCH,
                next_fire: None,
                queued: false,
                expired: Vec::new(),
                members: Vec::new(),
                jobs_due: false,
                has_api_peers: false,
                has_worker_peers: false,
                worker_peers: 0,
                rank: 0,
                transactions: 0,
                clock: DateTime::UNIX_EPOCH,
            },
            expired: Vec::new(),
            declared_dead: false,
            writes: None,
            tolerance,
        }
    }

    /// Whether the last check-in is recent enough for others to believe that we live.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.declared_dead && self.sent.elapsed() < self.tolerance
    }
}

/// Owns the thread; dropping it stops the check-ins.
pub(super) struct CheckInThread {
    reports: watch::Receiver<CheckInReport>,
    stop: Arc<Notify>,
}

impl CheckInThread {
    pub(super) fn reports(&self) -> watch::Receiver<CheckInReport> {
        self.reports.clone()
    }
}

impl Drop for CheckInThread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// Starts the thread. Its runtime has nothing else to do, so that busy workers do not make it late.
pub(super) fn start(
    connector: Connector,
    incarnation: Incarnation,
    options: MembershipOptions,
) -> Result<CheckInThread> {
    let first = CheckInReport::first(options.tolerance);
    let (sender, reports) = watch::channel(first);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::internal("the check-in thread cannot be started").caused_by(error))?;
    std::thread::Builder::new()
        .name("check-in".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = beat(connector, incarnation, options, sender) => {}
                }
            });
        })
        .map_err(|error| Error::internal("the check-in thread cannot be started").caused_by(error))?;
    Ok(CheckInThread { reports, stop })
}

async fn beat(
    connector: Connector,
    incarnation: Incarnation,
    options: MembershipOptions,
    sender: watch::Sender<CheckInReport>,
) {
    let mut line: Option<(Session, tokio_postgres::Statement)> = None;
    let mut judge = FailureDetector::new(options.check_in, options.tolerance);
    let mut before: Option<(Instant, i64)> = None;
    loop {
        let sent = Instant::now();
        match check_in(&connector, &mut line, incarnation, &options).await {
            Ok(check_in) => {
                connector.last_answer().record(sent);
                let (received, declared_dead) = (Instant::now(), !check_in.registered);
                let last = before.replace((received, check_in.transactions));
                let check_ins = check_in.members.len() as f64 / options.check_in.as_secs_f64();
                let writes = last.map(|(at, transactions)| {
                    let passed = received.duration_since(at).as_secs_f64();
                    ((check_in.transactions - transactions) as f64 / passed - check_ins).max(0.0)
                });
                sender.send_replace(CheckInReport {
                    sent,
                    received,
                    expired: judge.judge(received, &check_in),
                    check_in,
                    declared_dead,
                    writes,
                    tolerance: options.tolerance,
                });
                if declared_dead {
                    return;
                }
            }
            Err(error) => {
                line = None;
                tracing::warn!(%error, "a check-in failed");
            }
        }
        // Jittered, so that a cluster that started together does not check in together.
        let pause = options.check_in.mul_f64(rand::random_range(0.9..1.0));
        tokio::time::sleep(pause.saturating_sub(sent.elapsed())).await;
        if sender.is_closed() {
            return;
        }
    }
}

async fn check_in(
    connector: &Connector,
    line: &mut Option<(Session, tokio_postgres::Statement)>,
    incarnation: Incarnation,
    options: &MembershipOptions,
) -> Result<CheckIn> {
    let (session, statement) = match line {
        Some(open) => open,
        None => {
            // A first attempt that hears nothing must leave time for a second one.
            let opens = async {
                let session = connector.open().await?;
                let statement = node::prepare_check_in(&session.client).await?;
                Ok::<_, Error>((session, statement))
            };
            line.insert(within((options.tolerance / 2).max(LEAST_TO_CONNECT), opens).await?)
        }
    };
    node::check_in(&session.client, statement, incarnation, options.tolerance / 2).await
}
