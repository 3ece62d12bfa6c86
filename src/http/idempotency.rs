//! The `Idempotency-Key` header: with it, a client's retry is safe.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::error::ApiError;
use crate::runtime::Idempotency;

/// The longest key, in characters.
const MAX_LENGTH: usize = 255;

/// The key of a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let visible = |key: &&str| (1..=MAX_LENGTH).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    let (Some(key), None) = (key.to_str().ok().filter(visible), keys.next()) else {
        return Err(ApiError::bad_request(
            "invalid-idempotency-key",
            format!("An Idempotency-Key is one header of 1 to {MAX_LENGTH} visible ASCII characters."),
        ));
    };
    Ok(Some(key.to_owned()))
}

/// The key of a request, with the fingerprint that distinguishes requests under one key: SHA-256 over the method, the
/// path with its query, and the bytes of the body.
pub(super) fn from_request(parts: &Parts, body: &[u8]) -> Result<Option<Idempotency>, ApiError> {
    let Some(key) = idempotency_key(&parts.headers)? else {
        return Ok(None);
    };
    Ok(Some(Idempotency {
        key,
        fingerprint: request_fingerprint(parts, body),
    }))
}

/// SHA-256 over the method, the path with its query, and what stands for the body.
pub(crate) fn request_fingerprint(parts: &Parts, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    // No method and no path holds a line feed, so the parts cannot run into each other.
    for part in [
        parts.method.as_str().as_bytes(),
        b"\n",
        parts.uri.path().as_bytes(),
        b"?",
    ] {
        hash.update(part);
    }
    hash.update(parts.uri.query().unwrap_or_default().as_bytes());
    hash.update(b"\n");
    hash.update(body);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn of_request(method: &str, uri: &str, keys: &[&str], body: &str) -> Result<Option<Idempotency>, &'static str> {
        let request = keys
            .iter()
            .fold(Request::builder().method(method).uri(uri), |request, key| {
                request.header("Idempotency-Key", *key)
            });
        let parts = request.body(()).unwrap().into_parts().0;
        from_request(&parts, body.as_bytes()).map_err(|error| error.status_and_code().1)
    }

    #[test]
    fn a_key_is_short_and_visible() {
        assert!(of_request("POST", "/a", &[], "").unwrap().is_none());
        assert_eq!(of_request("POST", "/a", &["k-1"], "").unwrap().unwrap().key, "k-1");
        assert!(of_request("POST", "/a", &[&"k".repeat(255)], "").is_ok());
        for bad in [&[""][..], &["a b"], &["schlüssel"], &["a", "b"], &[&"k".repeat(256)]] {
            assert_eq!(
                of_request("POST", "/a", bad, "").unwrap_err(),
                "invalid-idempotency-key"
            );
        }
    }

    #[test]
    fn different_requests_have_different_fingerprints() {
        let print = |method, uri, body| of_request(method, uri, &["k"], body).unwrap().unwrap().fingerprint;
        let first = print("POST", "/a", "{}");
        assert_eq!(first, print("POST", "/a", "{}"));
        for other in [
            print("PUT", "/a", "{}"),
            print("POST", "/b", "{}"),
            print("POST", "/a", "{ }"),
            print("POST", "/a?x", "{}"),
        ] {
            assert_ne!(first, other);
        }
    }
}
