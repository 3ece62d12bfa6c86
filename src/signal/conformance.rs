//! What every provider has to keep. A new one adds a test that calls [`conforms`], and changes nothing here.

use std::time::Duration;

use super::{CacheSignal, Change, Heard, Signals};
use crate::id::{DefinitionId, TenantId};

const PATIENCE: Duration = Duration::from_secs(60);

/// Two members of one cluster.
pub(super) type Pair = (Box<dyn CacheSignal>, Box<dyn CacheSignal>);

/// Puts a provider to the test; `pair` makes two members of a cluster of their own, each time it is called.
pub(super) async fn conforms(mut pair: impl AsyncFnMut() -> Pair) {
    all_members_hear_in_order(pair().await).await;
    every_id_comes_out_as_it_went_in(pair().await).await;
    nothing_is_lost_between_two_waits(pair().await).await;
    a_slow_listener_is_told_that_nothing_is_sure(pair().await).await;
    a_member_that_ends_takes_nobody_along(pair().await).await;
}

pub(super) fn change(revision: i64, definition: &str) -> Change {
    Change {
        revision: Some(revision),
        tenant: TenantId::default(),
        definition: DefinitionId::new(definition),
    }
}

pub(super) async fn next(signals: &mut Signals) -> Heard {
    tokio::time::timeout(PATIENCE, signals.recv())
        .await
        .expect("heard nothing")
        .expect("the provider ended")
}

async fn all_members_hear_in_order((one, two): Pair) {
    let mut listeners = [one.listen(), two.listen(), two.listen()];
    for n in 0..10 {
        one.announce(change(n, "d"));
    }
    for listener in &mut listeners {
        for n in 0..10 {
            assert_eq!(next(listener).await, Heard::Changed(change(n, "d")));
        }
    }
}

async fn every_id_comes_out_as_it_went_in((one, two): Pair) {
    let mut signals = two.listen();
    for id in ["a b", "\"quoted\"", "back\\slash", "é日本", "'; --", &"x".repeat(255)] {
        let unknown = Change {
            revision: None,
            tenant: TenantId::new(id),
            ..change(0, id)
        };
        one.announce(unknown.clone());
        assert_eq!(next(&mut signals).await, Heard::Changed(unknown));
    }
}

async fn nothing_is_lost_between_two_waits((one, two): Pair) {
    let mut signals = two.listen();
    for n in 0..20 {
        let impatient = tokio::time::timeout(Duration::ZERO, signals.recv()).await;
        assert!(impatient.is_err(), "{impatient:?}");
        one.announce(change(n, "d"));
        assert_eq!(next(&mut signals).await, Heard::Changed(change(n, "d")));
    }
}

async fn a_slow_listener_is_told_that_nothing_is_sure((one, two): Pair) {
    let (mut slow, mut quick) = (two.listen(), two.listen());
    let count = 2_000;
    for n in 0..count {
        one.announce(change(n, "d"));
        // One who listens all the time keeps pace; the other does not even try.
        assert_eq!(next(&mut quick).await, Heard::Changed(change(n, "d")));
    }
    // Either all of it, or word that something was lost.
    for n in 0..count {
        match next(&mut slow).await {
            Heard::Unsure => break,
            heard => assert_eq!(heard, Heard::Changed(change(n, "d"))),
        }
    }
    one.announce(change(count, "last"));
    while next(&mut slow).await != Heard::Changed(change(count, "last")) {}
}

async fn a_member_that_ends_takes_nobody_along((one, two): Pair) {
    let mut signals = two.listen();
    one.announce(change(1, "d"));
    assert_eq!(next(&mut signals).await, Heard::Changed(change(1, "d")));
    drop(one);
    two.announce(change(2, "d"));
    assert_eq!(next(&mut signals).await, Heard::Changed(change(2, "d")));
}
