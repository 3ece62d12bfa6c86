//! The digest of a body: what a request must be equal to that repeats another under its idempotency key.

use sha2::{Digest, Sha256};

/// A digest that is being computed. Of a request without a key there is none, as it takes longer than anything else of a large body.
#[derive(Debug)]
pub(super) struct BodyDigest(Option<Sha256>);

impl BodyDigest {
    pub(super) fn new(is_needed: bool) -> Self {
        Self(is_needed.then(Sha256::new))
    }

    /// An empty one for a part of the body.
    pub(super) fn of_part(&self) -> Self {
        Self::new(self.0.is_some())
    }

    pub(super) fn update(&mut self, bytes: impl AsRef<[u8]>) {
        if let Some(hash) = &mut self.0 {
            hash.update(bytes);
        }
    }

    /// Adds a part that is complete: its bytes cannot be mistaken for those of the next one.
    pub(super) fn add(&mut self, part: Self) {
        self.update(part.finish());
    }

    /// The digest; zeros, if it is not needed.
    pub(super) fn finish(self) -> [u8; 32] {
        self.0.map(|hash| hash.finalize().into()).unwrap_or_default()
    }
}
