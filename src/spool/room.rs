//! What all files of a spool may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// What an empty file takes, in bytes: files without a byte would be without end.
const FILE_BYTES: u64 = 4096;

/// The part of the room that files of strangers leave to the others: one of so many.
const KEPT_DIVISOR: u64 = 8;

/// Whose files they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of workflows, and of requests with the key of this server.
    #[default]
    Known,
    /// Of requests without it, which must not use up the room of the others.
    Stranger,
}

#[derive(Debug)]
pub(super) struct SpoolRoom {
    limit: u64,
    used: AtomicU64,
}

impl SpoolRoom {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The place of a file, which is still empty.
    pub(super) fn file(self: &Arc<Self>, owner: Owner) -> Result<SpoolPlace> {
        let mut place = SpoolPlace {
            room: Arc::clone(self),
            owner,
            bytes: 0,
        };
        place.grow(FILE_BYTES)?;
        Ok(place)
    }
}

/// What one file takes; dropping it gives that back.
#[derive(Debug)]
pub(super) struct SpoolPlace {
    room: Arc<SpoolRoom>,
    owner: Owner,
    bytes: u64,
}

impl SpoolPlace {
    /// Takes more bytes. Errors: `spool-full`; nothing is taken.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<()> {
        let all = self.room.limit;
        let limit = match self.owner {
            Owner::Known => all,
            Owner::Stranger => all - all / KEPT_DIVISOR,
        };
        let grown = self
            .room
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&used| used <= limit)
            });
        if grown.is_err() {
            metrics::counter!("mainspring_spool_refused_total").increment(1);
            let share = match self.owner {
                Owner::Known => String::new(),
                Owner::Stranger => format!(", {} of them of requests without its key", limit >> 20),
            };
            let message = format!(
                "The files of other requests use the spool of this node, which holds {} MiB (spool-mib){share}; try again later.",
                all >> 20
            );
            return Err(Error::unavailable("spool-full", message));
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for SpoolPlace {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
