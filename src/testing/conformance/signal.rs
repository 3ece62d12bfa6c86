//! What every cache signal must do. [`conforms`] runs all cases.

use std::time::Duration;

use crate::id::{DefinitionId, TenantId};
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Two members of one cluster.
pub type Pair = (Box<dyn CacheSignal>, Box<dyn CacheSignal>);

/// Tests a provider. `pair` makes two members of a new cluster each time it is called. Panics at the first thing that a
/// member does wrong.
pub async fn conforms(mut pair: impl AsyncFnMut() -> Pair) {
    all_members_receive_in_order(pair().await).await;
    every_id_survives_the_transport(pair().await).await;
    nothing_is_lost_between_two_receives(pair().await).await;
    a_slow_subscriber_receives_an_invalidation(pair().await).await;
    the_end_of_a_member_does_not_affect_the_others(pair().await).await;
}

/// A change of the default tenant.
pub fn change(revision: i64, definition: &str) -> DefinitionChange {
    DefinitionChange {
        revision: Some(revision),
        tenant: TenantId::default(),
        definition: DefinitionId::new(definition),
    }
}

/// The next notification, within a minute.
pub async fn next(subscription: &mut CacheSubscription) -> CacheNotification {
    tokio::time::timeout(TIMEOUT, subscription.recv())
        .await
        .expect("received nothing")
        .expect("the provider ended")
}

/// Receives the next notification, which must be this one.
pub async fn receives(subscription: &mut CacheSubscription, change: DefinitionChange) {
    assert_eq!(next(subscription).await, CacheNotification::Changed(change));
}

async fn all_members_receive_in_order((one, two): Pair) {
    let mut subscriptions = [one.subscribe(), two.subscribe(), two.subscribe()];
    for n in 0..10 {
        one.notify(change(n, "d"));
    }
    for subscription in &mut subscriptions {
        for n in 0..10 {
            receives(subscription, change(n, "d")).await;
        }
    }
}

async fn every_id_survives_the_transport((one, two): Pair) {
    let mut subscription = two.subscribe();
    for id in ["a b", "\"quoted\"", "back\\slash", "é日本", "'; --", &"x".repeat(255)] {
        let unknown = DefinitionChange {
            revision: None,
            tenant: TenantId::new(id),
            ..change(0, id)
        };
        one.notify(unknown.clone());
        receives(&mut subscription, unknown).await;
    }
}

async fn nothing_is_lost_between_two_receives((one, two): Pair) {
    let mut subscription = two.subscribe();
    for n in 0..20 {
        let cancelled = tokio::time::timeout(Duration::ZERO, subscription.recv()).await;
        assert!(cancelled.is_err(), "{cancelled:?}");
        one.notify(change(n, "d"));
        receives(&mut subscription, change(n, "d")).await;
    }
}

async fn a_slow_subscriber_receives_an_invalidation((one, two): Pair) {
    let (mut slow, mut quick) = (two.subscribe(), two.subscribe());
    let count = 2_000;
    for n in 0..count {
        one.notify(change(n, "d"));
        // One subscriber receives all the time, the other one nothing yet.
        receives(&mut quick, change(n, "d")).await;
    }
    // Either every notification, or one that says that some were lost.
    for n in 0..count {
        match next(&mut slow).await {
            CacheNotification::Invalidate => break,
            received => assert_eq!(received, CacheNotification::Changed(change(n, "d"))),
        }
    }
    one.notify(change(count, "last"));
    while next(&mut slow).await != CacheNotification::Changed(change(count, "last")) {}
}

async fn the_end_of_a_member_does_not_affect_the_others((one, two): Pair) {
    let mut subscription = two.subscribe();
    one.notify(change(1, "d"));
    receives(&mut subscription, change(1, "d")).await;
    drop(one);
    two.notify(change(2, "d"));
    receives(&mut subscription, change(2, "d")).await;
}
