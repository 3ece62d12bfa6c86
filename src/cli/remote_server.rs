//! A server that a command asks over HTTP: its URL, its certificate, the API key for it, and one request per connection, without
//! redirects.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::client::{AnyError, connect, connect_over};
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// A server, with a new connection per request.
pub(super) struct RemoteServer {
    /// Host and port, to connect to.
    address: String,
    /// The same as the URL has it.
    host: String,
    /// The path of the URL, without `/` at its end.
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

/// A request below the path of the server.
pub(super) struct RemoteRequest<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'static str, &'a str)],
    /// JSON.
    pub(super) body: Option<String>,
    /// The largest answer.
    pub(super) most_bytes: usize,
}

/// What came back.
pub(super) struct RemoteAnswer {
    pub(super) status: StatusCode,
    /// The media type, in small letters; empty without one.
    pub(super) kind: String,
    pub(super) body: Result<Vec<u8>, axum::Error>,
    /// The time from the request, over a connection that was open, to the end of the answer.
    pub(super) took: Duration,
}

/// Why no answer came.
#[derive(Debug)]
pub(super) struct NotAnswered {
    /// The request was sent, or a part of it: the server may have done what it asks for.
    pub(super) was_sent: bool,
    error: AnyError,
}

impl fmt::Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl RemoteServer {
    /// The server of a URL; `wanted` says what to give instead of one that is wrong. Errors: wrong usage.
    pub(super) fn of(url: &str, wanted: &str, key: Option<&Secret>) -> Result<Self, Failure> {
        let (rest, is_tls) = match url.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (url.strip_prefix("http://").unwrap_or_default(), false),
        };
        let is_plain = rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#@\"<>".contains(&byte));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_plain || host.is_empty() {
            return Err(Failure::usage(format!("give {wanted}, without user and query")));
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

    /// The URL of a path below that of the server.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}/{path}", self.host, self.path)
    }

    pub(super) fn has_key(&self) -> bool {
        self.authorization.is_some()
    }

    /// What to say after an error of the connection, if it may be one of the certificate.
    pub(super) fn certificate_hint(&self) -> &'static str {
        match self.tls {
            Some(_) => " With a certificate of a private authority, name its file in SSL_CERT_FILE",
            None => "",
        }
    }

    /// Sends a request. Not cancellation safe: the server may have executed a request whose future was dropped.
    pub(super) async fn exchange(&self, request: RemoteRequest<'_>) -> Result<RemoteAnswer, NotAnswered> {
        let of_connection = |error| NotAnswered { was_sent: false, error };
        let of_exchange = |error| NotAnswered { was_sent: true, error };
        let most_bytes = request.most_bytes;
        let request = self.request(request).map_err(of_connection)?;
        let (mut sender, _driver) = self.connect().await.map_err(of_connection)?;
        let began = Instant::now();
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| of_exchange(error.into()))?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let body = to_bytes(Body::new(response.into_body()), most_bytes).await;
        Ok(RemoteAnswer {
            status,
            kind,
            body: body.map(|bytes| bytes.to_vec()),
            took: began.elapsed(),
        })
    }

    async fn connect(&self) -> Result<(SendRequest<Body>, AbortOnDropHandle<()>), AnyError> {
        match &self.tls {
            None => connect(&self.address).await,
            Some(tls) => {
                let stream = TcpStream::connect(&self.address).await?;
                connect_over(tls.connector.connect(tls.name.clone(), stream).await?).await
            }
        }
    }

    fn request(&self, request: RemoteRequest<'_>) -> Result<Request<Body>, AnyError> {
        let mut built = Request::builder()
            .method(request.method)
            .uri(format!("{}/{}", self.path, request.path))
            .header(HOST, &self.host)
            .header(ACCEPT, "application/json");
        if let Some(value) = &self.authorization {
            built = built.header(AUTHORIZATION, value.clone());
        }
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        Ok(match request.body {
            None => built.body(Body::empty())?,
            Some(json) => built.header(CONTENT_TYPE, "application/json").body(Body::from(json))?,
        })
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
            let server = RemoteServer::of(url, "a URL", None).unwrap();
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
            let failure = RemoteServer::of(url, "a URL", None).err().unwrap();
            assert!(!format!("{failure:?}").contains("u:p"), "{url}");
        }
    }

    #[test]
    fn the_key_is_in_no_error() {
        let failure = RemoteServer::of("http://h", "a URL", Some(&Secret::from("s3cret\u{7}key".to_owned())));
        assert!(!format!("{:?}", failure.err().unwrap()).contains("s3cret"));
    }
}
