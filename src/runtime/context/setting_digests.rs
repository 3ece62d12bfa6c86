//! What decides at a node who may do what, as the nodes of a cluster compare it: digests of settings, by their names.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The bytes of a digest that are recorded: enough to see a difference, and too few to find a secret by.
const RECORDED: usize = 4;

/// The settings of a node. A copy or a printed form does not disclose them.
#[derive(Clone, Default)]
pub(crate) struct SettingDigests(BTreeMap<String, [u8; 32]>);

impl SettingDigests {
    pub(crate) fn new<N: Into<String>, V: AsRef<[u8]>>(settings: impl IntoIterator<Item = (N, V)>) -> Self {
        let digests = settings.into_iter();
        Self(
            digests
                .map(|(name, value)| (name.into(), Sha256::digest(value.as_ref()).into()))
                .collect(),
        )
    }

    /// As they are recorded, each as `name=digest`. The digests of another cluster are others.
    pub(crate) fn recorded(&self, cluster: &str) -> Vec<String> {
        let each = self.0.iter().filter_map(|(name, digest)| {
            let mut mac = Hmac::<Sha256>::new_from_slice(cluster.as_bytes()).ok()?;
            mac.update(name.as_bytes());
            mac.update(b"=");
            mac.update(digest);
            let bytes = mac.finalize().into_bytes();
            let digits = bytes.iter().take(RECORDED).map(|byte| format!("{byte:02x}"));
            Some(format!("{name}={}", digits.collect::<String>()))
        });
        each.collect()
    }
}

impl std::fmt::Debug for SettingDigests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The names of the settings that both nodes have recorded, and in which they differ.
pub(crate) fn differing<'a>(ours: &'a [String], theirs: &[String]) -> Vec<&'a str> {
    let theirs: BTreeMap<&str, &str> = theirs.iter().filter_map(|item| item.split_once('=')).collect();
    let ours = ours.iter().filter_map(|item| item.split_once('='));
    let differing = ours.filter(|(name, digest)| theirs.get(name).is_some_and(|other| other != digest));
    differing.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_differ_in_what_both_have_recorded() {
        let recorded = |settings: &[(&str, &str)]| SettingDigests::new(settings.iter().copied()).recorded("cluster");
        let ours = recorded(&[("api-key", "s3cret"), ("cors-origin", ""), ("token-secret", "a")]);
        assert_eq!(differing(&ours, &ours), Vec::<&str>::new());
        let theirs = recorded(&[("api-key", "other"), ("cors-origin", ""), ("trusted-proxy", "x")]);
        assert_eq!(differing(&ours, &theirs), ["api-key"]);
        assert_eq!(differing(&ours, &[]), Vec::<&str>::new());
        // The same value of two settings has two digests, and so has one of two clusters.
        let twice = recorded(&[("a", "v"), ("b", "v")]);
        assert_ne!(twice[0].split_once('=').unwrap().1, twice[1].split_once('=').unwrap().1);
        let settings = SettingDigests::new([("api-key", "s3cret")]);
        assert_ne!(settings.recorded("one"), settings.recorded("two"));
        assert_eq!(settings.recorded("one")[0].len(), "api-key=".len() + 2 * RECORDED);
        assert_eq!(format!("{settings:?}"), "{\"api-key\"}");
    }
}
