//! What a round of attempts says of each sink.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempt::Sent;
use crate::store::webhook::delivery::{Attempt, SinkClaim, SinkOutcome};
use crate::store::webhook::sink::SinkNumber;
use crate::webhook::sink_pause;

/// The outcome of each sink of a round. One that took anything takes deliveries, whatever it refused.
pub(super) fn of(
    round: &[Sent],
    find: impl Fn(SinkNumber) -> Option<(SinkClaim, u32)>,
) -> Vec<(SinkClaim, SinkOutcome)> {
    let mut by_sink: BTreeMap<SinkNumber, Vec<&Sent>> = BTreeMap::new();
    for sent in round {
        by_sink.entry(sent.sink).or_default().push(sent);
    }
    let judged = by_sink.into_iter().filter_map(|(number, sent)| {
        let (claim, failures) = find(number)?;
        Some((claim, outcome(&sent, failures)))
    });
    judged.collect()
}

fn outcome(sent: &[&Sent], failures: u32) -> SinkOutcome {
    if sent.iter().any(|sent| sent.attempt == Attempt::Gone) {
        return SinkOutcome::Gone;
    }
    let is_delivered = |sent: &&&Sent| matches!(sent.attempt, Attempt::Delivered(_));
    // It may take some and still ask to be left alone.
    let asked = sent.iter().filter_map(|sent| sent.asked).max();
    if asked.is_none() && sent.iter().any(|sent| is_delivered(&sent)) {
        return SinkOutcome::Takes;
    }
    let note = sent.iter().rev().find_map(|sent| match &sent.attempt {
        Attempt::Failed { error, .. } => Some(error.clone()),
        _ => None,
    });
    let pause = sink_pause(failures.saturating_add(1));
    SinkOutcome::Fails {
        pause: pause.max(asked.unwrap_or(Duration::ZERO)),
        note: note.unwrap_or_default(),
    }
}
