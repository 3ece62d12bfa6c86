//! A checked script, ready to run any number of times on any thread.

use std::thread;

use super::check::{CSharpNames, check};
use super::parse::{ParsedScript, parse};
use super::problem::{Position, Problem, Stop, StopKind};
use super::run::{Bounds, CSharpResult, World, run};
use super::syntax::Statement;

/// In bytes: holds the recursion of the deepest script, also of a build without optimisation.
const LARGE_STACK: usize = 32 << 20;

/// Scripts up to this depth run on any thread.
const SHALLOW: usize = 32;

/// Scripts of up to so many bytes are too short to be deep.
const SHORT: usize = 32;

/// A script of C#.
#[derive(Debug)]
pub(crate) struct CSharpScript {
    statements: Vec<Statement>,
    slots: usize,
    depth: usize,
}

impl CSharpScript {
    /// Parses and checks a script.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub(crate) fn compile(text: &str, names: &CSharpNames) -> Result<Self, Problem> {
        if text.len() <= SHORT {
            return Self::compile_here(text, names);
        }
        let compiled = on_large_stack(|| Self::compile_here(text, names));
        compiled.unwrap_or_else(|| {
            Err(Problem::new(
                Position::default(),
                "there is no thread to check the script on",
            ))
        })
    }

    /// The same on this thread, whose stack must be large.
    pub(crate) fn compile_here(text: &str, names: &CSharpNames) -> Result<Self, Problem> {
        let ParsedScript { mut statements, depth } = parse(text)?;
        let slots = check(&mut statements, names)?;
        Ok(Self {
            statements,
            slots,
            depth,
        })
    }

    /// Whether it runs on the stack of any thread.
    pub(crate) fn is_shallow(&self) -> bool {
        self.depth <= SHALLOW
    }

    /// Runs it. It has no effects: what it sets is in the result.
    ///
    /// # Errors
    /// An exception of .NET by its name, or a bound that is reached.
    pub(crate) fn run(&self, world: &(dyn World + Sync), bounds: Bounds<'_>) -> Result<CSharpResult, Box<Stop>> {
        if self.is_shallow() {
            return run(&self.statements, self.slots, world, bounds);
        }
        let ran = on_large_stack(|| run(&self.statements, self.slots, world, bounds));
        ran.unwrap_or_else(|| {
            Err(Stop::new(
                StopKind::Cancelled,
                "there is no thread to run the script on",
            ))
        })
    }
}

/// None: the thread cannot be started, or it panicked.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(LARGE_STACK).spawn_scoped(scope, work);
        started.ok()?.join().ok()
    })
}
