//! What every lock provider must do. Each case stands alone, so that its test has a name; [`conforms`] runs all cases.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::lock::{LockHandle, LockProvider, LockRequest};

/// A time longer than any of these cases takes.
pub const LONG: Duration = Duration::from_secs(30);

/// Makes providers that see each other's locks, as two processes would; within one process, clones of one provider.
pub trait LockMembers: Send + Sync {
    /// Another member. Each case has its own factory, so no case sees the locks of another one.
    fn provider(&self) -> impl Future<Output = Arc<dyn LockProvider>> + Send;
}

/// Calls a macro with what is given, then the names of all cases.
macro_rules! each_case {
    ($run:ident $($given:tt)*) => {
        $run! { $($given)*
            a_lock_is_granted_once_and_again_after_its_release
            readers_share_and_exclude_writers
            a_queued_writer_stops_later_readers
            one_at_a_time_among_many_tasks
            readers_and_writers_never_overlap
            a_dropped_request_leaves_nothing
            a_future_dropped_at_any_moment_leaves_nothing
            a_timeout_is_an_error_and_leaves_nothing
            several_at_once_are_all_or_nothing
            several_at_once_in_any_order_do_not_deadlock
            a_semaphore_has_so_many_slots
            waiting_requests_are_granted_in_order
            a_thousand_grants_over_twenty_names
            names_of_any_kind_are_different_locks
            tokens_grow_with_each_holder
            held_locks_are_visible
            impossible_requests_are_refused
        }
    };
}
#[cfg(test)]
pub(crate) use each_case;

/// Runs every case, each with its own members. Panics at the first that fails or takes longer than a minute.
pub async fn conforms<F: LockMembers>(mut members: impl AsyncFnMut() -> F) {
    macro_rules! run {
        ($($case:ident)*) => {$(
            let made = members().await;
            let ended = tokio::time::timeout(LONG * 2, $case(&made)).await;
            ended.expect(concat!("hangs: ", stringify!($case)));
        )*};
    }
    each_case!(run);
}

/// A provider of any kind.
pub type Provider = Arc<dyn LockProvider>;

async fn pair(factory: &impl LockMembers) -> (Provider, Provider) {
    (factory.provider().await, factory.provider().await)
}

/// Takes a lock exclusively.
pub async fn lock(provider: &Provider, name: &str) -> LockHandle {
    acquire(provider, LockRequest::exclusive(name)).await
}

/// Waits for locks for as long as a case may take.
pub async fn acquire(provider: &Provider, request: LockRequest) -> LockHandle {
    provider.acquire(request, LONG).await.unwrap()
}

/// Takes locks if they are free.
pub async fn attempt(provider: &Provider, request: LockRequest) -> Option<LockHandle> {
    provider.try_acquire(request).await.unwrap()
}

fn exclusive(name: &str) -> LockRequest {
    LockRequest::exclusive(name)
}

/// Polls a future once, so that its request is queued.
pub async fn is_queued(waiting: &mut (impl Future + Unpin), provider: &Provider) {
    let before = provider.stats().contended;
    assert!(waiting.now_or_never().is_none(), "it should wait");
    while provider.stats().contended == before {
        tokio::task::yield_now().await;
    }
}

/// Both providers can take it, so it is free. A release by a drop takes a moment.
async fn is_free(providers: [&Provider; 2], name: &str) {
    for provider in providers {
        drop(acquire(provider, exclusive(name)).await);
    }
}

/// Runs this many tasks on each of these providers, until all have ended.
async fn contend<T>(providers: &[Provider], tasks: usize, task: impl Fn(Provider, usize) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    let each = providers
        .iter()
        .flat_map(|provider| (0..tasks).map(move |number| (provider, number)));
    let spawned: Vec<_> = each
        .map(|(provider, number)| tokio::spawn(task(Arc::clone(provider), number)))
        .collect();
    for task in join_all(spawned).await {
        task.unwrap();
    }
}

/// A lock has one holder, is not re-entrant, and its release is not a loss.
pub async fn a_lock_is_granted_once_and_again_after_its_release(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    for _ in 0..5 {
        let handle = lock(&here, "a").await;
        assert!(!handle.is_lost());
        assert!(
            attempt(&here, exclusive("a")).await.is_none(),
            "locks are not re-entrant"
        );
        assert!(attempt(&there, exclusive("a")).await.is_none());
        assert!(attempt(&there, LockRequest::shared("a")).await.is_none());
        assert!(attempt(&there, exclusive("b")).await.is_some());
        let mut lost = pin!(handle.lost());
        drop(handle);
        assert!(lost.as_mut().now_or_never().is_none(), "released is not lost");
        let handle = lock(&there, "a").await;
        assert!(attempt(&here, exclusive("a")).await.is_none());
        drop(handle);
    }
}

