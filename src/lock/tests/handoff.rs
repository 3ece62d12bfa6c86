//! Which process is next, in a simulation. Nothing depends on time unless a test says so.

use std::collections::HashMap;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IteratorRandom;

use super::simulation::{Ask, Simulation};
use crate::lock::LockMode::{Exclusive, Shared};
use crate::lock::key::LockKey;
use crate::lock::table::{QUOTA, Ticket, WAITER_TTL};

/// Releases a held request and submits it again, so many times.
fn cycle(simulation: &mut Simulation, times: usize) {
    for _ in 0..times {
        simulation.settle();
        let node = (0..simulation.nodes.len()).find(|node| simulation.first_held(*node).is_some());
        let node = node.expect("no node holds it before a retry");
        let ticket = simulation.first_held(node).unwrap();
        simulation.release(node, ticket);
        simulation.ask(node, Ask::one(1, Exclusive));
    }
}

/// How many grants each node got in a row.
fn runs(simulation: &Simulation) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for grant in &simulation.grants {
        match runs.last_mut() {
            Some((node, times)) if *node == grant.node => *times += 1,
            _ => runs.push((grant.node, 1)),
        }
    }
    runs
}

#[test]
fn nodes_take_turns_and_none_waits_for_a_retry() {
    let mut simulation = Simulation::new(3, 100, 1);
    for node in 0..3 {
        for _ in 0..21 {
            simulation.ask(node, Ask::one(1, Exclusive));
        }
    }
    cycle(&mut simulation, 3000);
    let runs = runs(&simulation);
    // From when they know of each other.
    let settled = &runs[3..runs.len() - 1];
    assert!(settled.len() > 100, "{runs:?}");
    for pair in settled.windows(3) {
        assert_eq!(
            pair.iter().map(|(node, _)| node).sum::<usize>(),
            3,
            "each in turn: {runs:?}"
        );
    }
    // Here the quota is the length of the queue.
    let most = 21.min(QUOTA as usize + 1);
    assert!(settled.iter().all(|(_, times)| *times == most), "{runs:?}");
    // One message for each turn, and few more.
    assert!(
        simulation.sent_messages < runs.len() + 20,
        "{} messages in {} turns",
        simulation.sent_messages,
        runs.len()
    );
}

/// Grants of a node from now until another one holds the lock; each release is followed by a new request.
fn grants_before(simulation: &mut Simulation, holder: usize, other: usize) -> usize {
    let before = simulation.grants.len();
    while !simulation.nodes[other].held.keys().any(|_| true) {
        let ticket = simulation.first_held(holder).expect("no node holds it before a retry");
        simulation.release(holder, ticket);
        simulation.ask(holder, Ask::one(1, Exclusive));
        simulation.settle();
        assert!(simulation.grants.len() < before + 1000, "the other node never gets it");
    }
    simulation.grants[before..]
        .iter()
        .filter(|grant| grant.node == holder)
        .count()
}

#[test]
fn another_node_comes_after_the_queued_requests_and_before_later_ones() {
    for (queued, served) in [(0, 0), (3, 3), (200, QUOTA as usize)] {
        let mut simulation = Simulation::new(2, 100, 2);
        for _ in 0..=queued {
            simulation.ask(0, Ask::one(1, Exclusive));
            simulation.settle();
        }
        simulation.ask(1, Ask::one(1, Exclusive));
        simulation.settle();
        assert_eq!(grants_before(&mut simulation, 0, 1), served, "with {queued} queued");
        // The other node knows that this one waits.
        simulation.ask(1, Ask::one(1, Exclusive));
        let ticket = simulation.first_held(1).unwrap();
        simulation.release(1, ticket);
        simulation.settle();
        assert!(simulation.first_held(0).is_some(), "it was not handed off");
    }
}

