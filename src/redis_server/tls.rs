//! A private certificate authority and a client certificate, from files that are read for each connection.

use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, TlsCertificates};

use crate::{Error, Result};

/// The longest file, in bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// Where the files are, in PEM.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisTlsFiles {
    /// The certificates that sign the server's, in the place of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of this client, and those that lead to its authority.
    pub(crate) cert: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
}

impl RedisTlsFiles {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.ca.is_none() && self.cert.is_none() && self.key.is_none()
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<TlsCertificates> {
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            (None, None) => None,
            _ => {
                let message =
                    "a client certificate for Redis needs its key: give both redis-cert-file and redis-key-file";
                return Err(Error::invalid("invalid-settings", message));
            }
        };
        let root_cert = self.ca.as_deref().map(read).transpose()?;
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let unreadable = |why: &str| {
        let message = format!("the file {} for TLS with Redis cannot be used: {why}", path.display());
        Error::invalid("invalid-settings", message)
    };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(LONGEST_FILE).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(&error.to_string()))?;
    if !bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        return Err(unreadable("it is not PEM"));
    }
    Ok(bytes)
}
