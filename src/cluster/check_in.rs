//! Check-ins, on a separate thread.
//!
//! A check-in stands for the whole node: once the watchdog finds the node hung, the thread stops checking in. It then
//! records the hang, so that the end of the process does not count as a crash against every claimed row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::failure_detector::FailureDetector;
use super::queue_start::QueueStarts;
use crate::db::{Connector, Session, within};
use crate::id::{FanOutId, Incarnation, InstanceId, TenantId};
use crate::store::node::{self, CheckIn, QueueStart};
use crate::watchdog::Watchdog;
use crate::{Error, Result};

/// The shortest timeout of a connection, however short the tolerance is: a busy machine is slow, not lost.
const SHORTEST_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long after the moment at which another node expires a check-in is sent, and how much later at random: not all nodes find
/// it at once.
const AFTER_EXPIRY: Duration = Duration::from_millis(5);
const EXPIRY_SPREAD: Duration = Duration::from_millis(40);

/// How long the record of a hang may take, which the end of the process waits for.
const HANG_TIMEOUT: Duration = Duration::from_secs(1);

/// When a node checks in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Between two check-ins.
    pub(super) interval: Duration,
    /// A node without a check-in for this long has expired.
    pub(super) tolerance: Duration,
}

/// The answer to the last check-in.
#[derive(Clone, Debug)]
pub(crate) struct CheckInReport {
    /// When the check-in was sent, by the monotonic clock: the answer is at most this old.
    pub(crate) sent: Instant,
    /// When the answer came: what it shows as due is not due before.
    pub(crate) received: Instant,
    pub(crate) check_in: CheckIn,
    /// All fan-outs before this one are finished.
    pub(crate) fan_outs_from: FanOutId,
    /// Nodes that this node must take over from, as they missed their check-ins.
    pub(crate) expired: Vec<Incarnation>,
    /// This registration has ended.
    pub(crate) is_removed: bool,
    /// How many transactions of the server wrote per second since the check-in before, without the check-ins; none for
    /// the first one.
    pub(super) writes: Option<f64>,
    tolerance: Duration,
}

impl CheckInReport {
    /// The answer to a check-in that was sent at this moment.
    #[cfg(test)]
    pub(super) fn of(sent: Instant, tolerance: Duration) -> Self {
        Self {
            sent,
            ..Self::initial(tolerance)
        }
    }

    /// Before the first check-in.
    fn initial(tolerance: Duration) -> Self {
        Self {
            sent: Instant::now(),
            received: Instant::now(),
            check_in: CheckIn {
                registered: true,
                next_due: Some(Duration::ZERO),
                ..CheckIn::default()
            },
            fan_outs_from: QueueStart::WHOLE.fan_out,
            expired: Vec::new(),
            is_removed: false,
            writes: None,
            tolerance,
        }
    }

    /// Whether no other node can regard this one as expired yet.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.is_removed && self.sent.elapsed() < self.tolerance
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

/// Starts the thread. Its runtime does nothing else, so that busy workers do not delay it.
pub(super) fn start(
    connector: Connector,
    incarnation: Incarnation,
    timing: Timing,
    watchdog: Watchdog,
) -> Result<CheckInThread> {
    let (sender, reports) = watch::channel(CheckInReport::initial(timing.tolerance));
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::internal("the check-in thread cannot be started").caused_by(error))?;
    let (hangs, reporter) = (watchdog.hangs(), watchdog.reporter());
    std::thread::Builder::new()
        .name("check-in".to_owned())
        .spawn(move || {
            let mut connection = None;
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = watchdog.hung(hangs) => {
                        let recorded = record_hang(&connector, connection, incarnation, &watchdog).await;
                        // What reads the log may have stopped.
                        drop(reporter);
                        log_hang(recorded);
                    }
                    () = stopped.notified() => {}
                    () = run(&connector, &mut connection, incarnation, timing, &sender) => {}
                }
            });
        })
        .map_err(|error| Error::internal("the check-in thread cannot be started").caused_by(error))?;
    Ok(CheckInThread { reports, stop })
}

