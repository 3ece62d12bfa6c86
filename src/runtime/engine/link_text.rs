//! The text of a resume link: the number of a key, the id of the link, and a code that only nodes of the cluster can compute, as 48
//! characters that say nothing. Whether it can be used is in the row of the link.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac;

use crate::Result;
use crate::id::LinkId;
use crate::runtime::context::token_keys::SigningKey;

/// The bytes of the number of the key.
const KEY_BYTES: usize = 4;
/// The bytes of the id.
const ID_BYTES: usize = 16;
/// The bytes of the code: half of HMAC-SHA-256, which RFC 2104 allows. One forged link in 2^128 fits.
const MAC_BYTES: usize = 16;
/// The length of a link, in characters.
const LENGTH: usize = (KEY_BYTES + ID_BYTES + MAC_BYTES) / 3 * 4;

/// Is signed with each link: the same keys sign tokens.
const PURPOSE: &[u8] = b"mainspring resume link\n";

/// A text of the form of a link.
#[derive(Debug)]
pub(super) struct UnverifiedLink {
    pub(super) key: i32,
    pub(super) id: LinkId,
    mac: Vec<u8>,
}

impl UnverifiedLink {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() != LENGTH {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (key, rest) = bytes.split_first_chunk::<KEY_BYTES>()?;
        let (id, mac) = rest.split_first_chunk::<ID_BYTES>()?;
        let key = i32::from_be_bytes(*key);
        // The numbers of keys begin with 1.
        (key > 0).then(|| Self {
            key,
            id: LinkId(uuid::Uuid::from_bytes(*id)),
            mac: mac.to_vec(),
        })
    }

    /// Whether this key has signed it. Compared in constant time.
    pub(super) fn is_signed_by(&self, key: &SigningKey) -> Result<bool> {
        let is_whole = self.mac.len() == MAC_BYTES && self.key == key.id;
        Ok(is_whole && mac(key, self.id)?.verify_truncated_left(&self.mac).is_ok())
    }
}

/// The text of a link. Its tenant is that of its row: an id belongs to one.
pub(super) fn link_text(key: &SigningKey, id: LinkId) -> Result<String> {
    let code = mac(key, id)?.finalize().into_bytes();
    let mut bytes = Vec::with_capacity(KEY_BYTES + ID_BYTES + MAC_BYTES);
    bytes.extend(key.id.to_be_bytes());
    bytes.extend(id.0.as_bytes());
    bytes.extend(code.iter().take(MAC_BYTES));
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn mac(key: &SigningKey, id: LinkId) -> Result<hmac::Hmac<sha2::Sha256>> {
    key.mac(&[PURPOSE, &key.id.to_be_bytes(), id.0.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::context::settings::TokenSecret;
    use crate::runtime::context::token_keys::TokenKeys;

    fn key(id: i32, secret: &str) -> SigningKey {
        TokenKeys::key_for_tests(id, Some(TokenSecret::new(secret)))
    }

    fn is_genuine(text: &str, key: &SigningKey) -> bool {
        UnverifiedLink::parse(text).is_some_and(|link| link.is_signed_by(key).unwrap())
    }

    #[test]
    fn only_a_whole_link_of_the_right_key_is_genuine() {
        let one = key(1, "one");
        let id = LinkId::of_execution("i/7", 0, "b0");
        let text = link_text(&one, id).unwrap();
        assert_eq!(text.len(), LENGTH);
        assert_eq!(text, link_text(&one, id).unwrap(), "the same for a repeated burst");
        assert!(is_genuine(&text, &one));
        assert!(!is_genuine(&text, &key(1, "two")), "another secret");
        assert!(!is_genuine(&text, &key(2, "one")), "another number");
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert!(!is_genuine(&String::from_utf8(forged).unwrap(), &one), "{at}");
            assert!(!is_genuine(&text[..at], &one));
        }
        for bad in [
            "",
            "A",
            &format!("{text}A"),
            &"A".repeat(1000),
            &"é".repeat(LENGTH / 2),
            &"+".repeat(LENGTH),
        ] {
            assert!(!is_genuine(bad, &one), "{bad}");
        }
        for next in [
            LinkId::of_execution("i/7", 1, "b0"),
            LinkId::of_execution("i/7", 0, "b1"),
            LinkId::of_execution("i/7", 0, "eb0"),
        ] {
            assert_ne!(text, link_text(&one, next).unwrap());
        }
    }
}
