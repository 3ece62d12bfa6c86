//! Authentication of requests: who sends them, the admitted values of `Host` and `Origin`, and the defence against
//! cross-site requests. Nothing here knows a route.
//!
//! # Layout
//!
//! - `authenticator`: asks for a `credential` what can know it: `api_key` (the static key), `local_identity` (users and
//!   applications), `issuers` (OpenID providers); `refused_keys`: counts what none of them knows. `caller`: how a handler
//!   receives what was found.
//! - `hosts`, `cors`, `cross_site`: which requests of browsers are admitted.

mod api_key;
mod authenticator;
mod caller;
pub(crate) mod cors;
mod credential;
pub(crate) mod cross_site;
mod hosts;
mod issuers;
mod local_identity;
mod refused_keys;

pub use api_key::ApiKey;
pub(crate) use authenticator::Authenticator;
pub(crate) use credential::{Credential, Refusal};
pub(crate) use hosts::AllowedHosts;
#[cfg(feature = "cli")]
pub(crate) use hosts::{admits_strangers, parse_allowed_host};
pub(crate) use issuers::Issuers;
pub(crate) use local_identity::LocalIdentity;
pub(crate) use refused_keys::RefusedKeys;

pub(crate) use crate::identity::{Caller, CallerKind, Permission, RequestOrigin};
