//! Sign-in and tokens of OpenID Connect issuers, such as Entra, Keycloak and Auth0.
//!
//! The document of an issuer (discovery) and its keys are read in the background and held in memory, so a token is verified
//! without a request. Nothing about a session is stored here: what a browser needs between two steps it keeps itself, so any node
//! may serve the next step.
//!
//! # Invariants
//!
//! - **The settings decide what is trusted**: an issuer by its exact URL, a key by the document of that issuer, an algorithm by the
//!   kind of its key. What a token says of itself selects among these and adds nothing.
//! - **Only signatures of public keys are taken**, so no published key turns into a secret of HMAC; `none` is no algorithm.
//! - **A forged token costs no request of its own**: an unknown key is looked for once in ten seconds, for all requests together.
//!
//! # Layout
//!
//! - `options`: an issuer, as settings describe it. `issuer`: its document and keys, kept fresh.
//! - `discovery`: reads both. `web_key`: a key of the set. `web_token`: a token, its signature and its times.
//! - `claims`: what the claims of a token come to. `code_flow`: sign-in with a code and PKCE.
//! - `token_problem`: why a token is not taken.

mod claims;
mod code_flow;
mod discovery;
mod issuer;
mod options;
#[cfg(test)]
mod tests;
mod token_problem;
mod web_key;
mod web_token;

pub(crate) use claims::ExternalUser;
pub(crate) use code_flow::{CodeAnswer, CodeFlowProblem, IssuedSession, is_return_address};
pub(crate) use issuer::Issuer;
pub use options::{BearerToken, ClaimGrant, CodeFlowOptions, IssuerList, IssuerOptions};
pub(crate) use token_problem::TokenProblem;
pub(crate) use web_token::issuer_of;

/// The time by the database's clock, in seconds since 1970; `None` while it is not known.
pub(crate) type DatabaseTime = std::sync::Arc<dyn Fn() -> Option<i64> + Send + Sync>;