#[test]
fn a_writer_is_not_starved_by_readers_of_two_other_nodes() {
    for readers in [1, 2, 20] {
        let mut simulation = Simulation::new(3, 100, 3);
        for _ in 0..readers {
            for node in 0..2 {
                simulation.ask(node, Ask::one(1, Shared));
            }
        }
        simulation.settle();
        assert_eq!(simulation.grants.len(), 2 * readers, "they share it");
        let writer = simulation.ask(2, Ask::one(1, Exclusive)).unwrap();
        simulation.settle();
        // Each reader is replaced in turn, so that there is always one.
        let mut turns = 0;
        while !simulation.nodes[2].held.contains_key(&writer) {
            let node = turns % 2;
            turns += 1;
            assert!(turns <= 2 * readers, "later readers overtook the writer");
            if let Some(ticket) = simulation.first_held(node) {
                simulation.ask(node, Ask::one(1, Shared));
                simulation.release(node, ticket);
                // A retry must not let them in either while the writer waits.
                simulation.settle();
                simulation.pass_time(Duration::from_millis(20));
                simulation.settle();
            }
        }
        simulation.release(2, writer);
        simulation.settle();
        assert_eq!(simulation.grants.len(), 4 * readers + 1, "all the readers at once");
    }
}

#[test]
fn later_readers_of_other_nodes_queue_behind_a_writer() {
    let mut simulation = Simulation::new(3, 100, 4);
    let reader = simulation.ask(0, Ask::one(1, Shared)).unwrap();
    simulation.settle();
    simulation.ask(1, Ask::one(1, Exclusive));
    simulation.settle();
    // This node has not used the key before.
    let late = simulation.ask(2, Ask::one(1, Shared)).unwrap();
    let tries = Ask {
        waits: false,
        ..Ask::one(1, Shared)
    };
    simulation.ask(2, tries);
    // While the writer repeats that it waits.
    for _ in 0..40 {
        simulation.settle();
        simulation.pass_until_retry();
    }
    assert_eq!(simulation.waiting(2), [late]);
    simulation.release(0, reader);
    simulation.settle();
    assert_eq!(
        simulation.nodes.iter().map(|node| node.held.len()).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    let writer = simulation.first_held(1).unwrap();
    simulation.release(1, writer);
    simulation.settle();
    assert!(simulation.nodes[2].held.contains_key(&late));
}

#[test]
fn a_withdrawn_request_lets_the_next_go() {
    let mut simulation = Simulation::new(3, 100, 5);
    let holder = simulation.ask(0, Ask::one(1, Exclusive)).unwrap();
    simulation.settle();
    let withdrawn = simulation.ask(1, Ask::one(1, Exclusive)).unwrap();
    simulation.settle();
    simulation.ask(2, Ask::one(1, Exclusive));
    simulation.settle();
    // It is next, and withdraws before it receives the handoff.
    simulation.release(0, holder);
    assert!(simulation.send(0) && simulation.serve(0));
    simulation.abandon(1, withdrawn);
    simulation.settle();
    assert!(simulation.first_held(2).is_some(), "it waits for a retry");
    // And while it is queued.
    let withdrawn = simulation.ask(1, Ask::one(1, Exclusive)).unwrap();
    simulation.ask(0, Ask::one(1, Exclusive));
    simulation.settle();
    simulation.abandon(1, withdrawn);
    simulation.settle();
    let holder = simulation.first_held(2).unwrap();
    simulation.release(2, holder);
    simulation.settle();
    assert!(simulation.first_held(0).is_some());
}

#[test]
fn an_ended_process_is_forgotten() {
    let mut simulation = Simulation::new(3, 100, 6);
    let holder = simulation.ask(0, Ask::one(1, Exclusive)).unwrap();
    simulation.settle();
    simulation.ask(1, Ask::one(1, Exclusive));
    simulation.settle();
    simulation.pause(1, true);
    let reader = simulation.ask(2, Ask::one(1, Shared)).unwrap();
    simulation.settle();
    simulation.release(0, holder);
    let began = simulation.now;
    while !simulation.nodes[2].held.contains_key(&reader) {
        simulation.settle();
        assert!(simulation.pass_until_retry());
        assert!(
            simulation.now < began + WAITER_TTL * 2,
            "the ended process is still waited for"
        );
    }
    simulation.release(2, reader);
    simulation.settle();
    while simulation.pass_until_retry() {
        simulation.settle();
        assert!(simulation.now < began + WAITER_TTL * 4, "it never comes to rest");
    }
}

/// A lost message costs time only.
#[test]
fn lost_messages_are_made_up_for() {
    for seed in 0..10 {
        let mut simulation = Simulation::new(3, 100, seed);
        simulation.lost_percent = 50;
        for node in 0..3 {
            for _ in 0..5 {
                simulation.ask(node, Ask::one(1, Exclusive));
            }
        }
        let mut grants = [0; 3];
        let began = simulation.now;
        while grants.iter().any(|count| *count < 100) {
            simulation.settle();
            match (0..3).find(|node| simulation.first_held(*node).is_some()) {
                Some(node) => {
                    grants[node] += 1;
                    let ticket = simulation.first_held(node).unwrap();
                    simulation.release(node, ticket);
                    simulation.ask(node, Ask::one(1, Exclusive));
                    simulation.pass_time(Duration::from_millis(1));
                }
                None => assert!(simulation.pass_until_retry(), "no node will ever retry"),
            }
            assert!(simulation.now < began + Duration::from_secs(60), "{grants:?}");
        }
    }
}

/// Whether `scripts/test --long` runs this.
fn long() -> bool {
    std::env::var("MAINSPRING_TEST_LONG").is_ok_and(|value| value == "1")
}

/// Random steps on three nodes: no lock is ever held twice (the simulation checks that), each request is granted in the
/// end, and then nothing is left.
fn simulate(seed: u64, budget: usize, lost_percent: u32, single: bool) {
    let mut simulation = Simulation::new(3, budget, seed);
    simulation.lost_percent = lost_percent;
    for _ in 0..2_000 {
        let node = simulation.random.random_range(0..3);
        match simulation.random.random_range(0..20) {
            0..3 => {
                let ask = random_ask(&mut simulation, single);
                simulation.ask(node, ask);
            }
            3..6 => {
                let held = simulation.nodes[node]
                    .held
                    .keys()
                    .copied()
                    .choose(&mut simulation.random);
                if let Some(ticket) = held {
                    simulation.release(node, ticket);
                }
            }
            6 => {
                let waiting = simulation.waiting(node);
                if let Some(ticket) = waiting.into_iter().choose(&mut simulation.random) {
                    simulation.abandon(node, ticket);
                }
            }
            _ => simulation.random_step(),
        }
    }
    if single {
        assert_in_order(&simulation);
    }
    let began = simulation.now;
    loop {
        simulation.settle();
        let holder = (0..3).find(|node| simulation.first_held(*node).is_some());
        if let Some(node) = holder {
            let ticket = simulation.first_held(node).unwrap();
            simulation.release(node, ticket);
        } else if (0..3).all(|node| simulation.waiting(node).is_empty()) {
            break;
        } else {
            assert!(
                simulation.pass_until_retry(),
                "seed {seed}: a request waits, and no node will retry"
            );
            assert!(
                simulation.now < began + Duration::from_secs(60),
                "seed {seed}: a request waits for ever"
            );
        }
    }
    while simulation.pass_until_retry() {
        simulation.settle();
        assert!(
            simulation.now < began + Duration::from_secs(120),
            "seed {seed}: it never comes to rest"
        );
    }
    simulation.assert_empty();
}

fn random_ask(simulation: &mut Simulation, single: bool) -> Ask {
    let random = &mut simulation.random;
    let keys = if single || random.random_bool(0.6) {
        1
    } else {
        random.random_range(2..5)
    };
    let any = keys > 1 && random.random_bool(0.5);
    let mut names: Vec<i64> = (0..6).sample(random, keys);
    names.sort_unstable();
    let keys = names.into_iter().map(|name| {
        let mode = if any || random.random_bool(0.6) {
            Exclusive
        } else {
            Shared
        };
        // Slots and locks are different names.
        (LockKey(if any { name + 100 } else { name }), mode)
    });
    Ask {
        keys: keys.collect(),
        any,
        waits: random.random_bool(0.8),
    }
}

/// Each key was granted in the order of the requests, on each node.
fn assert_in_order(simulation: &Simulation) {
    let mut last: HashMap<(usize, LockKey), u64> = HashMap::new();
    for grant in simulation.grants.iter() {
        let before = last.insert((grant.node, grant.key.unwrap()), grant.ticket);
        assert!(before < Some(grant.ticket), "{grant:?} after {before:?}");
    }
}

#[test]
fn random_steps_in_any_order_end_well() {
    for seed in 0..if long() { 200 } else { 15 } {
        simulate(seed, 100, 0, true);
        simulate(seed, 100, 0, false);
        simulate(seed, 100, 30, false);
        simulate(seed, 4, 10, false);
    }
}

/// Three nodes with 21 tasks each on one key, on a machine that pauses any of them for longer than the others yield: a
/// paused node loses its turn, and gets the next one.
#[test]
fn a_paused_node_gets_a_turn_soon_after() {
    let mut worst = 0;
    let mut idle = Duration::ZERO;
    for seed in 0..if long() { 10 } else { 3 } {
        let mut simulation = Simulation::new(3, 100, seed);
        // For each request: the grants before it, without those while its node was paused.
        let mut asked = HashMap::new();
        let mut missed = [0; 3];
        for node in 0..3 {
            for _ in 0..21 {
                let ticket = simulation.ask(node, Ask::one(1, Exclusive)).unwrap();
                asked.insert((node, ticket), 0);
            }
        }
        let mut seen = 0;
        let mut awake = simulation.now;
        let mut still = None;
        let mut last = simulation.now;
        while simulation.grants.len() < 20_000 {
            if awake <= simulation.now {
                let pause = simulation.random.random_range(0..100_u64);
                still.take().inspect(|node| simulation.pause(*node, false));
                if pause < 30 {
                    let node = simulation.random.random_range(0..3);
                    simulation.pause(node, true);
                    still = Some(node);
                }
                awake = simulation.now + Duration::from_millis(pause.min(30));
            }
            simulation.random_step();
            simulation.pass_time(Duration::from_micros(20));
            while seen < simulation.grants.len() {
                let grant = simulation.grants[seen];
                seen += 1;
                still.inspect(|node| missed[*node] += 1);
                idle = idle.max(simulation.now - std::mem::replace(&mut last, simulation.now));
                let since = asked.remove(&(grant.node, grant.ticket)).unwrap();
                worst = worst.max(seen - missed[grant.node] - since);
                simulation.release(grant.node, grant.ticket);
                let ticket = simulation.ask(grant.node, Ask::one(1, Exclusive)).unwrap();
                asked.insert((grant.node, ticket), seen - missed[grant.node]);
            }
        }
    }
    // 63 others wait. A paused node loses its turn, and its place.
    assert!(
        worst < 10 * 63,
        "{worst} went before a request whose node was not paused"
    );
    // The holder is paused for 30 ms at most, and a node yields for 10: none waits for the slow retry.
    assert!(idle < Duration::from_millis(90), "no node held it for {idle:?}");
}

/// Tasks that all use one key, and processes that are paused now and then: the most grants for which a request waited.
fn longest_wait(seed: u64) -> usize {
    let mut simulation = Simulation::new(3, 100, seed);
    let mut asked: HashMap<(usize, Ticket), usize> = HashMap::new();
    let ask = |simulation: &mut Simulation, asked: &mut HashMap<_, _>, node: usize| {
        let ticket = simulation.ask(node, Ask::one(1, Exclusive)).unwrap();
        asked.insert((node, ticket), simulation.grants.len());
    };
    for node in [0, 1, 2].repeat(21) {
        ask(&mut simulation, &mut asked, node);
    }
    let (mut seen, mut longest) = (0, 0);
    // The paused node, and for how many steps.
    let mut still: Option<(usize, u32)> = None;
    for _ in 0..20_000 {
        simulation.random_step();
        for node in (0..3).filter(|node| still.is_none_or(|(paused, _)| paused != *node)) {
            if let Some(ticket) = simulation.first_held(node) {
                simulation.release(node, ticket);
                ask(&mut simulation, &mut asked, node);
            }
        }
        for grant in &simulation.grants[seen..] {
            let before = asked.remove(&(grant.node, grant.ticket)).unwrap();
            longest = longest.max(seen - before);
            seen += 1;
        }
        still = match still {
            Some((node, 0)) => {
                simulation.pause(node, false);
                None
            }
            Some((node, left)) => Some((node, left - 1)),
            None if simulation.random.random_range(0..100) == 0 => {
                let node = simulation.random.random_range(0..3);
                simulation.pause(node, true);
                Some((node, simulation.random.random_range(1..300)))
            }
            None => None,
        };
    }
    assert!(seen > 1000, "{seen} grants");
    longest
}

#[test]
fn no_request_waits_long_while_processes_are_paused() {
    for seed in 0..4 {
        let longest = longest_wait(seed);
        // 63 tasks: five times that is the limit, with all pauses.
        assert!(longest <= 5 * 63, "with seed {seed}, {longest} went before a request");
    }
}
