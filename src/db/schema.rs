//! The name of the schema of the engine.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// A checked identifier: lower-case letters, digits and `_`, at most 48 characters, so that it needs no quoting
/// anywhere and leaves room in names derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaName(String);

impl SchemaName {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut chars = text.chars();
        let starts_well = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
        let goes_on_well = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !starts_well || !goes_on_well || text.len() > 48 || text.starts_with("pg_") {
            return Err(Error::invalid(
                "invalid-schema",
                format!(
                    "{text:?} cannot be the name of the schema: use lower-case letters, digits and _, starting with a letter or \
                     _, at most 48 characters, not starting with pg_"
                ),
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Eight hexadecimal digits that identify the schema in `application_name`, which Postgres cuts at 63 bytes.
    pub(crate) fn key(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The first half of the two-integer space of advisory locks.
    pub(crate) fn lock_class(&self) -> i32 {
        let mut key = [0u8; 4];
        for (to, from) in key.iter_mut().zip(Sha256::digest(self.0.as_bytes()).iter()) {
            *to = *from;
        }
        i32::from_be_bytes(key)
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_identifiers_pass() {
        for good in ["mainspring", "_x", "a1_b2"] {
            assert!(SchemaName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "A", "a-b", "a b", "a;b", "pg_x", "a\"b", "é", &"a".repeat(49)] {
            assert!(SchemaName::parse(bad).is_err(), "{bad}");
        }
    }
}
