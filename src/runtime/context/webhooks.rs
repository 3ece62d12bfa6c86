//! The sinks of webhooks, as a node knows them, complete up to a revision.
//!
//! # Invariants
//!
//! - What is kept here decides only whether a burst has anything to write for sinks. The statement that writes reads the table: an
//!   event goes to no sink that was deleted, disabled or changed so that it does not want it.
//! - A hint, and the revision that every check-in reads, have the sinks read again. So an event may miss a sink that was registered
//!   or widened less than a check-in interval before, at another node; nothing else depends on it.
//! - The sender compares the revision that it read with the deliveries, and reads the sinks first if that is newer.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use reqwest::Url;
use tokio::sync::{Notify, Semaphore};

use super::wake_sender::WakeSender;
use crate::db::Pool;
use crate::id::TenantId;
use crate::store::webhook::delivery::Retention;
use crate::store::webhook::sink::{self, SinkNumber, SinkRow};
use crate::wake::WakeNotification;
use crate::webhook::{EventType, WebhookSecret};
use crate::{Error, Result};

/// A sink as this node sends to it.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) number: SinkNumber,
    pub(crate) id: String,
    pub(crate) url: Url,
    tenant: String,
    event_types: Vec<String>,
    definitions: Vec<String>,
    paused: bool,
    secret: WebhookSecret,
    /// The one before, and until when it signs as well.
    previous: Option<(WebhookSecret, Instant)>,
}

impl Sink {
    fn of(row: SinkRow) -> Option<Self> {
        let Ok(url) = Url::parse(&row.url) else {
            tracing::warn!(
                sink = row.id,
                "the URL of a webhook sink cannot be read; nothing is sent to it"
            );
            return None;
        };
        Some(Self {
            number: row.number,
            id: row.id,
            url,
            tenant: row.tenant,
            event_types: row.event_types,
            definitions: row.definitions,
            paused: row.paused,
            secret: row.secret,
            previous: row.previous.map(|(secret, left)| (secret, Instant::now() + left)),
        })
    }

    fn wants(&self, tenant: &TenantId, event: EventType, definition: &str) -> bool {
        let has = |list: &[String], item: &str| list.is_empty() || list.iter().any(|listed| listed == item);
        self.tenant == tenant.as_str() && has(&self.event_types, event.as_str()) && has(&self.definitions, definition)
    }

    /// What signs now: two while one secret replaces the other.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &WebhookSecret> {
        let previous = self.previous.as_ref().filter(|(_, until)| Instant::now() < *until);
        std::iter::once(&self.secret).chain(previous.map(|(secret, _)| secret))
    }
}

/// How this node sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookOptions {
    /// How long an attempt may take.
    pub(crate) timeout: Duration,
    pub(crate) kept: Retention,
}

type Sinks = BTreeMap<SinkNumber, Arc<Sink>>;

/// The sinks of an incarnation.
#[derive(Debug)]
pub(crate) struct Webhooks {
    sinks: RwLock<Arc<Sinks>>,
    /// So that a burst takes no lock while there are none.
    has_sinks: AtomicBool,
    /// What the sinks are complete up to.
    revision: AtomicI64,
    /// The newest revision that was heard of.
    known: AtomicI64,
    /// Grows when the sinks are to be read without a newer revision, and that of the last read.
    expired: AtomicU64,
    read: AtomicU64,
    /// One read at a time.
    reading: Semaphore,
    /// Notified when something may be due, or the sinks may have changed.
    pub(crate) due: Notify,
    /// Something may be due for a sink that this node has not claimed.
    unclaimed: AtomicBool,
    /// Those that this node has claimed.
    claimed: Mutex<HashSet<SinkNumber>>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            sinks: RwLock::default(),
            has_sinks: AtomicBool::new(false),
            revision: AtomicI64::new(0),
            known: AtomicI64::new(0),
            // Nothing has been read.
            expired: AtomicU64::new(1),
            read: AtomicU64::new(0),
            reading: Semaphore::new(1),
            due: Notify::new(),
            unclaimed: AtomicBool::new(false),
            claimed: Mutex::default(),
        }
    }
}

