//! The routes of published endpoints, as a node knows them, complete up to a revision of the definitions.
//!
//! # Invariants
//!
//! - Before a lookup everything is read that a notification or a check-in has shown to be newer. What this node changed itself, and
//!   a start that was refused because its route has moved, has the routes read, too.
//! - A lookup that does not end at a literal template reads the database anyway, with the revision: if that is newer, the lookup
//!   is made again. So a route that was published anywhere is found, and 404 is never the answer of an old table.
//! - A route that has moved is refused by the statement that accepts the start, whatever this table says.
//!
//! Routes of bookmarks are not kept: there may be one for each waiting instance. Only parsed templates of theirs are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use mainspring_route::{Methods, Precedence, RequestPath, RouteId, RouteTable, Template};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::byte_cache::ByteCache;
use crate::db::Pool;
use crate::id::{DefinitionId, TenantId};
use crate::signal::CacheNotification;
use crate::store::route::{self, PublishedRoute};
use crate::{Error, Result, compute};

/// The most routes of definitions that a lookup returns.
const MOST_CANDIDATES: usize = 64;

/// In bytes: the parsed templates of bookmarks.
const TEMPLATES: usize = 16 << 20;

/// The bytes of a parsed template beside its text and its regular expressions: some for each segment.
const OVERHEAD: usize = 1_024;

/// So many routes are parsed in a turn of their own.
const MANY: usize = 100;

/// A route of a published definition that a request matches.
#[derive(Clone, Debug)]
pub(crate) struct MatchedRoute {
    pub(crate) precedence: Precedence,
    /// It has no parameter: no other template goes before it.
    pub(crate) is_literal: bool,
    pub(crate) route: Arc<PublishedRoute>,
    pub(crate) values: Map<String, Value>,
}

/// The routes of published definitions for a request.
#[derive(Debug, Default)]
pub(crate) struct MatchedRoutes {
    /// Those of a better precedence before others.
    pub(crate) routes: Vec<MatchedRoute>,
    /// The other methods of routes of the path, in upper case.
    pub(crate) methods: BTreeSet<String>,
    /// What the table is complete up to.
    pub(crate) revision: i64,
}

/// The routes of an incarnation, of one tenant.
pub(crate) struct RouteCache {
    state: RwLock<State>,
    /// The newest revision that was heard of.
    known: AtomicI64,
    /// Grows when the routes are to be read without a newer revision.
    expired: AtomicU64,
    /// One read at a time.
    reading: Semaphore,
    /// Of bookmarks. `None`: another build has made it, and this one cannot read it.
    templates: Mutex<ByteCache<String, Option<Arc<Template>>>>,
}

#[derive(Default)]
struct State {
    table: RouteTable<Arc<PublishedRoute>>,
    by_definition: HashMap<DefinitionId, Vec<RouteId>>,
    /// The table has all routes that were published up to it.
    revision: i64,
    /// [`RouteCache::expired`] before the last read.
    expired: u64,
}

impl Default for RouteCache {
    fn default() -> Self {
        Self {
            state: RwLock::default(),
            known: AtomicI64::new(0),
            // Nothing has been read.
            expired: AtomicU64::new(1),
            reading: Semaphore::new(1),
            templates: Mutex::new(ByteCache::new("route templates", TEMPLATES)),
        }
    }
}

/// The values of parameters, as a workflow sees them.
pub(crate) fn values_of(template: &Template, path: &RequestPath<'_>) -> Map<String, Value> {
    let values = template.values(path);
    let pairs = values.iter().map(|(name, value)| (name.to_owned(), value.into()));
    pairs.collect()
}

impl RouteCache {
    /// Follows a notification.
    pub(crate) fn invalidate(&self, notification: &CacheNotification) {
        match notification {
            CacheNotification::Changed(change) => match change.revision {
                Some(revision) => self.verify(revision),
                None => self.expire(),
            },
            CacheNotification::Invalidate => self.expire(),
        }
    }

    /// The definitions have this revision.
    pub(crate) fn verify(&self, revision: i64) {
        self.known.fetch_max(revision, SeqCst);
    }

    /// The next lookup reads what has changed.
    pub(crate) fn expire(&self) {
        self.expired.fetch_add(1, SeqCst);
    }

    fn is_current(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.expired == self.expired.load(SeqCst) && state.revision >= self.known.load(SeqCst)
    }

