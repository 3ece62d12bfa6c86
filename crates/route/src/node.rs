//! The tree of a table: a node for each segment that templates share, below the node of the segment before it.

use std::collections::HashMap;

use crate::path::RequestPath;
use crate::precedence::Precedence;
use crate::segment::Segment;
use crate::template::Template;

#[derive(Debug, Default)]
pub(crate) struct Node {
    /// By their folded text.
    literals: HashMap<Box<str>, Node>,
    /// Parameters with constraints and segments of several parts.
    constrained: Vec<Branch>,
    parameter: Option<Box<Node>>,
    /// Catch-alls, those with constraints first.
    tails: Vec<Tail>,
    /// Routes of which a path may end here, the best precedence first.
    endings: Vec<Ending>,
}

#[derive(Debug)]
struct Branch {
    /// See [`Segment::push_key`].
    key: String,
    segment: Segment,
    node: Node,
}

#[derive(Debug)]
struct Tail {
    key: String,
    segment: Segment,
    slots: Vec<usize>,
}

/// A route that a path matches, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ending {
    pub(crate) precedence: Precedence,
    pub(crate) slot: usize,
}

fn key_of(segment: &Segment) -> String {
    let mut key = String::new();
    segment.push_key(&mut key);
    key
}

impl Node {
    pub(crate) fn is_empty(&self) -> bool {
        self.literals.is_empty()
            && self.constrained.is_empty()
            && self.parameter.is_none()
            && self.tails.is_empty()
            && self.endings.is_empty()
    }

    pub(crate) fn insert(&mut self, template: &Template, slot: usize) {
        self.insert_from(template, 0, slot);
    }

    fn insert_from(&mut self, template: &Template, at: usize, slot: usize) {
        if at >= template.required() {
            let ending = Ending {
                precedence: template.precedence(),
                slot,
            };
            let place = self
                .endings
                .partition_point(|known| known.precedence <= ending.precedence);
            self.endings.insert(place, ending);
        }
        let Some(segment) = template.segments().get(at) else {
            return;
        };
        let child = match segment {
            Segment::Literal(literal) => self.literals.entry(literal.clone()).or_default(),
            Segment::CatchAll(_) => {
                let key = key_of(segment);
                if let Some(tail) = self.tails.iter_mut().find(|tail| tail.key == key) {
                    tail.slots.push(slot);
                    return;
                }
                let tail = Tail {
                    key,
                    segment: segment.clone(),
                    slots: vec![slot],
                };
                let place = self
                    .tails
                    .partition_point(|known| known.segment.digit() <= segment.digit());
                self.tails.insert(place, tail);
                return;
            }
            Segment::Parameter(parameter) if parameter.constraints.is_empty() => self.parameter.get_or_insert_default(),
            Segment::Parameter(_) | Segment::Complex(_) => {
                let key = key_of(segment);
                let place = match self.constrained.iter().position(|branch| branch.key == key) {
                    Some(place) => place,
                    None => {
                        self.constrained.push(Branch {
                            key,
                            segment: segment.clone(),
                            node: Node::default(),
                        });
                        self.constrained.len() - 1
                    }
                };
                let Some(branch) = self.constrained.get_mut(place) else {
                    return;
                };
                &mut branch.node
            }
        };
        child.insert_from(template, at + 1, slot);
    }

    pub(crate) fn remove(&mut self, template: &Template, slot: usize) {
        self.remove_from(template, 0, slot);
    }

    fn remove_from(&mut self, template: &Template, at: usize, slot: usize) {
        if at >= template.required() {
            self.endings.retain(|known| known.slot != slot);
        }
        let Some(segment) = template.segments().get(at) else {
            return;
        };
        match segment {
            Segment::Literal(literal) => {
                if let Some(child) = self.literals.get_mut(literal) {
                    child.remove_from(template, at + 1, slot);
                    if child.is_empty() {
                        self.literals.remove(literal);
                    }
                }
            }
            Segment::CatchAll(_) => {
                let key = key_of(segment);
                for tail in self.tails.iter_mut().filter(|tail| tail.key == key) {
                    tail.slots.retain(|known| *known != slot);
                }
                self.tails.retain(|tail| !tail.slots.is_empty());
            }
            Segment::Parameter(parameter) if parameter.constraints.is_empty() => {
                if let Some(child) = &mut self.parameter {
                    child.remove_from(template, at + 1, slot);
                }
                self.parameter.take_if(|child| child.is_empty());
            }
            Segment::Parameter(_) | Segment::Complex(_) => {
                let key = key_of(segment);
                for branch in self.constrained.iter_mut().filter(|branch| branch.key == key) {
                    branch.node.remove_from(template, at + 1, slot);
                }
                self.constrained.retain(|branch| !branch.node.is_empty());
            }
        }
    }
}

