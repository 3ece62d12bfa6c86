//! The advisory locks that order the publishers of a stimulus, its waiters, and publishes of triggers.
//!
//! A publisher and a waiter that match always share a key, which one of them holds exclusively, so either the publisher sees
//! the bookmark, or the commit that creates it sees the row in the inbox. The keys are locked in a statement before the one
//! that matches, whose snapshot would otherwise be older than the lock.
//!
//! | transaction | any | correlation | target | trigger |
//! |---|---|---|---|---|
//! | creates a bookmark | shared | shared, if its instance has a correlation id | shared | |
//! | changes a correlation id, for the bookmarks that stay | | the new one, shared | shared | |
//! | publishes for one instance, or an activity execution in it | | | exclusive | |
//! | publishes for a correlation id | | exclusive | | shared |
//! | publishes for all | exclusive | | | shared |
//! | publishes or retracts triggers | | | | exclusive |
//! | purges the routes of bookmarks | exclusive | | | |
//!
//! The shared lock table of Postgres is small: a transaction with more than [`MAX_KEYS`] of them takes *all* exclusively
//! instead, a key without a hash that each publisher, and each publish of triggers, shares.
//!
//! All keys of a transaction are locked in one pass in sorted order, each in its strongest mode: two passes could deadlock.

use std::collections::BTreeMap;

use super::parts::with_parts;
use crate::id::{ActivityExecutionId, InstanceId, StimulusHash};

/// Locks the keys of a transaction that is not a commit.
pub(super) const LOCK: &str = include_str!("../../sql/queries/stimulus_key/lock.sql");

/// Begins a transaction that matches a stimulus. One plan for all: to plan its statements takes longer than to execute them.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan";

/// The same where the caller's answer to the match ends the transaction: a caller that is paused in between must not hold the keys
/// of the stimulus for long.
pub(super) const BEGIN_ANSWERED: &str =
    "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL idle_in_transaction_session_timeout = '1s'";

/// One key of a stimulus hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StimulusKey<'a> {
    /// All that waits for the stimulus.
    Any,
    /// What waits for it in instances with this correlation id. An empty one is one.
    Correlation(&'a str),
    /// What waits for it in this instance.
    Target(&'a InstanceId),
    /// The triggers of the stimulus.
    Trigger,
}

/// The most keys of one transaction.
pub(crate) const MAX_KEYS: usize = 512;

/// The number of the key *all*.
pub(super) const ALL_KEY: i32 = 0x616c_6c21;

impl StimulusKey<'_> {
    /// Its number in the two-integer space of advisory locks. Two keys with one number exclude each other, which costs time
    /// only, so 32 bits are enough. All nodes must compute the same.
    pub(crate) fn number(self, hash: &StimulusHash) -> i32 {
        let (kind, text) = match self {
            Self::Any => return hash.lock_key(),
            Self::Correlation(id) => (1, id),
            Self::Target(instance) => (2, instance.as_str()),
            Self::Trigger => (3, ""),
        };
        // FNV-1a, seeded with the hash.
        let mut number = u32::from_be_bytes(hash.lock_key().to_be_bytes());
        for byte in [kind].iter().chain(text.as_bytes()) {
            number = (number ^ u32::from(*byte)).wrapping_mul(16_777_619);
        }
        i32::from_be_bytes(number.to_be_bytes())
    }
}

/// The instance that an event is for: the one that it names, else the one that the id of its activity execution names. If they
/// differ, nothing can match. `None` for an id of another form, which belongs to no execution.
pub(super) fn target(instance: Option<&InstanceId>, activity_execution_id: Option<&str>) -> Option<InstanceId> {
    instance.cloned().or_else(|| {
        let execution = ActivityExecutionId::new(activity_execution_id?);
        let (instance, _) = execution.parts()?;
        (!instance.is_empty()).then(|| InstanceId::new(instance))
    })
}