/// Shared holders exclude an exclusive one until the last of them releases.
pub async fn readers_share_and_exclude_writers(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let readers = [
        acquire(&here, LockRequest::shared("a")).await,
        acquire(&here, LockRequest::shared("a")).await,
        acquire(&there, LockRequest::shared("a")).await,
    ];
    assert!(attempt(&here, exclusive("a")).await.is_none());
    assert!(attempt(&there, exclusive("a")).await.is_none());
    let [one, two, three] = readers;
    drop((one, three));
    assert!(attempt(&here, exclusive("a")).await.is_none());
    assert!(attempt(&there, exclusive("a")).await.is_none(), "one reader is left");
    drop(two);
    is_free([&here, &there], "a").await;
}

/// A shared request does not overtake an exclusive one that waits at the same provider.
pub async fn a_queued_writer_stops_later_readers(factory: &impl LockMembers) {
    let provider = factory.provider().await;
    let reader = acquire(&provider, LockRequest::shared("a")).await;
    let mut writer = provider.acquire(exclusive("a"), LONG);
    is_queued(&mut writer, &provider).await;
    assert!(attempt(&provider, LockRequest::shared("a")).await.is_none());
    let mut late = provider.acquire(LockRequest::shared("a"), LONG);
    is_queued(&mut late, &provider).await;
    drop(reader);
    let writer = writer.await.unwrap();
    assert!((&mut late).now_or_never().is_none(), "the reader came later");
    drop(writer);
    drop(late.await.unwrap());
}

/// 100 tasks over four providers, each a few times.
pub async fn one_at_a_time_among_many_tasks(factory: &impl LockMembers) {
    let inside = Arc::new(AtomicI64::new(0));
    let grants = Arc::new(AtomicUsize::new(0));
    let ((one, two), (three, four)) = (pair(factory).await, pair(factory).await);
    contend(&[one, two, three, four], 25, |provider, _| {
        let (inside, grants) = (Arc::clone(&inside), Arc::clone(&grants));
        async move {
            for _ in 0..3 {
                let handle = lock(&provider, "a").await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                grants.fetch_add(1, Ordering::SeqCst);
                drop(handle);
            }
        }
    })
    .await;
    assert_eq!(grants.load(Ordering::SeqCst), 300);
}

