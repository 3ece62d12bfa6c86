//! What this node can run. In a rolling deployment two versions of the program share a cluster, and the older one lacks
//! activities: it leaves what uses them to the others.
//!
//! # Invariants
//!
//! - Whoever has claimed work asks its compiled program, which alone is sure; what lacks an activity is handed back
//!   unharmed, and others are told. So a list that is a moment old costs a round trip, never a fault.
//! - The list of versions that this node cannot run is read when the revision has changed, and not per look: a look for
//!   work leaves those out. A node that knows everything pays for none of this.
//! - The types of a version are written down once, by whichever node knows all of them. A version of which nobody has
//!   done so yet is tried by everybody.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Result;
use crate::activity::Catalogue;
use crate::id::{TenantId, VersionId, WorkId};
use crate::runtime::context::node_context::Shift;
use crate::signal::CacheSubscription;
use crate::store::activity_type;
use crate::store::claim::{ClaimedRow, InstanceKey, Release, VersionKey};
use crate::store::commit::Claim;
use crate::wake::WakeNotification;

/// The least time from one reading of the list to the next: publishes may come in swarms.
const AT_MOST: Duration = Duration::from_millis(100);

/// After a reading that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What a node knows, and which versions need more.
pub(crate) struct Capability {
    /// The activity types and their versions, as definitions may require them, sorted.
    known: Vec<String>,
    state: Mutex<State>,
    /// A version was found that the list did not have.
    surprised: Notify,
}

#[derive(Default)]
struct State {
    /// With what it lacks of each.
    beyond: HashMap<VersionKey, Vec<String>>,
    /// Those among them that a claim has shown, and no list yet.
    found: HashMap<VersionKey, Vec<String>>,
    /// What the node row says.
    told: Vec<String>,
}

impl Capability {
    pub(crate) fn new(catalogue: &Catalogue) -> Self {
        Self {
            known: catalogue.requirements(),
            state: Mutex::default(),
            surprised: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The versions that this node leaves to others.
    pub(crate) fn beyond(&self) -> Vec<VersionKey> {
        let state = self.state();
        state.beyond.keys().chain(state.found.keys()).cloned().collect()
    }

    /// Whether there are such versions.
    pub(crate) fn is_partial(&self) -> bool {
        let state = self.state();
        !state.beyond.is_empty() || !state.found.is_empty()
    }

    /// A program turned out to need what this node does not know.
    fn found(&self, key: VersionKey, lacking: Vec<String>) {
        let mut state = self.state();
        let is_news = !state.beyond.contains_key(&key) && state.found.insert(key, lacking).is_none();
        drop(state);
        if is_news {
            self.surprised.notify_one();
        }
    }

    /// Takes over what was read; the types that the node row should list, if it lists others.
    fn learn(&self, read: Vec<(VersionKey, Vec<String>)>) -> Option<Vec<String>> {
        let mut state = self.state();
        state.beyond = read.into_iter().collect();
        let State { beyond, found, told } = &mut *state;
        found.retain(|key, _| !beyond.contains_key(key));
        let lacks: BTreeSet<&String> = beyond.values().chain(found.values()).flatten().collect();
        let lacks: Vec<String> = lacks.into_iter().cloned().collect();
        (lacks != *told).then_some(lacks)
    }
}

/// Reads anew which versions are beyond this node, and says so in its row.
pub(crate) async fn refresh(shift: &Shift) -> Result<()> {
    let capability = &shift.capability;
    let read = activity_type::unsupported_versions(&shift.pool, &capability.known).await?;
    if let Some(lacks) = capability.learn(read) {
        activity_type::report_missing(&shift.pool, shift.incarnation, &lacks).await?;
        if lacks.is_empty() {
            tracing::info!("this node knows all activities of what is published");
        } else {
            tracing::warn!(
                ?lacks,
                "this node lacks activities of what is published; it leaves that to the others"
            );
        }
        capability.state().told = lacks;
        // What was left to others may be ours by now.
        shift.alarm.now();
    }
    Ok(())
}

/// Writes down the activity types of versions that nobody has looked at yet, as far as this node knows them all.
pub(crate) async fn survey(shift: &Shift) -> Result<()> {
    let mut behind = (TenantId::default(), VersionId::default());
    loop {
        let page = activity_type::unsurveyed_versions(&shift.pool, &behind).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(());
        };
        for key in page {
            let program = shift
                .programs
                .get(&shift.pool, &shift.interpreter, &key.0, &key.1)
                .await;
            let types = match program {
                Ok(program) => {
                    let lacking = program.unknown_activity_types();
                    if !lacking.is_empty() {
                        // What is in an activity that nobody here knows, nobody here can tell.
                        shift.capability.found(key, lacking);
                        continue;
                    }
                    program.activity_types()
                }
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    tracing::warn!(version = %key.1, %error, "a published version cannot be compiled");
                    Vec::new()
                }
            };
            activity_type::record(&shift.pool, &key, &types).await?;
        }
        behind = last;
    }
}

