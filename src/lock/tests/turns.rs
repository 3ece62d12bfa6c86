//! Whose turn it is, played: nothing here waits for time unless it says so.

use std::collections::HashMap;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IteratorRandom;

use super::world::{Ask, World};
use crate::lock::LockMode::{Exclusive, Shared};
use crate::lock::key::LockKey;
use crate::lock::table::{REMEMBERED, TURN, Ticket};

/// Releases what is held, somebody's first, and asks anew for it; so many times.
fn go_round(world: &mut World, times: usize) {
    for _ in 0..times {
        world.settle();
        let node = (0..world.nodes.len()).find(|node| world.first_held(*node).is_some());
        let node = node.expect("nobody has it, and only time would help");
        let ticket = world.first_held(node).unwrap();
        world.release(node, ticket);
        world.ask(node, Ask::one(1, Exclusive));
    }
}

/// How many grants each node had before another node had one.
fn runs(world: &World) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for grant in &world.grants {
        match runs.last_mut() {
            Some((node, times)) if *node == grant.node => *times += 1,
            _ => runs.push((grant.node, 1)),
        }
    }
    runs
}

#[test]
fn nodes_take_turns_and_nobody_waits_for_time() {
    let mut world = World::new(3, 100, 1);
    for node in 0..3 {
        for _ in 0..21 {
            world.ask(node, Ask::one(1, Exclusive));
        }
    }
    go_round(&mut world, 3000);
    let runs = runs(&world);
    // Once they know of each other.
    let settled = &runs[3..runs.len() - 1];
    assert!(settled.len() > 100, "{runs:?}");
    for pair in settled.windows(3) {
        assert_eq!(
            pair.iter().map(|(node, _)| node).sum::<usize>(),
            3,
            "each in turn: {runs:?}"
        );
    }
    // A turn is as long as the line, here.
    let most = 21.min(TURN as usize + 1);
    assert!(settled.iter().all(|(_, times)| *times == most), "{runs:?}");
    // One is said for each turn, and not much more.
    assert!(
        world.said < runs.len() + 20,
        "{} said in {} turns",
        world.said,
        runs.len()
    );
}

/// Grants of a node from now until another one has the lock; whoever gives it back asks for it again.
fn grants_before(world: &mut World, holder: usize, other: usize) -> usize {
    let before = world.grants.len();
    while !world.nodes[other].held.keys().any(|_| true) {
        let ticket = world
            .first_held(holder)
            .expect("nobody has it, and only time would help");
        world.release(holder, ticket);
        world.ask(holder, Ask::one(1, Exclusive));
        world.settle();
        assert!(world.grants.len() < before + 1000, "the other never has it");
    }
    world.grants[before..]
        .iter()
        .filter(|grant| grant.node == holder)
        .count()
}

#[test]
fn whoever_wants_it_elsewhere_goes_behind_those_in_line_and_before_those_that_come() {
    for (in_line, served) in [(0, 0), (3, 3), (200, TURN as usize)] {
        let mut world = World::new(2, 100, 2);
        for _ in 0..=in_line {
            world.ask(0, Ask::one(1, Exclusive));
            world.settle();
        }
        world.ask(1, Ask::one(1, Exclusive));
        world.settle();
        assert_eq!(grants_before(&mut world, 0, 1), served, "with {in_line} in line");
        // The other one knows that it is waited for.
        world.ask(1, Ask::one(1, Exclusive));
        let ticket = world.first_held(1).unwrap();
        world.release(1, ticket);
        world.settle();
        assert!(world.first_held(0).is_some(), "it was not handed back");
    }
}

