//! Certificates of a test, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A private authority with a certificate for 127.0.0.1 and redis.invalid, and one for a client.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-tls-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:redis.invalid").unwrap();
        let made = Self(folder);
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        made.openssl(
            &[
                "req",
                "-x509",
                "-subj",
                "/CN=authority",
                "-days",
                "2",
                "-keyout",
                "ca.key",
                "-out",
                "ca.pem",
            ],
            &key,
        );
        for name in ["server", "client"] {
            let (request, secret, signed) = (format!("{name}.csr"), format!("{name}.key"), format!("{name}.pem"));
            let subject = format!("/CN={name}");
            made.openssl(&["req", "-subj", &subject, "-keyout", &secret, "-out", &request], &key);
            let authority = [
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "2",
                "-extfile",
                "names",
            ];
            made.openssl(&["x509", "-req", "-in", &request, "-out", &signed], &authority);
        }
        made
    }

    fn openssl(&self, arguments: &[&str], more: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command
            .args(arguments)
            .args(more)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}
