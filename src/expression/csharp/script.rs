//! A checked script, ready to run any number of times on any thread.

use super::check::{CSharpNames, check};
use super::parse::parse;
use super::problem::{Problem, Stop};
use super::run::{Bounds, CSharpResult, World, run};
use super::syntax::Statement;

/// A script of C#.
#[derive(Debug)]
pub(crate) struct CSharpScript {
    statements: Vec<Statement>,
    slots: usize,
}

impl CSharpScript {
    /// Parses and checks a script.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub(crate) fn compile(text: &str, names: &CSharpNames) -> Result<Self, Problem> {
        let mut statements = parse(text)?;
        let slots = check(&mut statements, names)?;
        Ok(Self { statements, slots })
    }

    /// Runs it. It has no effects: what it sets is in the result.
    ///
    /// # Errors
    /// An exception of .NET by its name, or a bound that is reached.
    pub(crate) fn run(&self, world: &dyn World, bounds: Bounds<'_>) -> Result<CSharpResult, Box<Stop>> {
        run(&self.statements, self.slots, world, bounds)
    }
}
