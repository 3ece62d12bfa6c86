//! The versions of definitions that this node cannot run because it does not know all of their activities. In a rolling
//! deployment two versions of the program share a cluster; the older one leaves such versions to the other nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::activity::Catalogue;
use crate::store::claim::VersionKey;

/// What a node knows, and which versions need more.
pub(crate) struct UnsupportedVersions {
    /// The activity types and their versions, as definitions may require them, sorted.
    known: Vec<String>,
    state: Mutex<State>,
    /// A version was found that the list did not have.
    found: Notify,
}

#[derive(Default)]
struct State {
    /// The versions of the last list, each with the activity types that are missing.
    listed: HashMap<VersionKey, Vec<String>>,
    /// The same of versions that a claim has shown, and no list yet.
    found: HashMap<VersionKey, Vec<String>>,
    /// The missing types that the node row has.
    reported: Vec<String>,
}

impl UnsupportedVersions {
    pub(crate) fn new(catalogue: &Catalogue) -> Self {
        Self {
            known: catalogue.requirements(),
            state: Mutex::default(),
            found: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The activity types that this node knows.
    pub(crate) fn known_types(&self) -> &[String] {
        &self.known
    }

    /// The versions that this node leaves to others.
    pub(crate) fn versions(&self) -> Vec<VersionKey> {
        let state = self.state();
        state.listed.keys().chain(state.found.keys()).cloned().collect()
    }

    /// Whether there are unsupported versions.
    pub(crate) fn has_any(&self) -> bool {
        let state = self.state();
        !state.listed.is_empty() || !state.found.is_empty()
    }

    /// A compiled program needs activity types that this node does not know.
    pub(crate) fn add_found(&self, key: VersionKey, missing: Vec<String>) {
        let mut state = self.state();
        let is_new = !state.listed.contains_key(&key) && state.found.insert(key, missing).is_none();
        drop(state);
        if is_new {
            self.found.notify_one();
        }
    }

    /// Returns when a version was found that the list does not have. Cancellation safe.
    pub(crate) async fn next_found(&self) {
        self.found.notified().await;
    }

    /// Takes over a list that was read; returns the missing types that the node row should have, if it has others.
    pub(crate) fn set_listed(&self, listed: Vec<(VersionKey, Vec<String>)>) -> Option<Vec<String>> {
        let mut state = self.state();
        state.listed = listed.into_iter().collect();
        let State {
            listed,
            found,
            reported,
        } = &mut *state;
        found.retain(|key, _| !listed.contains_key(key));
        let missing: BTreeSet<&String> = listed.values().chain(found.values()).flatten().collect();
        let missing: Vec<String> = missing.into_iter().cloned().collect();
        (missing != *reported).then_some(missing)
    }

    /// The node row has these missing types now.
    pub(crate) fn set_reported(&self, missing: Vec<String>) {
        self.state().reported = missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{TenantId, VersionId};

    fn key(version: &str) -> VersionKey {
        (TenantId::default(), VersionId::new(version))
    }

    #[test]
    fn a_version_that_a_claim_has_shown_stays_until_a_list_has_it() {
        let unsupported = UnsupportedVersions::new(&Catalogue::empty());
        assert!(!unsupported.has_any());
        unsupported.add_found(key("a"), vec!["T".to_owned()]);
        assert_eq!(unsupported.versions(), [key("a")]);
        assert_eq!(unsupported.set_listed(Vec::new()), Some(vec!["T".to_owned()]));
        assert_eq!(unsupported.versions(), [key("a")], "no list has it");
        let read = vec![(key("a"), vec!["T".to_owned(), "U".to_owned()])];
        assert_eq!(unsupported.set_listed(read), Some(vec!["T".to_owned(), "U".to_owned()]));
        unsupported.set_reported(vec!["T".to_owned(), "U".to_owned()]);
        assert_eq!(unsupported.set_listed(Vec::new()), Some(Vec::new()));
        assert!(!unsupported.has_any());
    }
}
