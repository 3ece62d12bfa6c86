//! The static API key: `Authorization: ApiKey KEY`.

use std::fmt;

use sha2::{Digest, Sha256};

/// An API key. Only its hash is kept, so a copy or a printed form does not disclose the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey([u8; 32]);

impl ApiKey {
    /// The key with this text.
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether a text is this key. All bytes of two hashes are compared, so the time does not depend on where they differ.
    pub(super) fn is(&self, text: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let difference = self
            .0
            .iter()
            .zip(given)
            .fold(0, |sum, (own, given)| sum | (own ^ given));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_it() {
        let key = ApiKey::new("s3cret");
        assert!(key.is("s3cret"));
        for wrong in ["s3cre", "s3cret2", "S3CRET", "", " s3cret"] {
            assert!(!key.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", ApiKey::new("s3cret")), "ApiKey(…)");
    }
}
