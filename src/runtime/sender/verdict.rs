//! What a round of attempts says of each sink.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempt::Sent;
use crate::store::webhook::delivery::{Attempt, SinkClaim, SinkOutcome};
use crate::store::webhook::sink::SinkNumber;
use crate::webhook::sink_pause;

/// The outcome of each sink of a round. One that took anything takes deliveries, whatever it refused; one that only refused them has
/// answered, and is no sink that fails: each of them is tried again by itself.
pub(super) fn of(
    round: &[Sent],
    find: impl Fn(SinkNumber) -> Option<(SinkClaim, u32)>,
) -> Vec<(SinkClaim, SinkOutcome)> {
    let mut by_sink: BTreeMap<SinkNumber, Vec<&Sent>> = BTreeMap::new();
    for sent in round {
        by_sink.entry(sent.marked.sink).or_default().push(sent);
    }
    let judged = by_sink.into_iter().filter_map(|(number, sent)| {
        let (claim, failures) = find(number)?;
        Some((claim, outcome(&sent, failures)))
    });
    judged.collect()
}

fn outcome(sent: &[&Sent], failures: u32) -> SinkOutcome {
    let attempts = || sent.iter().map(|sent| &sent.marked.attempt);
    if attempts().any(|attempt| *attempt == Attempt::Gone) {
        return SinkOutcome::Gone;
    }
    // It may take some and still ask to be left alone.
    let asked = sent.iter().filter_map(|sent| sent.asked).max();
    if asked.is_none() && attempts().any(|attempt| matches!(attempt, Attempt::Delivered(_))) {
        return SinkOutcome::Takes;
    }
    let failed = attempts().rev().find_map(|attempt| match attempt {
        Attempt::Failed { status, error, .. } if !status.is_some_and(is_refusal) => Some(error.clone()),
        _ => None,
    });
    match (failed, asked) {
        (None, None) => SinkOutcome::Refuses,
        (note, asked) => SinkOutcome::Fails {
            pause: sink_pause(failures.saturating_add(1)).max(asked.unwrap_or(Duration::ZERO)),
            note: note.unwrap_or_default(),
        },
    }
}

/// Whether an answer is about the delivery, and not about the sink, its URL or its load.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 404, 408, 410, 425, 429].contains(&status)
}
