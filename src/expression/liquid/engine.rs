//! The engine: a rendering on the caller's thread if it is short, else on a thread of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use mainspring_liquid::{Bounds, ErrorKind, Template, TemplateData, TemplateError};

use super::cache::TemplateCache;
use crate::expression::processor::{Pace, Turns};
use crate::expression::script::ScriptOptions;

/// Steps on the caller's thread: about a millisecond.
pub(super) const INLINE_STEPS: u64 = 10_000;

/// Steps of a long rendering: more than the time limit allows, whatever the processor.
const MOST_STEPS: u64 = 1_000_000_000;

/// Bytes that the values of one rendering hold.
const MEMORY: usize = 16 << 20;

/// Long renderings that run or wait for their turn.
const SLOTS: usize = 16;

/// Of these, those of one definition.
const SLOTS_PER_DEFINITION: usize = SLOTS / 4;

/// For how long a burst is deferred that found no slot.
const PAUSE: Duration = Duration::from_secs(1);

/// The engine of this process: its templates are the same for all, and its slots bound the process.
pub(crate) static TEMPLATES: LazyLock<TemplateEngine> = LazyLock::new(TemplateEngine::new);

/// Renders templates.
#[derive(Debug)]
pub(crate) struct TemplateEngine {
    cache: TemplateCache,
    /// The definitions of the long renderings.
    long: Arc<Mutex<Vec<String>>>,
}

/// Why there is no text.
#[derive(Debug)]
pub(crate) enum RenderError {
    /// The template has failed.
    Template(TemplateError),
    /// No slot is free for it now. The template is not at fault: its burst is to be deferred.
    Busy,
    /// This node is shutting down.
    Closed,
}

impl From<TemplateError> for RenderError {
    fn from(error: TemplateError) -> Self {
        Self::Template(error)
    }
}

impl TemplateEngine {
    pub(super) fn new() -> Self {
        Self {
            cache: TemplateCache::default(),
            long: Arc::default(),
        }
    }

    /// Long renderings that have a slot.
    #[cfg(test)]
    pub(super) fn long(&self) -> usize {
        self.long.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The variables that a text names, each with its first place; or the first error of the text.
    pub(crate) fn check(&self, text: &str) -> Result<BTreeMap<String, TemplateError>, TemplateError> {
        Ok(Template::parse(text)?.variables())
    }

    /// For how long the burst of a template that ended with [`RenderError::Busy`] is to be deferred.
    pub(crate) fn pause() -> Duration {
        PAUSE
    }

    /// Renders a template. What it sees is asked for again, as a whole and for another thread, only if it is long; none: it
    /// must not run for long now.
    ///
    /// Cancellation safe: a dropped future stops the rendering, and nothing of it remains.
    pub(crate) async fn render<D: TemplateData + Send + Sync + 'static>(
        &self,
        text: &str,
        definition: &str,
        options: &ScriptOptions,
        turns: &Arc<Turns>,
        data: &(dyn TemplateData + Sync),
        owned: impl FnOnce() -> Option<D>,
    ) -> Result<String, RenderError> {
        let template = self.cache.get(text)?;
        let bounds = |steps: u64| Bounds {
            steps,
            memory: MEMORY,
            output: options.max_result_bytes,
            caller: None,
        };
        match template.render(data, bounds(INLINE_STEPS)) {
            Err(error) if error.kind == ErrorKind::Timeout => {}
            result => return Ok(result?),
        }
        let slot = Slot::take(&self.long, definition);
        let Some((slot, data)) = slot.and_then(|slot| Some((slot, owned()?))) else {
            return Err(RenderError::Busy);
        };
        let stop = StopOnDrop(Arc::default());
        let (flag, turns) = (Arc::clone(&stop.0), Arc::clone(turns));
        let (time_limit, bounds) = (options.time_limit, bounds(MOST_STEPS));
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let pace = Pace::begin(&turns, "Liquid", &flag, time_limit).ok_or(RenderError::Closed)?;
            let bounds = Bounds {
                caller: Some(&pace),
                ..bounds
            };
            Ok(template.render(&data, bounds)?)
        });
        done.await.unwrap_or(Err(RenderError::Closed))
    }
}

/// Stops a rendering that nothing awaits.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A slot of a definition; given back when dropped.
struct Slot {
    definition: String,
    long: Arc<Mutex<Vec<String>>>,
}

impl Slot {
    fn take(long: &Arc<Mutex<Vec<String>>>, definition: &str) -> Option<Self> {
        let mut taken = long.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.iter().filter(|other| *other == definition).count();
        if taken.len() >= SLOTS || own >= SLOTS_PER_DEFINITION {
            return None;
        }
        taken.push(definition.to_owned());
        Some(Self {
            definition: definition.to_owned(),
            long: Arc::clone(long),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = taken.iter().position(|other| *other == self.definition) {
            taken.swap_remove(place);
        }
    }
}
