//! The routes of HTTP endpoints: what a request is meant for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mainspring_route::{Precedence, RequestPath, Template};
use serde_json::{Map, Value};

use super::Engine;
use crate::activity::{ENDPOINT_METHODS, EndpointRoute, HTTP_ENDPOINT};
use crate::execution::stimulus_hash;
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId, StimulusHash};
use crate::runtime::context::route_cache::{MatchedRoute, RouteCache, values_of};
use crate::store::instance::Generation;
use crate::store::route::{self, KnownRoute, MOST_WAITING, Requested, WaitingEndpoint};
use crate::{Error, Result};

/// How often a lookup is made again because routes were published meanwhile.
const LOOKUPS: usize = 4;

/// The most candidates that an ambiguous request names.
const MOST_CANDIDATES: usize = 16;

/// The most templates with regular expressions, of bookmarks, that are tried for a request: each takes some ms at most.
const MOST_PATTERNS: usize = 64;

/// A request, as far as it decides which endpoint it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteQuery<'a> {
    /// In any case.
    pub(crate) method: &'a str,
    /// Below the base path: encoded as it was sent, with its first slash, without its query.
    pub(crate) path: &'a str,
    /// The instance that it names.
    pub(crate) instance_id: Option<&'a InstanceId>,
    /// The correlation id that it names.
    pub(crate) correlation_id: Option<&'a str>,
}

/// What a request is for.
#[derive(Debug)]
pub(crate) enum FoundRoute {
    /// One endpoint.
    Target(Box<FoundTarget>),
    /// Any of several: 409.
    Ambiguous(AmbiguousRoutes),
    /// Endpoints of the path have these other methods, in upper case: 405.
    WrongMethod { allowed: Vec<String> },
    /// No endpoint: 404.
    None,
}

impl FoundRoute {
    /// Whether it is for one endpoint, which starts an instance.
    pub(crate) fn starts(&self) -> bool {
        matches!(self, Self::Target(found) if matches!(found.target, RouteTarget::Start { .. }))
    }
}

/// The endpoint that a request is for.
#[derive(Debug)]
pub(crate) struct FoundTarget {
    pub(crate) target: RouteTarget,
    /// The values of its parameters, in its order. Those of a catch-all that matched nothing are null.
    pub(crate) values: Map<String, Value>,
    /// The options of the endpoint.
    pub(crate) options: Arc<Value>,
}

/// What a request does.
#[derive(Clone, Debug)]
pub(crate) enum RouteTarget {
    /// It starts an instance, if the definition has the route, of this publish, when the start is accepted.
    Start {
        definition_id: DefinitionId,
        activity_id: ActivityId,
        hash: StimulusHash,
        revision: i64,
    },
    /// It resumes an instance.
    Resume {
        instance_id: InstanceId,
        bookmark_id: BookmarkId,
        generation: Generation,
    },
}

/// The endpoints that an ambiguous request may be for.
#[derive(Debug)]
pub(crate) struct AmbiguousRoutes {
    pub(crate) candidates: Vec<RouteCandidate>,
    /// Of each endpoint: a client without the credential that one asks for must not learn of it.
    pub(crate) options: Vec<Arc<Value>>,
}

/// What an ambiguous request may be for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RouteCandidate {
    Definition(DefinitionId),
    Instance(InstanceId),
}

