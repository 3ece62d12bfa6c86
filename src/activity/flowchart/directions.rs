//! Which connections of a flowchart lead forward, and which back.
//!
//! Joins count: an activity is due when each of its inbound *forward* connections was passed once more than the activity
//! was visited. Connections are taken in breadth-first order from the start; one that would close a cycle with the forward
//! connections found so far leads back. Activities that cannot be reached from the start are left out: their connections
//! would never be passed, and a join would wait for them for ever.
//!
//! A back connection is *valid* if every path from the start to its source passes through its target (the target dominates
//! the source). Then the loop has one entrance and the counts stay consistent. As in Elsa, an invalid one is a fault.
//!
//! Searching for a cycle at each connection would take quadratic time, so most connections are decided without a
//! search:
//!
//! - A connection to an activity that comes later in the order closes no cycle: nothing leads on from there yet.
//! - A connection to an activity through which its source was found closes one. In a flowchart whose loops have one
//!   entrance each, no other connections lead back.
//! - A connection between two activities that are in no loop of the other connections closes none.
//!
//! The remaining connections are inside loops with several entrances; each of them is searched, within a bound.

use std::collections::{HashMap, HashSet};

use crate::activity::NodeIndex;

/// The direction of a connection, as seen from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
    /// Back, into the middle of a loop that has another entrance.
    InvalidBack,
    /// From an activity that the start does not lead to.
    Unreachable,
}

/// The maximum number of steps of all searches in one flowchart: some tens of milliseconds. Beyond it a connection to
/// an earlier activity of a loop with several entrances counts as one that leads back.
const MOST_STEPS: usize = 4_000_000;

/// The directions of connections between activities, in their order.
pub(super) fn directions(connections: &[(NodeIndex, NodeIndex)], start: NodeIndex) -> Vec<Direction> {
    let order = Order::of(connections, start);
    let forward = order.forward();
    let has_back = forward.len() < order.edges.len();
    let dominators = has_back.then(|| Dominators::of(order.parents.len(), &forward));
    let forward: HashSet<Edge> = forward.into_iter().collect();
    let direction = |(source, target): &(NodeIndex, NodeIndex)| {
        let (Some(source), Some(target)) = (order.number(*source), order.number(*target)) else {
            return Direction::Unreachable;
        };
        let is_valid = || dominators.as_ref().is_some_and(|it| it.dominates(target, source));
        if forward.contains(&(source, target)) {
            Direction::Forward
        } else if is_valid() {
            Direction::Back
        } else {
            Direction::InvalidBack
        }
    };
    connections.iter().map(direction).collect()
}

/// Two activities with a connection, by their numbers.
type Edge = (usize, usize);

fn at<T: Copy + Default>(list: &[T], index: usize) -> T {
    list.get(index).copied().unwrap_or_default()
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(place) = list.get_mut(index) {
        *place = value;
    }
}

/// The lists of numbers that each number leads to.
struct Lists(Vec<Vec<usize>>);

impl Lists {
    fn of(count: usize, edges: impl Iterator<Item = Edge>) -> Self {
        let mut lists = Self(vec![Vec::new(); count]);
        edges.for_each(|edge| lists.push(edge));
        lists
    }

    fn push(&mut self, (from, to): Edge) {
        if let Some(list) = self.0.get_mut(from) {
            list.push(to);
        }
    }

