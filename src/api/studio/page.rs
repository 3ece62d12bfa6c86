//! The page around Studio's elements: a frame with navigation, sign-in and the data of the cluster; and the page of the steps
//! of a sign-in with an issuer. They are part of the program.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::Studio;
use super::folder::{matches, short_hash};

const HTML: &str = include_str!("page/host.html");
const SIGN_IN: &str = include_str!("page/sign-in.html");
const NOT_INSTALLED: &str = include_str!("page/not-installed.html");

/// A file of the page.
pub(super) struct Asset {
    kind: &'static str,
    text: &'static str,
}

/// The file of the page with this path, relative to the page.
pub(super) fn asset(relative: &str) -> Option<Asset> {
    let (kind, text) = match relative {
        "mainspring/host.js" => ("text/javascript; charset=utf-8", include_str!("page/host.js")),
        "mainspring/session.js" => ("text/javascript; charset=utf-8", include_str!("page/session.js")),
        "mainspring/external.js" => ("text/javascript; charset=utf-8", include_str!("page/external.js")),
        "mainspring/sign-in.js" => ("text/javascript; charset=utf-8", include_str!("page/sign-in.js")),
        "mainspring/tables.js" => ("text/javascript; charset=utf-8", include_str!("page/tables.js")),
        "mainspring/messages.js" => ("text/javascript; charset=utf-8", include_str!("page/messages.js")),
        "mainspring/cluster.js" => ("text/javascript; charset=utf-8", include_str!("page/cluster.js")),
        "mainspring/host.css" => ("text/css; charset=utf-8", include_str!("page/host.css")),
        "mainspring/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => return None,
    };
    Some(Asset { kind, text })
}

impl Asset {
    pub(super) fn respond(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", short_hash(&Sha256::digest(self.text.as_bytes())));
        let mut response = if matches(headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let kind = (header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
            ([kind], self.text).into_response()
        };
        let fields = response.headers_mut();
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            fields.insert(header::ETAG, tag);
        }
        response
    }
}

/// Whether this path is one at which the page may be loaded: those that Studio's elements navigate to.
pub(super) fn is_page(relative: &str) -> bool {
    let path = relative.strip_suffix('/').unwrap_or(relative);
    matches!(
        path.split('/').collect::<Vec<_>>().as_slice(),
        [""] | ["cluster" | "signed-in"]
            | ["sign-in", _]
            | ["workflows"]
            | ["workflows", "definitions" | "instances"]
            | ["workflows", "definitions", _, "edit"]
            | ["workflows", "instances", _, "view" | "messages"]
    )
}

/// The page for a path. Its base is relative to the path, so that it works below any path of a proxy.
pub(super) fn html(relative: &str) -> String {
    let depth = relative.matches('/').count();
    let base = if depth == 0 {
        "./".to_owned()
    } else {
        "../".repeat(depth)
    };
    let path = relative.strip_suffix('/').unwrap_or(relative);
    // The steps of a sign-in with an issuer need nothing of Studio.
    let is_step = path == "signed-in" || path.starts_with("sign-in/");
    let page = if is_step { SIGN_IN } else { HTML };
    page.replace("{base}", &base)
}

/// The page where Studio is not installed.
pub(super) fn not_installed() -> String {
    NOT_INSTALLED
        .replace("{package}", Studio::PACKAGE)
        .replace("{version}", Studio::VERSION)
}
