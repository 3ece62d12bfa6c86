//! A request without its body: what names a route and an instance, and what the workflow receives of it.

use axum::http::header;
use axum::http::request::Parts;
use mainspring_route::{PathError, RequestPath};

use super::admission::Requester;
use crate::activity::http::{ReceivedRequest, decode_pairs, written_name};
use crate::http::{ApiError, Peer, Scheme, nul_error};
use crate::id::InstanceId;

/// The longest id of an instance, and the longest correlation id, in bytes.
const LONGEST_ID: usize = 255;

/// The path below the base path, with its first slash and as it was sent; `None` if it is not below. The base path has any case.
pub(super) fn below<'p>(base: &str, path: &'p str) -> Option<&'p str> {
    let base = base.trim_end_matches('/');
    let (start, rest) = path.split_at_checked(base.len())?;
    if !start.eq_ignore_ascii_case(base) {
        return None;
    }
    match rest {
        "" => Some("/"),
        rest => rest.starts_with('/').then_some(rest),
    }
}

/// What a request names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) instance_id: Option<InstanceId>,
    pub(super) correlation_id: Option<String>,
}

impl Named {
    /// Reads the headers, and then the query.
    pub(super) fn of(parts: &Parts) -> Result<Self, ApiError> {
        let query = decode_pairs(parts.uri.query().unwrap_or_default());
        if query
            .iter()
            .any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(nul_error("The query"));
        }
        let named = |field: &'static str, parameter: &str| {
            let of_header = parts.headers.get(field).map(|value| value.to_str().unwrap_or("\u{1}"));
            let mut of_query = query.iter().filter(|(name, _)| name.eq_ignore_ascii_case(parameter));
            let text = of_header.map(str::to_owned);
            let text = text.or_else(|| of_query.next().map(|(_, value)| value.clone()));
            let Some(text) = text.filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            if text.len() > LONGEST_ID || text.chars().any(char::is_control) {
                let message = format!("{parameter} has 1 to {LONGEST_ID} bytes, and no control characters.");
                return Err(ApiError::invalid_field(parameter, message));
            }
            Ok(Some(text))
        };
        Ok(Self {
            instance_id: named("x-workflow-instance-id", "workflowInstanceId")?.map(InstanceId::new),
            correlation_id: named("x-correlation-id", "correlationId")?,
        })
    }
}

/// Checks the path as a route reads it; returns it decoded.
pub(super) fn decoded(path: &str) -> Result<String, ApiError> {
    let read = RequestPath::parse(path).map(|read| read.as_str().to_owned());
    read.map_err(|error| match error {
        PathError::Null => nul_error("The path"),
        error => ApiError::bad_request("invalid-path", format!("This path cannot be served: {error}.")),
    })
}

/// What the workflow receives, but for the body and the values of the route. A credential of this server is not part of it.
pub(super) fn received(parts: &Parts, base: &str, path: String, who: &Requester) -> ReceivedRequest {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // As Kestrel reads them by default, Latin-1.
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    // Of several values one may be the key.
    let is_one = parts.headers.get_all(header::AUTHORIZATION).iter().nth(1).is_none();
    let is_shown = |name: &header::HeaderName| *name != header::AUTHORIZATION || is_one && !who.is_known();
    let headers = parts.headers.iter().filter(|(name, _)| is_shown(name));
    let host = parts.headers.get(header::HOST).map(|host| text(host.as_bytes()));
    let scheme = parts.extensions.get::<Scheme>().copied().unwrap_or(Scheme::Http);
    let client = parts.extensions.get::<Peer>();
    ReceivedRequest {
        method: parts.method.as_str().to_owned(),
        scheme: scheme.as_str().to_owned(),
        host: host.unwrap_or_default(),
        client: client.map(|Peer(address)| address.ip().to_string()),
        path_base: base.to_owned(),
        path,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers
            .map(|(name, value)| (written_name(name.as_str()), text(value.as_bytes())))
            .collect(),
        ..ReceivedRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn a_path_is_below_the_base_path_by_segments_and_without_case() {
        for (path, rest) in [
            ("/workflows", Some("/")),
            ("/workflows/", Some("/")),
            ("/Workflows/a%2Fb/", Some("/a%2Fb/")),
            ("/workflowsx", None),
            ("/workflow", None),
            ("/", None),
            ("", None),
            ("/workflow\u{e9}", None),
        ] {
            assert_eq!(below("/workflows", path), rest, "{path}");
        }
        assert_eq!(below("/a/b", "/a/b/c"), Some("/c"));
    }

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().uri(uri);
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn an_instance_is_named_by_a_header_and_then_by_the_query() {
        let uri = "/workflows/a?workflowInstanceId=q%201&CorrelationId=c&x=1";
        let named = Named::of(&parts(uri, &[("X-Workflow-Instance-ID", "h")])).unwrap();
        assert_eq!(named.instance_id, Some(InstanceId::new("h")));
        assert_eq!(named.correlation_id.as_deref(), Some("c"));
        let named = Named::of(&parts(uri, &[])).unwrap();
        assert_eq!(named.instance_id, Some(InstanceId::new("q 1")));
        assert!(
            Named::of(&parts("/a?workflowInstanceId=", &[]))
                .unwrap()
                .instance_id
                .is_none()
        );
        for bad in [
            "/a?x=%00",
            "/a?correlationId=%0A",
            &format!("/a?correlationId={}", "c".repeat(256)),
        ] {
            assert!(Named::of(&parts(bad, &[])).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_workflow_does_not_receive_the_key_of_the_server() {
        let parts = parts("/workflows/a?b=c", &[("authorization", "ApiKey s"), ("x-my-name", "v")]);
        let with = received(&parts, "/workflows", "/a".to_owned(), &Requester::Foreign("wrong"));
        assert_eq!(with.header("authorization"), Some("ApiKey s"));
        assert_eq!(with.headers[1].0, "X-My-Name");
        assert_eq!((with.scheme.as_str(), with.client), ("http", None));
        let without = received(
            &parts,
            "/workflows",
            "/a".to_owned(),
            &Requester::Known(std::sync::Arc::new(crate::auth::Caller::static_key())),
        );
        assert_eq!(without.header("authorization"), None);
        assert_eq!((without.query.as_str(), without.path.as_str()), ("b=c", "/a"));
    }

    #[test]
    fn a_workflow_receives_the_scheme_and_the_address_of_its_client() {
        let mut parts = parts("http://a.example/workflows/a", &[]);
        parts.extensions.insert(Scheme::Https);
        parts.extensions.insert(Peer("203.0.113.9:1".parse().unwrap()));
        let request = received(&parts, "/workflows", "/a".to_owned(), &Requester::None);
        assert_eq!(
            (request.scheme.as_str(), request.client.as_deref()),
            ("https", Some("203.0.113.9"))
        );
    }
}
