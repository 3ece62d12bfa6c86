//! What nodes tell each other about locks, as text.
//!
//! A word, a space, and items with commas between: `want KEY` and `share KEY` (to hold it alone, or shared), `done KEY`,
//! `free KEY>TO.TO>THEN.THENs`. Keys are hexadecimal, nodes are the process ids of their backends, and those behind are
//! marked with an `s` when they want it shared.

use std::fmt::Write;

use super::super::key::LockKey;
use super::super::request::LockMode;
use super::super::table::{Pass, Said};

/// Postgres takes less than 8,000 bytes.
const LONGEST: usize = 7_900;

/// As few payloads as hold it all, in this order for each key.
pub(super) fn payloads(said: &[Said]) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    let mut last = "";
    for said in said {
        let word = word(said);
        let item = item(said);
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

fn word(said: &Said) -> &'static str {
    match said {
        Said::Want(_, LockMode::Exclusive) => "want",
        Said::Want(_, LockMode::Shared) => "share",
        Said::Done(_) => "done",
        Said::Pass(_) => "free",
    }
}

fn item(said: &Said) -> String {
    match said {
        Said::Want(key, _) | Said::Done(key) => key.to_string(),
        Said::Pass(Pass { key, to, then }) => {
            let mut item = key.to_string();
            // Writing to a string cannot fail.
            for (at, peer) in to.iter().enumerate() {
                let _ = write!(item, "{}{peer}", if at == 0 { '>' } else { '.' });
            }
            if to.is_empty() && !then.is_empty() {
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

/// What another node, of whatever version, has sent. What cannot be read was not said.
pub(super) fn read(payload: &str) -> Vec<Said> {
    let Some((word, items)) = payload.split_once(' ') else {
        return Vec::new();
    };
    let said = |item: &str| match word {
        "want" => LockKey::from_hex(item).map(|key| Said::Want(key, LockMode::Exclusive)),
        "share" => LockKey::from_hex(item).map(|key| Said::Want(key, LockMode::Shared)),
        "done" => LockKey::from_hex(item).map(Said::Done),
        "free" => pass(item).map(Said::Pass),
        _ => None,
    };
    items.split(',').filter_map(said).collect()
}

fn pass(item: &str) -> Option<Pass> {
    let mut parts = item.split('>');
    let key = LockKey::from_hex(parts.next()?)?;
    let mut peers = || {
        let listed = parts.next().unwrap_or_default();
        listed.split('.').filter(|peer| !peer.is_empty())
    };
    let to = peers().map(|peer| peer.parse().ok()).collect::<Option<_>>()?;
    let behind = |peer: &str| {
        let (peer, mode) = match peer.strip_suffix('s') {
            Some(peer) => (peer, LockMode::Shared),
            None => (peer, LockMode::Exclusive),
        };
        Some((peer.parse().ok()?, mode))
    };
    let then = peers().map(behind).collect::<Option<_>>()?;
    Some(Pass { key, to, then })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_read_as_it_was_written() {
        let keys = (-500..500).map(|key| LockKey(key * 0x1234_5678_9abc));
        let mut said: Vec<Said> = keys.clone().map(|key| Said::Want(key, LockMode::Exclusive)).collect();
        said.extend(keys.map(Said::Done));
        said.push(Said::Want(LockKey(1), LockMode::Shared));
        said.extend(
            [
                (vec![], vec![]),
                (vec![7, 8], vec![]),
                (vec![7], vec![(8, LockMode::Shared), (9, LockMode::Exclusive)]),
            ]
            .map(|(to, then)| {
                Said::Pass(Pass {
                    key: LockKey(2),
                    to,
                    then,
                })
            }),
        );
        let payloads = payloads(&said);
        assert!(
            payloads.iter().all(|payload| payload.len() < 8000) && payloads.len() == 8,
            "{}",
            payloads.len()
        );
        assert_eq!(
            payloads.iter().flat_map(|payload| read(payload)).collect::<Vec<_>>(),
            said
        );
        assert_eq!(
            payloads.last().map(String::as_str),
            Some("free 0000000000000002,0000000000000002>7.8,0000000000000002>7>8s.9")
        );
    }

    #[test]
    fn what_cannot_be_read_was_not_said() {
        for bad in ["", "want", "keep 1", "\u{0}", "free 1>x", "free 1>2>3x", "free >1"] {
            assert_eq!(read(bad), [], "{bad}");
        }
        assert_eq!(read("want zz,,1"), [Said::Want(LockKey(1), LockMode::Exclusive)]);
    }
}
