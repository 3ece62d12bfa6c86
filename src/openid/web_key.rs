//! A public key of an issuer (RFC 7517), and the signatures that it verifies (RFC 7518).
//!
//! `ring` verifies them, on which TLS runs: crates of tokens bring a second cryptography, with an RSA that has an open advisory
//! (RUSTSEC-2023-0071).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys of a set that are looked at.
const MOST_KEYS: usize = 100;

/// A signature of a public key. Those of shared secrets are left out: a public key could be taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl SignatureAlgorithm {
    /// The algorithm with a name, compared exactly, as it is registered.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key of an issuer.
#[derive(Clone, Debug)]
pub(super) struct WebKey {
    pub(super) id: Option<String>,
    /// The one algorithm that the set names for it.
    algorithm: Option<SignatureAlgorithm>,
    material: KeyMaterial,
}

/// The members of a key. Others, such as certificates, are not looked at.
#[derive(Deserialize)]
struct KeyFields {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of a set that verify signatures; the others are skipped, as a set may have keys of every kind.
/// Errors: It is no set, or has no such key.
pub(super) fn keys_of(set: &Value) -> Result<Vec<WebKey>, String> {
    let listed = set.get("keys").and_then(Value::as_array);
    let listed = listed.ok_or("the set of keys has no list `keys`")?;
    if listed.len() > MOST_KEYS {
        return Err(format!("the set has {} keys; {MOST_KEYS} is the most", listed.len()));
    }
    let keys: Vec<WebKey> = listed.iter().filter_map(WebKey::read).collect();
    if keys.is_empty() {
        return Err(format!(
            "none of the {} keys of the set verifies signatures of RSA (2048 bits or more), P-256, P-384 or Ed25519",
            listed.len()
        ));
    }
    Ok(keys)
}

impl WebKey {
    fn read(value: &Value) -> Option<Self> {
        let fields = KeyFields::deserialize(value).ok()?;
        let verifies = fields.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && fields
                .key_ops
                .as_ref()
                .is_none_or(|all| all.iter().any(|one| one == "verify"));
        if !verifies {
            return None;
        }
        let algorithm = match &fields.alg {
            // A key of another algorithm verifies nothing here.
            Some(name) => Some(SignatureAlgorithm::named(name)?),
            None => None,
        };
        let material = fields.material()?;
        Some(Self {
            id: fields.kid,
            algorithm,
            material,
        })
    }

    /// Whether this key may verify signatures of an algorithm.
    pub(super) fn takes(&self, algorithm: SignatureAlgorithm) -> bool {
        use SignatureAlgorithm as A;
        let of_kind = match &self.material {
            KeyMaterial::Rsa(..) => matches!(
                algorithm,
                A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512
            ),
            KeyMaterial::P256(_) => algorithm == A::Es256,
            KeyMaterial::P384(_) => algorithm == A::Es384,
            KeyMaterial::Ed25519(_) => algorithm == A::EdDsa,
        };
        of_kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Whether a signature of this algorithm is that of this key.
    pub(super) fn verifies(&self, algorithm: SignatureAlgorithm, message: &[u8], given: &[u8]) -> bool {
        use SignatureAlgorithm as A;
        if !self.takes(algorithm) {
            return false;
        }
        let verified = match &self.material {
            KeyMaterial::Rsa(n, e) => {
                let parameters = match algorithm {
                    A::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    A::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    A::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    A::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    A::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, given)
            }
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, given)
            }
            KeyMaterial::P384(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(message, given)
            }
            KeyMaterial::Ed25519(point) => UnparsedPublicKey::new(&signature::ED25519, point).verify(message, given),
        };
        verified.is_ok()
    }
}

impl KeyFields {
    fn material(&self) -> Option<KeyMaterial> {
        let curve = self.crv.as_deref().unwrap_or_default();
        Some(match (self.kty.as_str(), curve) {
            ("RSA", _) => {
                let modulus = number(self.n.as_deref()?)?;
                // The library below takes no smaller key either, but says so only at the first token.
                if modulus.len() < 256 {
                    return None;
                }
                KeyMaterial::Rsa(modulus, number(self.e.as_deref()?)?)
            }
            ("EC", "P-256") => KeyMaterial::P256(self.point(32)?),
            ("EC", "P-384") => KeyMaterial::P384(self.point(48)?),
            ("OKP", "Ed25519") => {
                let point = bytes(self.x.as_deref()?)?;
                (point.len() == 32).then_some(KeyMaterial::Ed25519(point))?
            }
            _ => return None,
        })
    }

    /// A point with coordinates of this length, as the library below takes it.
    fn point(&self, length: usize) -> Option<Vec<u8>> {
        let (x, y) = (bytes(self.x.as_deref()?)?, bytes(self.y.as_deref()?)?);
        let is_whole = x.len() == length && y.len() == length;
        is_whole.then(|| [vec![4], x, y].concat())
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    // Some issuers pad.
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

/// A number without the zeros before it, which some issuers send.
fn number(text: &str) -> Option<Vec<u8>> {
    let mut digits = bytes(text)?;
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    Some(digits)
}
