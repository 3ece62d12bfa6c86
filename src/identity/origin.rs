//! Where a request comes from, for the audit.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::caller::Caller;

/// A request that may change something, and who sends it.
#[derive(Debug)]
pub(crate) struct RequestOrigin {
    pub(crate) caller: Arc<Caller>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) method: String,
    /// The template of its path.
    pub(crate) route: String,
    /// What the path names: the values of its parameters.
    pub(crate) target: String,
    /// It only reads: nothing of it is in the audit.
    pub(crate) is_reading: bool,
    is_noted: AtomicBool,
    is_handed_over: AtomicBool,
}

impl RequestOrigin {
    /// A request that changes something if it is accepted.
    pub(crate) fn new(caller: Arc<Caller>, client: Option<IpAddr>, method: &str, route: &str) -> Self {
        Self {
            caller,
            client,
            method: method.to_owned(),
            route: route.to_owned(),
            target: String::new(),
            is_reading: false,
            is_noted: AtomicBool::new(false),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// Whether the audit has an entry of it.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Relaxed)
    }

    /// Whether a transaction is to write its entry.
    pub(crate) fn is_to_note(&self) -> bool {
        !self.is_reading && !self.is_noted()
    }

    /// Another task is about to write its entry beside a change, which goes on without the client.
    pub(crate) fn handed_over(&self) {
        self.is_handed_over.store(true, Ordering::Relaxed);
    }

    /// Whether another task may still write its entry.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// Its entry is committed: the next transactions of the same request write none.
    pub(crate) fn noted(&self) {
        self.is_noted.store(true, Ordering::Relaxed);
    }
}
