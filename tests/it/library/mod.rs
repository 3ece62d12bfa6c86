//! The engine as a library.

mod engine;
mod examples;
mod hung;
mod lifecycle;
mod lost_locks;
mod output_converters;
#[cfg(feature = "testing")]
mod providers;
#[path = "../../../examples/providers.rs"]
#[allow(dead_code)]
mod providers_example;
mod requests;
mod resume_url;
mod services;
mod tenants;
