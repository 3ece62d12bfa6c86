//! The messages between nodes about locks, as text.
//!
//! A word, a space, and items separated by commas. Keys are hexadecimal, and nodes are the process ids of their backends.
//! Among the nodes that follow, an `s` marks those that wait for a shared lock. The words never change, because nodes of two
//! versions may share a cluster.
//!
//! | payload | message | the sender |
//! |---|---|---|
//! | `want KEY` | `LockMessage::Waiting`, exclusive | waits to hold the key alone |
//! | `share KEY` | `LockMessage::Waiting`, shared | waits to hold the key shared |
//! | `done KEY` | `LockMessage::Withdrawn` | waits no more |
//! | `free KEY>NEXT.NEXT>THEN.THENs` | `LockMessage::Handoff` | released the key for the processes that are next |

use std::fmt::Write;

use crate::lock::key::LockKey;
use crate::lock::request::LockMode;
use crate::lock::table::{Handoff, LockMessage};

/// In bytes. NOTIFY takes less than 8,000.
const LONGEST: usize = 7_900;

/// As few payloads as hold all messages, in this order for each key.
pub(super) fn payloads(messages: &[LockMessage]) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    let mut last = "";
    for message in messages {
        let word = word(message);
        let item = item(message);
        match payloads.last_mut() {
            Some(payload) if last == word && payload.len() + item.len() < LONGEST => {
                payload.push(',');
                payload.push_str(&item);
            }
            _ => payloads.push(format!("{word} {item}")),
        }
        last = word;
    }
    payloads
}

fn word(message: &LockMessage) -> &'static str {
    match message {
        LockMessage::Waiting(_, LockMode::Exclusive) => "want",
        LockMessage::Waiting(_, LockMode::Shared) => "share",
        LockMessage::Withdrawn(_) => "done",
        LockMessage::Handoff(_) => "free",
    }
}

fn item(message: &LockMessage) -> String {
    match message {
        LockMessage::Waiting(key, _) | LockMessage::Withdrawn(key) => key.to_string(),
        LockMessage::Handoff(Handoff { key, next, then }) => {
            let mut item = key.to_string();
            // Writing to a string cannot fail.
            for (at, peer) in next.iter().enumerate() {
                let _ = write!(item, "{}{peer}", if at == 0 { '>' } else { '.' });
            }
            if next.is_empty() && !then.is_empty() {
                item.push('>');
            }
            for (at, (peer, mode)) in then.iter().enumerate() {
                let shared = if *mode == LockMode::Shared { "s" } else { "" };
                let _ = write!(item, "{}{peer}{shared}", if at == 0 { '>' } else { '.' });
            }
            item
        }
    }
}

/// The messages of a payload from another node, of whatever version. Malformed items are ignored.
pub(super) fn parse(payload: &str) -> Vec<LockMessage> {
    let Some((word, items)) = payload.split_once(' ') else {
        return Vec::new();
    };
    let message = |item: &str| match word {
        "want" => LockKey::from_hex(item).map(|key| LockMessage::Waiting(key, LockMode::Exclusive)),
        "share" => LockKey::from_hex(item).map(|key| LockMessage::Waiting(key, LockMode::Shared)),
        "done" => LockKey::from_hex(item).map(LockMessage::Withdrawn),
        "free" => handoff(item).map(LockMessage::Handoff),
        _ => None,
    };
    items.split(',').filter_map(message).collect()
}

fn handoff(item: &str) -> Option<Handoff> {
    let mut parts = item.split('>');
    let key = LockKey::from_hex(parts.next()?)?;
    let mut peers = || {
        let listed = parts.next().unwrap_or_default();
        listed.split('.').filter(|peer| !peer.is_empty())
    };
    let next = peers().map(|peer| peer.parse().ok()).collect::<Option<_>>()?;
    let follower = |peer: &str| {
        let (peer, mode) = match peer.strip_suffix('s') {
            Some(peer) => (peer, LockMode::Shared),
            None => (peer, LockMode::Exclusive),
        };
        Some((peer.parse().ok()?, mode))
    };
    let then = peers().map(follower).collect::<Option<_>>()?;
    Some(Handoff { key, next, then })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_they_were_written() {
        let keys = (-500..500).map(|key| LockKey(key * 0x1234_5678_9abc));
        let waiting = |key| LockMessage::Waiting(key, LockMode::Exclusive);
        let mut messages: Vec<LockMessage> = keys.clone().map(waiting).collect();
        messages.extend(keys.map(LockMessage::Withdrawn));
        messages.push(LockMessage::Waiting(LockKey(1), LockMode::Shared));
        messages.extend(
            [
                (vec![], vec![]),
                (vec![7, 8], vec![]),
                (vec![7], vec![(8, LockMode::Shared), (9, LockMode::Exclusive)]),
            ]
            .map(|(next, then)| {
                LockMessage::Handoff(Handoff {
                    key: LockKey(2),
                    next,
                    then,
                })
            }),
        );
        let payloads = payloads(&messages);
        assert!(
            payloads.iter().all(|payload| payload.len() < 8000) && payloads.len() == 8,
            "{}",
            payloads.len()
        );
        assert_eq!(
            payloads.iter().flat_map(|payload| parse(payload)).collect::<Vec<_>>(),
            messages
        );
        assert_eq!(
            payloads.last().map(String::as_str),
            Some("free 0000000000000002,0000000000000002>7.8,0000000000000002>7>8s.9")
        );
    }

    #[test]
    fn malformed_items_are_ignored() {
        for bad in ["", "want", "keep 1", "\u{0}", "free 1>x", "free 1>2>3x", "free >1"] {
            assert_eq!(parse(bad), [], "{bad}");
        }
        assert_eq!(
            parse("want zz,,1"),
            [LockMessage::Waiting(LockKey(1), LockMode::Exclusive)]
        );
    }
}