    fn get(&self, number: usize) -> &[usize] {
        self.0.get(number).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The activities that the start leads to, numbered in breadth-first order.
struct Order {
    numbers: HashMap<NodeIndex, usize>,
    /// The activity through which each was found first; the start itself for the start.
    parents: Vec<usize>,
    /// Each pair once, in the order in which they are taken.
    edges: Vec<Edge>,
}

impl Order {
    fn of(connections: &[(NodeIndex, NodeIndex)], start: NodeIndex) -> Self {
        let mut outbound: HashMap<NodeIndex, Vec<NodeIndex>> = HashMap::new();
        for (source, target) in connections {
            outbound.entry(*source).or_default().push(*target);
        }
        let mut order = Self {
            numbers: HashMap::from([(start, 0)]),
            parents: vec![0],
            edges: Vec::new(),
        };
        let mut found = vec![start];
        let mut seen = HashSet::new();
        let mut source = 0;
        while let Some(activity) = found.get(source).copied() {
            for target in outbound.get(&activity).into_iter().flatten() {
                let next = found.len();
                let number = *order.numbers.entry(*target).or_insert(next);
                if number == next {
                    found.push(*target);
                    order.parents.push(source);
                }
                if seen.insert((source, number)) {
                    order.edges.push((source, number));
                }
            }
            source += 1;
        }
        order
    }

    fn number(&self, activity: NodeIndex) -> Option<usize> {
        self.numbers.get(&activity).copied()
    }

    /// The edges that lead forward.
    fn forward(&self) -> Vec<Edge> {
        let tree = Tree::of(&self.parents);
        // An edge to what its source was found through leads back.
        let open: Vec<Edge> = self
            .edges
            .iter()
            .copied()
            .filter(|(u, v)| !tree.is_above(*v, *u))
            .collect();
        let lists = Lists::of(self.parents.len(), open.iter().copied());
        let loops = loops(&lists, self.parents.len());
        let mut search = Search::new(self.parents.len());
        open.into_iter().filter(|edge| search.takes(*edge, &loops)).collect()
    }
}

/// Which numbers are below which ones.
struct Tree {
    entered: Vec<usize>,
    sizes: Vec<usize>,
}

impl Tree {
    /// Builds the tree from the parent of each number, which is a smaller number.
    fn of(parents: &[usize]) -> Self {
        let mut sizes = vec![1; parents.len()];
        for (number, parent) in parents.iter().enumerate().skip(1).rev() {
            let size = at::<usize>(&sizes, number) + at::<usize>(&sizes, *parent);
            set(&mut sizes, *parent, size);
        }
        let mut entered = vec![0; parents.len()];
        // Where the next child of each begins.
        let mut next = vec![1; parents.len()];
        for (number, parent) in parents.iter().enumerate().skip(1) {
            let begins = at(&next, *parent);
            set(&mut entered, number, begins);
            set(&mut next, number, begins + 1);
            set(&mut next, *parent, begins + at(&sizes, number));
        }
        Self { entered, sizes }
    }

    /// Whether one number equals another one or is above it.
    fn is_above(&self, one: usize, other: usize) -> bool {
        let begins: usize = at(&self.entered, one);
        (begins..begins + at::<usize>(&self.sizes, one)).contains(&at(&self.entered, other))
    }
}

/// For each number, the loops that it is in: two have the same one if each leads to the other (Tarjan, without recursion).
fn loops(lists: &Lists, count: usize) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let (mut index, mut low, mut found) = (vec![NONE; count], vec![0; count], vec![NONE; count]);
    let mut is_open = vec![false; count];
    let (mut next, mut component) = (0, 0);
    let mut open = Vec::new();
    for root in 0..count {
        if at(&index, root) != NONE {
            continue;
        }
        // Each number, with how many of its edges were taken.
        let mut path = vec![(root, 0)];
        while let Some((number, taken)) = path.pop() {
            if taken == 0 {
                set(&mut index, number, next);
                set(&mut low, number, next);
                next += 1;
                open.push(number);
                set(&mut is_open, number, true);
            }
            if let Some(target) = lists.get(number).get(taken).copied() {
                path.push((number, taken + 1));
                if at(&index, target) == NONE {
                    path.push((target, 0));
                } else if at(&is_open, target) {
                    let lowest = at::<usize>(&low, number).min(at(&index, target));
                    set(&mut low, number, lowest);
                }
                continue;
            }
            if at::<usize>(&low, number) == at(&index, number) {
                while let Some(member) = open.pop() {
                    set(&mut is_open, member, false);
                    set(&mut found, member, component);
                    if member == number {
                        break;
                    }
                }
                component += 1;
            }
            if let Some((parent, _)) = path.last() {
                let lowest = at::<usize>(&low, *parent).min(at(&low, number));
                set(&mut low, *parent, lowest);
            }
        }
    }
    found
}

/// Decides edge after edge whether one closes a cycle with those that were taken before.
struct Search {
    /// The edges taken so far that are inside loops.
    taken: Lists,
    /// The search in which each number was seen last.
    seen: Vec<usize>,
    count: usize,
    steps: usize,
}

impl Search {
    fn new(count: usize) -> Self {
        Self {
            taken: Lists::of(count, std::iter::empty()),
            seen: vec![0; count],
            count: 0,
            steps: 0,
        }
    }

