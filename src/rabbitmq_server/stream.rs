//! The stream below AMQP: TCP, with TLS by rustls and ring as everywhere here, and an end that can be forced.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_rs::Tokio;
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use futures_util::Stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::address::TlsAddress;

/// The longest file with certificates or a key, in bytes.
const LONGEST_FILE: u64 = 4 << 20;

/// A stream as the client takes it.
pub(super) type ClientStream = Compat<BrokerStream>;
/// The runtime as the client takes it: tokio, with our streams.
pub(super) type ClientRuntime = RuntimeParts<Tokio, BrokerReactor>;

/// TCP or TLS. Once its token is cancelled it fails, which ends the client's thread.
pub(super) struct BrokerStream {
    inner: Inner,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl BrokerStream {
    /// Connects to the first address of a host that accepts.
    pub(super) async fn connect(
        host: &str,
        port: u16,
        tls: Option<(&Arc<ClientConfig>, &str)>,
        cut: &CancellationToken,
    ) -> io::Result<ClientStream> {
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        let inner = match tls {
            None => Inner::Plain(tcp),
            Some((config, name)) => {
                let name = ServerName::try_from(name.to_owned()).map_err(|_| {
                    io::Error::new(ErrorKind::InvalidInput, "the name of the server is not a host name")
                })?;
                let connector = TlsConnector::from(Arc::clone(config));
                Inner::Tls(Box::new(connector.connect(name, tcp).await?))
            }
        };
        let cut = Box::pin(cut.clone().cancelled_owned());
        Ok(Self { inner, cut }.compat())
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BrokerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        match &mut self.inner {
            Inner::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Inner::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for BrokerStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Inner::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Inner::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(stream) => Pin::new(stream).poll_flush(context),
            Inner::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Inner::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// How a connection is encrypted, from the files as they are now. Reads files: call it where that may block.
pub(super) fn tls_config(address: &TlsAddress) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    match &address.authority {
        Some(file) => {
            roots.add_parsable_certificates(certificates(file)?);
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(invalid("no certificate of an authority was found"));
    }
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let config = match (&address.certificate, &address.key) {
        (Some(certificate), Some(key)) => {
            let key =
                PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| invalid("the file of `keyfile` has no key"))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|_| invalid("the certificate of `certfile` and the key of `keyfile` do not match"))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(invalid("`certfile` and `keyfile` need each other")),
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let bytes = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return Err(invalid(&format!("the file {} has no certificate", file.display())));
    }
    Ok(found)
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|opened| opened.take(LONGEST_FILE).read_to_end(&mut bytes));
    read.map_err(|error| invalid(&format!("the file {} cannot be read ({error})", file.display())))?;
    Ok(bytes)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

/// Timers of tokio. It opens no connection: the client is given one.
#[derive(Clone, Debug)]
pub(super) struct BrokerReactor(Tokio);

/// The current runtime as the client takes it.
pub(super) fn runtime() -> ClientRuntime {
    RuntimeParts::new(Tokio::current(), BrokerReactor(Tokio::current()))
}

#[allow(refining_impl_trait, reason = "one type says more than the trait asks for")]
impl Reactor for BrokerReactor {
    type TcpStream = ClientStream;
    type Sleep = tokio::time::Sleep;

    fn register<H>(&self, _: H) -> io::Result<ClientStream> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = std::time::Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(&self, _: SocketAddr) -> std::future::Ready<io::Result<ClientStream>> {
        std::future::ready(Err(ErrorKind::Unsupported.into()))
    }
}