impl Engine {
    /// Finds what a request is for: the instance that it names, if that waits at its path; else, of the templates that match, in
    /// the order of their precedence, the first that leads to something. With one template a definition goes before any
    /// instance that waits there.
    ///
    /// # Errors
    /// `invalid-path`; `too-many-routes`; what a read of the database has. Cancellation safe.
    pub(crate) async fn find_route(&self, query: &RouteQuery<'_>) -> Result<FoundRoute> {
        let path = RequestPath::parse(query.path).map_err(|error| Error::invalid("invalid-path", error.to_string()))?;
        let node = self.node()?;
        let tenant = &self.tenant;
        let cache = node.caches.routes.of(tenant);
        let (pool, cache) = (node.database.reads.by_key(), &*cache);
        let method = query.method.to_ascii_lowercase();
        let names_instance = query.instance_id.is_some();
        let literal = |method: &str| Some(hash_of(&path.shape()?, method));
        let own: Vec<StimulusHash> = literal(&method).into_iter().collect();
        let mut anchors = None;
        for lookup in 1..=LOOKUPS {
            cache.refresh(pool, tenant).await?;
            let mut published = cache.lookup(&path, &method, names_instance);
            if !names_instance && published.routes.len() == 1 && published.routes.iter().all(|route| route.is_literal) {
                return Ok(published.routes.pop().map_or(FoundRoute::None, started));
            }
            let anchors = anchors.get_or_insert_with(|| {
                path.anchors()
                    .iter()
                    .map(|anchor| route::anchor_key(anchor))
                    .collect::<Vec<_>>()
            });
            let requested = Requested {
                hashes: &own,
                anchors,
                instance: query.instance_id,
                correlation_id: query.correlation_id,
            };
            let mut found = route::find(pool, tenant, &requested).await?;
            if found.revision > published.revision {
                cache.verify(found.revision);
                if lookup < LOOKUPS {
                    continue;
                }
            }
            let mut templates = MatchedTemplates::new(cache, &path);
            let (same, others): (Vec<_>, Vec<_>) = found.routes.into_iter().partition(|route| route.method == method);
            let mut own_others = Vec::new();
            // What waits at the path itself goes before any template with parameters.
            if found.waiting.is_empty() {
                if let Some(instance) = query.instance_id {
                    // All routes of the path may be more than are read; those of one instance are few.
                    let own = route::find_own(pool, tenant, instance, query.correlation_id);
                    let (waiting, has_more) = own.await?;
                    templates.is_cut = has_more;
                    (found.waiting, own_others) = waiting
                        .into_iter()
                        .partition(|waiting| text(&waiting.options, "method") == method);
                } else {
                    templates.is_cut = found.has_more_routes;
                    let hashes = templates.hashes(same);
                    if !hashes.is_empty() {
                        let requested = Requested {
                            hashes: &hashes,
                            anchors: &[],
                            ..requested
                        };
                        found.waiting = route::find(pool, tenant, &requested).await?.waiting;
                    }
                }
            }
            let mut candidates = Candidates::default();
            candidates.add_published(published.routes);
            candidates.add_waiting(&mut templates, &path, found.waiting);
            let resolved = candidates.resolve(names_instance);
            // A definition goes before instances, also before those that were not read.
            if templates.is_cut && !resolved.as_ref().is_some_and(|found| names_instance || found.starts()) {
                return Err(too_many_routes());
            }
            if let Some(found) = resolved {
                return Ok(found);
            }
            templates.is_cut |= found.has_more_routes;
            // Where the path has no endpoint with the method of the request, one with another may wait there.
            let elsewhere = ENDPOINT_METHODS.into_iter().filter(|other| *other != method);
            let hashes: Vec<StimulusHash> = elsewhere.filter_map(literal).chain(templates.hashes(others)).collect();
            let requested = Requested {
                hashes: &hashes,
                anchors: &[],
                instance: None,
                correlation_id: None,
            };
            let waiting = route::find(pool, tenant, &requested).await?.waiting;
            let mut allowed: BTreeSet<String> = published.methods;
            let waiting = waiting.iter().chain(&own_others);
            let matched = waiting.filter(|waiting| templates.of(waiting).is_some());
            allowed.extend(matched.map(|waiting| text(&waiting.options, "method").to_uppercase()));
            if !allowed.is_empty() {
                let allowed = allowed.into_iter().collect();
                return Ok(FoundRoute::WrongMethod { allowed });
            }
            return if templates.is_cut {
                Err(too_many_routes())
            } else {
                Ok(FoundRoute::None)
            };
        }
        Ok(FoundRoute::None)
    }
}

/// The hash of a route whose template has this shape.
fn hash_of(shape: &str, method: &str) -> StimulusHash {
    stimulus_hash(HTTP_ENDPOINT, &EndpointRoute::key_of(shape, method), None)
}

fn text<'a>(options: &'a Value, name: &str) -> &'a str {
    options.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn too_many_routes() -> Error {
    Error::unavailable(
        "too-many-routes",
        "so many instances wait at paths like this one that not all of them can be tried; name the instance by \
         X-Workflow-Instance-ID",
    )
}

/// Whether a template may have a regular expression, which takes some ms to compile.
fn may_have_pattern(template: &str) -> bool {
    template.to_ascii_lowercase().contains("regex(")
}

/// The templates of bookmarks that were tried for a path: each once, and only so many that have regular expressions.
struct MatchedTemplates<'m> {
    cache: &'m RouteCache,
    path: &'m RequestPath<'m>,
    tried: HashMap<String, Option<Arc<Template>>>,
    patterns: usize,
    /// Not all were read or tried.
    is_cut: bool,
}

impl<'m> MatchedTemplates<'m> {
    fn new(cache: &'m RouteCache, path: &'m RequestPath<'m>) -> Self {
        Self {
            cache,
            path,
            tried: HashMap::new(),
            patterns: 0,
            is_cut: false,
        }
    }

    /// The template with this text, if the path matches it.
    fn find(&mut self, text: &str) -> Option<Arc<Template>> {
        if let Some(tried) = self.tried.get(text) {
            return tried.clone();
        }
        if may_have_pattern(text) {
            if self.patterns == MOST_PATTERNS {
                self.is_cut = true;
                return None;
            }
            self.patterns += 1;
        }
        let template = self.cache.template(text);
        let template = template.filter(|template| template.matches(self.path).is_some());
        self.tried.insert(text.to_owned(), template.clone());
        template
    }