    fn takes(&mut self, (source, target): Edge, loops: &[usize]) -> bool {
        if at::<usize>(loops, source) != at(loops, target) {
            return true;
        }
        if target <= source && self.leads(target, source) {
            return false;
        }
        self.taken.push((source, target));
        true
    }

    fn leads(&mut self, from: usize, to: usize) -> bool {
        self.count += 1;
        let mut pending = vec![from];
        while let Some(number) = pending.pop() {
            if number == to {
                return true;
            }
            for next in self.taken.get(number) {
                self.steps += 1;
                if self.steps > MOST_STEPS {
                    return true;
                }
                if at::<usize>(&self.seen, *next) != self.count {
                    set(&mut self.seen, *next, self.count);
                    pending.push(*next);
                }
            }
        }
        false
    }
}

/// The tree of the activities through which every path of forward connections to an activity leads.
struct Dominators {
    depths: Vec<usize>,
    /// The innermost dominator of each number.
    above: Vec<usize>,
    /// One further up, by which the way to any of them takes a logarithmic number of steps.
    jumps: Vec<usize>,
}

impl Dominators {
    /// Builds the tree from the forward edges, which close no cycle; 0 is the start, which leads to all numbers.
    fn of(count: usize, forward: &[Edge]) -> Self {
        let outbound = Lists::of(count, forward.iter().copied());
        let inbound = Lists::of(count, forward.iter().map(|(source, target)| (*target, *source)));
        let mut tree = Self {
            depths: vec![0; count],
            above: vec![0; count],
            jumps: vec![0; count],
        };
        let mut missing: Vec<usize> = inbound.0.iter().map(Vec::len).collect();
        let mut ready = vec![0];
        while let Some(number) = ready.pop() {
            let innermost = inbound.get(number).iter().copied();
            if let Some(above) = innermost.reduce(|one, other| tree.common(one, other)) {
                tree.add(number, above);
            }
            for next in outbound.get(number) {
                let left = at::<usize>(&missing, *next).saturating_sub(1);
                set(&mut missing, *next, left);
                if left == 0 {
                    ready.push(*next);
                }
            }
        }
        tree
    }

    fn add(&mut self, number: usize, above: usize) {
        let depth = at::<usize>(&self.depths, above);
        let jump: usize = at(&self.jumps, above);
        let over: usize = at(&self.jumps, jump);
        let depth_of = |number: usize| at::<usize>(&self.depths, number);
        let jump = if depth - depth_of(jump) == depth_of(jump) - depth_of(over) {
            over
        } else {
            above
        };
        set(&mut self.depths, number, depth + 1);
        set(&mut self.above, number, above);
        set(&mut self.jumps, number, jump);
    }

    /// The one at this depth above a number that is at least as deep.
    fn lift(&self, mut number: usize, depth: usize) -> usize {
        while at::<usize>(&self.depths, number) > depth {
            let jump = at(&self.jumps, number);
            number = if at::<usize>(&self.depths, jump) >= depth {
                jump
            } else {
                at(&self.above, number)
            };
        }
        number
    }

    /// The innermost one that dominates both.
    fn common(&self, one: usize, other: usize) -> usize {
        let depth = at::<usize>(&self.depths, one).min(at(&self.depths, other));
        let (mut one, mut other) = (self.lift(one, depth), self.lift(other, depth));
        while one != other {
            let jumps: (usize, usize) = (at(&self.jumps, one), at(&self.jumps, other));
            (one, other) = if jumps.0 == jumps.1 {
                (at(&self.above, one), at(&self.above, other))
            } else {
                jumps
            };
        }
        one
    }

