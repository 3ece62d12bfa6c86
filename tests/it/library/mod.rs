//! The engine as a library.

mod engine;
mod lifecycle;
mod requests;
mod services;
