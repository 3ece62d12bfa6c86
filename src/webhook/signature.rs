//! Signatures by the convention of Standard Webhooks: HMAC-SHA-256 over `id.timestamp.body`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::WebhookSecret;

/// The header with the id of the event.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub(crate) const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures, separated by spaces.
pub(crate) const SIGNATURE: &str = "webhook-signature";

/// What begins a signature: its version.
const VERSION: &str = "v1,";

/// How many seconds a received timestamp may differ from the database's clock.
const TOLERANCE: i64 = 300;

/// The most signatures of a received header that are compared.
const MOST: usize = 16;

/// The value of the header: one signature for each secret.
pub(crate) fn signatures<'s>(
    secrets: impl IntoIterator<Item = &'s WebhookSecret>,
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> String {
    let signed = secrets.into_iter().filter_map(|secret| {
        let signature = mac(secret, id, &timestamp.to_string(), body)?.finalize().into_bytes();
        Some(format!("{VERSION}{}", STANDARD.encode(signature)))
    });
    signed.collect::<Vec<_>>().join(" ")
}

/// Why a received event is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureProblem {
    /// The timestamp is no number, or too far from now.
    Stale,
    /// No signature is genuine.
    Wrong,
}

/// Checks the headers of a received event, against any of the secrets, in constant time. `now`: seconds since 1970.
pub(crate) fn verify<'s>(
    secrets: impl IntoIterator<Item = &'s WebhookSecret>,
    (id, timestamp, given): (&str, &str, &str),
    body: &[u8],
    now: i64,
) -> Result<(), SignatureProblem> {
    let at: i64 = timestamp.parse().map_err(|_| SignatureProblem::Stale)?;
    let decoded: Vec<Vec<u8>> = given
        .split_ascii_whitespace()
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix(VERSION)?).ok())
        .take(MOST)
        .collect();
    let mut is_genuine = false;
    for secret in secrets {
        // Over the body once for each secret, however many signatures are given.
        let Some(mac) = mac(secret, id, timestamp, body).filter(|_| !decoded.is_empty()) else {
            continue;
        };
        for signature in &decoded {
            is_genuine |= mac.clone().verify_slice(signature).is_ok();
        }
    }
    if !is_genuine {
        return Err(SignatureProblem::Wrong);
    }
    // The answer to a genuine and old one says that it is old.
    if now.saturating_sub(at).saturating_abs() > TOLERANCE {
        return Err(SignatureProblem::Stale);
    }
    Ok(())
}

fn mac(secret: &WebhookSecret, id: &str, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()?;
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_convention() {
        // The example of the convention's own libraries.
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, at, body) = (
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        let signature = signatures([&secret], id, at, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let checked = |given: &str, now: i64| verify([&secret], (id, "1614265330", given), body, now);
        assert_eq!(checked(&signature, at), Ok(()));
        assert_eq!(checked(&format!("v2,xyz v1a,AA {signature}"), at + 300), Ok(()));
        assert_eq!(checked(&signature, at + 301), Err(SignatureProblem::Stale));
        assert_eq!(checked(&signature, at - 301), Err(SignatureProblem::Stale));
        for wrong in ["", "v1,", "v1,AAAA", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="] {
            assert_eq!(checked(wrong, at), Err(SignatureProblem::Wrong), "{wrong}");
        }
        let other = verify([&secret], (id, "1614265330", &signature), b"{}", at);
        assert_eq!(other, Err(SignatureProblem::Wrong));
        let none = verify([&secret], (id, "now", &signature), body, at);
        assert_eq!(none, Err(SignatureProblem::Stale));
    }

    #[test]
    fn while_a_secret_rotates_both_sign() {
        let (old, new) = (WebhookSecret::random(), WebhookSecret::random());
        let both = signatures([&new, &old], "m", 7, b"x");
        assert_eq!(both.split(' ').count(), 2);
        for secret in [&old, &new] {
            assert_eq!(verify([secret], ("m", "7", &both), b"x", 7), Ok(()));
        }
        assert!(verify([&WebhookSecret::random()], ("m", "7", &both), b"x", 7).is_err());
    }
}
