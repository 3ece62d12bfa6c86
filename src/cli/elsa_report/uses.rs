//! Which definitions of a report use which others as activities.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::activity::describe;
use crate::definition::WorkflowDefinition;
use crate::execution::{Composition, Interpreter, References, UsedVersion, UsingActivity, WorkflowReference};
use crate::id::VersionId;

/// One use of a workflow as an activity.
pub(super) struct WorkflowUse {
    reference: WorkflowReference,
    /// The activity that uses it.
    pub(super) activity: UsingActivity,
    /// The place of what it means; `None` if the report has no such definition.
    pub(super) used: Option<usize>,
}

/// The uses of all definitions.
pub(super) struct Uses {
    /// By their places.
    of: Vec<Vec<WorkflowUse>>,
    /// Those from which uses lead to one that uses itself.
    cyclic: HashSet<usize>,
}

impl Uses {
    /// Finds out what each reference means, as a publish would: the definition of that id, else of that type; there the
    /// version that is named, else the published one, else the newest.
    pub(super) fn of(interpreter: &Interpreter, definitions: &[Option<&WorkflowDefinition>]) -> Self {
        let mut ids: HashSet<&str> = HashSet::new();
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_type: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, definition) in definitions.iter().enumerate() {
            let Some(definition) = definition else { continue };
            ids.insert(definition.definition_id.as_str());
            if definition.is_usable_as_activity() {
                by_id.entry(definition.definition_id.as_str()).or_default().push(at);
                by_type.entry(describe(definition).type_name).or_default().push(at);
            }
        }
        let meant = |reference: &WorkflowReference| {
            let named = reference.definition_id.as_str();
            let candidates = if ids.contains(named) {
                by_id.get(named)
            } else {
                by_type.get(&reference.type_name)
            };
            let rank = |at: usize| {
                let definition = definitions.get(at).copied().flatten()?;
                let has_id = !reference.version_id.as_str().is_empty();
                let is_named = has_id && definition.id == reference.version_id;
                let has_number = !has_id && definition.version == reference.version;
                Some((
                    is_named,
                    has_number,
                    definition.is_published,
                    definition.is_latest,
                    definition.version,
                ))
            };
            candidates.into_iter().flatten().copied().max_by_key(|at| rank(*at))
        };
        let uses = |definition: &Option<&WorkflowDefinition>| {
            let references = definition.map(|definition| interpreter.references(definition));
            let references = references.into_iter().flatten();
            let uses = references.map(|(reference, activity)| WorkflowUse {
                used: meant(&reference),
                reference,
                activity,
            });
            uses.collect::<Vec<WorkflowUse>>()
        };
        let of: Vec<Vec<WorkflowUse>> = definitions.iter().map(uses).collect();
        let cyclic = cyclic(&of);
        Self { of, cyclic }
    }

    /// What a definition uses itself.
    pub(super) fn within(&self, at: usize) -> &[WorkflowUse] {
        self.of.get(at).map(Vec::as_slice).unwrap_or_default()
    }

    fn used(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.within(at).iter().filter_map(|one| one.used)
    }

    /// All places, each after those that it uses unless they use each other.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.of.len());
        let mut entered = HashSet::new();
        for start in 0..self.of.len() {
            let mut pending = vec![(start, false)];
            while let Some((at, is_left)) = pending.pop() {
                if is_left {
                    order.push(at);
                } else if entered.insert(at) {
                    pending.push((at, true));
                    pending.extend(self.used(at).map(|used| (used, false)));
                }
            }
        }
        order
    }

    /// The way from a definition back to itself; `None` if it does not use itself.
    pub(super) fn cycle(&self, start: usize) -> Option<Vec<usize>> {
        let mut entered_from: HashMap<usize, usize> = HashMap::new();
        let mut pending = vec![start];
        while let Some(at) = pending.pop() {
            for used in self.used(at) {
                if used == start {
                    let mut path = vec![start];
                    let mut step = Some(at);
                    while let Some(place) = step.filter(|place| *place != start) {
                        path.push(place);
                        step = entered_from.get(&place).copied();
                    }
                    path.push(start);
                    path.reverse();
                    return Some(path);
                }
                if let Entry::Vacant(entry) = entered_from.entry(used) {
                    entry.insert(at);
                    pending.push(used);
                }
            }
        }
        None
    }

    /// Whether something that it uses, on any level, uses itself.
    pub(super) fn reaches_cycle(&self, start: usize) -> bool {
        self.cyclic.contains(&start)
    }

    /// What a definition uses, through all levels.
    pub(super) fn composition(&self, at: usize, definitions: &[Option<&WorkflowDefinition>]) -> Composition {
        let mut composition = Composition {
            references: self.references(at),
            ..Composition::default()
        };
        let mut pending: Vec<usize> = self.used(at).collect();
        while let Some(place) = pending.pop() {
            let Entry::Vacant(entry) = composition.used.entry(version_of(place)) else {
                continue;
            };
            let Some(definition) = definitions.get(place).copied().flatten() else {
                continue;
            };
            entry.insert(UsedVersion {
                definition: WorkflowDefinition {
                    id: version_of(place),
                    ..definition.clone()
                },
                references: self.references(place),
            });
            pending.extend(self.used(place));
        }
        composition
    }

    fn references(&self, at: usize) -> References {
        let known = self.within(at).iter();
        known
            .filter_map(|one| Some((one.reference.clone(), version_of(one.used?))))
            .collect()
    }
}

/// Files may have no ids of versions, or the same.
fn version_of(place: usize) -> VersionId {
    VersionId::new(format!("report:{place}"))
}

/// What is left when those that use nothing that is left are taken away, again and again.
fn cyclic(of: &[Vec<WorkflowUse>]) -> HashSet<usize> {
    let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut uses: Vec<usize> = Vec::with_capacity(of.len());
    for (at, own) in of.iter().enumerate() {
        let used: HashSet<usize> = own.iter().filter_map(|one| one.used).collect();
        uses.push(used.len());
        used.into_iter()
            .for_each(|used| users.entry(used).or_default().push(at));
    }
    let mut left: HashSet<usize> = (0..of.len()).collect();
    let free = uses.iter().enumerate().filter(|(_, uses)| **uses == 0);
    let mut free: Vec<usize> = free.map(|(at, _)| at).collect();
    while let Some(at) = free.pop() {
        left.remove(&at);
        for user in users.remove(&at).into_iter().flatten() {
            let Some(uses) = uses.get_mut(user) else { continue };
            *uses -= 1;
            if *uses == 0 {
                free.push(user);
            }
        }
    }
    left
}
