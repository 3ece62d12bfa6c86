//! Contention among several sessions, and a holder whose process is killed.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::postgres::{HELD, connect, exclusive, node};
use crate::lock::provider::postgres::Budget;
use crate::lock::{LockProvider, LockRequest};
use crate::testing::conformance::lock::{LONG, lock};
use crate::testing::store::{Fixture, execute};

async fn nodes(fixture: &Fixture) -> [Arc<dyn LockProvider>; 3] {
    let budget = || node(fixture, Budget::Nodes(3));
    [budget().await, budget().await, budget().await]
}

/// Waits until so many requests of these providers were contended.
async fn contended(nodes: &[Arc<dyn LockProvider>], number: u64) {
    while nodes.iter().map(|node| node.stats().contended).sum::<u64>() < number {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_sessions_take_turns_on_one_key() {
    const GRANTS: usize = 6000;
    let fixture = Fixture::new().await;
    let nodes = nodes(&fixture).await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    let held = lock(&nodes[0], "a").await;
    for (number, node) in nodes.iter().enumerate() {
        for _ in 0..20 {
            let (node, order) = (Arc::clone(node), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                loop {
                    let handle = lock(&node, "a").await;
                    let had = {
                        let mut order = order.lock().unwrap();
                        order.push(number);
                        order.len()
                    };
                    if had >= GRANTS {
                        break;
                    }
                    tokio::task::yield_now().await;
                    drop(handle);
                }
            }));
        }
    }
    contended(&nodes, 60).await;
    drop(held);
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let order = order.lock().unwrap();
    for number in 0..3 {
        let places: Vec<usize> = order[..GRANTS]
            .iter()
            .enumerate()
            .filter(|(_, node)| **node == number)
            .map(|(at, _)| at)
            .collect();
        // In turn it is a third; the rest is for a machine that pauses one of them.
        assert!(places.len() > GRANTS / 50, "{number} had {} of {GRANTS}", places.len());
        let longest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest < GRANTS / 2, "{number} had nothing for {longest} grants");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_is_served_among_readers_of_two_other_sessions() {
    let fixture = Fixture::new().await;
    let [writer, readers @ ..] = nodes(&fixture).await;
    let stop = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicI64::new(0));
    let reads = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for node in readers {
        for _ in 0..4 {
            let (node, stop, inside, reads) = (
                Arc::clone(&node),
                Arc::clone(&stop),
                Arc::clone(&inside),
                Arc::clone(&reads),
            );
            tasks.push(tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let handle = node.acquire(LockRequest::shared("a"), LONG).await.unwrap();
                    assert!(inside.fetch_add(1, SeqCst) >= 0, "a writer is inside");
                    reads.fetch_add(1, SeqCst);
                    // Long enough to overlap, so that there is always a reader.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    inside.fetch_sub(1, SeqCst);
                    drop(handle);
                }
            }));
        }
    }
    while reads.load(SeqCst) < 50 {
        tokio::task::yield_now().await;
    }
    let mut between = Vec::new();
    for _ in 0..20 {
        let before = reads.load(SeqCst);
        let handle = lock(&writer, "a").await;
        between.push(reads.load(SeqCst) - before);
        assert_eq!(inside.fetch_sub(1000, SeqCst), 0, "a reader is inside");
        tokio::task::yield_now().await;
        inside.fetch_add(1000, SeqCst);
        drop(handle);
    }
    stop.store(true, SeqCst);
    for task in join_all(tasks).await {
        task.unwrap();
    }
    between.sort_unstable();
    // The readers at that moment, and those before the other sessions received the message.
    assert!(between[10] <= 16, "readers that went before the writer: {between:?}");
    fixture.until(0, HELD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_on_twenty_keys_from_three_sessions() {
    let fixture = Fixture::new().await;
    let nodes = nodes(&fixture).await;
    let blocker = node(&fixture, Budget::Nodes(3)).await;
    let names: Vec<String> = (0..20).map(|name| format!("n{name}")).collect();
    let held = join_all(names.iter().map(|name| lock(&blocker, name))).await;
    let turns = "CREATE TABLE turn (key int PRIMARY KEY, inside int NOT NULL, had int NOT NULL);
                 INSERT INTO turn SELECT k, 0, 0 FROM generate_series(0, 19) k";
    execute(&fixture.admin, turns).await;
    let witness = Arc::new(fixture.session().await);
    let tasks: Vec<_> = (0..1000_usize)
        .map(|number| {
            let (node, witness, key) = (Arc::clone(&nodes[number % 3]), Arc::clone(&witness), number * 7 % 20);
            tokio::spawn(async move {
                let handle = lock(&node, &format!("n{key}")).await;
                let key = i32::try_from(key).unwrap();
                // The database is witness: no other task is inside.
                let come = "UPDATE turn SET inside = inside + 1, had = had + 1 WHERE key = $1 RETURNING inside";
                let inside: i32 = witness.client.query_one(come, &[&key]).await.unwrap().get(0);
                assert_eq!(inside, 1);
                let go = "UPDATE turn SET inside = inside - 1 WHERE key = $1";
                witness.client.execute(go, &[&key]).await.unwrap();
                drop(handle);
            })
        })
        .collect();
    contended(&nodes, 1000).await;
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(fixture.count(sessions).await, 5, "waiting requests use no connection");
    drop(held);
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let served = "SELECT sum(had) FROM turn WHERE had = 50 AND inside = 0";
    assert_eq!(fixture.count(served).await, 1000);
    fixture.until(0, HELD).await;
}

const URL: &str = "MAINSPRING_TEST_HOLDER_URL";
const HOLDS: &str = "it holds the lock";

/// Not a test: the process that is killed.
#[tokio::test]
#[ignore = "runs in a process of its own, for a_waiter_gets_the_lock_of_a_killed_process"]
async fn a_process_that_holds_a_lock_until_it_is_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    let locks = connect(&url).await;
    let _held = lock(&locks, "a").await;
    println!("{HOLDS}");
    std::future::pending().await
}

#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_killed_process() {
    let fixture = Fixture::new().await;
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("lock::tests::contention::a_process_that_holds_a_lock_until_it_is_killed")
        .env(URL, fixture.url())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(holder.stdout.take().unwrap()).lines();
    loop {
        let line = output
            .next_line()
            .await
            .unwrap()
            .expect("it ended before it had the lock");
        if line.contains(HOLDS) {
            break;
        }
    }
    let here = node(&fixture, Budget::Nodes(3)).await;
    assert!(here.try_acquire(exclusive("a")).await.unwrap().is_none());
    let waiting = tokio::spawn({
        let here = Arc::clone(&here);
        async move { lock(&here, "a").await }
    });
    contended(std::slice::from_ref(&here), 1).await;
    assert!(!waiting.is_finished());
    // SIGKILL: the process runs no code any more.
    holder.kill().await.unwrap();
    drop(waiting.await.unwrap());
    fixture.until(0, HELD).await;
}
