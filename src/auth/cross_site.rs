//! Whether a request comes from a web page, and from whose.
//!
//! A browser says so in `Sec-Fetch-Site` and `Origin`, and a page cannot forge either. But it leaves both out of a plain GET
//! (an image, a link) to what is not the loopback over http; older ones everywhere. So where no key is asked for, a GET that
//! acts needs a sign that no foreign page can give.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::hosts::Hosts;
use crate::http::ApiError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that a page of another origin can send only after it has asked the server, which never agrees.
const PREFLIGHT_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-requested-with"),
    HeaderName::from_static("idempotency-key"),
];

/// The schemes of `Authorization` that no browser sends by itself.
const SCHEMES: [&str; 2] = ["apikey", "bearer"];

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value: &HeaderValue| value.to_str().unwrap_or_default())
}

/// Refuses what a browser sends for a page of another origin, unless the operator allows that page's host by name.
pub(crate) fn refuse_cross_site(headers: &HeaderMap, hosts: &Hosts, host: &str) -> Result<(), ApiError> {
    let foreign = match text(headers, &header::ORIGIN) {
        Some(origin) => !hosts.admits_origin(origin, host),
        None => text(headers, &FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none"),
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

/// Refuses a GET that acts if an image or a link in a page of another origin could have made it. An `Origin` has been checked.
pub(crate) fn refuse_forgeable_get(headers: &HeaderMap) -> Result<(), ApiError> {
    let own_page = text(headers, &FETCH_SITE).is_some_and(|site| site == "same-origin" || site == "none");
    let credentials = text(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
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
        "As this server asks for no key, a GET that acts needs the header `X-Requested-With` (any value), so that no web \
         page can send it; or use POST.",
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
    fn a_get_that_acts_comes_from_a_program_or_from_our_own_page() {
        let code = |pairs: &[(&'static str, &'static str)]| {
            refuse_forgeable_get(&headers(pairs)).map_err(|error| error.status_and_code().1)
        };
        for good in [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
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
            ("accept", "image/png"),
            ("referer", "http://evil.example/"),
            ("authorization", "Basic dTpw"),
        ] {
            assert_eq!(code(&[bad]), Err("header-required"), "{bad:?}");
        }
        assert_eq!(code(&[]), Err("header-required"));
    }

    #[test]
    fn an_origin_that_is_allowed_outweighs_the_site() {
        let hosts = Hosts::new("127.0.0.1:5001".parse().unwrap(), &["studio.example".to_owned()]);
        let foreign = |pairs: &[(&'static str, &'static str)]| {
            refuse_cross_site(&headers(pairs), &hosts, "localhost:5001").is_err()
        };
        let studio = ("origin", "https://studio.example");
        assert!(!foreign(&[studio]) && !foreign(&[studio, ("sec-fetch-site", "cross-site")]));
        assert!(!foreign(&[]) && !foreign(&[("sec-fetch-site", "none")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site")]));
        assert!(foreign(&[
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(foreign(&[("origin", "null")]));
    }
}
