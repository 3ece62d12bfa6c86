#![doc = include_str!("../README.md")]
//!
//! # Layout
//! - `template`: [`Template`]; `error`: why a template has no text; `budget`: the bounds.
//! - `parser`, `syntax`: from text to statements; `names`: the variables that a template names.
//! - `render`, `evaluate`, `comparison`: the meaning of statements and expressions; `data`: what a template sees.
//! - `value`, `number`: Fluid's values; `filters`.

mod budget;
mod comparison;
mod data;
mod error;
mod evaluate;
mod filters;
mod names;
mod number;
mod parser;
mod render;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use budget::Bounds;
pub use data::{Fact, TemplateData, ValueKind};
pub use error::{ErrorKind, TemplateError};
pub use mainspring_language::{Steps, Stopped};
pub use template::Template;
