//! The routes of HTTP endpoints: what a request is meant for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainspring_route::{Precedence, RequestPath, Template};
use serde_json::{Map, Value};

use super::Engine;
use crate::activity::{EndpointRoute, HTTP_ENDPOINT};
use crate::execution::stimulus_hash;
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId, StimulusHash};
use crate::runtime::context::route_cache::{MatchedRoute, RouteCache, values_of};
use crate::store::instance::Generation;
use crate::store::route::{self, KnownRoute, Requested, WaitingEndpoint};
use crate::{Error, Result};

/// How often a lookup is made again because routes were published meanwhile.
const LOOKUPS: usize = 4;

/// The most candidates that an ambiguous request names.
const MOST_CANDIDATES: usize = 16;

/// The most templates with regular expressions, of bookmarks, that are tried for a request: each takes some ms at most.
const MOST_PATTERNS: usize = 64;

/// The methods that are tried where a path has no endpoint with that of the request.
const METHODS: [&str; 20] = [
    "copy",
    "delete",
    "get",
    "head",
    "link",
    "lock",
    "mkcol",
    "move",
    "options",
    "patch",
    "post",
    "propfind",
    "proppatch",
    "put",
    "query",
    "report",
    "search",
    "trace",
    "unlink",
    "unlock",
];

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
    /// Any of these: 409.
    Ambiguous(Vec<RouteCandidate>),
    /// Endpoints of the path have these other methods, in upper case: 405.
    WrongMethod { allowed: Vec<String> },
    /// No endpoint: 404.
    None,
}

/// The endpoint that a request is for.
#[derive(Debug)]
pub(crate) struct FoundTarget {
    pub(crate) target: RouteTarget,
    /// As it is written in the endpoint.
    pub(crate) template: String,
    /// The values of its parameters, in its order. Those of a catch-all that matched nothing are null.
    pub(crate) values: Map<String, Value>,
    /// The options of the endpoint.
    pub(crate) options: Arc<Value>,
}

/// What a request does.
#[derive(Clone, Debug)]
pub(crate) enum RouteTarget {
    /// It starts an instance, if the definition has the route when the start is accepted.
    Start {
        definition_id: DefinitionId,
        activity_id: ActivityId,
        hash: StimulusHash,
    },
    /// It resumes an instance.
    Resume {
        instance_id: InstanceId,
        bookmark_id: BookmarkId,
        generation: Generation,
    },
}

/// What an ambiguous request may be for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RouteCandidate {
    Definition(DefinitionId),
    Instance(InstanceId),
}

