//! The URL under which clients reach the server.

/// Where clients reach the API: only scheme, host, port and path.
pub(super) fn public_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = |rest: &&str| {
        !rest.starts_with('/')
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"?#@\"<>".contains(&byte))
    };
    match rest.filter(is_plain) {
        Some(rest) if !rest.is_empty() && text.len() <= 500 => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(
            "expected a URL of at most 500 characters such as https://workflows.example/base, without user and query"
                .to_owned(),
        ),
    }
}
