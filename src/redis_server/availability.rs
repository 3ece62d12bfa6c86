//! Whether the server of a service answers: for readiness, metrics and one log line per outage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// A service of a node that needs a server.
pub(crate) struct Availability {
    service: &'static Service,
    is_away: AtomicBool,
    /// Why it is away, without secrets.
    cause: Mutex<Option<String>>,
}

/// How logs and metrics name a service.
struct Service {
    name: &'static str,
    /// What an outage means.
    meanwhile: &'static str,
    gauge: &'static str,
    failures: &'static str,
}

static LOCKS: Service = Service {
    name: "locks",
    meanwhile: "whatever needs a lock waits until it returns",
    gauge: "mainspring_lock_server_away",
    failures: "mainspring_lock_server_failures_total",
};
static SIGNAL: Service = Service {
    name: "cache notifications",
    meanwhile: "check-ins empty the caches until it returns",
    gauge: "mainspring_signal_server_away",
    failures: "mainspring_signal_server_failures_total",
};

impl Availability {
    fn of(service: &'static Service) -> Self {
        Self {
            service,
            is_away: AtomicBool::new(false),
            cause: Mutex::default(),
        }
    }

    pub(crate) fn of_locks() -> Self {
        Self::of(&LOCKS)
    }

    pub(crate) fn of_signal() -> Self {
        Self::of(&SIGNAL)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Why it is away.
    pub(crate) fn cause(&self) -> Option<String> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_cause(&self, cause: Option<String>) {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    /// A connection has failed; whether another one is possible shows next.
    pub(crate) fn failed(&self) {
        metrics::counter!(self.service.failures).increment(1);
    }

    /// It cannot be reached.
    pub(crate) fn away(&self, error: &Error) {
        metrics::gauge!(self.service.gauge).set(1.0);
        self.set_cause(Some(error.message().to_owned()));
        if !self.is_away.swap(true, Ordering::Relaxed) {
            let Service { name, meanwhile, .. } = self.service;
            tracing::warn!(%error, "the Redis server for {name} is away; {meanwhile}");
        }
    }

    /// It answers.
    pub(crate) fn back(&self, place: &str) {
        metrics::gauge!(self.service.gauge).set(0.0);
        self.set_cause(None);
        if self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!(%place, "the Redis server for {} is back", self.service.name);
        }
    }
}
