//! A parsed template.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::{Bounds, TemplateBudget};
use super::data::TemplateData;
use super::error::TemplateError;
use super::render::Renderer;
use super::syntax::Block;
use super::{names, parser};

/// A parsed template with its text, ready to be rendered any number of times on any thread.
#[derive(Debug)]
pub struct Template {
    text: Arc<str>,
    block: Block,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The first error, with its place: it is not Liquid, or names a tag or a filter that does not exist.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let block = parser::parse(text)?;
        Ok(Self {
            text: text.into(),
            block,
        })
    }

    /// The text that was parsed.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The variables that it names behind `Variables`, each as an error at its first place. A name that is computed is not
    /// among them.
    pub fn variables(&self) -> BTreeMap<String, TemplateError> {
        names::of(&self.text, &self.block)
    }

    /// Renders it, without effects.
    ///
    /// # Errors
    /// A value that does not fit, or a bound that is reached.
    pub fn render(&self, data: &dyn TemplateData, bounds: Bounds<'_>) -> Result<String, TemplateError> {
        let rendered = Renderer::new(&self.text, data, TemplateBudget::new(bounds)).run(&self.block);
        rendered.map_err(|failure| match failure.at {
            Some(at) => TemplateError::at(&self.text, at as usize, failure.kind, failure.message),
            None => TemplateError::without_place(failure.kind, failure.message),
        })
    }
}
