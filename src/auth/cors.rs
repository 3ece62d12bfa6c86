//! Cross-origin requests: the list of origins whose pages may call the API.
//!
//! Such a page sends the API key itself, so no cookie and no credential of the browser is allowed. An origin outside the
//! list gets no header, and `cross_site` rejects its requests.

#[cfg(any(test, feature = "cli"))]
use axum::http::Uri;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, DELETE";
/// `x-signalr-user-agent` is sent by the client of the live updates, and `x-tenant-id`, which has no effect, by Studio.
const ALLOWED_HEADERS: &str = "authorization, content-type, idempotency-key, x-requested-with, x-signalr-user-agent, \
    x-tenant-id";
const EXPOSED_HEADERS: &str = "content-disposition, etag, location, retry-after, x-elsa-workflow-cannot-start, \
    x-elsa-workflow-instance-id, x-elsa-workflow-instance-ids";
/// How long a browser may keep the answer to a preflight request, in seconds.
const MAX_AGE: &str = "600";

/// The origins that may call the API.
#[derive(Debug)]
pub(crate) struct CorsOrigins(Vec<String>);

impl CorsOrigins {
    pub(crate) fn new(origins: &[String]) -> Self {
        Self(origins.iter().map(|origin| origin.to_ascii_lowercase()).collect())
    }

    /// The origin of a request, if it is in the list.
    pub(crate) fn admitted<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let mut values = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (values.next(), values.next()) else {
            return None;
        };
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.0.contains(&text).then_some(origin)
    }

    /// Adds what the browser needs to give a response to the page of an admitted origin.
    pub(crate) fn share(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(EXPOSED_HEADERS),
            );
        }
    }
}

/// Whether a browser asks if it may send a request.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to the preflight request of an admitted origin.
pub(crate) fn preflight() -> Response {
    let fields: [(HeaderName, &'static str); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, fields).into_response()
}

/// An origin as a browser writes it: scheme, host and a port that is not the scheme's.
/// Errors: The form of an origin, if this is none.
#[cfg(any(test, feature = "cli"))]
pub(crate) fn parse_origin(text: &str) -> Result<String, String> {
    let wrong = || "give an origin without a path, such as https://studio.example or http://localhost:3000".to_owned();
    let origin = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
    let (scheme, authority) = origin.split_once("://").ok_or_else(wrong)?;
    let uri: Uri = origin.parse().map_err(|_| wrong())?;
    let parsed = uri.authority().filter(|parsed| parsed.as_str() == authority);
    let is_plain = parsed.is_some_and(|parsed| !parsed.host().is_empty() && !authority.contains(['@', '*']));
    if !["http", "https"].contains(&scheme) || !is_plain {
        return Err(wrong());
    }
    let default_port = if scheme == "http" { ":80" } else { ":443" };
    Ok(origin.strip_suffix(default_port).unwrap_or(&origin).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_exact() {
        for (given, wanted) in [
            ("https://Studio.example", "https://studio.example"),
            ("https://studio.example:443/", "https://studio.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
        ] {
            assert_eq!(parse_origin(given).as_deref(), Ok(wanted));
        }
        for wrong in [
            "*",
            "null",
            "studio.example",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://*.example",
            "https://user@a",
            "ftp://a",
            "",
        ] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_listed_origins_are_admitted() {
        let origins = CorsOrigins::new(&["https://studio.example".to_owned()]);
        let admitted = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ORIGIN, value.parse().unwrap());
            }
            origins.admitted(&headers).is_some()
        };
        assert!(admitted(&["https://studio.example"]) && admitted(&["HTTPS://STUDIO.example"]));
        for foreign in [
            "http://studio.example",
            "https://studio.example:8443",
            "https://a.studio.example",
            "null",
        ] {
            assert!(!admitted(&[foreign]), "{foreign}");
        }
        assert!(!admitted(&[]) && !admitted(&["https://studio.example", "https://evil.example"]));
    }
}
