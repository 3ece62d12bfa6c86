//! The check before a script runs: names, members, arities, and types where they are known.
//!
//! The checker resolves names in the tree (locals get a slot), folds constants, and adds C#'s implicit conversions. Values
//! of the type `object` are checked when the script runs.

mod calls;
mod constants;
mod expressions;
mod fits;
mod flow;
mod functions;
mod groups;
mod initialize;
mod members;
mod names;
mod patterns;
mod queries;
mod results;
mod statements;
mod type_names;

use std::collections::HashMap;
use std::sync::Arc;

use super::problem::{Checked, Position, Problem};
use super::syntax::{Expr, Kind, Lambda, Statement};
use super::types::{ListKind, Ty};

pub use names::Names;
pub(super) use names::pascal;

/// What the evaluator needs besides the tree.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// For each slot of a local whether functions share it with the statements around them.
    pub(super) shared: Vec<bool>,
    /// The local functions by their numbers.
    pub(super) functions: Vec<Arc<Lambda>>,
}

/// Checks a script, and lays out its locals and functions.
pub(super) fn check(statements: &mut [Statement], names: &Names) -> Checked<Layout> {
    let mut checker = Checker {
        names,
        scopes: vec![Vec::new()],
        locals: HashMap::new(),
        slots: Vec::new(),
        levels: Vec::new(),
        shared: Vec::new(),
        level: 0,
        loops: 0,
        switches: 0,
        catches: 0,
        lambdas: 0,
        targets: Vec::new(),
        returned: Vec::new(),
        functions: functions::Functions::default(),
        queries: queries::Queries::default(),
    };
    checker.statements(statements)?;
    Ok(Layout {
        shared: checker.shared,
        functions: checker.functions.bodies()?,
    })
}

/// What the return statements of a function give.
#[derive(Debug, Default)]
struct Returned {
    /// What its declaration wants.
    wanted: Option<Ty>,
    found: Option<Ty>,
}

struct Checker<'n> {
    names: &'n Names,
    /// The names that each scope declares, the innermost last.
    scopes: Vec<Vec<Arc<str>>>,
    /// The slots of the locals that can be named, the innermost last.
    locals: HashMap<Arc<str>, Vec<usize>>,
    /// The types of all locals, by their slots.
    slots: Vec<Ty>,
    /// In how many functions each local is declared: one of fewer than its user is shared.
    levels: Vec<usize>,
    shared: Vec<bool>,
    level: usize,
    loops: usize,
    switches: usize,
    catches: usize,
    lambdas: usize,
    /// Types of the values before `?.`.
    targets: Vec<Ty>,
    /// What the lambdas around return, innermost last.
    returned: Vec<Returned>,
    functions: functions::Functions,
    queries: queries::Queries,
}

impl Checker<'_> {
    fn scoped<T>(&mut self, check: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.scopes.push(Vec::new());
        self.functions.open();
        let checked = check(self);
        self.functions.close();
        for name in self.scopes.pop().unwrap_or_default() {
            if let Some(slots) = self.locals.get_mut(&name) {
                slots.pop();
            }
        }
        checked
    }

    fn declare(&mut self, name: &Arc<str>, at: Position, ty: Ty) -> Checked<usize> {
        let slot = self.slots.len();
        if self.local(name).is_some() && **name != *"_" {
            return Err(Problem::new(
                at,
                format!("{name} is declared already; choose another name"),
            ));
        }
        self.slots.push(ty);
        self.levels.push(self.level);
        self.shared.push(false);
        self.locals.entry(Arc::clone(name)).or_default().push(slot);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(Arc::clone(name));
        }
        Ok(slot)
    }

    /// Says that a local is used: by a function that may outlive it, it is shared.
    fn uses(&mut self, slot: usize) {
        let is_outer = self.levels.get(slot).is_some_and(|level| *level < self.level);
        if let Some(shared) = self.shared.get_mut(slot) {
            *shared |= is_outer;
        }
    }

    /// The slot of the innermost local of a name.
    fn local(&self, name: &str) -> Option<usize> {
        self.locals.get(name)?.last().copied()
    }

    /// Converts a value silently, as C# does where a type is wanted.
    fn convert(&self, value: &mut Expr, from: &Ty, to: &Ty) -> Checked<()> {
        if from == to || to.is_dynamic() {
            if *from == Ty::Void || *from == Ty::Lambda {
                return Err(Problem::new(value.at, format!("a value is expected, not {from}")));
            }
            return Ok(());
        }
        let is_small = matches!(&value.kind, Kind::Constant(super::syntax::Constant::Int(_))) && *to == Ty::Char;
        if !from.converts_to(to) || is_small {
            return Err(Problem::new(value.at, conversion_problem(from, to)));
        }
        let is_list = matches!(to, Ty::List(..) | Ty::Map(..) | Ty::Record(_) | Ty::Group(..)) && !from.is_dynamic();
        if !is_list && *from != Ty::Null {
            wrap(value, |inner| Kind::Convert(to.clone(), inner));
        }
        Ok(())
    }
}

/// Puts an expression into another one.
fn wrap(value: &mut Expr, make: impl FnOnce(Box<Expr>) -> Kind) {
    let (at, depth) = (value.at, value.depth);
    let placeholder = Expr {
        at,
        depth,
        kind: Kind::Target,
    };
    let inner = Box::new(std::mem::replace(value, placeholder));
    value.kind = make(inner);
}

fn conversion_problem(from: &Ty, to: &Ty) -> String {
    let remedy = match (from, to) {
        (_, Ty::Text) => "; write .ToString()".to_owned(),
        (Ty::Text, Ty::Int | Ty::Long | Ty::Double | Ty::Decimal | Ty::Bool | Ty::Date | Ty::Span | Ty::Guid) => {
            format!("; write {to}.Parse(…)")
        }
        (Ty::Double, Ty::Decimal) => "; write the literal with m, or (decimal) before it".to_owned(),
        (Ty::List(_, from), Ty::List(ListKind::Array, to)) if from != to => {
            format!("; name the type of the items, as in new {to}[] {{ … }}")
        }
        (Ty::List(_, from), Ty::List(ListKind::Sequence, to)) if from.is_number() && to.is_number() => {
            format!("; write .Select(x => ({to})x)")
        }
        (Ty::Nullable(_), _) => "; write ?? and a value to use instead of null".to_owned(),
        (from, to) if from.is_number() && to.is_number() => format!("; write ({to}) before it"),
        _ => String::new(),
    };
    format!("{from} does not convert to {to}{remedy}")
}
