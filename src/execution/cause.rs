//! What sets an execution off: the row of work, and the place within what that row has set off.
//!
//! A burst that is lost is repeated, and asks for the same idempotency keys and the same children. Both are made of causes:
//! a number that counts the executions of the instance moves with everything else that the instance does, such as a branch
//! that ends sooner in the repeat, or another row that ran in between.
//!
//! The place of what a call of an activity sets off is made of the place of that call and of its number among what the call
//! sets off, so that no other branch is part of it. The *lineage* is that of the state on which the row runs. It differs
//! where the state may be another one than in an earlier try: the row replays a dead letter, or the variables of the instance
//! were set from outside.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{ActivityExecutionId, InstanceId};

/// Where an instruction comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionOrigin {
    /// The row; no other row of the database ever has this text. Empty: unknown.
    pub row: String,
    /// The row that it replays, which became a dead letter.
    pub replays: Option<String>,
}

/// What sets an execution off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub(super) struct Cause {
    place: u64,
    lineage: u64,
}

impl Cause {
    /// That of an instruction, on a state that was altered from outside so many times; none: its row is unknown.
    pub(super) fn of(origin: &InstructionOrigin, alterations: u64) -> Option<Self> {
        if origin.row.is_empty() {
            return None;
        }
        let first = origin.replays.as_ref().unwrap_or(&origin.row);
        let lineage = match (&origin.replays, alterations) {
            (None, 0) => 0,
            (_, alterations) => number(&format!("lineage|{alterations}|{}", origin.row)),
        };
        Some(Self {
            place: number(&format!("row|{first}")),
            lineage,
        })
    }

    /// That of an execution whose row is unknown: it was scheduled by an earlier release, or by a program without rows.
    /// `seed`: see [`InstanceId::of_child`].
    pub(super) fn of_execution(execution: &ActivityExecutionId, seed: i64) -> Self {
        Self {
            place: number(&format!("execution|{seed}|{}", execution.as_str())),
            lineage: 0,
        }
    }

    /// That of the thing with this number among what the call has set off.
    pub(super) fn nth(self, number: u64) -> Self {
        Self {
            place: mix(mix(self.place).wrapping_add(number)),
            ..self
        }
    }

    /// The part of an idempotency key behind the instance.
    pub(super) fn key(self) -> u64 {
        match self.lineage {
            0 => self.place,
            lineage => mix(mix(self.place).wrapping_add(lineage)),
        }
    }

    /// The lineage, as a child keeps it.
    pub(super) fn lineage(self) -> String {
        format!("{:x}", self.lineage)
    }

    /// The id of an executed child: the same for each lineage, or one for this lineage alone.
    pub(super) fn child_id(self, parent: &InstanceId, node_id: &str, of_lineage: bool) -> InstanceId {
        let lineage = if of_lineage { self.lineage() } else { String::new() };
        let hash = Sha256::digest(format!(
            "executed|{:016x}|{lineage}|{}|{node_id}",
            self.place,
            parent.as_str()
        ));
        InstanceId::of_hash(&hash)
    }
}

impl From<Cause> for (String, String) {
    fn from(cause: Cause) -> Self {
        (format!("{:x}", cause.place), cause.lineage())
    }
}

/// A text that is no number comes from no burst; it is one cause as any other.
impl From<(String, String)> for Cause {
    fn from((place, lineage): (String, String)) -> Self {
        let read = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
        Self {
            place: read(&place),
            lineage: read(&lineage),
        }
    }
}

/// The first eight bytes of the hash of a text.
fn number(text: &str) -> u64 {
    let hash = Sha256::digest(text);
    hash.iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Another number for each number, whose bits all depend on all of its bits (the finalizer of SplitMix64). Causes are made
/// with each scheduled activity, where SHA-256 would be a part of its time.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn origin(row: &str, replays: Option<&str>) -> InstructionOrigin {
        InstructionOrigin {
            row: row.to_owned(),
            replays: replays.map(str::to_owned),
        }
    }

    #[test]
    fn causes_are_the_same_for_the_same_row_and_place_and_differ_for_all_others() {
        let of = |row: &str| Cause::of(&origin(row, None), 0).unwrap();
        assert_eq!(of("7").nth(1).nth(0), of("7").nth(1).nth(0));
        assert_eq!(Cause::of(&origin("", None), 0), None);
        let mut keys = HashSet::new();
        for row in 0..30 {
            for first in 0..30 {
                keys.insert(of(&row.to_string()).nth(first).key());
                for second in 0..30 {
                    keys.insert(of(&row.to_string()).nth(first).nth(second).key());
                }
            }
        }
        assert_eq!(keys.len(), 30 * 30 * 31);
    }

    #[test]
    fn a_replay_has_the_places_of_its_row_in_another_lineage() {
        let first = Cause::of(&origin("7", None), 0).unwrap().nth(3);
        let replay = Cause::of(&origin("9", Some("7")), 0).unwrap().nth(3);
        let altered = Cause::of(&origin("7", None), 1).unwrap().nth(3);
        let parent = InstanceId::new("p");
        for other in [replay, altered] {
            assert_ne!(other.key(), first.key());
            assert_ne!(other.lineage(), first.lineage());
            let id = |cause: Cause, of_lineage| cause.child_id(&parent, "node", of_lineage);
            assert_eq!(id(other, false), id(first, false));
            assert_ne!(id(other, true), id(first, true));
            assert_ne!(id(other, true), id(other, false));
        }
        assert_ne!(replay.key(), altered.key());
    }

    #[test]
    fn causes_survive_the_state() {
        let cause = Cause::of(&origin("9", Some("7")), 2).unwrap().nth(5);
        let text = serde_json::to_string(&cause).unwrap();
        assert_eq!(serde_json::from_str::<Cause>(&text).unwrap(), cause);
    }
}
