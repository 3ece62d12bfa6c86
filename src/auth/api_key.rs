//! The static API key: `Authorization: ApiKey KEY`.

use std::fmt;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

/// An API key. Only its hash is kept, so a copy or a printed form does not disclose the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey([u8; 32]);

impl ApiKey {
    /// The key with this text.
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether the headers carry this key, exactly once. The time does not depend on where a wrong key differs: all bytes
    /// of two hashes are compared.
    pub(crate) fn matches(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, key)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        let given: [u8; 32] = Sha256::digest(key.trim().as_bytes()).into();
        let difference = self
            .0
            .iter()
            .zip(given)
            .fold(0, |sum, (own, given)| sum | (own ^ given));
        scheme.eq_ignore_ascii_case("ApiKey") && std::hint::black_box(difference) == 0
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

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (header::AUTHORIZATION, value.parse().unwrap()));
        values.fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        })
    }

    #[test]
    fn only_the_whole_key_under_the_right_scheme_matches() {
        let key = ApiKey::new("s3cret");
        for good in ["ApiKey s3cret", "apikey s3cret", "ApiKey  s3cret "] {
            assert!(key.matches(&headers(&[good])), "{good}");
        }
        for bad in [
            "ApiKey s3cre",
            "ApiKey s3cret2",
            "ApiKey S3CRET",
            "Bearer s3cret",
            "s3cret",
            "ApiKey",
            "ApiKey ",
        ] {
            assert!(!key.matches(&headers(&[bad])), "{bad}");
        }
        assert!(!key.matches(&headers(&[])));
        assert!(!key.matches(&headers(&["ApiKey wrong", "ApiKey s3cret"])));
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", ApiKey::new("s3cret")), "ApiKey(…)");
    }
}
