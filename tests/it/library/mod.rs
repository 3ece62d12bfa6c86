//! The engine as a library.

mod engine;
mod examples;
mod lifecycle;
mod requests;
mod services;
