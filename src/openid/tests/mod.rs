//! Tokens, issuers and sign-ins against a server that plays an issuer.
//!
//! # Layout
//! `signer`: keys that sign · `fake_issuer`: the server · `tokens`: which tokens are taken · `reads`: rotation, and issuers that are
//! away or broken · `sign_ins`: the code flow.

mod fake_issuer;
mod reads;
mod sign_ins;
mod signer;
mod tokens;
