//! The cause of an execution: the row of work that set it off, and its place within what that row has set off.
//!
//! A lost burst is repeated, and asks for the same idempotency keys and the same children. Both are derived from
//! causes, because a count of the executions of the instance depends on everything else that the instance does, such as
//! a branch that ends sooner in the repeat, or another row that ran in between.
//!
//! The place of a scheduled activity is derived from the place of its owner, its node, how often the owner has
//! scheduled it, and the row. It depends neither on another branch, nor on the number of steps that an item of a loop
//! or another path through a flowchart takes, which may differ in the repeat when a service answers differently. Any
//! other place, such as that of an executed child, is derived from the place of the call and its number among what the
//! call sets off.
//!
//! The *lineage* is that of the state on which the row runs. It differs when the state may not be that of an earlier
//! try, because the row replays a dead letter or the variables of the instance were set from outside.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{ActivityExecutionId, InstanceId};

/// Where an instruction comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionOrigin {
    /// The row; no other row of the database ever has this text. Empty when unknown.
    pub row: String,
    /// The row that it replays, which became a dead letter.
    pub replays: Option<String>,
    /// For an executed child, the lineage of the burst of its parent.
    pub lineage: Option<String>,
}

/// What sets an execution off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub(super) struct Cause {
    place: u64,
    row: u64,
    lineage: u64,
    /// The number of the request whose instruction it was; 0 for none. No key and no id depends on it.
    request: u64,
}

impl Cause {
    /// The cause of an instruction, on a state that was altered from outside this many times; `None` when its row is
    /// unknown.
    pub(super) fn of(origin: &InstructionOrigin, alterations: u64) -> Option<Self> {
        if origin.row.is_empty() {
            return None;
        }
        let first = origin.replays.as_ref().unwrap_or(&origin.row);
        let lineage = match (&origin.lineage, &origin.replays, alterations) {
            (Some(lineage), ..) => u64::from_str_radix(lineage, 16).unwrap_or_default(),
            (None, None, 0) => 0,
            (None, _, alterations) => number(&format!("lineage|{alterations}|{}", origin.row)),
        };
        let row = number(&format!("row|{first}"));
        Some(Self {
            place: row,
            row,
            lineage,
            request: 0,
        })
    }

    /// The same cause for what a client waits for.
    pub(super) fn of_request(self, request: u64) -> Self {
        Self { request, ..self }
    }

    /// The number of the request that it belongs to; 0 for none.
    pub(super) fn request(self) -> u64 {
        self.request
    }

    /// The cause of an execution whose row is unknown, because an earlier release or a program without rows scheduled
    /// it. For `seed`, see [`InstanceId::of_child`].
    pub(super) fn of_execution(execution: &ActivityExecutionId, seed: i64) -> Self {
        Self {
            place: number(&format!("execution|{seed}|{}", execution.as_str())),
            row: 0,
            lineage: 0,
            request: 0,
        }
    }

    /// The same cause in a state that was altered from outside once more.
    pub(super) fn after(self, alterations: u64) -> Self {
        let lineage = join(self.lineage, alterations);
        Self { lineage, ..self }
    }

    /// The cause of the thing with this number among what the call has set off.
    pub(super) fn nth(self, number: u64) -> Self {
        self.at(join(self.place, number))
    }

    /// The cause of an activity that its owner, at this place, has scheduled this often before.
    pub(super) fn of_child(self, owner: u64, node_id: &str, before: u64) -> Self {
        self.at(join(join(join(owner, self.row), before), text(node_id)))
    }

    /// The cause of the node that it executes or resumes.
    pub(super) fn of_node(self, node_id: &str) -> Self {
        self.at(join(self.place, text(node_id)))
    }

    fn at(self, place: u64) -> Self {
        Self { place, ..self }
    }

    /// The number from which the places of its children are derived: the same in each lineage, so that their executed
    /// children are found.
    pub(super) fn place(self) -> u64 {
        self.place
    }

    /// The part of an idempotency key after the instance.
    pub(super) fn key(self) -> u64 {
        match self.lineage {
            0 => self.place,
            lineage => join(self.place, lineage),
        }
    }

    /// The same where nothing has set the work off that is known: of the execution with a number, in one burst.
    pub(super) fn key_of_number(execution: u64, seed: i64) -> u64 {
        join(seed.cast_unsigned(), execution)
    }

    /// The lineage, as a child keeps it.
    pub(super) fn lineage(self) -> String {
        format!("{:x}", self.lineage)
    }

    /// The id of an executed child. `which`: empty for all that ask for it, or what only some have.
    pub(super) fn child_id(self, parent: &InstanceId, node_id: &str, which: &str) -> InstanceId {
        let hash = Sha256::digest(format!(
            "executed|{:016x}|{which}|{}|{node_id}",
            self.place,
            parent.as_str()
        ));
        InstanceId::of_hash(&hash)
    }
}

impl From<Cause> for Vec<String> {
    fn from(cause: Cause) -> Self {
        let mut parts = vec![
            format!("{:x}", cause.place),
            format!("{:x}", cause.row),
            cause.lineage(),
        ];
        if cause.request > 0 {
            parts.push(format!("{:x}", cause.request));
        }
        parts
    }
}

/// A text that is not a number comes from no burst; it is a cause like any other.
impl From<Vec<String>> for Cause {
    fn from(parts: Vec<String>) -> Self {
        let mut numbers = parts
            .iter()
            .map(|text| u64::from_str_radix(text, 16).unwrap_or_default());
        let mut next = || numbers.next().unwrap_or_default();
        Self {
            place: next(),
            row: next(),
            lineage: next(),
            request: next(),
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

/// A different number for each number, in which every bit depends on all bits (the finalizer of SplitMix64). A cause is
/// derived for each scheduled activity, and SHA-256 would take a part of its time.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number for two numbers in their order.
fn join(first: u64, second: u64) -> u64 {
    mix(mix(first).wrapping_add(second))
}

/// A number for a text, cheaper than by SHA-256: the ids of a definition are those of one author.
fn text(text: &str) -> u64 {
    let bytes = text.as_bytes().chunks(8);
    bytes.fold(text.len() as u64, |number, bytes| {
        let word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        join(number, word)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn origin(row: &str, replays: Option<&str>) -> InstructionOrigin {
        InstructionOrigin {
            row: row.to_owned(),
            replays: replays.map(str::to_owned),
            lineage: None,
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
            let id = |cause: Cause, which| cause.child_id(&parent, "node", which);
            assert_eq!(id(other, ""), id(first, ""));
            assert_ne!(id(other, "digest"), id(other, ""));
        }
        assert_ne!(replay.key(), altered.key());
    }

    #[test]
    fn causes_survive_the_state() {
        let cause = Cause::of(&origin("9", Some("7")), 2).unwrap().nth(5);
        for (cause, parts) in [(cause, 3), (cause.of_request(20), 4)] {
            let text = serde_json::to_string(&cause).unwrap();
            assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap().len(), parts);
            assert_eq!(serde_json::from_str::<Cause>(&text).unwrap(), cause);
            assert_eq!(cause.of_request(20).key(), cause.key());
        }
    }
}
