//! Redirects, as .NET's client follows them: each hop is a request of its own, whose target is checked.

use reqwest::header::{
    AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, EXPIRES, HOST, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, PROXY_AUTHORIZATION,
};
use reqwest::{Method, StatusCode, Url};

/// The next request of a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextHop {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) keeps_body: bool,
}

impl NextHop {
    /// Where an answer leads; `None` if it is the answer itself: it is no redirect, names no other page of the web, or leads
    /// from https to http.
    pub(super) fn of(status: StatusCode, location: Option<&HeaderValue>, url: &Url, method: &Method) -> Option<Self> {
        let becomes_get = match status {
            StatusCode::MULTIPLE_CHOICES | StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
            StatusCode::SEE_OTHER => *method != Method::GET && *method != Method::HEAD,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
            _ => return None,
        };
        let location = std::str::from_utf8(location?.as_bytes()).ok()?;
        let mut next = url.join(location).ok()?;
        let is_safe = match next.scheme() {
            "https" => true,
            "http" => url.scheme() == "http",
            _ => false,
        };
        if !is_safe || next.host_str().is_none_or(str::is_empty) {
            return None;
        }
        // No credentials from an answer.
        next.set_username("").ok()?;
        next.set_password(None).ok()?;
        Some(Self {
            url: next,
            method: if becomes_get { Method::GET } else { method.clone() },
            keeps_body: !becomes_get,
        })
    }

    /// Takes out of the headers what the next request must not have: what describes a body that is not sent again, and what
    /// is for the first origin alone.
    pub(super) fn filter(&self, from: &Url, headers: &mut HeaderMap) {
        if !self.keeps_body {
            for name in OF_BODY {
                headers.remove(name);
            }
        }
        if self.url.origin() != from.origin() {
            for name in OF_ORIGIN {
                headers.remove(name);
            }
        }
    }
}

const OF_BODY: [HeaderName; 8] = [
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_RANGE,
    CONTENT_TYPE,
    EXPIRES,
    LAST_MODIFIED,
];

const OF_ORIGIN: [HeaderName; 5] = [
    AUTHORIZATION,
    COOKIE,
    HOST,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(status: u16, location: &str, from: &str, method: &str) -> Option<(String, String, bool)> {
        let location = HeaderValue::from_bytes(location.as_bytes()).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let from = Url::parse(from).unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let next = NextHop::of(status, Some(&location), &from, &method)?;
        Some((next.url.to_string(), next.method.to_string(), next.keeps_body))
    }

    #[test]
    fn a_redirect_is_followed_as_dotnet_does() {
        let from = "http://a.example/x/y?q=1";
        for (status, method, expected) in [
            (301, "POST", ("GET", false)),
            (302, "POST", ("GET", false)),
            (302, "PUT", ("PUT", true)),
            (303, "PUT", ("GET", false)),
            (303, "HEAD", ("HEAD", true)),
            (307, "POST", ("POST", true)),
            (308, "DELETE", ("DELETE", true)),
        ] {
            let (url, next, keeps_body) = hop(status, "z", from, method).unwrap();
            assert_eq!(
                (url.as_str(), next.as_str(), keeps_body),
                ("http://a.example/x/z", expected.0, expected.1)
            );
        }
        assert_eq!(
            hop(302, "//u:p@b.example/é", from, "GET").unwrap().0,
            "http://b.example/%C3%A9"
        );
        assert_eq!(
            hop(302, "https://a.example/", from, "GET").unwrap().0,
            "https://a.example/"
        );
    }

    #[test]
    fn what_is_no_page_of_the_web_is_not_followed() {
        let from = "https://a.example/";
        for (status, location) in [
            (200, "/b"),
            (304, "/b"),
            (302, "http://a.example/"),
            (302, "file:///etc/passwd"),
            (302, "javascript:alert(1)"),
            (302, "http://[::1"),
        ] {
            assert_eq!(hop(status, location, from, "GET"), None, "{status} {location}");
        }
        let from = Url::parse(from).unwrap();
        assert_eq!(NextHop::of(StatusCode::FOUND, None, &from, &Method::GET), None);
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let from = Url::parse("https://a.example/").unwrap();
        let kept = |to: &str, keeps_body| {
            let mut headers = HeaderMap::new();
            for name in ["authorization", "cookie", "x-mine", "content-type"] {
                headers.insert(name, HeaderValue::from_static("x"));
            }
            let hop = NextHop {
                url: Url::parse(to).unwrap(),
                method: Method::GET,
                keeps_body,
            };
            hop.filter(&from, &mut headers);
            let mut names: Vec<String> = headers.keys().map(|name| name.as_str().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(kept("https://a.example/b", true).len(), 4);
        assert_eq!(kept("https://a.example:444/", true), ["content-type", "x-mine"]);
        assert_eq!(kept("https://b.example/", false), ["x-mine"]);
    }
}
