//! What happens to requests whose keys the backend loses, with the table alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::oneshot;

use crate::lock::key::LockKey;
use crate::lock::request::{KeyRequest, Keys, LockMode, LockName};
use crate::lock::stats::Counters;
use crate::lock::table::{Backend, Table, TableResults, Ticket};

struct Process(Table);

impl Process {
    fn new() -> Self {
        Self(Table::new(
            Backend::Polled(10),
            Arc::new(Counters::default()),
            StdRng::seed_from_u64(1),
        ))
    }

    fn step<T>(&mut self, run: impl FnOnce(&mut Table, &mut TableResults) -> T) -> (T, Vec<Ticket>) {
        let mut results = TableResults::at(Instant::now());
        let result = run(&mut self.0, &mut results);
        (result, results.granted.into_iter().map(|(_, ticket)| ticket).collect())
    }

    fn ask(&mut self, keys: &[(i64, LockMode)]) -> (Ticket, oneshot::Receiver<bool>) {
        let (reply, answer) = oneshot::channel();
        let request = KeyRequest {
            keys: Keys::Many(keys.iter().map(|(key, mode)| (LockKey(*key), *mode)).collect()),
            any: false,
            name: LockName::Given("several".into()),
            names: Vec::new(),
        };
        let (ticket, _) = self.step(|table, results| table.submit(request, true, reply, results));
        (ticket.unwrap(), answer)
    }

    /// The backend takes what it is asked for; returns that, and who is granted.
    fn take(&mut self) -> (Vec<i64>, Vec<Ticket>) {
        let batch = self.0.batch(10);
        let (_, granted) = self.step(|table, results| table.complete(&batch, &HashSet::new(), false, results));
        (batch.take.iter().map(|(key, _)| key.0).collect(), granted)
    }

    fn lose(&mut self, key: i64) -> Vec<Ticket> {
        self.step(|table, results| table.lose(&[LockKey(key)], results)).0
    }
}

#[test]
fn a_request_is_not_granted_with_a_lease_that_was_lost_while_it_waited() {
    let mut process = Process::new();
    let (reader, _kept) = process.ask(&[(1, LockMode::Shared)]);
    assert_eq!(process.take(), (vec![1], vec![reader]));
    // The process has the first key already; the answer for the second one is outstanding.
    let (both, _answer) = process.ask(&[(1, LockMode::Shared), (2, LockMode::Exclusive)]);
    let batch = process.0.batch(10);
    assert_eq!(batch.take, [(LockKey(2), LockMode::Exclusive)]);
    assert_eq!(process.lose(1), [reader]);
    let (_, granted) = process.step(|table, results| table.complete(&batch, &HashSet::new(), false, results));
    assert!(granted.is_empty(), "with a key that the process has lost");
    let mut asked = Vec::new();
    let granted = loop {
        let (keys, granted) = process.take();
        asked.extend(keys);
        if !granted.is_empty() {
            break granted;
        }
        assert!(asked.len() < 10, "{asked:?}");
    };
    assert_eq!(granted, [both]);
    assert!(asked.contains(&1), "{asked:?}");
}

#[test]
fn what_else_a_lost_handle_owns_stays_its_own_until_it_is_dropped() {
    let mut process = Process::new();
    let (both, _kept) = process.ask(&[(1, LockMode::Exclusive), (2, LockMode::Exclusive)]);
    assert_eq!(process.take(), (vec![1, 2], vec![both]));
    let (first, _first) = process.ask(&[(1, LockMode::Exclusive)]);
    let (second, _second) = process.ask(&[(2, LockMode::Exclusive)]);
    assert_eq!(process.lose(1), [both]);
    assert_eq!(
        process.take(),
        (vec![1], vec![first]),
        "only what was lost is given away"
    );
    assert_eq!(process.lose(1), [first], "which is not the former handle's any more");
    let (_, granted) = process.step(|table, results| table.release(both, results));
    assert_eq!(granted, [second]);
    process.step(|table, results| table.release(second, results));
    process.take();
    assert_eq!(process.0.tracked(), (0, 0, 0));
}

#[test]
fn a_handle_whose_keys_are_all_lost_leaves_nothing() {
    let mut process = Process::new();
    let (both, _kept) = process.ask(&[(1, LockMode::Exclusive), (2, LockMode::Shared)]);
    assert_eq!(process.take(), (vec![1, 2], vec![both]));
    assert_eq!(process.lose(1), [both]);
    assert!(process.lose(2).is_empty(), "it is lost already");
    assert_eq!(process.0.tracked(), (0, 0, 0));
}