impl Engine {
    /// Finds what a request is for: of the templates that match its path, in the order of their precedence, the first that leads
    /// to something. With one template an instance that the request names goes first, then a definition, then any instance that
    /// waits there.
    ///
    /// # Errors
    /// `invalid-path`; what a read of the database has. Cancellation safe.
    pub(crate) async fn find_route(&self, query: &RouteQuery<'_>) -> Result<FoundRoute> {
        let path = RequestPath::parse(query.path).map_err(|error| Error::invalid("invalid-path", error.to_string()))?;
        let node = self.node()?;
        let (pool, cache) = (node.database.reads.by_key(), &node.caches.routes);
        let tenant = &self.inner.tenant;
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
            let (same, others) = matching(cache, &path, &method, found.routes);
            if !same.is_empty() {
                let requested = Requested {
                    hashes: &same,
                    anchors: &[],
                    ..requested
                };
                found
                    .waiting
                    .extend(route::find(pool, tenant, &requested).await?.waiting);
            }
            let mut candidates = Candidates::default();
            candidates.add_published(published.routes);
            candidates.add_waiting(cache, &path, found.waiting);
            if let Some(found) = candidates.resolve(names_instance) {
                return Ok(found);
            }
            let elsewhere = METHODS.into_iter().filter(|other| *other != method);
            let hashes: Vec<StimulusHash> = elsewhere.filter_map(literal).chain(others).collect();
            let requested = Requested {
                hashes: &hashes,
                anchors: &[],
                instance: None,
                correlation_id: None,
            };
            let waiting = route::find(pool, tenant, &requested).await?.waiting;
            let mut allowed: BTreeSet<String> = published.methods;
            let matched = waiting
                .iter()
                .filter(|waiting| template_of(cache, &path, waiting).is_some());
            allowed.extend(matched.map(|waiting| text(&waiting.options, "method").to_uppercase()));
            return Ok(if allowed.is_empty() {
                FoundRoute::None
            } else {
                FoundRoute::WrongMethod {
                    allowed: allowed.into_iter().collect(),
                }
            });
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

/// The stimuli of the routes of bookmarks that a path matches: those of the method, and of others.
fn matching(
    cache: &RouteCache,
    path: &RequestPath<'_>,
    method: &str,
    routes: Vec<KnownRoute>,
) -> (Vec<StimulusHash>, Vec<StimulusHash>) {
    let mut patterns = 0;
    let matched = routes.into_iter().filter(|route| {
        let Some(template) = cache.template(&route.template) else {
            return false;
        };
        patterns += usize::from(template.pattern_bytes() > 0);
        let is_tried = template.pattern_bytes() == 0 || patterns <= MOST_PATTERNS;
        is_tried && template.matches(path).is_some()
    });
    let (same, others): (Vec<KnownRoute>, Vec<KnownRoute>) = matched.partition(|route| route.method == method);
    let hashes = |routes: Vec<KnownRoute>| {
        let hashes: BTreeSet<StimulusHash> = routes.into_iter().map(|route| route.hash).collect();
        hashes.into_iter().collect()
    };
    (hashes(same), hashes(others))
}

/// The template of a waiting endpoint, if the path matches it: templates that differ in what is optional have one stimulus.
fn template_of(cache: &RouteCache, path: &RequestPath<'_>, waiting: &WaitingEndpoint) -> Option<Arc<Template>> {
    let template = cache.template(text(&waiting.options, "path"))?;
    template.matches(path).is_some().then_some(template)
}

/// The target of a request that starts an instance.
fn started(matched: MatchedRoute) -> FoundRoute {
    FoundRoute::Target(Box::new(FoundTarget {
        target: RouteTarget::Start {
            definition_id: matched.route.definition_id.clone(),
            activity_id: matched.route.activity_id.clone(),
            hash: matched.route.hash,
        },
        template: matched.template,
        values: matched.values,
        options: Arc::clone(&matched.route.options),
    }))
}

fn resumed((waiting, values): (WaitingEndpoint, Map<String, Value>)) -> FoundRoute {
    FoundRoute::Target(Box::new(FoundTarget {
        template: text(&waiting.options, "path").to_owned(),
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

    fn add_waiting(&mut self, cache: &RouteCache, path: &RequestPath<'_>, waiting: Vec<WaitingEndpoint>) {
        for waiting in waiting {
            if let Some(template) = template_of(cache, path, &waiting) {
                let values = values_of(&template, path);
                let of_one = self.0.entry(template.precedence()).or_default();
                of_one.waiting.push((waiting, values));
            }
        }
    }

    /// The first that leads to something. With `names_instance` only that instance is among those that wait, and goes before
    /// definitions.
    fn resolve(self, names_instance: bool) -> Option<FoundRoute> {
        self.0.into_values().find_map(|of_one| {
            let OfOnePrecedence { published, waiting } = of_one;
            if !waiting.is_empty() && (names_instance || published.is_empty()) {
                let candidates = waiting.iter().map(|(waiting, _)| &waiting.instance_id).cloned();
                let candidates = candidates.map(RouteCandidate::Instance).collect();
                return only(waiting, candidates, resumed);
            }
            let candidates = published.iter().map(|route| &route.route.definition_id).cloned();
            let candidates = candidates.map(RouteCandidate::Definition).collect();
            only(published, candidates, started)
        })
    }
}

/// The only one of these; several are ambiguous.
fn only<T>(
    mut all: Vec<T>,
    candidates: BTreeSet<RouteCandidate>,
    target: impl Fn(T) -> FoundRoute,
) -> Option<FoundRoute> {
    let last = all.pop()?;
    Some(if all.is_empty() {
        target(last)
    } else {
        FoundRoute::Ambiguous(candidates.into_iter().take(MOST_CANDIDATES).collect())
    })
}
