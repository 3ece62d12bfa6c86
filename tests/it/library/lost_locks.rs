//! Leases that are lost: what is complete is committed, the rest continues elsewhere, and nothing is repeated.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};
use mainspring::lock::{
    FencingToken, HeldLock, LocalLocks, LockGrant, LockHandle, LockProvider, LockRequest, LockStats,
};
use mainspring::{Engine, Result, check};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::engine::{save, start};
use crate::support::{TestDatabase, wait_until};

/// How many marks a workflow has.
const MARKS: usize = 5;

/// A provider whose leases end when a test says so: another session may then take the lock, as with a server that forgot it.
#[derive(Clone)]
struct Leases {
    locks: LocalLocks,
    /// The number of the epoch; the leases of an earlier one are lost.
    epoch: Arc<watch::Sender<u64>>,
    /// So many of the next grants are lost at once.
    stillborn: Arc<AtomicUsize>,
}

struct Lease {
    /// Dropped at the loss, so that another session gets the lock.
    handle: Arc<Mutex<Option<LockHandle>>>,
    is_stillborn: AtomicBool,
    granted: u64,
    epoch: watch::Receiver<u64>,
}

impl Leases {
    fn new() -> Self {
        Self {
            locks: LocalLocks::new(),
            epoch: Arc::new(watch::Sender::new(0)),
            stillborn: Arc::default(),
        }
    }

    /// Every lease is lost, and its lock is free.
    fn lose(&self) {
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    fn lease(&self, handle: LockHandle) -> LockHandle {
        let fewer = |left: usize| left.checked_sub(1);
        let is_stillborn = self.stillborn.fetch_update(SeqCst, SeqCst, fewer).is_ok();
        let mut epoch = self.epoch.subscribe();
        let granted = *epoch.borrow_and_update();
        let handle = Arc::new(Mutex::new(Some(handle)));
        let held = Arc::downgrade(&handle);
        let mut ended = epoch.clone();
        tokio::spawn(async move {
            if ended.wait_for(|epoch| *epoch > granted).await.is_ok()
                && let Some(held) = held.upgrade()
            {
                held.lock().unwrap().take();
            }
        });
        LockHandle::new(Lease {
            handle,
            is_stillborn: AtomicBool::new(is_stillborn),
            granted,
            epoch,
        })
    }
}

impl LockGrant for Lease {
    fn is_lost(&self) -> bool {
        self.is_stillborn.load(SeqCst) || *self.epoch.borrow() > self.granted
    }

    fn lost(&self) -> BoxFuture<'static, ()> {
        let (mut epoch, granted) = (self.epoch.clone(), self.granted);
        Box::pin(async move { drop(epoch.wait_for(|epoch| *epoch > granted).await) })
    }

    fn fencing_token(&self) -> BoxFuture<'_, Result<FencingToken>> {
        Box::pin(std::future::ready(Ok(FencingToken::new(1))))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.handle.lock().unwrap().take();
    }
}

impl LockProvider for Leases {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(async move { Ok(self.lease(self.locks.acquire(request, timeout).await?)) })
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move {
            let handle = self.locks.try_acquire(request).await?;
            Ok(handle.map(|handle| self.lease(handle)))
        })
    }

    fn stats(&self) -> LockStats {
        self.locks.stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.locks.held()
    }
}

/// Notes that it ran, and loses the leases where the test says so.
struct Mark {
    leases: Leases,
    loses_at: HashSet<usize>,
    ran: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Activity for Mark {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Test.Mark").input(InputDescriptor::new("Number", "Int32"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        let number: usize = context.read("Number")?;
        self.ran
            .lock()
            .unwrap()
            .push((context.instance_id().to_string(), number));
        if self.loses_at.contains(&number) {
            self.leases.lose();
        }
        Ok(Step::Done)
    }
}

fn marks() -> Vec<Value> {
    let mark = |number: usize| json!({"id": format!("m{number}"), "type": "Test.Mark", "number": number});
    (1..=MARKS).map(mark).collect()
}

/// The first burst of a start needs no lock; what follows the delay does.
fn definition(name: &str, then: Vec<Value>) -> Value {
    let delay = json!({"id": "delay", "type": "Elsa.Delay", "timeSpan": "00:00:00.02"});
    let activities: Vec<Value> = [delay].into_iter().chain(then).collect();
    json!({"definitionId": name, "root": {"id": "root", "type": "Elsa.Sequence", "activities": activities}})
}

/// Runs so many instances on two engines that lose leases at these marks; returns what ran.
async fn run(definitions: Vec<Value>, loses_at: &[usize], stillborn: usize, count: usize) -> Vec<(String, usize)> {
    let database = TestDatabase::create().await;
    let leases = Leases::new();
    leases.stillborn.store(stillborn, SeqCst);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let engine = async || {
        let builder = Engine::builder(database.url()).workers(8).locks(leases.clone());
        let mark = Mark {
            leases: leases.clone(),
            loses_at: loses_at.iter().copied().collect(),
            ran: Arc::clone(&ran),
        };
        builder.activity(mark).start().await.unwrap()
    };
    let engines = [engine().await, engine().await];
    for definition in &definitions {
        save(&engines[0], definition.clone()).await;
    }
    let last = definitions.last().unwrap()["definitionId"].as_str().unwrap().to_owned();
    for number in 0..count {
        engines[number % 2].execute(start(&last)).await.unwrap();
    }
    let client = database.connect().await;
    wait_until("all to finish", async || {
        client.rows("instance WHERE sub_status <> 3").await == 0
    })
    .await;
    for engine in engines {
        engine.shutdown().await;
    }
    assert_eq!(check(&database.url(), "mainspring").await.unwrap(), []);
    Arc::try_unwrap(ran).unwrap().into_inner().unwrap()
}

fn assert_each_once(ran: &[(String, usize)], count: usize) {
    let mut by_instance = std::collections::HashMap::<&str, Vec<usize>>::new();
    for (instance, number) in ran {
        by_instance.entry(instance).or_default().push(*number);
    }
    assert_eq!(by_instance.len(), count);
    for (instance, numbers) in by_instance {
        assert_eq!(numbers, (1..=MARKS).collect::<Vec<_>>(), "{instance}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lost_in_an_activity_repeats_no_activity() {
    for loses_at in 1..=MARKS {
        let ran = run(vec![definition("marks", marks())], &[loses_at], 0, 1).await;
        assert_each_once(&ran, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_lost_in_each_activity_of_many_instances_lose_and_repeat_nothing() {
    let every: Vec<usize> = (1..=MARKS).collect();
    let ran = run(vec![definition("marks", marks())], &every, 0, 20).await;
    // Where a lease is lost while another node takes the lock, two bursts may run the same activity, and one of them commits.
    let distinct: HashSet<&(String, usize)> = ran.iter().collect();
    assert_eq!(distinct.len(), 20 * MARKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lost_before_its_burst_begins_is_given_back() {
    let ran = run(vec![definition("marks", marks())], &[], 3, 1).await;
    assert_each_once(&ran, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_behind_a_lost_lease_is_started_by_the_commit() {
    let child = json!({"definitionId": "child", "root": {"id": "root", "type": "Elsa.Sequence", "activities": []}});
    let mark = marks().remove(0);
    let calls = json!({"id": "call", "type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": "child", "waitForCompletion": true});
    let parent = definition("parent", vec![mark, calls]);
    let ran = run(vec![child, parent], &[1], 0, 3).await;
    let distinct: HashSet<&(String, usize)> = ran.iter().collect();
    assert_eq!(distinct.len(), 3);
}