/// A search of the tree for the routes that a path matches, from the best precedence to the worst.
///
/// All nodes that the same digits lead to are searched together, so that each node of the tree is seen at most once, whatever
/// the path is.
pub(crate) struct Search<'t, 'p> {
    path: &'p RequestPath<'p>,
    /// The nodes of all levels above the current one, and of this one.
    nodes: Vec<&'t Node>,
    /// The routes of one precedence.
    found: Vec<Ending>,
}

impl<'t, 'p> Search<'t, 'p> {
    pub(crate) fn new(path: &'p RequestPath<'p>) -> Self {
        Self {
            path,
            nodes: Vec::with_capacity(16),
            found: Vec::new(),
        }
    }

    /// Gives routes to `accept`, those of a better precedence before others, until it accepts those of one precedence.
    pub(crate) fn run(mut self, root: &'t Node, accept: &mut impl FnMut(&[Ending]) -> bool) {
        self.nodes.push(root);
        self.level(0, 0, accept);
    }

    /// Searches the nodes from `first` on, to which the segments before `at` lead. Returns whether routes were accepted.
    fn level(&mut self, first: usize, at: usize, accept: &mut impl FnMut(&[Ending]) -> bool) -> bool {
        let last = self.nodes.len();
        if at == self.path.len() {
            return self.endings(first, accept);
        }
        let segment = self.path.segment(at);
        if !segment.is_empty() {
            let steps: [fn(&mut Self, &'t Node, usize); 3] = [Self::literals, Self::constrained, Self::parameter];
            for step in steps {
                for place in first..last {
                    if let Some(node) = self.nodes.get(place).copied() {
                        step(self, node, at);
                    }
                }
                let is_accepted = self.nodes.len() > last && self.level(last, at + 1, accept);
                self.nodes.truncate(last);
                if is_accepted {
                    return true;
                }
            }
        }
        self.tails(first, at, accept)
    }

    fn literals(&mut self, node: &'t Node, at: usize) {
        self.nodes.extend(node.literals.get(self.path.folded(at)));
    }

    fn constrained(&mut self, node: &'t Node, at: usize) {
        let segment = self.path.segment(at);
        let matching = node
            .constrained
            .iter()
            .filter(|branch| branch.segment.is_match(segment));
        self.nodes.extend(matching.map(|branch| &branch.node));
    }

    fn parameter(&mut self, node: &'t Node, _at: usize) {
        self.nodes.extend(node.parameter.as_deref());
    }

    /// The catch-alls of the nodes from `first` on. Those of one digit have one precedence.
    fn tails(&mut self, first: usize, at: usize, accept: &mut impl FnMut(&[Ending]) -> bool) -> bool {
        let nodes = self.nodes.get(first..).unwrap_or_default();
        if nodes.iter().all(|node| node.tails.is_empty()) {
            return false;
        }
        let rest = self.path.rest(at);
        for digit in [4, 5] {
            self.found.clear();
            for tail in nodes.iter().flat_map(|node| &node.tails) {
                if tail.segment.digit() == digit && tail.segment.is_match(rest) {
                    let precedence = Precedence::default();
                    self.found.extend(tail.slots.iter().map(|slot| Ending {
                        precedence,
                        slot: *slot,
                    }));
                }
            }
            if !self.found.is_empty() && accept(&self.found) {
                return true;
            }
        }
        false
    }

    /// The routes that end at the nodes from `first` on.
    fn endings(&mut self, first: usize, accept: &mut impl FnMut(&[Ending]) -> bool) -> bool {
        let nodes = self.nodes.get(first..).unwrap_or_default();
        self.found.clear();
        self.found.extend(nodes.iter().flat_map(|node| &node.endings));
        // Those of one node are in order already.
        if nodes.len() > 1 {
            self.found.sort_unstable();
        }
        let mut groups = self.found.chunk_by(|left, right| left.precedence == right.precedence);
        groups.any(accept)
    }
}
