//! Elsa Studio at `/studio`: the files of its npm package, served from a folder within a page of this server.
//!
//! The program does not contain Studio: `mainspring studio install` unpacks it into a folder, which `serve` and `dev` serve.
//! None of these files needs a credential, and none holds one: the page asks the API how one signs in, and keeps the key in the
//! browser's session storage, and the tokens of a user in its local storage.

mod folder;
mod page;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::http::{ApiError, ApiResult};
use folder::StudioFolder;

/// The path of the page, and the prefix of all its files.
pub(super) const PATH: &str = "/studio";

/// What the page may load and call: this server alone. Blazor compiles WebAssembly, its components set styles in their
/// markup, and the code editor starts its worker from a blob. The two hashes are of the scripts in the markup of Studio's
/// editor and viewer, which register their keys.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' \
    'sha256-vu6sQrKXQHR4Yn3FMMihA/9TxxfIXnCxKwvLrTPJ5ts=' 'sha256-snlP1jz0gjwc5cTz9ErZcliXuCK63+Mmf68RRCeptgc='; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; \
    worker-src 'self' blob:; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

/// Elsa Studio in a folder, which may be empty until it is installed.
#[derive(Clone, Debug)]
pub struct Studio {
    path: PathBuf,
    folder: Arc<OnceLock<StudioFolder>>,
}

impl Studio {
    /// The npm package.
    pub const PACKAGE: &'static str = "@elsa-workflows/elsa-studio-wasm";
    /// The version of the package that the page of this server is made for.
    pub const VERSION: &'static str = "3.8.2";
    /// A file of the package without which it does not start.
    const ENTRY: &'static str = "_framework/blazor.webassembly.js";

    /// The Studio in a folder: that of the package, or one with a folder of the version's name. The folder is read at the
    /// first request after Studio is there.
    pub fn in_folder(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            folder: Arc::default(),
        }
    }

    /// The folder of the package; `None` while Studio is not there.
    pub fn installed(&self) -> Option<PathBuf> {
        let candidates = [self.path.join(Self::VERSION), self.path.clone()];
        candidates.into_iter().find(|path| path.join(Self::ENTRY).is_file())
    }

    async fn folder(&self) -> Option<&StudioFolder> {
        if let Some(folder) = self.folder.get() {
            return Some(folder);
        }
        let studio = self.clone();
        let read = tokio::task::spawn_blocking(move || studio.installed().map(|path| StudioFolder::read(&path)));
        match read.await {
            Ok(Some(Ok(folder))) => Some(self.folder.get_or_init(|| folder)),
            Ok(Some(Err(error))) => {
                tracing::warn!(%error, folder = %self.path.display(), "the files of Elsa Studio cannot be read");
                None
            }
            _ => None,
        }
    }
}

/// The routes of Studio.
pub(super) fn router(studio: Studio) -> Router {
    Router::new()
        .route("/", get(root))
        .route(PATH, get(root))
        .route("/studio/", get(file))
        .route("/studio/{*path}", get(file))
        .with_state(studio)
}

/// Whether a request reads the page or its files, which hold nothing secret: it needs no key, and a link to it may be on any
/// page.
pub(super) fn is_open(method: &Method, path: &str) -> bool {
    let below = path
        .strip_prefix(PATH)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (method == Method::GET || method == Method::HEAD) && (path == "/" || below)
}

/// `/` and `/studio` lead to the page, by a relative address: a proxy may serve them below a path of its own.
async fn root(State(studio): State<Studio>) -> Response {
    if studio.folder().await.is_none() {
        return respond(StatusCode::OK, page::not_installed());
    }
    let location = (header::LOCATION, HeaderValue::from_static("studio/"));
    let no_cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    (StatusCode::FOUND, [location, no_cache]).into_response()
}

async fn file(State(studio): State<Studio>, headers: HeaderMap, request: Request) -> ApiResult {
    let path = request.uri().path();
    let relative = path.strip_prefix("/studio/").unwrap_or_default();
    let Some(folder) = studio.folder().await else {
        return Ok(respond(StatusCode::NOT_FOUND, page::not_installed()));
    };
    if let Some(asset) = page::asset(relative) {
        return Ok(with_security_headers(asset.respond(&headers)));
    }
    if page::is_page(relative) {
        return Ok(respond(StatusCode::OK, page::html(relative)));
    }
    match folder.respond(relative, &headers).await {
        Some(response) => Ok(with_security_headers(response)),
        None => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no-such-file",
            format!("Elsa Studio has no file and no page {path}."),
        )),
    }
}

fn respond(status: StatusCode, html: String) -> Response {
    let kind = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let no_cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    with_security_headers((status, [kind, no_cache], html).into_response())
}

fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
