//! A checked script, ready to run any number of times on any thread.

use super::check::{Layout, Names, check};
use super::parse::{ParsedScript, parse};
use super::problem::{Problem, Stop};
use super::run::{Bounds, Outcome, World, run};
use super::syntax::Statement;

/// Scripts up to this depth run on any thread.
const SHALLOW: usize = 32;

/// Texts of up to so many bytes are too short to be deep.
const SHORT: usize = 32;

/// A script of C#.
#[derive(Debug)]
pub struct Script {
    statements: Vec<Statement>,
    layout: Layout,
    depth: usize,
    has_functions: bool,
}

impl Script {
    /// In bytes: a stack that holds the recursion of the deepest script, also of a build without optimisation.
    pub const STACK: usize = 32 << 20;

    /// Whether a text can be compiled on the stack of any thread, and not only on one of [`Script::STACK`].
    pub fn is_short(text: &str) -> bool {
        text.len() <= SHORT
    }

    /// Parses and checks a script on the stack of this thread, which has [`Script::STACK`] bytes unless the text
    /// [is short](Self::is_short).
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn compile(text: &str, names: &Names) -> Result<Self, Problem> {
        let ParsedScript {
            mut statements,
            depth,
            has_functions,
        } = parse(text)?;
        let layout = check(&mut statements, names)?;
        Ok(Self {
            statements,
            layout,
            depth,
            has_functions,
        })
    }

    /// Whether it runs on the stack of any thread, and not only on one of [`Script::STACK`].
    pub fn is_shallow(&self) -> bool {
        self.depth <= SHALLOW && !self.has_functions
    }

    /// Runs it on the stack of this thread, which has [`Script::STACK`] bytes unless the script
    /// [is shallow](Self::is_shallow). It has no effects: what it sets is in the outcome.
    ///
    /// # Errors
    /// An exception of .NET by its name, or a bound that is reached.
    pub fn run(&self, world: &dyn World, bounds: Bounds<'_>) -> Result<Outcome, Box<Stop>> {
        run(&self.statements, &self.layout, world, bounds)
    }
}
