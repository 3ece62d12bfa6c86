//! The encryption of connections: a certificate and its key, from files that are read again when they change.
//!
//! A connection takes the pair that is in use when it begins. The files are compared by what they hold, so a replaced file, a
//! changed link to another folder and a copied one are all seen. A pair that cannot be used, and one of which only one file has been
//! replaced yet, changes nothing: the former pair stays in use.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::{Error, Result};

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;
/// Between two readings of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// The first byte of each connection of TLS: that of a record of its handshake.
pub(super) const HANDSHAKE_RECORD: u8 = 0x16;

/// The certificate and the key of a server, in two files.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Files>);

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    in_use: RwLock<Pair>,
}

/// A certificate with its key, as it is used.
#[derive(Clone, Debug)]
struct Pair {
    config: Arc<ServerConfig>,
    /// Of both files.
    digest: [u8; 32],
}

/// What the files hold. It is not printed: one of them is the key.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl ServerTls {
    /// Reads a certificate, which those that lead to its authority may follow, and its key, both in PEM. Blocks while it reads.
    ///
    /// # Errors
    /// `invalid-settings`, if a file cannot be read, or they are no certificate and its key.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self> {
        let (certificate, key) = (certificate.into(), key.into());
        let pair = Contents::read(&certificate, &key).and_then(|contents| contents.pair(&certificate, &key));
        let pair = pair.map_err(|why| Error::invalid("invalid-settings", why))?;
        Ok(Self(Arc::new(Files {
            certificate,
            key,
            in_use: RwLock::new(pair),
        })))
    }

    /// Encrypts a connection by the pair that is in use.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.pair().config);
        acceptor.accept(stream).await
    }

    fn pair(&self) -> Pair {
        self.0.in_use.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again at an interval, and never ends. Cancellation safe: a reading that has begun has no effect.
    pub(super) async fn keep_current(self) -> Infallible {
        let mut interval = tokio::time::interval(RELOAD_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut refused = Refused::default();
        loop {
            interval.tick().await;
            self.reload(&mut refused).await;
        }
    }

    async fn reload(&self, refused: &mut Refused) {
        let (files, in_use) = (Arc::clone(&self.0), self.pair().digest);
        let read = tokio::task::spawn_blocking(move || {
            let contents = Contents::read(&files.certificate, &files.key)?;
            if contents.digest() == in_use {
                return Ok(None);
            }
            contents.pair(&files.certificate, &files.key).map(Some)
        });
        match read.await {
            Ok(Ok(None)) => refused.end(),
            Ok(Ok(Some(pair))) => {
                *self.0.in_use.write().unwrap_or_else(PoisonError::into_inner) = pair;
                *refused = Refused::default();
                metrics::counter!("mainspring_tls_reloads_total", "result" => "loaded").increment(1);
                tracing::info!(file = %self.0.certificate.display(), "the changed certificate is in use");
            }
            Ok(Err(why)) => refused.note(why),
            Err(error) => refused.note(error.to_string()),
        }
    }
}

/// Files that cannot be used, and what was said of them.
#[derive(Debug, Default)]
struct Refused {
    /// At how many readings in a row.
    times: u32,
    said: Option<String>,
}

impl Refused {
    /// Says why, once for each reason. At the first time the other file may just not be there yet.
    fn note(&mut self, why: String) {
        self.times = self.times.saturating_add(1);
        if self.times < 2 || self.said.as_ref() == Some(&why) {
            return;
        }
        metrics::counter!("mainspring_tls_reloads_total", "result" => "refused").increment(1);
        tracing::warn!("a changed certificate is not used, and the former one stays in use: {why}");
        self.said = Some(why);
    }

    /// The files are those in use.
    fn end(&mut self) {
        if self.said.is_some() {
            tracing::info!("the files of the certificate are again those in use");
        }
        *self = Self::default();
    }
}

impl Contents {
    fn read(certificate: &Path, key: &Path) -> std::result::Result<Self, String> {
        Ok(Self {
            certificate: bytes_of(certificate)?,
            key: bytes_of(key)?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let each = [&self.certificate, &self.key].map(Sha256::digest);
        Sha256::digest(each.concat()).into()
    }

    /// Errors: Why the files are of no use, without anything that they hold.
    fn pair(&self, certificate: &Path, key: &Path) -> std::result::Result<Pair, String> {
        let unusable = |file: &Path, why: &str| format!("the file {} cannot be used: {why}", file.display());
        let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|_| unusable(certificate, "it is no PEM file"))?;
        if chain.is_empty() {
            return Err(unusable(certificate, "it has no certificate in PEM"));
        }
        let secret = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            let why = "it has no private key in PEM, or an encrypted one, which is not read";
            unusable(key, why)
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be configured: {error}"))?
            .with_no_client_auth()
            .with_single_cert(chain, secret);
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let (certificate, key) = (certificate.display(), key.display());
                format!("the key in {key} is not that of the certificate in {certificate}")
            }
            error => unusable(certificate, &error.to_string()),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Pair {
            config: Arc::new(config),
            digest: self.digest(),
        })
    }
}

fn bytes_of(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let unreadable = |why: String| format!("the file {} cannot be read: {why}", path.display());
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let read = opened.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(unreadable(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}
