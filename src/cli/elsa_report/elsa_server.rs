//! Requests to the API of an Elsa server: only GET, with a limit of time and bytes, without redirects.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::client::{AnyError, connect, connect_over};
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// How long the server may take to answer one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An Elsa server, with a new connection per request.
pub(super) struct ElsaServer {
    /// Host and port, to connect to.
    address: String,
    /// The same as the URL has it.
    host: String,
    /// The path of the API, without `/` at its end.
    path: String,
    authorization: Option<HeaderValue>,
    tls: Option<Tls>,
}

/// How the server is reached over TLS, and the name that its certificate must have.
struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// The certificates of the machine, or those of `SSL_CERT_FILE`, say which server is trusted.
    fn to(host: &str) -> Result<Self, Failure> {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name)
            .map_err(|_| Failure::usage(format!("{host} is no name of a host that a certificate can have")))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }
}

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

/// The status, the media type and the body of an answer.
type Exchanged = (StatusCode, String, Result<Vec<u8>, axum::Error>);

impl ElsaServer {
    /// The server of a URL. Errors: wrong usage.
    pub(super) fn of(url: &str, key: Option<&Secret>) -> Result<Self, Failure> {
        let (rest, is_tls) = match url.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (url.strip_prefix("http://").unwrap_or_default(), false),
        };
        let is_plain = rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#@\"<>".contains(&byte));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_plain || host.is_empty() {
            return Err(Failure::usage(
                "give the root of Elsa's API as http://host:5001/elsa/api, without user and query",
            ));
        }
        let has_port = host.rsplit_once(']').map_or(host, |(_, after)| after).contains(':');
        let name = host
            .rsplit_once(':')
            .filter(|_| has_port)
            .map_or(host, |(name, _)| name);
        let path = path.trim_end_matches('/');
        Ok(Self {
            address: if has_port {
                host.to_owned()
            } else {
                format!("{host}:{}", if is_tls { 443 } else { 80 })
            },
            host: host.to_owned(),
            path: if path.is_empty() {
                String::new()
            } else {
                format!("/{path}")
            },
            authorization: key.map(authorization).transpose()?,
            tls: is_tls.then(|| Tls::to(name)).transpose()?,
        })
    }

    /// The URL of a path below the API.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}/{path}", self.host, self.path)
    }

    /// The body of the answer to a GET, of at most so many bytes.
    pub(super) async fn get(&self, path: &str, most_bytes: usize) -> Result<Vec<u8>, NoAnswer> {
        let url = self.url(path);
        let (status, kind, body) = match tokio::time::timeout(TIMEOUT, self.exchange(path, most_bytes)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let certificate = match self.tls {
                    Some(_) => " With a certificate of a private authority, name its file in SSL_CERT_FILE",
                    None => "",
                };
                let message = format!("{url}: {error}; is the server running there?{certificate}");
                return Err(NoAnswer::silent(message));
            }
            Err(_) => {
                let message = format!("{url}: no answer within {} s", TIMEOUT.as_secs());
                return Err(NoAnswer::silent(message));
            }
        };
        let code = status.as_u16();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(NoAnswer::usage(match self.authorization {
                Some(_) => {
                    format!("{url}: the server refuses the API key ({code}); give another one by --api-key-file")
                }
                None => format!("{url}: the server wants an API key ({code}); give its file by --api-key-file"),
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

    async fn exchange(&self, path: &str, most_bytes: usize) -> Result<Exchanged, AnyError> {
        let (mut sender, _driver) = match &self.tls {
            None => connect(&self.address).await?,
            Some(tls) => {
                let stream = TcpStream::connect(&self.address).await?;
                connect_over(tls.connector.connect(tls.name.clone(), stream).await?).await?
            }
        };
        let mut request = Request::builder()
            .uri(format!("{}/{path}", self.path))
            .header(HOST, &self.host)
            .header(ACCEPT, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let response = sender.send_request(request.body(Body::empty())?).await?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let body = to_bytes(Body::new(response.into_body()), most_bytes).await;
        Ok((status, kind, body.map(|bytes| bytes.to_vec())))
    }
}

fn authorization(key: &Secret) -> Result<HeaderValue, Failure> {
    let key = key.reveal().trim();
    if key.is_empty() {
        return Err(Failure::usage("the file of --api-key-file is empty"));
    }
    // The error of the value would not quote it, and ours does not either.
    let mut value = HeaderValue::try_from(format!("ApiKey {key}"))
        .map_err(|_| Failure::usage("the file of --api-key-file has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_path() {
        for (url, address, list) in [
            ("http://h:5001/elsa/api/", "h:5001", "http://h:5001/elsa/api/x"),
            ("http://h", "h:80", "http://h/x"),
            ("http://[::1]/api", "[::1]:80", "http://[::1]/api/x"),
            ("http://[::1]:7/api", "[::1]:7", "http://[::1]:7/api/x"),
            ("https://h/api", "h:443", "https://h/api/x"),
            ("https://[::1]:7/api", "[::1]:7", "https://[::1]:7/api/x"),
        ] {
            let server = ElsaServer::of(url, None).unwrap();
            assert_eq!((server.address.as_str(), server.url("x").as_str()), (address, list));
        }
        for url in [
            "ftp://h/api",
            "https://h_/\u{e4}",
            "http://",
            "http:///api",
            "http://u:p@h/api",
            "http://h/api?x",
        ] {
            let failure = ElsaServer::of(url, None).err().unwrap();
            assert!(!format!("{failure:?}").contains("u:p"), "{url}");
        }
    }

    #[test]
    fn the_key_is_in_no_error() {
        let failure = ElsaServer::of("http://h", Some(&Secret::from("s3cret\u{7}key".to_owned())));
        assert!(!format!("{:?}", failure.err().unwrap()).contains("s3cret"));
    }
}
