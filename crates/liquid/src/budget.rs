//! The bounds of one rendering: steps, time, memory and the size of its text.
//!
//! A step is a statement, a value or some 32 bytes of text: all work is counted in steps, and after every thousand the
//! caller is asked whether to continue. Memory is what the values of the template hold at the moment.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use mainspring_language::{Steps, Stopped};

use super::error::{ErrorKind, TemplateFailure};

/// Bytes of text that count as one step.
const STEP_BYTES: usize = 32;

/// The steps between two questions to the caller.
const ASK_INTERVAL: u64 = 1_000;

/// The bounds of one rendering.
#[derive(Clone, Copy)]
pub struct Bounds<'s> {
    /// The steps that it may take: a statement, a value, or 32 bytes of text.
    pub steps: u64,
    /// Bytes that its values hold at once.
    pub memory: usize,
    /// Bytes of its text.
    pub output: usize,
    /// Who bounds its time. `None` if only its steps bound it.
    pub caller: Option<&'s dyn Steps>,
}

impl fmt::Debug for Bounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounds")
            .field("steps", &self.steps)
            .field("memory", &self.memory)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// What of the bounds is left.
#[derive(Debug)]
pub(super) struct TemplateBudget<'s> {
    limits: Bounds<'s>,
    spent: Cell<u64>,
    next_question: Cell<u64>,
    /// Bytes that values hold.
    held: Rc<Cell<usize>>,
}

impl<'s> TemplateBudget<'s> {
    pub(super) fn new(limits: Bounds<'s>) -> Self {
        Self {
            limits,
            spent: Cell::new(0),
            next_question: Cell::new(ASK_INTERVAL),
            held: Rc::default(),
        }
    }

    /// Counts steps.
    pub(super) fn spend(&self, steps: u64) -> Result<(), TemplateFailure> {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent > self.limits.steps {
            return Err(timeout("the template takes too many steps"));
        }
        if spent >= self.next_question.get() {
            self.next_question.set(spent + ASK_INTERVAL);
            let answer = self.limits.caller.map_or(Ok(()), Steps::check);
            return answer.map_err(|stopped| match stopped {
                Stopped::OutOfTime => timeout("the template takes too long"),
                Stopped::Cancelled => TemplateFailure::new(ErrorKind::Cancelled, "the template was stopped"),
            });
        }
        Ok(())
    }

    /// Counts work on so many bytes.
    pub(super) fn spend_bytes(&self, bytes: usize) -> Result<(), TemplateFailure> {
        self.spend(u64::try_from(bytes / STEP_BYTES).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// Counts bytes that a value will hold; [`Held`] gives them back.
    pub(super) fn hold(&self, bytes: usize) -> Result<Held, TemplateFailure> {
        self.check_memory(bytes)?;
        self.held.set(self.held.get() + bytes);
        Ok(Held {
            bytes,
            held: Rc::clone(&self.held),
        })
    }

    /// Whether so many bytes more may be held.
    pub(super) fn check_memory(&self, bytes: usize) -> Result<(), TemplateFailure> {
        if self.held.get().saturating_add(bytes) > self.limits.memory {
            let message = format!("the values of the template need more than {} bytes", self.limits.memory);
            return Err(TemplateFailure::new(ErrorKind::Memory, message));
        }
        Ok(())
    }

    /// Whether the text of the template may be so long.
    pub(super) fn check_output(&self, bytes: usize) -> Result<(), TemplateFailure> {
        if bytes > self.limits.output {
            let message = format!("the text of the template is larger than {} bytes", self.limits.output);
            return Err(TemplateFailure::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }
}

fn timeout(message: &str) -> TemplateFailure {
    TemplateFailure::new(ErrorKind::Timeout, message)
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    held: Rc<Cell<usize>>,
}

impl Held {
    /// Counts more bytes with these.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.held.set(self.held.get() + bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.set(self.held.get().saturating_sub(self.bytes));
    }
}

/// A text that is built within the bounds.
#[derive(Debug)]
pub(super) struct Builder<'b, 's> {
    budget: &'b TemplateBudget<'s>,
    text: String,
}

impl<'b, 's> Builder<'b, 's> {
    pub(super) fn new(budget: &'b TemplateBudget<'s>) -> Self {
        Self {
            budget,
            text: String::new(),
        }
    }

    pub(super) fn budget(&self) -> &'b TemplateBudget<'s> {
        self.budget
    }

    pub(super) fn push_str(&mut self, part: &str) -> Result<(), TemplateFailure> {
        // A part of a few bytes is counted by what produced it; the memory is checked once in a while.
        if part.len() >= STEP_BYTES {
            self.budget.spend_bytes(part.len())?;
        }
        if self.text.len() + part.len() > self.text.capacity() {
            self.budget
                .check_memory((self.text.len() + part.len()).saturating_mul(2))?;
        }
        self.text.push_str(part);
        Ok(())
    }

    pub(super) fn push(&mut self, part: char) -> Result<(), TemplateFailure> {
        self.push_str(part.encode_utf8(&mut [0; 4]))
    }

    pub(super) fn push_repeated(&mut self, part: char, count: usize) -> Result<(), TemplateFailure> {
        self.budget.spend_bytes(count)?;
        self.budget.check_memory(self.text.len().saturating_add(count))?;
        self.text.extend(std::iter::repeat_n(part, count));
        Ok(())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn finish(self) -> Result<String, TemplateFailure> {
        self.budget.spend_bytes(self.text.len())?;
        Ok(self.text)
    }
}
