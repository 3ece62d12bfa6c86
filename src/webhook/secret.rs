//! The secret that signs: `whsec_` and base64, as Standard Webhooks writes it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Error, Result};

/// What begins a secret.
const PREFIX: &str = "whsec_";

/// The least and the most bytes of a secret; those of Standard Webhooks are 24 to 64.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that a sink or a source shares with this engine.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Reads a secret: base64 of 24 to 64 bytes, with or without `whsec_` before it.
    ///
    /// # Errors
    /// `invalid-secret`, without the secret.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |problem: &str| {
            Error::invalid("invalid-secret", format!("the secret of a webhook {problem}"))
                .field("secret", "must be whsec_ and the base64 of 24 to 64 random bytes")
        };
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.map_err(|_| wrong("is not base64; `openssl rand -base64 32` prints one"))?;
        if !BYTES.contains(&bytes.len()) {
            let (least, most) = (BYTES.start(), BYTES.end());
            let count = bytes.len();
            return Err(wrong(&format!(
                "has {count} bytes; give {least} to {most} random ones: `openssl rand -base64 32` prints such a secret"
            )));
        }
        Ok(Self(bytes))
    }

    /// A new one of 32 random bytes.
    pub fn random() -> Self {
        let mut bytes = [0u8; 32];
        rand::fill(&mut bytes);
        Self(bytes.to_vec())
    }

    /// The secret as a text. It is enough to sign.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_enough_and_shown_nowhere() {
        let secret = WebhookSecret::random();
        assert_eq!(WebhookSecret::parse(&secret.reveal()).unwrap(), secret);
        assert_ne!(secret, WebhookSecret::random());
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
        let bare = secret.reveal().replace("whsec_", "");
        assert_eq!(WebhookSecret::parse(&bare).unwrap(), secret);
        let short = STANDARD.encode([7u8; 23]);
        for bad in ["", "whsec_", "s3cret!", &short, &STANDARD.encode([7u8; 65])] {
            let error = WebhookSecret::parse(bad).unwrap_err();
            assert_eq!(error.code(), "invalid-secret");
            assert!(
                bad.is_empty() || bad == "whsec_" || !error.to_string().contains(bad),
                "{error}"
            );
        }
    }
}
