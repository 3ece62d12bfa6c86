//! The routes of HTTP endpoints: what a request is meant for.
#![allow(dead_code, reason = "the endpoint of the next commits uses it")]

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Engine;
use crate::Result;
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId, StimulusHash};
use crate::store::instance::Generation;

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
    pub(crate) async fn find_route(&self, query: &RouteQuery<'_>) -> Result<FoundRoute> {
        let _ = query;
        Ok(FoundRoute::None)
    }
}
