//! The first steps of a burst: an instance is locked, and then its work is claimed and loaded.

use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::backoff::LONGEST_BACKOFF;
use super::fan_out;
use super::release::{give_back, release_as};
use crate::Result;
use crate::db::is_in_doubt;
use crate::lock::LockHandle;
use crate::runtime::context::byte_budget::Charge;
use crate::runtime::context::in_flight::BurstClaims;
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, ClaimBounds, ClaimedRow, InstanceKey, LoadedRow, Release, ReleaseCause};
use crate::trace::ClaimTime;

/// How long an instance is left out at most whose first row is in backoff: a cancel of it is not.
const BLOCKED: Duration = Duration::from_secs(5);

/// An instance whose lock this node holds.
pub(crate) struct Locked {
    pub(crate) key: InstanceKey,
    pub(super) lock: InstanceLock,
}

/// An instance with its work, all of it claimed.
pub(crate) struct Loaded {
    pub(crate) locked: Locked,
    pub(super) rows: Vec<ClaimedRow>,
    /// The committed state; none for an instance that its start creates.
    pub(super) state: Option<LoadedRow>,
    pub(super) claims: BurstClaims,
    /// The bytes of its rows and state.
    pub(super) charge: Charge,
    /// The permit to run an isolated row, which two processes crashed with.
    pub(super) isolation: Option<OwnedSemaphorePermit>,
    /// When it was claimed, where the node sends spans.
    pub(super) claim: Option<ClaimTime>,
}

impl Locked {
    /// `is_contended`: another session held the lock a moment ago.
    pub(crate) fn new(key: InstanceKey, guard: LockHandle, is_contended: bool) -> Self {
        let lock = InstanceLock::new(&key.1, guard, is_contended);
        Self { key, lock }
    }
}

impl Loaded {
    /// The definition of its instance, as far as its rows and its state show it.
    pub(super) fn definition_id(&self) -> Option<&str> {
        let of_start = || self.rows.iter().find_map(|row| row.definition.as_ref());
        let definition = self.state.as_ref().map(|state| &state.definition).or_else(of_start);
        definition.map(|definition| definition.definition_id.as_str())
    }

    /// A start that was accepted as claimed by this node: there is no state to load, and no lock to take.
    pub(crate) fn direct_start(node: &NodeContext, key: InstanceKey, start: ClaimedRow, charge: Charge) -> Self {
        let claims = node.claims.in_flight.add(&key, [start.claim.clone()]);
        let lock = InstanceLock::not_needed(&key.1);
        Self {
            locked: Locked { key, lock },
            rows: vec![start],
            state: None,
            claims,
            charge,
            isolation: None,
            claim: None,
        }
    }
}

/// Claims the work of these instances and loads them. The others are dropped, which releases their locks; those whose work
/// has no room are returned. With `isolation`, the permit for a row that two processes crashed with, one such row is claimed
/// as well and keeps the permit.
pub(super) async fn load(
    node: &NodeContext,
    locked: Vec<Locked>,
    mut isolation: Option<OwnedSemaphorePermit>,
    bounds: ClaimBounds,
) -> Result<(Vec<Loaded>, Vec<InstanceKey>)> {
    let keys: Vec<InstanceKey> = locked.iter().map(|locked| locked.key.clone()).collect();
    let began = node.traces.as_ref().map(|_| Instant::now());
    let claimed = claim::claim(
        &node.database.pool,
        node.database.incarnation,
        &keys,
        isolation.is_some(),
        bounds,
    )
    .await;
    let mut found = match claimed {
        Ok(found) => found,
        Err(error) => {
            if is_in_doubt(&error) {
                node.claims.in_flight.add_in_doubt(keys);
            }
            return Err(error);
        }
    };
    let claim = began.map(ClaimTime::since);
    fan_out::fill_payloads(node, &mut found).await;
    let (mut all, mut elsewhere, mut left_out) = (Vec::with_capacity(found.len()), Vec::new(), Vec::new());
    for locked in locked {
        let Some(claimed) = found.remove(&locked.key) else {
            // The poll has shown work: another session holds its row for now.
            elsewhere.push(locked.key);
            continue;
        };
        if let Some(wait) = claimed.blocked {
            if claimed.is_in_doubt {
                node.claims.in_flight.add_in_doubt(vec![locked.key.clone()]);
            }
            // What the poll has shown is behind the rows of a burst that is repeated later.
            if wait.is_zero() {
                elsewhere.push(locked.key);
            } else {
                node.claims.defer_for([locked.key], wait.min(BLOCKED));
            }
            continue;
        }
        let mut is_unloaded = claimed.is_unloaded;
        if !claimed.unreadable.is_empty() {
            let how = Release {
                cause: ReleaseCause::Row("it cannot be read"),
                pause: LONGEST_BACKOFF,
            };
            let (claims, begun): (Vec<_>, Vec<_>) = claimed.unreadable.into_iter().unzip();
            release_as(node, &locked.key, &claims, &begun, how).await;
            // Without that row the burst is not repeated on the same state.
            is_unloaded |= begun.contains(&true) || claimed.rows.iter().any(|row| row.had_begun);
        }
        if is_unloaded {
            give_back(node, &locked.key, &claimed.rows, Release::IMMEDIATE).await;
        }
        if is_unloaded || claimed.rows.is_empty() {
            if claimed.is_left_out {
                left_out.push(locked.key);
            }
        } else {
            let claims = claimed.rows.iter().map(|row| row.claim.clone());
            let claims = node.claims.in_flight.add(&locked.key, claims);
            if claimed.is_left_out {
                claims.note_more();
            }
            let is_isolated = claimed.rows.iter().any(ClaimedRow::is_isolated);
            all.push(Loaded {
                isolation: if is_isolated { isolation.take() } else { None },
                locked,
                rows: claimed.rows,
                state: claimed.loaded,
                claims,
                charge: node.claims.bytes.charge(claimed.bytes),
                claim,
            });
        }
    }
    node.claims.defer(elsewhere);
    Ok((all, left_out))
}
