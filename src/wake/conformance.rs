//! What every provider has to keep. A new one adds a test that calls [`conforms`], and changes nothing here.

use std::sync::Arc;
use std::time::Duration;

use super::{Hint, Hints, WakeTransport};
use crate::id::{InstanceId, WorkId};

const PATIENCE: Duration = Duration::from_secs(60);

/// Two members of one cluster.
pub(super) type Pair = (Box<dyn WakeTransport>, Box<dyn WakeTransport>);

/// Puts a provider to the test; `pair` makes two members of a cluster of their own, each time it is called.
pub(super) async fn conforms(mut pair: impl AsyncFnMut() -> Pair) {
    what_one_says_the_other_hears_and_not_itself(pair().await).await;
    every_id_comes_out_as_it_went_in(pair().await).await;
    all_listeners_hear(pair().await).await;
    nothing_is_lost_between_two_waits(pair().await).await;
    a_crowd_is_named_or_told_to_look(pair().await).await;
    a_slow_listener_is_told_to_look(pair().await).await;
    a_member_that_ends_takes_nobody_along(pair().await).await;
}

fn waits(id: impl ToString) -> Hint {
    Hint::Waits(InstanceId::new(id.to_string()))
}

async fn next(hints: &mut Hints) -> Arc<[Hint]> {
    tokio::time::timeout(PATIENCE, hints.recv())
        .await
        .expect("heard nothing")
        .expect("the transport ended")
}

/// All that is heard up to, and without, this one.
async fn up_to(hints: &mut Hints, last: &Hint) -> Vec<Hint> {
    let mut heard = Vec::new();
    loop {
        for hint in next(hints).await.iter() {
            if hint == last {
                return heard;
            }
            heard.push(hint.clone());
        }
    }
}

async fn what_one_says_the_other_hears_and_not_itself((one, two): Pair) {
    let (mut at_one, mut at_two) = (one.listen(), two.listen());
    one.send(vec![waits("a"), waits("a")]);
    assert_eq!(*next(&mut at_two).await.first().unwrap(), waits("a"));
    two.send(vec![Hint::Done(WorkId(7))]);
    assert_eq!(
        up_to(&mut at_one, &Hint::Done(WorkId(7))).await,
        [],
        "a member heard itself"
    );
}

async fn every_id_comes_out_as_it_went_in((one, two): Pair) {
    let mut heard = two.listen();
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
        one.send(vec![waits(id)]);
        assert_eq!(up_to(&mut heard, &waits(id)).await, []);
        let lost = Hint::Lost(InstanceId::new(id));
        one.send(vec![lost.clone()]);
        assert_eq!(up_to(&mut heard, &lost).await, []);
    }
    for hint in [
        Hint::Look,
        Hint::Awaited(WorkId(i64::MAX)),
        Hint::Done(WorkId(i64::MIN)),
    ] {
        one.send(vec![hint.clone()]);
        assert_eq!(up_to(&mut heard, &hint).await, []);
    }
}

async fn all_listeners_hear((one, two): Pair) {
    let mut listeners = [two.listen(), two.listen()];
    one.send(vec![waits("a")]);
    for listener in &mut listeners {
        assert_eq!(up_to(listener, &waits("a")).await, []);
    }
}

async fn nothing_is_lost_between_two_waits((one, two): Pair) {
    let mut heard = two.listen();
    for n in 0..20 {
        // Whoever waits gives up, and comes back.
        let impatient = tokio::time::timeout(Duration::ZERO, heard.recv()).await;
        assert!(impatient.is_err(), "{impatient:?}");
        one.send(vec![waits(n)]);
        assert_eq!(up_to(&mut heard, &waits(n)).await, []);
    }
}

async fn a_crowd_is_named_or_told_to_look((one, two): Pair) {
    let mut heard = two.listen();
    let crowd = 20_000;
    one.send((0..crowd).map(waits).collect());
    let mut named = std::collections::HashSet::new();
    while !named.contains(&Hint::Look) && named.len() < crowd {
        named.extend(next(&mut heard).await.iter().cloned());
    }
}

async fn a_slow_listener_is_told_to_look((one, two): Pair) {
    let (mut slow, mut quick) = (two.listen(), two.listen());
    let count = 2_000;
    for n in 0..count {
        one.send(vec![waits(n)]);
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    one.send(vec![Hint::Done(WorkId(1))]);
    // Either all of it, or word that something was lost; and it goes on.
    for listener in [&mut quick, &mut slow] {
        let mut heard = std::collections::HashSet::new();
        while !heard.contains(&Hint::Look) && heard.len() < count {
            heard.extend(next(listener).await.iter().cloned());
        }
    }
    one.send(vec![waits("last")]);
    up_to(&mut slow, &waits("last")).await;
}

async fn a_member_that_ends_takes_nobody_along((one, two): Pair) {
    let mut heard = two.listen();
    one.send(vec![waits("a")]);
    up_to(&mut heard, &waits("a")).await;
    drop(one);
    let silence = tokio::time::timeout(Duration::from_millis(20), heard.recv()).await;
    assert!(silence.is_err(), "{silence:?}");
    two.send(vec![waits("b")]);
}
