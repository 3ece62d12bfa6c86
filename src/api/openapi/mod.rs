//! The OpenAPI document of the routes, and a page that shows it.
//!
//! The router and the document come from one place: a handler has a `utoipa::path`, and an area lists its handlers by
//! `routes!`. [`document`] adds what follows from the form of an operation (ids, security, the errors that any request may
//! receive). `tests` compares the document with the routes that are served.

mod document;
mod page;
mod parameters;

pub(super) use parameters::{Count, Counted, IdempotencyKey, NoFields, PageQuery, Started};

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use super::Api;

/// The document, as JSON and as a page. It is the same for every engine of a process.
struct Served {
    json: String,
    page: page::ReadingPage,
}

static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let document = document::of(super::routes().into_openapi());
    Served {
        json: document.to_string(),
        page: page::ReadingPage::of(&document),
    }
});

/// The routes of the document.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(json)).routes(routes!(html))
}

/// The same handlers at a further path.
pub(super) fn also_at(path: &str, (schemas, mut paths, handlers): UtoipaMethodRouter<Api>) -> UtoipaMethodRouter<Api> {
    if let Some((_, item)) = paths.paths.pop_first() {
        paths.paths.insert(path.to_owned(), item);
    }
    (schemas, paths, handlers)
}

/// Gets this document: OpenAPI 3.1
#[utoipa::path(get, path = super::path::OPENAPI_JSON, tag = "Documentation", responses(
    (status = 200, description = "The document.", body = serde_json::Value),
))]
async fn json() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, SERVED.json.as_str()).into_response()
}

/// Shows this document as a page
#[utoipa::path(get, path = super::path::OPENAPI_PAGE, tag = "Documentation", responses(
    (status = 200, description = "The page.", body = String, content_type = "text/html"),
))]
async fn html() -> Response {
    let page = &SERVED.page;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, page.policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, page.html.as_str()).into_response()
}

/// The document, for the tests of what is made from the same routes.
#[cfg(test)]
pub(super) fn document_of_tests() -> serde_json::Value {
    document::of(super::routes().into_openapi())
}

#[cfg(test)]
mod tests;