/// A session with the prepared statement of the check-in.
type Connection = (Session, tokio_postgres::Statement);

fn log_hang(recorded: Result<Vec<(TenantId, InstanceId)>>) {
    match recorded {
        Ok(hanging) => {
            for (_, instance) in hanging {
                tracing::error!(%instance, "a burst of this instance keeps a thread of the hung node, which counts as its crash");
            }
        }
        Err(error) => {
            tracing::warn!(%error, "the hang of this node could not be recorded; its end counts as a crash");
        }
    }
}

/// Records that this node hangs, and against which rows that counts: those of the returned instances.
async fn record_hang(
    connector: &Connector,
    connection: Option<Connection>,
    incarnation: Incarnation,
    watchdog: &Watchdog,
) -> Result<Vec<(TenantId, InstanceId)>> {
    let hanging = watchdog.hanging_bursts();
    let recording = async {
        let session = match connection {
            Some((session, _)) => session,
            None => connector.open().await?,
        };
        node::record_hang(&session.client, incarnation, &hanging).await
    };
    within(HANG_TIMEOUT, recording).await?;
    Ok(hanging)
}

async fn run(
    connector: &Connector,
    connection: &mut Option<Connection>,
    incarnation: Incarnation,
    timing: Timing,
    sender: &watch::Sender<CheckInReport>,
) {
    let mut detector = FailureDetector::new(timing.interval, timing.tolerance);
    let mut previous: Option<(Instant, i64)> = None;
    let mut starts = QueueStarts::new();
    loop {
        let sent = Instant::now();
        let mut next_expiry = None;
        match check_in(connector, connection, incarnation, starts.next(sent), timing).await {
            Ok(check_in) => {
                connector.last_answer().record(sent);
                let (received, is_removed) = (Instant::now(), !check_in.registered);
                next_expiry = check_in.next_expiry;
                let last = previous.replace((received, check_in.transactions));
                let check_ins = check_in.members.len() as f64 / timing.interval.as_secs_f64();
                let writes = last.map(|(at, transactions)| {
                    let passed = received.duration_since(at).as_secs_f64();
                    ((check_in.transactions - transactions) as f64 / passed - check_ins).max(0.0)
                });
                sender.send_replace(CheckInReport {
                    sent,
                    received,
                    expired: detector.expired(received, &check_in),
                    fan_outs_from: starts.found(sent, &check_in),
                    check_in,
                    is_removed,
                    writes,
                    tolerance: timing.tolerance,
                });
                if is_removed {
                    return;
                }
            }
            Err(error) => {
                *connection = None;
                // The next one may meet another server.
                starts = QueueStarts::new();
                tracing::warn!(%error, "a check-in failed");
            }
        }
        // Jittered, so that nodes that were started together do not check in together.
        let mut pause = timing.interval.mul_f64(rand::random_range(0.9..1.0));
        // A node that is late expires before the next check-in: it is not found later than that.
        if let Some(expiry) = next_expiry {
            let after = AFTER_EXPIRY + EXPIRY_SPREAD.mul_f64(rand::random());
            pause = pause.min(sent.elapsed() + expiry + after);
        }
        tokio::time::sleep(pause.saturating_sub(sent.elapsed())).await;
        if sender.is_closed() {
            return;
        }
    }
}

async fn check_in(
    connector: &Connector,
    connection: &mut Option<Connection>,
    incarnation: Incarnation,
    start: QueueStart,
    timing: Timing,
) -> Result<CheckIn> {
    let (session, statement) = match connection {
        Some(open) => open,
        None => {
            // A first attempt without an answer must leave time for a second one.
            let opens = async {
                let session = connector.open().await?;
                let statement = node::prepare_check_in(&session.client).await?;
                Ok::<_, Error>((session, statement))
            };
            let timeout = (timing.tolerance / 2).max(SHORTEST_CONNECT_TIMEOUT);
            connection.insert(within(timeout, opens).await?)
        }
    };
    node::check_in(&session.client, statement, incarnation, start, timing.tolerance / 2).await
}
