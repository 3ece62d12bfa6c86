//! The routes of a node, and the best ones for a request.

use std::collections::BTreeSet;
use std::fmt;

use crate::node::{Ending, Node, Search};
use crate::path::RequestPath;
use crate::template::Template;

/// The most methods of a route, and the longest one in bytes.
const MOST_METHODS: usize = 16;
const LONGEST_METHOD: usize = 32;

/// The methods of a route: some, or any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Methods(Box<[Box<str>]>);

/// A text is no method, or there are more than 16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodError(String);

impl fmt::Display for MethodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MethodError {}

impl Methods {
    /// Any method. A route with methods of its own goes before one of the same precedence without.
    pub fn any() -> Self {
        Self::default()
    }

    /// These methods, whatever their case is. None is any method.
    pub fn of<'m>(methods: impl IntoIterator<Item = &'m str>) -> Result<Self, MethodError> {
        let mut all = BTreeSet::new();
        for method in methods {
            let is_method = (1..=LONGEST_METHOD).contains(&method.len()) && method.bytes().all(is_token);
            if !is_method {
                let shown: String = method.chars().take(LONGEST_METHOD).collect();
                return Err(MethodError(format!("{shown:?} is no HTTP method; write GET or POST")));
            }
            all.insert(method.to_ascii_uppercase().into_boxed_str());
            if all.len() > MOST_METHODS {
                return Err(MethodError(format!(
                    "a route has at most {MOST_METHODS} methods; leave them out for any"
                )));
            }
        }
        Ok(Self(all.into_iter().collect()))
    }

    /// Whether it is any method.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// The methods in upper case, in the order of the alphabet; none if it is any.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|method| &**method)
    }

    fn has(&self, method: &str) -> bool {
        self.is_any() || self.0.iter().any(|known| known.eq_ignore_ascii_case(method))
    }
}

/// A character of a token of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The id of a route in its table. That of a route that was removed is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId {
    slot: usize,
    number: u64,
}

/// A template with its methods and what it leads to.
#[derive(Clone, Debug)]
pub struct Route<T> {
    id: RouteId,
    template: Template,
    methods: Methods,
    value: T,
}

impl<T> Route<T> {
    /// Its id in the table.
    pub fn id(&self) -> RouteId {
        self.id
    }

    /// Its template, which has the values of a path: [`Template::values`].
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Its methods.
    pub fn methods(&self) -> &Methods {
        &self.methods
    }

    /// What it leads to.
    pub fn value(&self) -> &T {
        &self.value
    }
}

/// What a table has for a request.
#[derive(Clone, Debug)]
pub enum Lookup<'t, T> {
    /// The routes of the best precedence, the oldest one first. Several are ambiguous, unless the caller can distinguish them.
    Found(Vec<&'t Route<T>>),
    /// The path is known, with these other methods: 405, and the methods are those of its `Allow`.
    OtherMethods(BTreeSet<&'t str>),
    /// No route matches: 404.
    NotFound,
}

/// Routes, found by path and method.
///
/// A lookup lists each route that it finds. A caller with many values for one template and method keeps them in one route.
#[derive(Debug)]
pub struct RouteTable<T> {
    root: Node,
    slots: Vec<Option<Route<T>>>,
    free: Vec<usize>,
    next: u64,
}

impl<T> Default for RouteTable<T> {
    fn default() -> Self {
        Self {
            root: Node::default(),
            slots: Vec::new(),
            free: Vec::new(),
            next: 0,
        }
    }
}

impl<T> RouteTable<T> {
    /// A table without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether it has no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is left of routes that were removed.
    #[cfg(test)]
    pub(crate) fn has_no_nodes(&self) -> bool {
        self.root.is_empty()
    }

    /// A route by its id.
    pub fn get(&self, id: RouteId) -> Option<&Route<T>> {
        self.at(id.slot).filter(|route| route.id == id)
    }

    /// All routes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Route<T>> {
        self.slots.iter().flatten()
    }

    fn at(&self, slot: usize) -> Option<&Route<T>> {
        self.slots.get(slot)?.as_ref()
    }

    /// Inserts a route, whatever routes there are: a lookup finds all that a path matches.
    pub fn insert(&mut self, template: Template, methods: Methods, value: T) -> RouteId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let id = RouteId {
            slot,
            number: self.next,
        };
        self.next += 1;
        self.root.insert(&template, slot);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(Route {
                id,
                template,
                methods,
                value,
            });
        }
        id
    }

    /// Removes a route.
    pub fn remove(&mut self, id: RouteId) -> Option<T> {
        self.get(id)?;
        let route = self.slots.get_mut(id.slot)?.take()?;
        self.free.push(id.slot);
        self.root.remove(&route.template, id.slot);
        Some(route.value)
    }

    /// Gives the routes for a request to `accept`, those of one precedence together, the best precedence first, until it
    /// returns true. Returns the other methods of the routes that the path matches, as far as these were seen.
    pub fn visit<'t>(
        &'t self,
        path: &RequestPath<'_>,
        method: &str,
        mut accept: impl FnMut(&mut Vec<&'t Route<T>>) -> bool,
    ) -> BTreeSet<&'t str> {
        let mut found: Vec<&Route<T>> = Vec::new();
        let mut others: BTreeSet<&str> = BTreeSet::new();
        Search::new(path).run(&self.root, &mut |endings: &[Ending]| {
            found.clear();
            for route in endings.iter().filter_map(|ending| self.at(ending.slot)) {
                if route.methods.has(method) {
                    found.push(route);
                } else {
                    others.extend(route.methods.iter());
                }
            }
            if found.iter().any(|route| !route.methods.is_any()) {
                found.retain(|route| !route.methods.is_any());
            }
            if found.len() > 1 {
                found.sort_unstable_by_key(|route| route.id.number);
            }
            !found.is_empty() && accept(&mut found)
        });
        others
    }

    /// The best routes for a request.
    ///
    /// A route of a worse precedence is found if those of better ones have other methods, as in ASP.NET Core.
    pub fn lookup<'t>(&'t self, path: &RequestPath<'_>, method: &str) -> Lookup<'t, T> {
        let mut found: Vec<&Route<T>> = Vec::new();
        let others = self.visit(path, method, |routes| {
            found.append(routes);
            true
        });
        match (found.is_empty(), others.is_empty()) {
            (false, _) => Lookup::Found(found),
            (true, false) => Lookup::OtherMethods(others),
            (true, true) => Lookup::NotFound,
        }
    }
}