/// Hands back what needs an activity that this node lacks, and tells the others, also of the doors that wait here.
pub(crate) async fn leave_to_others(
    shift: &Shift,
    key: &InstanceKey,
    version: &VersionId,
    lacking: Vec<String>,
    rows: &[ClaimedRow],
) {
    tracing::info!(instance = %key.1, %version, ?lacking, "this node lacks activities; the instance is left to others");
    shift.capability.found((key.0.clone(), version.clone()), lacking);
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    shift.leave_alone([key.clone()]);
    shift.give_back(key, &claims, Release::IMMEDIATE).await;
    let works: Vec<WorkId> = claims
        .iter()
        .filter_map(|claim| match claim {
            Claim::Work(work, _) => Some(*work),
            Claim::Timer(..) => None,
        })
        .collect();
    shift
        .wake
        .hand_over(&key.1, works.into_iter().map(WakeNotification::ReplyAwaited));
}

/// Keeps the list, until the shift stops.
pub(crate) async fn follow(shift: Arc<Shift>, mut signals: CacheSubscription) {
    let mut reports = shift.reports.clone();
    let mut revision = None;
    loop {
        let read = async {
            survey(&shift).await?;
            refresh(&shift).await
        };
        let pause = match read.await {
            Ok(()) => AT_MOST,
            Err(error) => {
                tracing::warn!(%error, "what this node can run could not be read");
                revision = None;
                AGAIN
            }
        };
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if pause == AGAIN {
            continue;
        }
        // All are cancellation safe.
        loop {
            tokio::select! {
                () = shift.stop.cancelled() => return,
                () = shift.capability.surprised.notified() => break,
                heard = signals.recv() => match heard {
                    Some(_) => break,
                    None => return,
                },
                changed = reports.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let seen = reports.borrow_and_update().check_in.revision;
                    if revision.replace(seen) != Some(seen) {
                        break;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(version: &str) -> VersionKey {
        (TenantId::default(), VersionId::new(version))
    }

    #[test]
    fn what_a_claim_has_shown_stays_until_a_list_has_it() {
        let capability = Capability::new(&Catalogue::empty());
        assert!(!capability.is_partial());
        capability.found(key("a"), vec!["T".to_owned()]);
        assert_eq!(capability.beyond(), [key("a")]);
        assert_eq!(capability.learn(Vec::new()), Some(vec!["T".to_owned()]));
        assert_eq!(capability.beyond(), [key("a")], "no list has it");
        let read = vec![(key("a"), vec!["T".to_owned(), "U".to_owned()])];
        assert_eq!(capability.learn(read), Some(vec!["T".to_owned(), "U".to_owned()]));
        capability.state().told = vec!["T".to_owned(), "U".to_owned()];
        assert_eq!(capability.learn(Vec::new()), Some(Vec::new()));
        assert!(!capability.is_partial());
    }
}
