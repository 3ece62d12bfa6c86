//! Liquid in the engine: parsed templates are kept, and long renderings go on beside others.
//!
//! - **It does not block others.** A rendering that has not ended within [`INLINE_STEPS`] is given up and begins again on a
//!   thread of its own, with a time limit; nothing sees the first attempt. Its caller may leave: then it stops. Long renderings have
//!   few slots, and one definition has a part of them; if none is free, the burst is deferred ([`RenderError::Busy`]).
//!
//! # Layout
//! - `engine`: [`TemplateEngine`]; `cache`: parsed templates.

mod cache;
mod engine;
#[cfg(test)]
mod tests;

#[cfg(doc)]
use engine::INLINE_STEPS;
pub(crate) use engine::{RenderError, TEMPLATES, TemplateEngine};
