//! The defence against requests that a browser sends for a web page of another site.
//!
//! A browser marks such a request with `Sec-Fetch-Site` and `Origin`, and a page cannot forge either. But it omits both from
//! a plain GET (an image, a link) over http to other addresses than the loopback; older browsers omit them everywhere. So a
//! server without an API key requires, for a GET with side effects and for a form with files, a header that no foreign page
//! can send. A link in an email or in another program has no site (`Sec-Fetch-Site: none`), like a typed address; so such a
//! request is not taken for one from the server's own page.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::http::ApiError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that need a preflight request if a page of another origin sends them. This server grants none.
const PREFLIGHT_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-requested-with"),
    HeaderName::from_static("idempotency-key"),
];

/// The schemes of `Authorization` that no browser sends on its own.
const SCHEMES: [&str; 2] = ["apikey", "bearer"];

/// The value of a header; empty if it is not text, so that it counts as foreign; `None` if it is absent.
fn text_or_empty<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value: &HeaderValue| value.to_str().unwrap_or_default())
}

/// Whether a page of this `Origin` is one of this server, as the browser sees both: the host and the port of the request are the
/// origin's. Other programs of the same machine or name serve pages, too, on other ports; an operator admits one of them as a
/// whole origin (`--cors-origin`).
fn is_own_origin(origin: &str, host: &str) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}

/// Rejects a request that a browser sends for a page of another origin.
pub(crate) fn reject_cross_site(headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
    let foreign = match text_or_empty(headers, &header::ORIGIN) {
        Some(origin) => !is_own_origin(origin, host),
        None => text_or_empty(headers, &FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none"),
    };
    if foreign {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross-site-request",
            "A web page of another origin may not call this server.",
        ));
    }
    Ok(())
}

/// Rejects what an image, a link or a form in a page of another origin could have sent. Precondition:
/// `reject_cross_site` has checked `Origin`.
pub(crate) fn reject_forgeable(headers: &HeaderMap) -> Result<(), ApiError> {
    let own_page = text_or_empty(headers, &FETCH_SITE).is_some_and(|site| site == "same-origin");
    let credentials = text_or_empty(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
    let by_program =
        credentials.is_some_and(|(scheme, _)| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)));
    let signed =
        headers.contains_key(header::ORIGIN) || PREFLIGHT_HEADERS.iter().any(|name| headers.contains_key(name));
    if own_page || by_program || signed {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "header-required",
        "This server has no API key, so a GET with side effects and a form with files need the header `X-Requested-With` \
         (any value), which no foreign web page can send; instead of such a GET, POST can be used.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn a_get_with_side_effects_comes_from_a_program_or_the_servers_own_page() {
        let code = |pairs: &[(&'static str, &'static str)]| {
            reject_forgeable(&headers(pairs)).map_err(|error| error.status_and_code().1)
        };
        for good in [
            ("sec-fetch-site", "same-origin"),
            ("x-requested-with", "curl"),
            ("idempotency-key", "k"),
            ("authorization", "ApiKey k"),
            ("authorization", "Bearer t"),
        ] {
            assert_eq!(code(&[good]), Ok(()), "{good:?}");
        }
        for bad in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
            ("accept", "image/png"),
            ("referer", "http://evil.example/"),
            ("authorization", "Basic dTpw"),
        ] {
            assert_eq!(code(&[bad]), Err("header-required"), "{bad:?}");
        }
        assert_eq!(code(&[]), Err("header-required"));
    }

    #[test]
    fn the_servers_own_origin_takes_precedence_over_the_site() {
        let foreign =
            |pairs: &[(&'static str, &'static str)]| reject_cross_site(&headers(pairs), "studio.example").is_err();
        let studio = ("origin", "https://studio.example");
        assert!(!foreign(&[studio]) && !foreign(&[studio, ("sec-fetch-site", "cross-site")]));
        assert!(!foreign(&[]) && !foreign(&[("sec-fetch-site", "none")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site")]));
        assert!(foreign(&[
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(foreign(&[("origin", "null")]));
        // Another program under the same name serves this page.
        assert!(foreign(&[("origin", "http://studio.example:3000")]));
        assert!(!foreign(&[("origin", "https://STUDIO.example")]));
    }
}
