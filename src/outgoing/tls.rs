//! The TLS of outgoing requests and mails: rustls, with the roots of the system and those of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::{Error, Result};

/// The largest file of roots, in bytes.
const LARGEST: u64 = 4 << 20;

/// The configuration of a client, with the roots of a file that a setting names. Reads files: call it where that may block.
pub(crate) fn tls_config(extra_roots: Option<&Path>, setting: &str) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = extra_roots {
        add_roots(file, setting, &mut roots)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS cannot be configured").caused_by(error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Checks the file of roots that a setting names.
/// Errors: `invalid-settings`, if it has none.
pub(crate) fn check_roots(file: &Path, setting: &str) -> Result<()> {
    add_roots(file, setting, &mut RootCertStore::empty())
}

fn add_roots(file: &Path, setting: &str, roots: &mut RootCertStore) -> Result<()> {
    let shown = file.display();
    let unusable = |reason: String| {
        let message = format!("the file {shown} of the setting {setting} cannot be used: {reason}");
        Error::invalid("invalid-settings", message)
    };
    let found = certificates(file).map_err(|error| unusable(error.to_string()))?;
    match roots.add_parsable_certificates(found) {
        (0, _) => Err(unusable("it has no certificate".to_owned())),
        _ => Ok(()),
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    found.map_err(|error| io::Error::other(error.to_string()))
}
