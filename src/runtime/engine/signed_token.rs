//! Texts that only nodes of a cluster can make: `v1.PAYLOAD.SIGNATURE`, signed with HMAC-SHA256 and not encrypted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::{Error, Result};

/// The prefix of a text: its format.
const VERSION: &str = "v1";

/// The longest text that is parsed. Ids have at most 255 bytes each.
const LONGEST: usize = 2_048;

/// What a text is for: the same secret signs several kinds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose(pub(super) &'static str);

fn mac(key: &[u8], Purpose(purpose): Purpose, payload: &str) -> Result<Hmac<Sha256>> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).map_err(|_| Error::internal("a key of this length signs nothing"))?;
    mac.update(b"mainspring ");
    mac.update(purpose.as_bytes());
    mac.update(b"\n");
    mac.update(VERSION.as_bytes());
    mac.update(b".");
    mac.update(payload.as_bytes());
    Ok(mac)
}

/// Signs a payload.
pub(super) fn write(key: &[u8], purpose: Purpose, payload: &impl Serialize) -> Result<String> {
    let json = serde_json::to_vec(payload).map_err(|error| Error::internal("a token is no JSON").caused_by(error))?;
    let payload = URL_SAFE_NO_PAD.encode(json);
    let signature = URL_SAFE_NO_PAD.encode(mac(key, purpose, &payload)?.finalize().into_bytes());
    Ok(format!("{VERSION}.{payload}.{signature}"))
}

/// Payload and signature, if the text has the form.
pub(super) fn parts(text: &str) -> Option<(&str, Vec<u8>)> {
    if text.len() > LONGEST {
        return None;
    }
    let (payload, signature) = text.strip_prefix(VERSION)?.strip_prefix('.')?.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    (signature.len() == 32 && !payload.is_empty()).then_some((payload, signature))
}

/// The content, if its signature is genuine.
pub(super) fn read<T: DeserializeOwned>(
    key: &[u8],
    purpose: Purpose,
    (payload, signature): (&str, Vec<u8>),
) -> Result<Option<T>> {
    // In constant time.
    if mac(key, purpose, payload)?.verify_slice(&signature).is_err() {
        return Ok(None);
    }
    let json = URL_SAFE_NO_PAD.decode(payload).ok();
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}
