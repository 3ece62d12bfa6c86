//! What a program sets of the HTTP activities.

use std::path::PathBuf;

use super::services::{DEFAULT_BASE_PATH, HttpServices};
use crate::outgoing::{OutgoingClient, OutgoingOptions};
use crate::spool::{DEFAULT_LIMIT, Spool};
use crate::{Error, Result};

/// The longest base path, in bytes.
const LONGEST: usize = 200;

/// First segments that the server has for itself.
const TAKEN: [&str; 5] = ["elsa", "studio", "health", "openapi", "openapi.json"];

/// What the HTTP activities of an engine use.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where clients reach the server, for URLs that are shown: `https://workflows.example`. Default: as each client names it.
    pub base_url: Option<String>,
    /// The path below which workflows are served. It is not empty, and leaves the API its own paths. Default: `/workflows`.
    pub base_path: String,
    /// The directory for bodies and files that are too large for memory. Default: one in the system's directory for temporary
    /// files, made when it is needed.
    pub spool_directory: Option<PathBuf>,
    /// What all these files may take, in bytes. Default: 1 GiB.
    pub spool_bytes: u64,
    /// How workflows send requests, and to whom.
    pub outgoing: OutgoingOptions,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            base_url: None,
            base_path: DEFAULT_BASE_PATH.to_owned(),
            spool_directory: None,
            spool_bytes: DEFAULT_LIMIT,
            outgoing: OutgoingOptions::default(),
        }
    }
}

impl HttpOptions {
    /// What the activities share.
    /// Errors: `invalid-settings`, for a base path, a target, a proxy or a file of certificates that cannot be used.
    pub(crate) fn services(self) -> Result<HttpServices> {
        let base_path = base_path(&self.base_path).map_err(|problem| Error::invalid("invalid-settings", problem))?;
        Ok(HttpServices {
            base_url: self.base_url,
            base_path,
            spool: Spool::lazy(self.spool_directory, self.spool_bytes),
            outgoing: OutgoingClient::new(self.outgoing)?,
        })
    }
}

/// A base path with its first slash and without a last one.
/// Errors: why it cannot be used.
pub(crate) fn base_path(text: &str) -> std::result::Result<String, String> {
    let path = text.trim_matches('/');
    if path.is_empty() {
        return Err("an empty base path would hide the API; give one such as /workflows".to_owned());
    }
    let is_plain = |segment: &str| {
        let mut bytes = segment.bytes();
        let is_named = !segment.is_empty() && segment != "." && segment != "..";
        is_named && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    if path.len() > LONGEST || !path.split('/').all(is_plain) {
        return Err(format!(
            "a base path has at most {LONGEST} bytes, and segments of letters, digits and -._~ only"
        ));
    }
    let mut segments = path.split('/');
    let (first, second) = (segments.next().unwrap_or_default(), segments.next());
    let is_taken = TAKEN.iter().any(|taken| taken.eq_ignore_ascii_case(first));
    let is_resume =
        first.eq_ignore_ascii_case("workflows") && second.is_some_and(|it| it.eq_ignore_ascii_case("resume"));
    if is_taken || is_resume {
        return Err(format!(
            "the base path /{path} would hide routes of the API; give one such as /workflows"
        ));
    }
    Ok(format!("/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_hides_no_route_of_the_api() {
        for (given, used) in [
            ("/workflows", "/workflows"),
            ("flows/", "/flows"),
            ("/a/b-c.d", "/a/b-c.d"),
            ("/workflows/v1", "/workflows/v1"),
        ] {
            assert_eq!(base_path(given).as_deref(), Ok(used));
        }
        for bad in [
            "",
            "/",
            "/elsa",
            "/Elsa/api",
            "studio",
            "/health/x",
            "/openapi",
            "/a//b",
            "/a b",
            "/a/../b",
            "/{x}",
            "/a?b",
            "/workflows/resume",
            "/%77",
            &"x".repeat(201),
        ] {
            assert!(base_path(bad).is_err(), "{bad}");
        }
    }
}
