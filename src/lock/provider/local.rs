//! Locks within one process: for a single node, and for tests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::Result;
use crate::id;
use crate::lock::LockProvider;
use crate::lock::handle::{self, LockHandle};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::request::LockRequest;
use crate::lock::shared_table::{EndGuard, FencingToken, SharedTable, TokenRequest};
use crate::lock::stats::LockStats;
use crate::lock::table::{Backend, HeldLock};

/// Locks among the tasks of this process. Cheap to clone; clones share their locks, and two providers share nothing.
#[derive(Clone)]
pub struct LocalLocks {
    table: Arc<SharedTable>,
    domain: Arc<str>,
    _tokens: Arc<AbortOnDropHandle<()>>,
}

impl LocalLocks {
    /// A new provider. Must be called within a tokio runtime.
    pub fn new() -> Self {
        Self::with_key_function(LockKey::of)
    }

    pub(in crate::lock) fn with_key_function(key_function: KeyFunction) -> Self {
        let parts = SharedTable::open(Backend::InProcess, "local", key_function);
        let counter = tokio::spawn(count_tokens(parts.tokens, parts.end));
        Self {
            table: parts.table,
            domain: format!("local {}", id::this_process()).into(),
            _tokens: Arc::new(AbortOnDropHandle::new(counter)),
        }
    }
}

impl Default for LocalLocks {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs until the last clone of the provider is dropped: no lock is lost before.
async fn count_tokens(mut tokens: mpsc::Receiver<TokenRequest>, _end: EndGuard) {
    let mut last = 0;
    while let Some(request) = tokens.recv().await {
        last += 1;
        // Fails for a dropped future; the number is skipped.
        let _ = request.reply.send(Ok(FencingToken(last)));
    }
}

provide_from_table!(LocalLocks);
