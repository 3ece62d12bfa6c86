//! Authentication of requests: the API key, the admitted values of `Host` and `Origin`, and the defence against
//! cross-site requests. Nothing here knows a route.

mod api_key;
pub(crate) mod cors;
pub(crate) mod cross_site;
mod hosts;
mod refused_keys;

pub use api_key::ApiKey;
pub(crate) use hosts::AllowedHosts;
pub(crate) use refused_keys::RefusedKeys;
