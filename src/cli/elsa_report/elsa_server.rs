//! Requests to the API of an Elsa server: only GET, with a limit of time and bytes, without redirects.

use std::time::Duration;

use hyper::{Method, StatusCode};

use crate::cli::remote_server::{RemoteRequest, RemoteServer};
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// How long the server may take to answer one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An Elsa server, at the root of its API.
pub(super) struct ElsaServer(RemoteServer);

/// Why a request has no answer that can be used.
pub(super) struct NoAnswer {
    /// The problem, and its remedy.
    pub(super) message: String,
    /// The server was not reached, or did not answer.
    pub(super) is_silent: bool,
    /// The URL or the key is wrong.
    is_usage: bool,
}

impl NoAnswer {
    fn of(message: String) -> Self {
        Self {
            message,
            is_silent: false,
            is_usage: false,
        }
    }

    fn silent(message: String) -> Self {
        Self {
            is_silent: true,
            ..Self::of(message)
        }
    }

    fn usage(message: String) -> Self {
        Self {
            is_usage: true,
            ..Self::of(message)
        }
    }

    /// The failure of a command that cannot go on.
    pub(super) fn into_failure(self) -> Failure {
        if self.is_usage {
            Failure::usage(self.message)
        } else {
            Failure::failed(self.message)
        }
    }
}

impl ElsaServer {
    /// The server of a URL. Errors: wrong usage.
    pub(super) fn of(url: &str, key: Option<&Secret>) -> Result<Self, Failure> {
        let server = RemoteServer::of(url, "the root of Elsa's API as http://host:5001/elsa/api", key)?;
        Ok(Self(server))
    }

    /// The URL of a path below the API.
    pub(super) fn url(&self, path: &str) -> String {
        self.0.url(path)
    }

    /// The body of the answer to a GET, of at most so many bytes.
    pub(super) async fn get(&self, path: &str, most_bytes: usize) -> Result<Vec<u8>, NoAnswer> {
        let url = self.url(path);
        let request = RemoteRequest {
            method: Method::GET,
            path,
            headers: &[],
            body: None,
            most_bytes,
        };
        let (status, kind, body) = match tokio::time::timeout(TIMEOUT, self.0.exchange(request)).await {
            Ok(Ok(answer)) => (answer.status, answer.kind, answer.body),
            Ok(Err(error)) => {
                let hint = self.0.certificate_hint();
                let message = format!("{url}: {error}; is the server running there?{hint}");
                return Err(NoAnswer::silent(message));
            }
            Err(_) => {
                let message = format!("{url}: no answer within {} s", TIMEOUT.as_secs());
                return Err(NoAnswer::silent(message));
            }
        };
        let code = status.as_u16();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(NoAnswer::usage(if self.0.has_key() {
                format!("{url}: the server refuses the API key ({code}); give another one by --api-key-file")
            } else {
                format!("{url}: the server wants an API key ({code}); give its file by --api-key-file")
            }));
        }
        if status.is_redirection() {
            let message =
                format!("{url}: the server redirects ({code}), which is not followed; give the URL of the API itself");
            return Err(NoAnswer::usage(message));
        }
        let body = body.map_err(|error| {
            let message = format!("{url}: the answer breaks off, or has more than {most_bytes} bytes: {error}");
            NoAnswer::of(message)
        })?;
        let is_html = kind.contains("html") || body.trim_ascii_start().starts_with(b"<");
        if status == StatusCode::NOT_FOUND || is_html {
            let what = if is_html { "HTML" } else { "404" };
            let message = format!(
                "{url}: the answer is {what}; is this the root of Elsa's API, such as http://host:5001/elsa/api?"
            );
            return Err(NoAnswer::usage(message));
        }
        if !status.is_success() {
            return Err(NoAnswer::of(format!(
                "{url}: the server answers {code}; its log says why"
            )));
        }
        Ok(body)
    }
}
