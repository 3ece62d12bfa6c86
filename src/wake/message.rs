//! How hints are written down: JSON of at most 7,900 bytes, with who sends it and the how-many-eth it is.

use serde::{Deserialize, Serialize};

use super::hint::Hint;
use crate::id::{InstanceId, WorkId};

/// NOTIFY takes less than 8,000 bytes.
pub(super) const LONGEST: usize = 7_900;

/// What the names, the sender and the number take of it, at most.
const HEADER: usize = 200;

/// The longest id that a message carries, and the longest name of a sender.
const LONGEST_ID: usize = 255;
const LONGEST_SENDER: usize = 64;

/// A message between nodes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// One connection of one process, for ever: an incarnation and something random.
    pub(super) from: String,
    /// Counts the messages of the sender from 1.
    pub(super) no: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    look: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    schedules: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    freed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waits: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    done: Vec<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
}

impl Message {
    /// Reads one; none if nobody of ours can have written it.
    pub(super) fn parse(payload: &str) -> Option<Self> {
        let message: Self = serde_json::from_str(payload).ok()?;
        let sound = !message.from.is_empty()
            && message.from.len() <= LONGEST_SENDER
            && message.no > 0
            && message
                .waits
                .iter()
                .chain(&message.lost)
                .all(|id| (1..=LONGEST_ID).contains(&id.len()));
        sound.then_some(message)
    }

    /// What it says.
    pub(super) fn hints(self) -> Vec<Hint> {
        let look = self.look.then_some(Hint::Look);
        let schedules = self.schedules.then_some(Hint::Schedules);
        let freed = self.freed.then_some(Hint::Freed);
        let waits = self.waits.into_iter().map(|id| Hint::Waits(InstanceId::new(id)));
        let awaited = self.awaited.into_iter().map(|id| Hint::Awaited(WorkId(id)));
        let done = self.done.into_iter().map(|id| Hint::Done(WorkId(id)));
        let lost = self.lost.into_iter().map(|id| Hint::Lost(InstanceId::new(id)));
        look.into_iter()
            .chain(schedules)
            .chain(freed)
            .chain(waits)
            .chain(awaited)
            .chain(done)
            .chain(lost)
            .collect()
    }
}

/// Packs hints into as few messages as they need; `no` is the number of the last one that was sent.
pub(super) fn pack(from: &str, no: &mut u64, hints: Vec<Hint>) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut message = Message::default();
    let mut left = LONGEST - HEADER;
    let mut close = |message: Message| {
        *no += 1;
        let message = Message {
            from: from.to_owned(),
            no: *no,
            ..message
        };
        // Strings and numbers can always be written.
        payloads.extend(serde_json::to_string(&message));
    };
    for hint in hints {
        let size = size(&hint);
        if size > left {
            close(std::mem::take(&mut message));
            left = LONGEST - HEADER;
        }
        left = left.saturating_sub(size);
        match hint {
            Hint::Look => message.look = true,
            Hint::Schedules => message.schedules = true,
            Hint::Freed => message.freed = true,
            // Nobody has such an id; who sends it means that others shall look.
            Hint::Waits(id) if id.as_str().len() > LONGEST_ID || id.as_str().is_empty() => message.look = true,
            Hint::Waits(id) => message.waits.push(id.into()),
            // Its burst finds out at its commit.
            Hint::Lost(id) if id.as_str().len() > LONGEST_ID || id.as_str().is_empty() => message.look = true,
            Hint::Lost(id) => message.lost.push(id.into()),
            Hint::Awaited(WorkId(id)) => message.awaited.push(id),
            Hint::Done(WorkId(id)) => message.done.push(id),
        }
    }
    close(message);
    payloads
}

/// How many bytes a hint takes, with its comma, at most.
fn size(hint: &Hint) -> usize {
    match hint {
        Hint::Look | Hint::Schedules | Hint::Freed => 0,
        Hint::Waits(id) | Hint::Lost(id) => serde_json::to_string(id).map_or(LONGEST_ID * 6, |text| text.len()) + 1,
        Hint::Awaited(_) | Hint::Done(_) => 21,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hints_fit_into_few_messages_and_come_out_again() {
        let strange = "\u{1}\"\\é".repeat(50);
        let hints: Vec<Hint> = (0..1000)
            .map(|n| Hint::Waits(InstanceId::new(format!("{n:032}"))))
            .chain((0..50).map(|n| Hint::Waits(InstanceId::new(format!("{n:02}{strange}")))))
            .chain((0..1000).map(|n| Hint::Done(WorkId(i64::MAX - n))))
            .chain([
                Hint::Awaited(WorkId(-1)),
                Hint::Look,
                Hint::Schedules,
                Hint::Freed,
                Hint::Lost(InstanceId::new("gone")),
            ])
            .collect();
        let mut no = 6;
        let payloads = pack("17-x", &mut no, hints.clone());
        assert!(payloads.iter().all(|payload| payload.len() <= LONGEST));
        assert!(payloads.len() < 15, "{}", payloads.len());
        assert_eq!(no, 6 + payloads.len() as u64);
        let mut read = std::collections::HashSet::new();
        for (place, payload) in payloads.iter().enumerate() {
            let message = Message::parse(payload).unwrap();
            assert_eq!((message.from.as_str(), message.no), ("17-x", 7 + place as u64));
            read.extend(message.hints());
        }
        assert_eq!(read, hints.into_iter().collect());
    }

    #[test]
    fn what_nobody_of_ours_has_written_is_refused() {
        let long = "x".repeat(256);
        for payload in [
            "",
            "null",
            "{}",
            "[1]",
            r#"{"from": "", "no": 1}"#,
            r#"{"from": "a", "no": 0}"#,
            r#"{"from": "a", "no": -1}"#,
            r#"{"from": "a", "no": 1, "waits": [""]}"#,
            r#"{"from": "a", "no": 1, "waits": [1]}"#,
            r#"{"from": "a", "no": 1, "lost": [""]}"#,
            r#"{"from": "a", "no": 1, "done": [1e99]}"#,
            &format!(r#"{{"from": "{long}", "no": 1}}"#),
            &format!(r#"{{"from": "a", "no": 1, "waits": ["{long}"]}}"#),
        ] {
            assert_eq!(Message::parse(payload), None, "{payload}");
        }
        // A newer node may say more.
        assert!(Message::parse(r#"{"from": "a", "no": 1, "news": 1}"#).is_some());
    }

    #[test]
    fn an_id_that_is_too_long_to_name_becomes_a_look() {
        let mut no = 0;
        let hint = Hint::Waits(InstanceId::new("x".repeat(9000)));
        let payloads = pack("a", &mut no, vec![hint]);
        let hints: Vec<Hint> = payloads
            .iter()
            .flat_map(|p| Message::parse(p).unwrap().hints())
            .collect();
        assert_eq!(hints, [Hint::Look]);
    }
}
