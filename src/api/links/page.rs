//! The page of a resume link: plain HTML without scripts, whose only style is its own. It changes nothing: programs that preview links
//! open it, and a person confirms by its form.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::html::{escaped, policy};
use crate::http::ApiError;
use crate::runtime::LinkPage;

const STYLE: &str = include_str!("page.css");

/// What a workflow without a name is called.
const UNNAMED: &str = "A workflow";

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// Only the style below, and the form to where the page comes from.
static POLICY: LazyLock<String> = LazyLock::new(|| policy(STYLE, "'self'", "'none'"));

/// What the form of a page sends on.
pub(super) struct FormFields<'a> {
    /// Where to, relative to the page.
    pub(super) action: String,
    /// The input, as JSON.
    pub(super) input: Option<&'a str>,
    pub(super) is_async: bool,
}

/// The page of a genuine link: with a form if it can be used.
pub(super) fn of_link(page: LinkPage, fields: &FormFields<'_>) -> Response {
    let name = page
        .workflow
        .as_deref()
        .filter(|name| !name.trim().is_empty())
        .unwrap_or(UNNAMED);
    if let Some(refusal) = page.refusal {
        return of_error(refusal.into());
    }
    let does = match &page.event {
        Some(event) => format!("This link sends \u{201c}{}\u{201d} to the workflow.", escaped(event)),
        None => "This link continues the workflow.".to_owned(),
    };
    let mut body = format!("<h1>{}</h1><p>{does} Nothing has happened yet.</p>", escaped(name));
    let _ = write!(body, "<form method=\"post\" action=\"{}\">", escaped(&fields.action));
    if let Some(input) = fields.input {
        let _ = write!(body, "<input type=\"hidden\" name=\"in\" value=\"{}\">", escaped(input));
    }
    if fields.is_async {
        body.push_str("<input type=\"hidden\" name=\"async\" value=\"true\">");
    }
    body.push_str("<button type=\"submit\">Continue</button></form>");
    page_response(StatusCode::OK, name, &body)
}

/// The page after a link was used.
pub(super) fn of_use(status: StatusCode) -> Response {
    let (title, text) = match status {
        StatusCode::OK => ("Done", "The workflow has continued. You can close this page."),
        StatusCode::ACCEPTED => ("Done", "The workflow continues. You can close this page."),
        _ => (
            "The workflow has failed",
            "It was continued, and has failed. Its operator can see why.",
        ),
    };
    page_response(status, title, &format!("<h1>{title}</h1><p>{text}</p>"))
}

/// The page of an error, with its headers.
pub(super) fn of_error(error: ApiError) -> Response {
    let (status, code, message, headers) = error.into_parts();
    let title = match status {
        StatusCode::GONE => "This link is no longer valid",
        StatusCode::NOT_FOUND => "This is not a link of this server",
        _ => "That did not work",
    };
    let mut characters = message.chars();
    let sentence: String = characters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(characters)
        .collect();
    let text = escaped(sentence.trim_end_matches('.'));
    let body = format!("<h1>{title}</h1><p>{text}.</p><p><small>{}</small></p>", escaped(code));
    let mut response = page_response(status, title, &body);
    response.headers_mut().extend(headers);
    response
}

fn page_response(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
         <style>{STYLE}</style></head><body><main>{body}</main></body></html>\n",
        escaped(title)
    );
    let mut response = (status, html).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (ROBOTS, "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn html(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), 100_000).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_page_of_an_error_has_its_code_and_its_headers() {
        let response = of_error(ApiError::unavailable("cut-off", "try <another> node."));
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        let html = html(response).await;
        assert!(
            html.contains("<small>cut-off</small>") && html.contains("Try &lt;another&gt; node."),
            "{html}"
        );
    }

    #[tokio::test]
    async fn names_and_inputs_are_text_and_no_markup() {
        let page = LinkPage {
            workflow: Some("<script>alert(1)</script>".to_owned()),
            event: Some("\"><img src=x>".to_owned()),
            refusal: None,
        };
        let fields = FormFields {
            action: "?t=a\"b".to_owned(),
            input: Some("{\"a\": \"'<&>\"}"),
            is_async: true,
        };
        let response = of_link(page, &fields);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(response.headers()[header::REFERRER_POLICY], "no-referrer");
        let html = html(response).await;
        for markup in ["<script", "<img", "a\"b", " on"] {
            assert!(
                !html.replace("Nothing has happened yet", "").contains(markup),
                "{markup}: {html}"
            );
        }
        assert!(
            html.contains("value=\"{&quot;a&quot;: &quot;&#39;&lt;&amp;&gt;&quot;}\""),
            "{html}"
        );
    }
}
