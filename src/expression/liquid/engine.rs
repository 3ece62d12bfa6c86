//! The engine: a rendering on the caller's thread if it is short, else on a thread of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use super::budget::{TemplateBudget, WorkLimits};
use super::cache::{Template, TemplateCache};
use super::data::TemplateData;
use super::error::{TemplateError, TemplateErrorKind, TemplateFailure};
use super::names;
use super::render::Renderer;
use crate::expression::processor::{Pace, TurnLanguage, Turns};

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

/// The limits of a rendering that its caller sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateLimits {
    pub(crate) time: Duration,
    pub(crate) output: usize,
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
        let template = Template::parse(text)?;
        Ok(names::of(&template.text, &template.block))
    }

    /// For how long the burst of a template that ended with [`TemplateErrorKind::Busy`] is to be deferred.
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
        limits: TemplateLimits,
        turns: &Arc<Turns>,
        data: &(dyn TemplateData + Sync),
        owned: impl FnOnce() -> Option<D>,
    ) -> Result<String, TemplateError> {
        let template = self.cache.get(text)?;
        let first = render(&template, data, inline(limits), None);
        match first {
            Err(failure) if failure.kind == TemplateErrorKind::Timeout => {}
            result => return result.map_err(|failure| located(&template, failure)),
        }
        let slot = Slot::take(&self.long, definition);
        let Some((slot, data)) = slot.and_then(|slot| Some((slot, owned()?))) else {
            return Err(TemplateError::without_place(
                TemplateErrorKind::Busy,
                "no slot is free for a long template",
            ));
        };
        let stop = StopOnDrop(Arc::default());
        let work = LongRender {
            template: Arc::clone(&template),
            stop: Arc::clone(&stop.0),
            turns: Arc::clone(turns),
            limits,
            _slot: slot,
        };
        let done = tokio::task::spawn_blocking(move || work.run(&data)).await;
        match done {
            Ok(result) => result.map_err(|failure| located(&template, failure)),
            Err(_) => Err(TemplateError::without_place(
                TemplateErrorKind::Closed,
                "the template was stopped: this node is shutting down",
            )),
        }
    }
}

fn inline(limits: TemplateLimits) -> WorkLimits {
    WorkLimits {
        steps: INLINE_STEPS,
        memory: MEMORY,
        output: limits.output,
    }
}

/// One rendering within its limits.
pub(super) fn render(
    template: &Template,
    data: &dyn TemplateData,
    limits: WorkLimits,
    pace: Option<Pace<'_>>,
) -> Result<String, TemplateFailure> {
    Renderer::new(&template.text, data, TemplateBudget::new(limits, pace)).run(&template.block)
}

fn located(template: &Template, failure: TemplateFailure) -> TemplateError {
    match failure.at {
        Some(at) => TemplateError::at(&template.text, at as usize, failure.kind, failure.message),
        None => TemplateError::without_place(failure.kind, failure.message),
    }
}

/// A rendering on a thread of its own.
struct LongRender {
    template: Arc<Template>,
    stop: Arc<AtomicBool>,
    turns: Arc<Turns>,
    limits: TemplateLimits,
    _slot: Slot,
}

impl LongRender {
    fn run(self, data: &dyn TemplateData) -> Result<String, TemplateFailure> {
        let limits = WorkLimits {
            steps: MOST_STEPS,
            memory: MEMORY,
            output: self.limits.output,
        };
        let Some(pace) = Pace::begin(&self.turns, TurnLanguage::Liquid, &self.stop, self.limits.time) else {
            return Err(TemplateFailure::new(
                TemplateErrorKind::Closed,
                "the template was stopped",
            ));
        };
        render(&self.template, data, limits, Some(pace))
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
