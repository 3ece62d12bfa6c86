//! Parsed templates by their text, within a limit of bytes. Definitions are few, and their templates do not change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mainspring_liquid::{Template, TemplateError};

/// Bytes of memory for one byte of text: a statement of a few characters takes some hundred bytes.
const BYTES_PER_TEXT: usize = 40;

/// Bytes that all kept templates may take.
const CAPACITY: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct TemplateCache {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The templates used since the cache was last full; the others are removed first.
    recent: HashMap<Arc<str>, Arc<Template>>,
    older: HashMap<Arc<str>, Arc<Template>>,
    /// Bytes of the recent ones.
    bytes: usize,
}

impl TemplateCache {
    /// The parsed form of a text.
    pub(super) fn get(&self, text: &str) -> Result<Arc<Template>, TemplateError> {
        if let Some(found) = self.kept().find(text) {
            return Ok(found);
        }
        let parsed = Arc::new(Template::parse(text)?);
        if weight(&parsed) <= CAPACITY / 4 {
            self.kept().insert(Arc::clone(&parsed));
        }
        Ok(parsed)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, text: &str) -> Option<Arc<Template>> {
        if let Some(found) = self.recent.get(text) {
            return Some(Arc::clone(found));
        }
        let found = self.older.remove(text)?;
        self.insert(Arc::clone(&found));
        Some(found)
    }

    fn insert(&mut self, template: Arc<Template>) {
        if self.bytes + weight(&template) > CAPACITY / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += weight(&template);
        self.recent.insert(Arc::clone(template.text()), template);
    }
}

fn weight(template: &Template) -> usize {
    template.text().len().saturating_mul(BYTES_PER_TEXT) + 256
}