/// Which bookmarks an event can match. Each has a form of the statements that match, as each uses another index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StimulusScope {
    Any,
    Correlated,
    Targeted,
}

impl StimulusScope {
    /// `is_targeted`: for an instance or an activity execution. An execution without an instance is none: nothing matches.
    pub(crate) fn of(correlation_id: Option<&str>, is_targeted: bool) -> Self {
        match correlation_id {
            _ if is_targeted => Self::Targeted,
            Some(_) => Self::Correlated,
            None => Self::Any,
        }
    }

    /// The forms of a statement that has parts for some of the scopes.
    pub(crate) fn texts(whole: &str) -> [String; 3] {
        ["any", "correlated", "targeted"]
            .map(|scope| with_parts(whole, |part| part.split(" or ").any(|of| of == scope)))
    }

    /// The form for this scope.
    pub(crate) fn pick(self, texts: &'static [String; 3]) -> &'static str {
        let [any, correlated, targeted] = texts;
        match self {
            Self::Any => any,
            Self::Correlated => correlated,
            Self::Targeted => targeted,
        }
    }
}

/// The keys of a transaction, each once, with whether it is exclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet(BTreeMap<i32, bool>);

impl KeySet {
    /// The keys of a publisher: the narrowest that covers all bookmarks it can match, and that of the triggers.
    pub(crate) fn of_publisher(
        hash: &StimulusHash,
        correlation_id: Option<&str>,
        instance: Option<&InstanceId>,
        can_start: bool,
    ) -> Self {
        let mut keys = Self::default();
        keys.add(ALL_KEY, false);
        let narrowest = match (instance, correlation_id) {
            (Some(instance), _) => Some(StimulusKey::Target(instance)),
            // For an execution that is in no instance.
            (None, _) if !can_start => None,
            (None, Some(id)) => Some(StimulusKey::Correlation(id)),
            (None, None) => Some(StimulusKey::Any),
        };
        if let Some(narrowest) = narrowest {
            keys.add(narrowest.number(hash), true);
        }
        if can_start {
            keys.add(StimulusKey::Trigger.number(hash), false);
        }
        keys
    }

    /// The keys of a transaction that changes triggers of these hashes.
    pub(crate) fn of_triggers<'a>(hashes: impl IntoIterator<Item = &'a StimulusHash>) -> Self {
        let mut keys = Self::default();
        for hash in hashes {
            keys.add(StimulusKey::Trigger.number(hash), true);
        }
        if !keys.is_empty() {
            let is_many = keys.0.len() > MAX_KEYS;
            if is_many {
                keys.0.clear();
            }
            keys.add(ALL_KEY, is_many);
        }
        keys
    }

    /// The keys of a transaction that no bookmark with one of these hashes may be made beside; at most half as many as
    /// [`MAX_KEYS`].
    pub(crate) fn excluding_waiters(hashes: &[StimulusHash]) -> Self {
        let mut keys = Self::default();
        keys.add(ALL_KEY, false);
        for hash in hashes {
            keys.add(StimulusKey::Any.number(hash), true);
        }
        keys
    }

    /// The keys of a commit.
    pub(crate) fn of_waiter(each: impl Iterator<Item = (i32, bool)>) -> Self {
        let mut keys = Self::default();
        for (number, exclusive) in each {
            keys.add(number, exclusive);
            if keys.0.len() > MAX_KEYS {
                return Self(BTreeMap::from([(ALL_KEY, true)]));
            }
        }
        keys
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, bool)> + '_ {
        self.0.iter().map(|(key, exclusive)| (*key, *exclusive))
    }

    pub(crate) fn add(&mut self, number: i32, exclusive: bool) {
        *self.0.entry(number).or_default() |= exclusive;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys in sorted order and their modes, as arrays of a statement.
    pub(crate) fn columns(&self) -> (Vec<i32>, Vec<bool>) {
        self.0.iter().map(|(key, exclusive)| (*key, *exclusive)).unzip()
    }
}
