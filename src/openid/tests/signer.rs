//! Keys that sign tokens, as an issuer has them.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaEncoding};
use serde_json::{Value, json};

enum SigningKey {
    Rsa(ring::rsa::KeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A key with its name.
pub(super) struct Signer {
    pub(super) id: &'static str,
    key: SigningKey,
}

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn part(value: &Value) -> String {
    encoded(value.to_string())
}

impl Signer {
    pub(super) fn rsa(id: &'static str) -> Self {
        let options = [
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
            "-outform",
            "DER",
        ];
        let made = Command::new("openssl").args(options).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Older versions write the key alone, newer ones PKCS #8.
        let key = ring::rsa::KeyPair::from_pkcs8(&made.stdout).or_else(|_| ring::rsa::KeyPair::from_der(&made.stdout));
        let key = SigningKey::Rsa(key.unwrap());
        Self { id, key }
    }

    pub(super) fn p256(id: &'static str) -> Self {
        let key = SigningKey::P256(Self::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING));
        Self { id, key }
    }

    pub(super) fn p384(id: &'static str) -> Self {
        let key = SigningKey::P384(Self::curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING));
        Self { id, key }
    }

    pub(super) fn ed25519(id: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = SigningKey::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap());
        Self { id, key }
    }

    fn curve(algorithm: &'static signature::EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
    }

    /// The algorithm that its tokens name unless a test says otherwise.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.key {
            SigningKey::Rsa(_) => "RS256",
            SigningKey::P256(_) => "ES256",
            SigningKey::P384(_) => "ES384",
            SigningKey::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key, as a set has it.
    pub(super) fn public(&self) -> Value {
        let point = |bytes: &[u8], curve: &str| {
            let (x, y) = bytes[1..].split_at(bytes.len() / 2);
            json!({"kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y), "kid": self.id, "use": "sig"})
        };
        match &self.key {
            SigningKey::Rsa(key) => {
                let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(key.public());
                // A zero before the number, as some issuers send it.
                let modulus = [vec![0], public.n].concat();
                json!({"kty": "RSA", "n": encoded(modulus), "e": encoded(public.e), "kid": self.id, "use": "sig"})
            }
            SigningKey::P256(key) => point(key.public_key().as_ref(), "P-256"),
            SigningKey::P384(key) => point(key.public_key().as_ref(), "P-384"),
            SigningKey::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key()), "kid": self.id})
            }
        }
    }

    /// A token with this header and these claims.
    pub(super) fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let algorithm = header["alg"].as_str().unwrap_or_default();
        format!("{message}.{}", encoded(self.signature(algorithm, message.as_bytes())))
    }

    /// A token with these claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "kid": self.id, "typ": "JWT"});
        self.signed(&header, claims)
    }

    fn signature(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            SigningKey::Rsa(key) => {
                let padding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, message, &mut signed).unwrap();
                signed
            }
            SigningKey::P256(key) | SigningKey::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            SigningKey::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }
}