    /// Reads what has changed, unless nothing is known to have. Cancellation safe.
    pub(crate) async fn refresh(&self, pool: &Pool, tenant: &TenantId) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        let permit = self.reading.acquire().await;
        let _permit = permit.map_err(|_| Error::internal("the routes cannot be read"))?;
        if self.is_current() {
            return Ok(());
        }
        let expired = self.expired.load(SeqCst);
        let after = self.state(|state| state.revision);
        let read = route::read(pool, tenant, after).await?;
        let routes = read.routes;
        let parsed = compute::run(routes.len() > MANY, move || parsed(routes)).await?;
        for (definition, routes) in parsed {
            self.state(|state| state.replace(&definition, routes));
        }
        if self.state(|state| state.table.len()) != read.total {
            // A definition that was retracted has no new routes.
            let left = route::list(pool, tenant).await?;
            let is_left = |route: &PublishedRoute| left.contains(&(route.definition_id.clone(), route.hash));
            for definition in self.state(|state| state.gone(is_left)) {
                self.state(|state| state.retain(&definition, is_left));
            }
        }
        self.state(|state| {
            state.revision = state.revision.max(read.revision);
            state.expired = expired;
        });
        Ok(())
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The routes for a request. With a literal template there is no other one, unless the caller wants `all`.
    pub(crate) fn lookup(&self, path: &RequestPath<'_>, method: &str, all: bool) -> MatchedRoutes {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut matched = Vec::new();
        let methods = state.table.visit(path, method, |routes| {
            for route in routes.drain(..) {
                let template = route.template();
                matched.push(MatchedRoute {
                    precedence: template.precedence(),
                    is_literal: template.is_literal(),
                    route: Arc::clone(route.value()),
                    values: values_of(template, path),
                });
            }
            let ends = !all && matched.first().is_some_and(|first| first.is_literal);
            ends || matched.len() >= MOST_CANDIDATES
        });
        MatchedRoutes {
            methods: methods.into_iter().map(str::to_owned).collect(),
            routes: matched,
            revision: state.revision,
        }
    }

    /// The template of a bookmark; `None` if this build cannot read it.
    pub(crate) fn template(&self, text: &str) -> Option<Arc<Template>> {
        let kept = |cache: &mut ByteCache<String, Option<Arc<Template>>>| cache.get(&text.to_owned()).cloned();
        if let Some(known) = kept(&mut self.templates.lock().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let template = Template::parse(text).ok().map(Arc::new);
        let patterns = template.as_ref().map_or(0, |template| template.pattern_bytes());
        let bytes = OVERHEAD + 2 * text.len() + patterns;
        let mut templates = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        templates.insert(text.to_owned(), template.clone(), bytes);
        template
    }
}

/// The most tenants whose routes a node keeps; when there are more, all are read again.
const MOST_TENANTS: usize = 1_000;

/// The routes of an incarnation, by tenant.
#[derive(Default)]
pub(crate) struct RouteCaches(RwLock<HashMap<TenantId, Arc<RouteCache>>>);

impl RouteCaches {
    /// Those of one tenant, which may not be read yet.
    pub(crate) fn of(&self, tenant: &TenantId) -> Arc<RouteCache> {
        let known = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(tenant)
            .cloned();
        known.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= MOST_TENANTS {
                all.clear();
            }
            Arc::clone(all.entry(tenant.clone()).or_default())
        })
    }

    /// Follows a notification.
    pub(crate) fn invalidate(&self, notification: &CacheNotification) {
        self.each(|routes| routes.invalidate(notification));
    }

    /// The definitions have this revision.
    pub(crate) fn verify(&self, revision: i64) {
        self.each(|routes| routes.verify(revision));
    }

    /// The next lookup reads what has changed.
    pub(crate) fn expire(&self) {
        self.each(RouteCache::expire);
    }

    fn each(&self, with: impl Fn(&RouteCache)) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.values().for_each(|routes| with(routes));
    }
}

type Parsed = Vec<(Template, Methods, PublishedRoute)>;

/// The routes by their definitions, without those that this build cannot read: another build has published them.
fn parsed(routes: Vec<PublishedRoute>) -> BTreeMap<DefinitionId, Parsed> {
    let mut by_definition: BTreeMap<DefinitionId, Parsed> = BTreeMap::new();
    for route in routes {
        let text = |name: &str| route.options.get(name).and_then(Value::as_str).unwrap_or_default();
        let template = Template::parse(text("path")).map_err(|error| error.to_string());
        let methods = Methods::of([text("method")]).map_err(|error| error.to_string());
        let definition = by_definition.entry(route.definition_id.clone()).or_default();
        match (template, methods) {
            (Ok(template), Ok(methods)) => definition.push((template, methods, route)),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(
                workflow = route.definition_id.as_str(),
                activity = route.activity_id.as_str(),
                error,
                "this node cannot read the route of a published endpoint; another build has published it, and only nodes of that \
                 build answer its requests"
            ),
        }
    }
    by_definition
}

impl State {
    fn replace(&mut self, definition: &DefinitionId, routes: Parsed) {
        for id in self.by_definition.remove(definition).unwrap_or_default() {
            self.table.remove(id);
        }
        let mut ids = Vec::with_capacity(routes.len());
        for (template, methods, route) in routes {
            ids.push(self.table.insert(template, methods, Arc::new(route)));
        }
        if !ids.is_empty() {
            self.by_definition.insert(definition.clone(), ids);
        }
    }

    /// The definitions that have other routes than those that are left.
    fn gone(&self, is_left: impl Fn(&PublishedRoute) -> bool) -> Vec<DefinitionId> {
        let routes = self.table.iter().map(|route| route.value());
        let gone = routes.filter(|route| !is_left(route));
        let definitions: BTreeSet<&DefinitionId> = gone.map(|route| &route.definition_id).collect();
        definitions.into_iter().cloned().collect()
    }

    fn retain(&mut self, definition: &DefinitionId, is_left: impl Fn(&PublishedRoute) -> bool) {
        let Some(ids) = self.by_definition.get_mut(definition) else {
            return;
        };
        let table = &mut self.table;
        ids.retain(|id| {
            let stays = table.get(*id).is_some_and(|route| is_left(route.value()));
            if !stays {
                table.remove(*id);
            }
            stays
        });
        if ids.is_empty() {
            self.by_definition.remove(definition);
        }
    }
}