    /// The template of a waiting endpoint, if the path matches it: templates that differ in what is optional have one stimulus.
    fn of(&mut self, waiting: &WaitingEndpoint) -> Option<Arc<Template>> {
        self.find(text(&waiting.options, "path"))
    }

    /// The stimuli of those routes of bookmarks that the path matches.
    fn hashes(&mut self, routes: Vec<KnownRoute>) -> Vec<StimulusHash> {
        let matched = routes.into_iter().filter(|route| self.find(&route.template).is_some());
        let hashes: BTreeSet<StimulusHash> = matched.map(|route| route.hash).collect();
        hashes.into_iter().collect()
    }
}

/// The target of a request that starts an instance.
fn started(matched: MatchedRoute) -> FoundRoute {
    FoundRoute::Target(Box::new(FoundTarget {
        target: RouteTarget::Start {
            definition_id: matched.route.definition_id.clone(),
            activity_id: matched.route.activity_id.clone(),
            hash: matched.route.hash,
            revision: matched.route.revision,
        },
        values: matched.values,
        options: Arc::clone(&matched.route.options),
    }))
}

fn resumed((waiting, values): (WaitingEndpoint, Map<String, Value>)) -> FoundRoute {
    FoundRoute::Target(Box::new(FoundTarget {
        target: RouteTarget::Resume {
            instance_id: waiting.instance_id,
            bookmark_id: waiting.bookmark_id,
            generation: waiting.generation,
        },
        values,
        options: Arc::new(waiting.options),
    }))
}

/// What a request may be for, by the precedence of the templates.
#[derive(Default)]
struct Candidates(BTreeMap<Precedence, OfOnePrecedence>);

#[derive(Default)]
struct OfOnePrecedence {
    published: Vec<MatchedRoute>,
    waiting: Vec<(WaitingEndpoint, Map<String, Value>)>,
}

impl Candidates {
    fn add_published(&mut self, routes: Vec<MatchedRoute>) {
        for route in routes {
            self.0.entry(route.precedence).or_default().published.push(route);
        }
    }

    fn add_waiting(
        &mut self,
        templates: &mut MatchedTemplates<'_>,
        path: &RequestPath<'_>,
        waiting: Vec<WaitingEndpoint>,
    ) {
        // Of each stimulus: those that were read, and those that the path matches.
        let mut counts: BTreeMap<StimulusHash, (usize, usize)> = BTreeMap::new();
        for waiting in waiting {
            let (read, matched) = counts.entry(waiting.hash).or_default();
            *read += 1;
            if let Some(template) = templates.of(&waiting) {
                *matched += 1;
                let values = values_of(&template, path);
                let of_one = self.0.entry(template.precedence()).or_default();
                of_one.waiting.push((waiting, values));
            }
        }
        // Two are ambiguous, whatever else there is.
        templates.is_cut |= counts
            .values()
            .any(|(read, matched)| *read >= MOST_WAITING && *matched < 2);
    }

    /// The first that leads to something. With `names_instance` only that instance is among those that wait, and goes before
    /// definitions, whichever template they have.
    fn resolve(mut self, names_instance: bool) -> Option<FoundRoute> {
        if names_instance && let Some(named) = self.0.values_mut().find(|of_one| !of_one.waiting.is_empty()) {
            return only(std::mem::take(&mut named.waiting), instance_of, resumed);
        }
        self.0.into_values().find_map(|of_one| {
            let OfOnePrecedence { published, waiting } = of_one;
            if published.is_empty() {
                return only(waiting, instance_of, resumed);
            }
            only(published, definition_of, started)
        })
    }
}

fn instance_of((waiting, _): (WaitingEndpoint, Map<String, Value>)) -> (RouteCandidate, Arc<Value>) {
    (RouteCandidate::Instance(waiting.instance_id), Arc::new(waiting.options))
}

fn definition_of(matched: MatchedRoute) -> (RouteCandidate, Arc<Value>) {
    let route = &matched.route;
    (
        RouteCandidate::Definition(route.definition_id.clone()),
        Arc::clone(&route.options),
    )
}

/// The only one of these; several are ambiguous.
fn only<T>(
    mut all: Vec<T>,
    candidate: impl Fn(T) -> (RouteCandidate, Arc<Value>),
    target: impl Fn(T) -> FoundRoute,
) -> Option<FoundRoute> {
    let last = all.pop()?;
    if all.is_empty() {
        return Some(target(last));
    }
    all.push(last);
    let (candidates, options): (BTreeSet<RouteCandidate>, Vec<Arc<Value>>) = all.into_iter().map(candidate).unzip();
    Some(FoundRoute::Ambiguous(AmbiguousRoutes {
        candidates: candidates.into_iter().take(MOST_CANDIDATES).collect(),
        options,
    }))
}