#[test]
fn a_writer_is_not_kept_out_by_readers_that_come_and_go_on_two_other_nodes() {
    for readers in [1, 2, 20] {
        let mut world = World::new(3, 100, 3);
        for _ in 0..readers {
            for node in 0..2 {
                world.ask(node, Ask::one(1, Shared));
            }
        }
        world.settle();
        assert_eq!(world.grants.len(), 2 * readers, "they share it");
        let writer = world.ask(2, Ask::one(1, Exclusive)).unwrap();
        world.settle();
        // One after the other goes and comes again, so that somebody always reads who may.
        let mut turns = 0;
        while !world.nodes[2].held.contains_key(&writer) {
            let node = turns % 2;
            turns += 1;
            assert!(turns <= 2 * readers, "new readers went before the writer");
            if let Some(ticket) = world.first_held(node) {
                world.ask(node, Ask::one(1, Shared));
                world.release(node, ticket);
                // Time alone must not let them in either, while the writer waits.
                world.settle();
                world.pass_time(Duration::from_millis(20));
                world.settle();
            }
        }
        world.release(2, writer);
        world.settle();
        assert_eq!(world.grants.len(), 4 * readers + 1, "all the readers at once");
    }
}

#[test]
fn readers_that_begin_elsewhere_stand_behind_a_writer_that_waits() {
    let mut world = World::new(3, 100, 4);
    let reader = world.ask(0, Ask::one(1, Shared)).unwrap();
    world.settle();
    world.ask(1, Ask::one(1, Exclusive));
    world.settle();
    // This node has never had to do with it.
    let late = world.ask(2, Ask::one(1, Shared)).unwrap();
    let tries = Ask {
        waits: false,
        ..Ask::one(1, Shared)
    };
    world.ask(2, tries);
    // As long as the writer tells that it still waits.
    for _ in 0..40 {
        world.settle();
        world.pass_until_retry();
    }
    assert_eq!(world.waiting(2), [late]);
    world.release(0, reader);
    world.settle();
    assert_eq!(
        world.nodes.iter().map(|node| node.held.len()).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    let writer = world.first_held(1).unwrap();
    world.release(1, writer);
    world.settle();
    assert!(world.nodes[2].held.contains_key(&late));
}

#[test]
fn whoever_waits_no_more_lets_the_next_go() {
    let mut world = World::new(3, 100, 5);
    let holder = world.ask(0, Ask::one(1, Exclusive)).unwrap();
    world.settle();
    let gone = world.ask(1, Ask::one(1, Exclusive)).unwrap();
    world.settle();
    world.ask(2, Ask::one(1, Exclusive));
    world.settle();
    // It is called, and goes away before it hears.
    world.release(0, holder);
    assert!(world.send(0) && world.serve(0));
    world.abandon(1, gone);
    world.settle();
    assert!(world.first_held(2).is_some(), "only time would help");
    // And in line, before its turn.
    let gone = world.ask(1, Ask::one(1, Exclusive)).unwrap();
    world.ask(0, Ask::one(1, Exclusive));
    world.settle();
    world.abandon(1, gone);
    world.settle();
    let holder = world.first_held(2).unwrap();
    world.release(2, holder);
    world.settle();
    assert!(world.first_held(0).is_some());
}

#[test]
fn whoever_is_dead_is_forgotten() {
    let mut world = World::new(3, 100, 6);
    let holder = world.ask(0, Ask::one(1, Exclusive)).unwrap();
    world.settle();
    world.ask(1, Ask::one(1, Exclusive));
    world.settle();
    world.silence(1, true);
    let reader = world.ask(2, Ask::one(1, Shared)).unwrap();
    world.settle();
    world.release(0, holder);
    let began = world.now;
    while !world.nodes[2].held.contains_key(&reader) {
        world.settle();
        assert!(world.pass_until_retry());
        assert!(world.now < began + REMEMBERED * 2, "the dead one is waited for");
    }
    world.release(2, reader);
    world.settle();
    while world.pass_until_retry() {
        world.settle();
        assert!(world.now < began + REMEMBERED * 4, "somebody goes on and on");
    }
}

/// What is lost on its way costs time, and nothing else.
#[test]
fn lost_hints_are_healed() {
    for seed in 0..10 {
        let mut world = World::new(3, 100, seed);
        world.lost_of_hundred = 50;
        for node in 0..3 {
            for _ in 0..5 {
                world.ask(node, Ask::one(1, Exclusive));
            }
        }
        let mut had = [0; 3];
        let began = world.now;
        while had.iter().any(|had| *had < 100) {
            world.settle();
            match (0..3).find(|node| world.first_held(*node).is_some()) {
                Some(node) => {
                    had[node] += 1;
                    let ticket = world.first_held(node).unwrap();
                    world.release(node, ticket);
                    world.ask(node, Ask::one(1, Exclusive));
                    world.pass_time(Duration::from_millis(1));
                }
                None => assert!(world.pass_until_retry(), "nobody will ever try again"),
            }
            assert!(world.now < began + Duration::from_secs(60), "{had:?}");
        }
    }
}

/// Whether `scripts/test --long` runs this.
fn long() -> bool {
    std::env::var("MAINSPRING_TEST_LONG").is_ok_and(|value| value == "1")
}

/// What anybody may do, in any order, on three nodes: nobody ever has what another one has (the world sees to that), each
/// is granted in the end, and then nothing is left anywhere.
fn play(seed: u64, budget: usize, lost_of_hundred: u32, alone: bool) {
    let mut world = World::new(3, budget, seed);
    world.lost_of_hundred = lost_of_hundred;
    for _ in 0..2_000 {
        let node = world.random.random_range(0..3);
        match world.random.random_range(0..20) {
            0..3 => {
                let ask = any_ask(&mut world, alone);
                world.ask(node, ask);
            }
            3..6 => {
                let held = world.nodes[node].held.keys().copied().choose(&mut world.random);
                if let Some(ticket) = held {
                    world.release(node, ticket);
                }
            }
            6 => {
                let waiting = world.waiting(node);
                if let Some(ticket) = waiting.into_iter().choose(&mut world.random) {
                    world.abandon(node, ticket);
                }
            }
            _ => world.anything(),
        }
    }
    if alone {
        in_order(&world);
    }
    let began = world.now;
    loop {
        world.settle();
        let holder = (0..3).find(|node| world.first_held(*node).is_some());
        if let Some(node) = holder {
            let ticket = world.first_held(node).unwrap();
            world.release(node, ticket);
        } else if (0..3).all(|node| world.waiting(node).is_empty()) {
            break;
        } else {
            assert!(
                world.pass_until_retry(),
                "seed {seed}: somebody waits, and nobody will try again"
            );
            assert!(
                world.now < began + Duration::from_secs(60),
                "seed {seed}: somebody waits for ever"
            );
        }
    }
    while world.pass_until_retry() {
        world.settle();
        assert!(
            world.now < began + Duration::from_secs(120),
            "seed {seed}: it never comes to rest"
        );
    }
    world.is_empty();
}

fn any_ask(world: &mut World, alone: bool) -> Ask {
    let random = &mut world.random;
    let keys = if alone || random.random_bool(0.6) {
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

/// Each key was granted in the order of asking, on each node.
fn in_order(world: &World) {
    let mut last: HashMap<(usize, LockKey), u64> = HashMap::new();
    for grant in world.grants.iter() {
        let before = last.insert((grant.node, grant.key.unwrap()), grant.ticket);
        assert!(before < Some(grant.ticket), "{grant:?} after {before:?}");
    }
}

#[test]
fn anything_in_any_order_ends_well() {
    for seed in 0..if long() { 200 } else { 15 } {
        play(seed, 100, 0, true);
        play(seed, 100, 0, false);
        play(seed, 100, 30, false);
        play(seed, 4, 10, false);
    }
}

/// Three nodes with 21 tasks each on one key, on a machine that lets any of them stand still for longer than the others
/// stand back: it loses its turn then, and has the next one.
#[test]
fn whoever_stood_still_has_a_turn_soon_after() {
    let mut worst = 0;
    let mut idle = Duration::ZERO;
    for seed in 0..if long() { 10 } else { 3 } {
        let mut world = World::new(3, 100, seed);
        // For each that waits: what was granted until it asked, but for what was granted while its node stood still.
        let mut asked = HashMap::new();
        let mut missed = [0; 3];
        for node in 0..3 {
            for _ in 0..21 {
                let ticket = world.ask(node, Ask::one(1, Exclusive)).unwrap();
                asked.insert((node, ticket), 0);
            }
        }
        let mut seen = 0;
        let mut awake = world.now;
        let mut still = None;
        let mut last = world.now;
        while world.grants.len() < 20_000 {
            if awake <= world.now {
                let pause = world.random.random_range(0..100_u64);
                still.take().inspect(|node| world.silence(*node, false));
                if pause < 30 {
                    let node = world.random.random_range(0..3);
                    world.silence(node, true);
                    still = Some(node);
                }
                awake = world.now + Duration::from_millis(pause.min(30));
            }
            world.anything();
            world.pass_time(Duration::from_micros(20));
            while seen < world.grants.len() {
                let grant = world.grants[seen];
                seen += 1;
                still.inspect(|node| missed[*node] += 1);
                idle = idle.max(world.now - std::mem::replace(&mut last, world.now));
                let since = asked.remove(&(grant.node, grant.ticket)).unwrap();
                worst = worst.max(seen - missed[grant.node] - since);
                world.release(grant.node, grant.ticket);
                let ticket = world.ask(grant.node, Ask::one(1, Exclusive)).unwrap();
                asked.insert((grant.node, ticket), seen - missed[grant.node]);
            }
        }
    }
    // 63 others wait. A turn is lost by whoever stood still, and the place in line.
    assert!(
        worst < 10 * 63,
        "{worst} went before somebody whose node did not stand still"
    );
    // The holder stands still for 30 ms at most, and who stands back does so for 10: nobody waits for the slow retry.
    assert!(idle < Duration::from_millis(90), "nobody had it for {idle:?}");
}

/// Tasks that all want one key, and processes that stand still now and then: the most grants to others that anybody waited.
fn longest_line(seed: u64) -> usize {
    let mut world = World::new(3, 100, seed);
    let mut asked: HashMap<(usize, Ticket), usize> = HashMap::new();
    let ask = |world: &mut World, asked: &mut HashMap<_, _>, node: usize| {
        let ticket = world.ask(node, Ask::one(1, Exclusive)).unwrap();
        asked.insert((node, ticket), world.grants.len());
    };
    for node in [0, 1, 2].repeat(21) {
        ask(&mut world, &mut asked, node);
    }
    let (mut seen, mut longest) = (0, 0);
    // Who stands still, and for how many steps of the others.
    let mut still: Option<(usize, u32)> = None;
    for _ in 0..20_000 {
        world.anything();
        for node in (0..3).filter(|node| still.is_none_or(|(silent, _)| silent != *node)) {
            if let Some(ticket) = world.first_held(node) {
                world.release(node, ticket);
                ask(&mut world, &mut asked, node);
            }
        }
        for grant in &world.grants[seen..] {
            let before = asked.remove(&(grant.node, grant.ticket)).unwrap();
            longest = longest.max(seen - before);
            seen += 1;
        }
        still = match still {
            Some((node, 0)) => {
                world.silence(node, false);
                None
            }
            Some((node, left)) => Some((node, left - 1)),
            None if world.random.random_range(0..100) == 0 => {
                let node = world.random.random_range(0..3);
                world.silence(node, true);
                Some((node, world.random.random_range(1..300)))
            }
            None => None,
        };
    }
    assert!(seen > 1000, "{seen} grants");
    longest
}

#[test]
fn nobody_stands_behind_others_for_long_though_processes_stand_still() {
    for seed in 0..4 {
        let longest = longest_line(seed);
        // 63 tasks: a line is five of them at most, with all that stand still and are passed by.
        assert!(longest <= 5 * 63, "with seed {seed}, {longest} went before somebody");
    }
}
