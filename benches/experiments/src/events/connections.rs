//! A limited number of connections to the nodes, which many clients share.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use mainspring::internals::{Client, Failure, PersistentConnection};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Connections to the nodes in turn. They open when they are first used, and after an error.
pub(super) struct Connections {
    free: Mutex<VecDeque<Slot>>,
    permits: Semaphore,
}

struct Slot {
    node: Client,
    open: Option<PersistentConnection>,
}

impl Connections {
    pub(super) fn new(nodes: &[Client], count: usize) -> Self {
        let slots = (0..count).zip(nodes.iter().cycle());
        Self {
            free: Mutex::new(
                slots
                    .map(|(_, node)| Slot {
                        node: node.clone(),
                        open: None,
                    })
                    .collect(),
            ),
            permits: Semaphore::new(count),
        }
    }

    /// Waits for a free connection. Cancellation safe.
    pub(super) async fn take(&self) -> Result<LoadConnection<'_>, Failure> {
        let permit = self.permits.acquire().await;
        let slot = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match (permit, slot) {
            (Ok(permit), Some(slot)) => Ok(LoadConnection {
                slot: Some(slot),
                all: self,
                _permit: permit,
            }),
            _ => Err(Failure::failed("there is no node")),
        }
    }

    /// Sends a request on the next free connection.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Vec<u8>, Failure> {
        self.take().await?.post(path, body).await
    }
}

/// A connection for one request at a time. Dropping it makes it free.
pub(super) struct LoadConnection<'a> {
    /// None only while it is dropped.
    slot: Option<Slot>,
    all: &'a Connections,
    _permit: SemaphorePermit<'a>,
}

impl LoadConnection<'_> {
    /// Sends a request, and returns the unparsed body of a 2xx response.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Result<Vec<u8>, Failure> {
        let slot = self.slot.as_mut().ok_or_else(|| Failure::failed("there is no node"))?;
        // It returns to its place only after a response: one that failed or was dropped halfway is not used again.
        let mut open = match slot.open.take() {
            Some(open) => open,
            None => PersistentConnection::open(&slot.node).await?,
        };
        let answer = open.post(path, body.to_string()).await?;
        slot.open = Some(open);
        Ok(answer)
    }
}

impl Drop for LoadConnection<'_> {
    fn drop(&mut self) {
        let slots = self.slot.take();
        self.all
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(slots);
    }
}
