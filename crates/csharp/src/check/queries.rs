//! Queries of LINQ that are stored, and read when their list has changed.
//!
//! .NET computes a query each time it is read; here it is computed where it is written. Where the list of a stored query is
//! changed by a statement of the same block, and the query is read behind it, the two differ: that is refused.

use std::collections::HashMap;

use super::Checker;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Expr, Kind, Statement, StatementKind};
use crate::types::{ListKind, Ty};

/// The methods whose results .NET computes when they are read.
const DEFERRED: &[&str] = &[
    "Where",
    "Select",
    "SelectMany",
    "OrderBy",
    "OrderByDescending",
    "ThenBy",
    "ThenByDescending",
    "Order",
    "OrderDescending",
    "Distinct",
    "DistinctBy",
    "Take",
    "Skip",
    "TakeWhile",
    "SkipWhile",
    "TakeLast",
    "SkipLast",
    "Concat",
    "Union",
    "Intersect",
    "Except",
    "Zip",
    "Append",
    "Prepend",
    "DefaultIfEmpty",
    "Cast",
    "OfType",
    "AsEnumerable",
    "GroupBy",
    "Chunk",
];

/// The methods that change a list or a set.
const CHANGING: &[&str] = &[
    "Add",
    "AddRange",
    "Insert",
    "Remove",
    "RemoveAt",
    "RemoveAll",
    "RemoveRange",
    "RemoveWhere",
    "Clear",
    "Sort",
    "UnionWith",
    "IntersectWith",
    "ExceptWith",
    "SymmetricExceptWith",
];

/// The stored queries, by the slots of their variables.
#[derive(Debug, Default)]
pub(super) struct Queries {
    stored: HashMap<usize, Query>,
}

#[derive(Debug)]
struct Query {
    /// The slot of its list.
    list: usize,
    /// The number of scopes around it: a change in one that it may not reach says nothing.
    scopes: usize,
    is_outdated: bool,
}

impl Checker<'_> {
    /// Notes the query that a statement of a block stores, and the list that it changes.
    pub(super) fn note_queries(&mut self, statement: &Statement) {
        let scopes = self.scopes.len();
        let mut changed = Vec::new();
        match &statement.kind {
            StatementKind::Declare(list) => {
                for (place, value) in list {
                    let Some(value) = value else { continue };
                    changed.extend(changed_list(value));
                    if let Some(list) = self.list_of(value) {
                        let query = Query {
                            list,
                            scopes,
                            is_outdated: false,
                        };
                        self.queries.stored.insert(place.slot, query);
                    }
                }
            }
            StatementKind::Expression(value) => changed.extend(changed_list(value)),
            _ => {}
        }
        for query in self.queries.stored.values_mut() {
            query.is_outdated |= query.scopes == scopes && changed.contains(&query.list);
        }
    }

    /// A name is assigned to.
    pub(super) fn assigned(&mut self, target: &Expr) {
        if let Kind::Name(name) = &target.kind
            && let Some(slot) = self.local(name)
        {
            // It is another query or none, or another list.
            self.queries
                .stored
                .retain(|query, of| *query != slot && of.list != slot);
        }
    }

    /// Refuses to read a query whose list has changed.
    pub(super) fn read_query(&self, slot: usize, name: &str, at: Position) -> Checked<()> {
        if !self.queries.stored.get(&slot).is_some_and(|query| query.is_outdated) {
            return Ok(());
        }
        let message = format!(
            "the list of the query {name} has changed since: C# computes {name} again here, and this computes it where it is \
             written; write the query behind the change, or ToList() at its end for the items from before it"
        );
        Err(Problem::new(at, message))
    }

    /// The slot of the list over which an expression is a query.
    fn list_of(&self, value: &Expr) -> Option<usize> {
        let Kind::Call(call) = &value.kind else {
            return None;
        };
        if !DEFERRED.contains(&&*call.name) {
            return None;
        }
        match &call.target.kind {
            Kind::Local(slot) => {
                let kinds = [ListKind::List, ListKind::Set, ListKind::Array];
                let is_list = matches!(self.slots.get(*slot), Some(Ty::List(kind, _)) if kinds.contains(kind));
                is_list.then_some(*slot)
            }
            _ => self.list_of(&call.target),
        }
    }
}

/// The slot of the list that an expression changes: `list.Add(1)`, `list[0] = 1`.
fn changed_list(value: &Expr) -> Option<usize> {
    let list = match &value.kind {
        Kind::Call(call) if CHANGING.contains(&&*call.name) => &call.target,
        Kind::Assign(_, target, _) => match &target.kind {
            Kind::Index(list, _) => list,
            _ => return None,
        },
        _ => return None,
    };
    match &list.kind {
        Kind::Local(slot) => Some(*slot),
        _ => None,
    }
}