/// No reader is inside with a writer, and no two writers.
pub async fn readers_and_writers_never_overlap(factory: &impl LockMembers) {
    /// A writer counts as this many readers.
    const WRITER: i64 = 1000;
    let inside = Arc::new(AtomicI64::new(0));
    let (here, there) = pair(factory).await;
    contend(&[here, there], 20, |provider, number| {
        let (inside, writes) = (Arc::clone(&inside), number % 4 == 0);
        let (request, weight) = if writes {
            (exclusive("a"), WRITER)
        } else {
            (LockRequest::shared("a"), 1)
        };
        async move {
            for _ in 0..5 {
                let handle = acquire(&provider, request.clone()).await;
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(before == 0 || (!writes && before < WRITER), "{before} inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(weight, Ordering::SeqCst);
                drop(handle);
            }
        }
    })
    .await;
}

/// A future that is dropped while it waits, or that was never polled, leaves nothing.
pub async fn a_dropped_request_leaves_nothing(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let handle = lock(&here, "a").await;
    for provider in [&here, &there] {
        let mut waiting = provider.acquire(exclusive("a"), LONG);
        is_queued(&mut waiting, provider).await;
        drop(waiting);
    }
    // Never polled at all.
    drop(here.acquire(exclusive("a"), LONG));
    // Queued behind a request that is dropped.
    let mut first = here.acquire(exclusive("a"), LONG);
    is_queued(&mut first, &here).await;
    let mut second = here.acquire(exclusive("a"), LONG);
    is_queued(&mut second, &here).await;
    drop(first);
    drop(handle);
    drop(second.await.unwrap());
    is_free([&here, &there], "a").await;
}

/// The future is dropped after the first poll, the second, and so on, until it is ready: at each await.
pub async fn a_future_dropped_at_any_moment_leaves_nothing(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let request = || exclusive("a").and_shared("b");
    for polls in 0..200 {
        let mut waiting = here.acquire(request(), LONG);
        for _ in 0..polls {
            if (&mut waiting).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(waiting);
        if polls % 20 == 0 {
            is_free([&here, &there], "a").await;
        }
    }
    is_free([&there, &here], "a").await;
    is_free([&there, &here], "b").await;
}

/// After `lock-timeout` nothing is held, however short the timeout was.
pub async fn a_timeout_is_an_error_and_leaves_nothing(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let handle = lock(&here, "a").await;
    for provider in [&here, &there] {
        for timeout in [Duration::ZERO, Duration::from_millis(20)] {
            let error = provider.acquire(exclusive("a"), timeout).await.unwrap_err();
            assert_eq!(error.code(), "lock-timeout");
            assert!(error.is_transient());
        }
    }
    drop(handle);
    // Timeouts of about a round trip: after an error nothing is held.
    for micros in 0..100 {
        drop(there.acquire(exclusive("a"), Duration::from_micros(micros * 10)).await);
    }
    is_free([&here, &there], "a").await;
}

/// A request for several locks holds none while it waits for one of them.
pub async fn several_at_once_are_all_or_nothing(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let both = || exclusive("a").and_exclusive("b").and_exclusive("a");
    let held = lock(&here, "b").await;
    assert!(attempt(&here, both()).await.is_none());
    assert!(attempt(&there, both()).await.is_none());
    is_free([&here, &there], "a").await;
    for provider in [&here, &there] {
        let mut waiting = provider.acquire(both(), LONG);
        is_queued(&mut waiting, provider).await;
        // It waits for one lock and does not hold the other.
        is_free([&here, &there], "a").await;
        drop(waiting);
    }
    drop(held);
    let handle = acquire(&there, both()).await;
    assert!(attempt(&here, exclusive("a")).await.is_none());
    assert!(attempt(&here, exclusive("b")).await.is_none());
    drop(handle);
    is_free([&here, &there], "a").await;
    is_free([&here, &there], "b").await;
    // The stronger mode counts.
    let handle = acquire(&here, LockRequest::shared("a").and_exclusive("a")).await;
    assert!(attempt(&there, LockRequest::shared("a")).await.is_none());
    drop(handle);
}

/// Requests for the same names in different orders do not block each other forever.
pub async fn several_at_once_in_any_order_do_not_deadlock(factory: &impl LockMembers) {
    let inside: Arc<Vec<AtomicI64>> = Arc::new((0..5).map(|_| AtomicI64::new(0)).collect());
    let (here, there) = pair(factory).await;
    contend(&[here, there], 20, |provider, number| {
        let inside = Arc::clone(&inside);
        async move {
            for pass in 0..5 {
                // Three of five names, in both directions.
                let names: Vec<usize> = (0..3).map(|step| (number * (pass + 1) + step * 2) % 5).collect();
                let name = |at: usize| format!("n{}", names[at]);
                let request = exclusive(&name(0)).and_exclusive(name(1)).and_exclusive(name(2));
                let handle = acquire(&provider, request).await;
                for name in &names {
                    assert_eq!(inside[*name].fetch_add(1, Ordering::SeqCst), 0);
                }
                tokio::task::yield_now().await;
                for name in &names {
                    inside[*name].fetch_sub(1, Ordering::SeqCst);
                }
                drop(handle);
            }
        }
    })
    .await;
}

/// A semaphore has at most this many holders at a time, and a released slot is granted again.
pub async fn a_semaphore_has_so_many_slots(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let slot = || LockRequest::semaphore("s", 3);
    let first = attempt(&here, slot()).await.expect("the first slot");
    let second = attempt(&there, slot()).await.expect("the second slot");
    let third = attempt(&here, slot()).await.expect("the third slot");
    assert!(attempt(&here, slot()).await.is_none());
    assert!(attempt(&there, slot()).await.is_none());
    is_free([&here, &there], "s").await;
    let mut taken = Vec::new();
    for (provider, released) in [(&here, first), (&there, third), (&here, second)] {
        let mut waiting = provider.acquire(slot(), LONG);
        is_queued(&mut waiting, provider).await;
        drop(released);
        taken.push(waiting.await.unwrap());
    }
    drop(taken);
    let inside = Arc::new(AtomicI64::new(0));
    contend(&[here, there], 20, |provider, _| {
        let inside = Arc::clone(&inside);
        async move {
            for _ in 0..3 {
                let handle = acquire(&provider, slot()).await;
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(handle);
            }
        }
    })
    .await;
}

/// Requests of one provider are granted in the order in which they came.
pub async fn waiting_requests_are_granted_in_order(factory: &impl LockMembers) {
    let provider = factory.provider().await;
    let held = lock(&provider, "a").await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..20 {
        let mut next = provider.acquire(exclusive("a"), LONG);
        is_queued(&mut next, &provider).await;
        let order = Arc::clone(&order);
        waiting.push(async move {
            let handle = next.await.unwrap();
            order.lock().unwrap().push(number);
            drop(handle);
        });
    }
    drop(held);
    waiting.reverse();
    join_all(waiting).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// Many requests over few names are all granted, one holder at a time.
pub async fn a_thousand_grants_over_twenty_names(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let inside: Arc<Vec<AtomicI64>> = Arc::new((0..20).map(|_| AtomicI64::new(0)).collect());
    contend(&[here, there], 500, |provider, number| {
        let inside = Arc::clone(&inside);
        async move {
            let name = number * 7 % 20;
            let handle = lock(&provider, &format!("n{name}")).await;
            assert_eq!(inside[name].fetch_add(1, Ordering::SeqCst), 0);
            tokio::task::yield_now().await;
            inside[name].fetch_sub(1, Ordering::SeqCst);
            drop(handle);
        }
    })
    .await;
}

/// Names are compared byte by byte.
pub async fn names_of_any_kind_are_different_locks(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let long = "x".repeat(1000);
    let longer = "x".repeat(1001);
    let names = ["", "a", "A", "a ", "ä", "1", "01", "../a", "a\0", &long, &longer];
    let mut held = Vec::new();
    for name in names {
        held.push(lock(&here, name).await);
        assert!(attempt(&there, exclusive(name)).await.is_none(), "{name:?}");
    }
    drop(held);
}

/// A later holder has a greater token, and one grant has one token.
pub async fn tokens_grow_with_each_holder(factory: &impl LockMembers) {
    let (here, there) = pair(factory).await;
    let mut last = None;
    for number in 0..10 {
        let provider = if number % 3 == 0 { &there } else { &here };
        let handle = lock(provider, "a").await;
        let token = handle.fencing_token().await.unwrap();
        assert_eq!(handle.fencing_token().await.unwrap(), token, "one grant, one token");
        assert!(last < Some(token), "{last:?} before {token:?}");
        last = Some(token);
    }
}

/// Held locks are listed and counted.
pub async fn held_locks_are_visible(factory: &impl LockMembers) {
    let provider = factory.provider().await;
    let handle = lock(&provider, "a").await;
    let shared = acquire(&provider, LockRequest::shared("b")).await;
    let mut waiting = provider.acquire(exclusive("a"), LONG);
    is_queued(&mut waiting, &provider).await;
    let mut held = provider.held();
    held.sort_by(|one, two| one.name.cmp(&two.name));
    let shown: Vec<_> = held
        .iter()
        .map(|lock| (&*lock.name, lock.mode.to_string(), lock.waiters))
        .collect();
    assert_eq!(shown, [("a", "exclusive".to_owned(), 1), ("b", "shared".to_owned(), 0)]);
    drop((waiting, handle, shared));
    assert!(provider.held().is_empty());
    let stats = provider.stats();
    assert_eq!((stats.granted, stats.contended, stats.abandoned), (2, 1, 1));
    assert_eq!((stats.acquire.count, stats.hold.count), (2, 2));
    assert!(attempt(&provider, exclusive("c")).await.is_some());
    let held = lock(&provider, "a").await;
    assert!(attempt(&provider, exclusive("a")).await.is_none());
    assert_eq!(provider.stats().refused, stats.refused + 1);
    drop(held);
}

/// Requests that no provider grants are refused as invalid.
pub async fn impossible_requests_are_refused(factory: &impl LockMembers) {
    let provider = factory.provider().await;
    let many = (0..300).fold(exclusive("a"), |request, number| request.and_shared(number.to_string()));
    for request in [
        LockRequest::semaphore("s", 0),
        LockRequest::semaphore("s", 1000),
        LockRequest::semaphore("s", 2).and_exclusive("a"),
        many,
    ] {
        let error = provider.try_acquire(request.clone()).await.unwrap_err();
        assert_eq!(error.code(), "invalid-lock-request", "{request:?}");
        assert!(error.is_invalid());
    }
}
