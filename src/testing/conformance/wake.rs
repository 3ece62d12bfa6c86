//! What every wake transport must do. [`conforms`] runs all cases.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{InstanceId, TenantId, WorkId};
use crate::wake::{WakeNotification, WakeSubscription, WakeTransport};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Two members of one cluster.
pub type Pair = (Box<dyn WakeTransport>, Box<dyn WakeTransport>);

/// Tests a provider. `pair` makes two members of a new cluster each time it is called. Panics at the first thing that a
/// member does wrong.
pub async fn conforms(mut pair: impl AsyncFnMut() -> Pair) {
    the_other_member_receives_and_the_sender_does_not(pair().await).await;
    every_id_survives_the_transport(pair().await).await;
    all_subscribers_receive(pair().await).await;
    nothing_is_lost_between_two_receives(pair().await).await;
    many_notifications_arrive_by_name_or_as_a_poll(pair().await).await;
    a_slow_subscriber_receives_a_poll(pair().await).await;
    the_end_of_a_member_does_not_affect_the_others(pair().await).await;
}

fn ready(id: impl ToString) -> WakeNotification {
    WakeNotification::WorkReady(InstanceId::new(id.to_string()))
}

/// The next notifications, within a minute.
pub async fn next(subscription: &mut WakeSubscription) -> Arc<[WakeNotification]> {
    tokio::time::timeout(TIMEOUT, subscription.recv())
        .await
        .expect("received nothing")
        .expect("the transport ended")
}

/// All notifications received before `last`.
async fn up_to(subscription: &mut WakeSubscription, last: &WakeNotification) -> Vec<WakeNotification> {
    let mut received = Vec::new();
    loop {
        for notification in next(subscription).await.iter() {
            if notification == last {
                return received;
            }
            received.push(notification.clone());
        }
    }
}

async fn the_other_member_receives_and_the_sender_does_not((one, two): Pair) {
    let (mut at_one, mut at_two) = (one.subscribe(), two.subscribe());
    one.notify(vec![ready("a"), ready("a")]);
    assert_eq!(*next(&mut at_two).await.first().unwrap(), ready("a"));
    let done = WakeNotification::WorkDone(WorkId(7));
    two.notify(vec![done.clone()]);
    assert_eq!(up_to(&mut at_one, &done).await, [], "a member received its own");
}

async fn every_id_survives_the_transport((one, two): Pair) {
    let mut subscription = two.subscribe();
    let ids = [
        "a b",
        "\"quoted\"",
        "back\\slash",
        "new\nline",
        "é日本",
        "'; --",
        &"x".repeat(255),
    ];
    for id in ids {
        one.notify(vec![ready(id)]);
        assert_eq!(up_to(&mut subscription, &ready(id)).await, []);
        let cancelled = WakeNotification::InstanceCancelled(TenantId::new(id), InstanceId::new(id));
        one.notify(vec![cancelled.clone()]);
        assert_eq!(up_to(&mut subscription, &cancelled).await, []);
    }
    for notification in [
        WakeNotification::Poll,
        WakeNotification::ReplyAwaited(WorkId(i64::MAX)),
        WakeNotification::WorkDone(WorkId(i64::MIN)),
    ] {
        one.notify(vec![notification.clone()]);
        assert_eq!(up_to(&mut subscription, &notification).await, []);
    }
}

async fn all_subscribers_receive((one, two): Pair) {
    let mut subscriptions = [two.subscribe(), two.subscribe()];
    one.notify(vec![ready("a")]);
    for subscription in &mut subscriptions {
        assert_eq!(up_to(subscription, &ready("a")).await, []);
    }
}

async fn nothing_is_lost_between_two_receives((one, two): Pair) {
    let mut subscription = two.subscribe();
    for n in 0..20 {
        let cancelled = tokio::time::timeout(Duration::ZERO, subscription.recv()).await;
        assert!(cancelled.is_err(), "{cancelled:?}");
        one.notify(vec![ready(n)]);
        assert_eq!(up_to(&mut subscription, &ready(n)).await, []);
    }
}

async fn many_notifications_arrive_by_name_or_as_a_poll((one, two): Pair) {
    let mut subscription = two.subscribe();
    let many = 20_000;
    one.notify((0..many).map(ready).collect());
    let mut named = std::collections::HashSet::new();
    while !named.contains(&WakeNotification::Poll) && named.len() < many {
        named.extend(next(&mut subscription).await.iter().cloned());
    }
}

async fn a_slow_subscriber_receives_a_poll((one, two): Pair) {
    let (mut slow, mut quick) = (two.subscribe(), two.subscribe());
    let count = 2_000;
    for n in 0..count {
        one.notify(vec![ready(n)]);
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    one.notify(vec![WakeNotification::WorkDone(WorkId(1))]);
    // Either every notification, or one that says that some were lost; and the subscription continues.
    for subscription in [&mut quick, &mut slow] {
        let mut received = std::collections::HashSet::new();
        while !received.contains(&WakeNotification::Poll) && received.len() < count {
            received.extend(next(subscription).await.iter().cloned());
        }
    }
    one.notify(vec![ready("last")]);
    up_to(&mut slow, &ready("last")).await;
}

async fn the_end_of_a_member_does_not_affect_the_others((one, two): Pair) {
    let mut subscription = two.subscribe();
    one.notify(vec![ready("a")]);
    up_to(&mut subscription, &ready("a")).await;
    drop(one);
    let nothing = tokio::time::timeout(Duration::from_millis(20), subscription.recv()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    two.notify(vec![ready("b")]);
}