    fn dominates(&self, one: usize, other: usize) -> bool {
        let depth: usize = at(&self.depths, one);
        at::<usize>(&self.depths, other) >= depth && self.lift(other, depth) == one
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;

    /// The directions by their definition, with a search at each connection.
    fn searched(connections: &[(NodeIndex, NodeIndex)], start: NodeIndex) -> Vec<Direction> {
        let mut forward: Vec<(NodeIndex, NodeIndex)> = Vec::new();
        let reachable = |forward: &[(NodeIndex, NodeIndex)], from: NodeIndex, without: Option<NodeIndex>| {
            let mut seen = HashSet::new();
            let mut pending: Vec<NodeIndex> = Some(from).filter(|from| Some(*from) != without).into_iter().collect();
            while let Some(current) = pending.pop() {
                if seen.insert(current) {
                    let next = forward.iter().filter(|(source, _)| *source == current);
                    pending.extend(
                        next.map(|(_, target)| *target)
                            .filter(|target| Some(*target) != without),
                    );
                }
            }
            seen
        };
        let (mut seen, mut pending) = (HashSet::from([start]), VecDeque::from([start]));
        while let Some(current) = pending.pop_front() {
            for (source, target) in connections.iter().filter(|(source, _)| *source == current) {
                if forward.contains(&(*source, *target)) || reachable(&forward, *target, None).contains(source) {
                    continue;
                }
                forward.push((*source, *target));
                if seen.insert(*target) {
                    pending.push_back(*target);
                }
            }
        }
        let direction = |(source, target): &(NodeIndex, NodeIndex)| {
            if forward.contains(&(*source, *target)) {
                Direction::Forward
            } else if !seen.contains(source) {
                Direction::Unreachable
            } else if reachable(&forward, start, Some(*target)).contains(source) {
                Direction::InvalidBack
            } else {
                Direction::Back
            }
        };
        connections.iter().map(direction).collect()
    }

    fn graph(edges: &[(usize, usize)]) -> Vec<(NodeIndex, NodeIndex)> {
        edges.iter().map(|(a, b)| (NodeIndex(*a), NodeIndex(*b))).collect()
    }

    fn from_first(edges: &[(usize, usize)]) -> Vec<Direction> {
        directions(&graph(edges), NodeIndex(0))
    }

    #[test]
    fn a_loop_with_one_entrance_is_valid() {
        use Direction::{Back, Forward};
        assert_eq!(from_first(&[(0, 1), (1, 2), (2, 1)]), [Forward, Forward, Back]);
        assert_eq!(from_first(&[(0, 0)]), [Back]);
    }

    #[test]
    fn a_loop_with_two_entrances_is_not() {
        use Direction::{Forward, InvalidBack};
        assert_eq!(
            from_first(&[(0, 1), (0, 2), (1, 2), (2, 1)]),
            [Forward, Forward, Forward, InvalidBack]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn directions_are_those_of_a_search_at_each_connection(
            edges in (2usize..14).prop_flat_map(|count| prop::collection::vec((0..count, 0..count), 0..3 * count)),
            start in 0usize..3,
        ) {
            let connections = graph(&edges);
            let start = NodeIndex(start);
            prop_assert_eq!(directions(&connections, start), searched(&connections, start), "{:?}", edges);
        }
    }

    #[test]
    fn a_long_way_takes_no_recursion() {
        let count = 60_000;
        let chain = (1..count).map(|n| (n - 1, n));
        let back = (1..count).map(|n| (n, n / 2));
        let edges: Vec<(usize, usize)> = chain.chain(back).collect();
        let began = Instant::now();
        let found = from_first(&edges);
        assert!(
            found
                .iter()
                .take(count - 1)
                .all(|direction| *direction == Direction::Forward)
        );
        assert!(
            found
                .iter()
                .skip(count - 1)
                .all(|direction| *direction == Direction::Back)
        );
        println!(
            "{count} activities and {} connections in {:?}",
            edges.len(),
            began.elapsed()
        );
    }
}
