//! Liquid: Elsa's templates, with the meaning of Fluid 2.31, which Elsa uses.
//!
//! A template is parsed once and kept; it renders to a text without I/O and without effects. These invariants hold:
//!
//! - **It ends.** All work counts as steps. A rendering that has not ended within [`INLINE_STEPS`] is given up and begins
//!   again on a thread of its own, with a time limit; nothing sees the first attempt. Its caller may leave: then it stops.
//! - **It does not block others.** Long renderings have few slots, and one definition has a part of them; if none is free, the
//!   burst is deferred ([`TemplateErrorKind::Busy`]).
//! - **It is bounded.** A template has a size and a depth, its text and the values that it holds have a number of bytes. A
//!   range is never made as a list for a loop.
//! - **It is isolated.** It sees [`TemplateData`], and nothing of the host: no files, no .NET, and of settings those that the
//!   operator lists.
//!
//! # Layout
//! - `engine`: [`TemplateEngine`]; `cache`: parsed templates; `error`: why there is no text.
//! - `parser`, `syntax`: from the text to statements; `render`, `evaluate`, `comparison`: their meaning.
//! - `value`, `number`: Fluid's values; `filters`; `data`: what a template sees; `names`: what of it a text names; `budget`: the bounds.

mod budget;
mod cache;
mod comparison;
mod data;
mod engine;
mod error;
mod evaluate;
mod filters;
mod names;
mod number;
mod parser;
mod render;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use data::{Fact, TemplateData};
pub(crate) use engine::{TEMPLATES, TemplateEngine, TemplateLimits};
pub(crate) use error::TemplateErrorKind;

#[cfg(doc)]
use engine::INLINE_STEPS;