impl Webhooks {
    /// The sinks have this revision.
    pub(crate) fn verify(&self, revision: i64) {
        self.known.fetch_max(revision, SeqCst);
    }

    /// The sinks may have changed.
    pub(crate) fn expire(&self) {
        self.expired.fetch_add(1, SeqCst);
        self.may_be_due();
    }

    /// Something may be due, for any sink.
    pub(crate) fn may_be_due(&self) {
        self.unclaimed.store(true, SeqCst);
        self.due.notify_one();
    }

    /// Whether something may be due for a sink that this node has not claimed, since this was asked last.
    pub(crate) fn take_unclaimed(&self) -> bool {
        self.unclaimed.swap(false, SeqCst)
    }

    /// What the sinks are complete up to.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(SeqCst)
    }

    pub(crate) fn has_sinks(&self) -> bool {
        self.has_sinks.load(SeqCst)
    }

    fn is_current(&self) -> bool {
        self.read.load(SeqCst) == self.expired.load(SeqCst) && self.revision.load(SeqCst) >= self.known.load(SeqCst)
    }

    /// Reads the sinks, unless nothing is known to have changed. Cancellation safe.
    pub(crate) async fn refresh(&self, pool: &Pool) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        let permit = self.reading.acquire().await;
        let _permit = permit.map_err(|_| Error::internal("the webhook sinks cannot be read"))?;
        if self.is_current() {
            return Ok(());
        }
        let expired = self.expired.load(SeqCst);
        let (revision, rows) = sink::list(pool).await?;
        let sinks: Sinks = rows
            .into_iter()
            .filter_map(Sink::of)
            .map(|sink| (sink.number, Arc::new(sink)))
            .collect();
        self.has_sinks.store(!sinks.is_empty(), SeqCst);
        *self.sinks.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sinks);
        self.revision.fetch_max(revision, SeqCst);
        // The revision of a restored database may be lower than one that was heard of.
        self.known.store(revision, SeqCst);
        self.read.store(expired, SeqCst);
        Ok(())
    }

    fn sinks(&self) -> Arc<Sinks> {
        Arc::clone(&self.sinks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sinks that want such an event, as far as this node knows.
    pub(crate) fn wanting(&self, tenant: &TenantId, event: EventType, definition: &str) -> Vec<SinkNumber> {
        let sinks = self.sinks();
        let wanting = sinks.values().filter(|sink| sink.wants(tenant, event, definition));
        wanting.map(|sink| sink.number).collect()
    }

    pub(crate) fn sink(&self, number: SinkNumber) -> Option<Arc<Sink>> {
        self.sinks().get(&number).cloned()
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<SinkNumber>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sinks that this node has claimed.
    pub(crate) fn set_claimed(&self, numbers: impl Iterator<Item = SinkNumber>) {
        let mut claimed = self.claimed();
        claimed.clear();
        claimed.extend(numbers);
    }

    /// Whether there are sinks that this node has not claimed and that are not paused.
    pub(crate) fn has_unclaimed(&self) -> bool {
        let sinks = self.sinks();
        let claimed = self.claimed();
        sinks
            .values()
            .any(|sink| !sink.paused && !claimed.contains(&sink.number))
    }

    /// This node has written deliveries for these sinks: it sends them, or notifies the node that has claimed one of them.
    pub(crate) fn written(&self, written: &BTreeSet<SinkNumber>, wake: &WakeSender) {
        let sinks = self.sinks();
        let is_sent = |number: &&SinkNumber| sinks.get(*number).is_some_and(|sink| !sink.paused);
        let claimed = self.claimed();
        let (mut is_own, mut is_other) = (false, false);
        for number in written.iter().filter(is_sent) {
            let claimed = claimed.contains(number);
            is_own |= claimed;
            is_other |= !claimed;
        }
        drop(claimed);
        if is_other {
            self.may_be_due();
            wake.notify([WakeNotification::Deliveries]);
        } else if is_own {
            self.due.notify_one();
        }
    }
}
