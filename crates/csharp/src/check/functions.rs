//! Functions of a script: local functions, lambdas as values, and their calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::flow::leaves;
use super::{Checker, Returned, conversion_problem};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Argument, Expr, Kind, Lambda, LocalFunction, Statement, StatementKind};
use crate::types::{FunctionTy, Ty};

/// The most parameters of a function.
const MOST_PARAMETERS: usize = 16;

/// The local functions of a script.
#[derive(Debug, Default)]
pub(super) struct Functions {
    all: Vec<Declared>,
    /// Their numbers by name, the innermost last.
    named: HashMap<Arc<str>, Vec<usize>>,
    scopes: Vec<Vec<Arc<str>>>,
}

#[derive(Debug)]
struct Declared {
    at: Position,
    parameters: Vec<(Arc<str>, Ty, Option<Expr>)>,
    result: Ty,
    body: Option<Arc<Lambda>>,
}

impl Functions {
    pub(super) fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        for name in self.scopes.pop().unwrap_or_default() {
            if let Some(numbers) = self.named.get_mut(&name) {
                numbers.pop();
            }
        }
    }

    /// The innermost function of a name.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.named.get(name)?.last().copied()
    }

    /// What the evaluator calls.
    pub(super) fn bodies(self) -> Checked<Vec<Arc<Lambda>>> {
        let missing = |at: Position| Problem::new(at, "this function has no body");
        let all = self.all.into_iter();
        all.map(|one| one.body.ok_or_else(|| missing(one.at))).collect()
    }
}

impl Checker<'_> {
    /// The functions that a list of statements declares can be called before their declaration.
    pub(super) fn declare_functions(&mut self, statements: &[Statement]) -> Checked<()> {
        for statement in statements {
            let StatementKind::Function(function) = &statement.kind else {
                continue;
            };
            let at = statement.at;
            let name = &function.name;
            if self.functions.number(name).is_some() || self.local(name).is_some() {
                let message = format!("{name} is declared already; choose another name");
                return Err(Problem::new(at, message));
            }
            if function.defaults.len() > MOST_PARAMETERS {
                let message = format!("a function has at most {MOST_PARAMETERS} parameters; pass a list");
                return Err(Problem::new(at, message));
            }
            let result = match &function.result {
                Some(written) => self.resolve(written)?,
                None => Ty::Void,
            };
            let mut parameters = Vec::new();
            for (place, default) in function.lambda.parameters.iter().zip(&function.defaults) {
                let ty = match &place.written {
                    Some(written) => self.resolve(written)?,
                    None => Ty::Dynamic,
                };
                let mut default = default.clone();
                if let Some(value) = &mut default {
                    let from = self.valued(value, &ty)?;
                    self.convert(value, &from, &ty)?;
                }
                parameters.push((Arc::clone(&place.name), ty, default));
            }
            let number = self.functions.all.len();
            self.functions.all.push(Declared {
                at,
                parameters,
                result,
                body: None,
            });
            self.functions.named.entry(Arc::clone(name)).or_default().push(number);
            if let Some(scope) = self.functions.scopes.last_mut() {
                scope.push(Arc::clone(name));
            }
        }
        Ok(())
    }

    pub(super) fn function_statement(&mut self, function: &mut LocalFunction, at: Position) -> Checked<()> {
        let number = self.functions.number(&function.name);
        let known = number.and_then(|number| self.functions.all.get(number));
        let Some((number, known)) = number.zip(known) else {
            let message = "a function is declared among the statements of a block; put it into { }";
            return Err(Problem::new(at, message));
        };
        let result = known.result.clone();
        let types: Vec<Ty> = known.parameters.iter().map(|(_, ty, _)| ty.clone()).collect();
        let Some(lambda) = Arc::get_mut(&mut function.lambda) else {
            return Err(Problem::new(at, "this function is used twice"));
        };
        self.lambda(lambda, &types, Some(&result), true)?;
        if result != Ty::Void && !lambda.is_expression && !leaves(&lambda.body) {
            let message = format!(
                "not every path of {} returns a value; write return at its end",
                function.name
            );
            return Err(Problem::new(at, message));
        }
        if let Some(known) = self.functions.all.get_mut(number) {
            known.body = Some(Arc::clone(&function.lambda));
        }
        Ok(())
    }

    /// Checks a lambda whose parameters have these types; returns what it returns.
    pub(super) fn lambda(
        &mut self,
        lambda: &mut Lambda,
        parameters: &[Ty],
        wanted: Option<&Ty>,
        is_stored: bool,
    ) -> Checked<Ty> {
        self.lambdas += 1;
        self.level += usize::from(is_stored);
        let around = (
            std::mem::take(&mut self.loops),
            std::mem::take(&mut self.switches),
            std::mem::take(&mut self.catches),
        );
        self.returned.push(Returned {
            wanted: wanted.cloned(),
            found: None,
        });
        let first = self.slots.len();
        let checked = self.scoped(|checker| {
            for (number, place) in lambda.parameters.iter_mut().enumerate() {
                let known = parameters.get(number).cloned().unwrap_or(Ty::Dynamic);
                place.ty = match &place.written {
                    Some(written) => checker.resolve(written)?,
                    None => known,
                };
                place.slot = checker.declare(&place.name, place.at, place.ty.clone())?;
            }
            match (&mut lambda.body.kind, wanted) {
                (StatementKind::Expression(body), None | Some(Ty::Void)) if lambda.is_expression => {
                    checker.any_expression(body)
                }
                (StatementKind::Expression(body), Some(wanted)) if lambda.is_expression => {
                    let from = checker.valued(body, wanted)?;
                    if !matches!(body.kind, Kind::Throw(_)) {
                        checker.convert(body, &from, wanted)?;
                    }
                    Ok(wanted.clone())
                }
                _ => {
                    checker.statement(&mut lambda.body)?;
                    Ok(Ty::Void)
                }
            }
        });
        lambda.slots = (first, self.slots.len());
        let returned = self.returned.pop().and_then(|returned| returned.found);
        (self.loops, self.switches, self.catches) = around;
        self.level -= usize::from(is_stored);
        self.lambdas -= 1;
        let ty = checked?;
        match (lambda.is_expression, returned) {
            (true, _) if ty == Ty::Null => Ok(Ty::Dynamic),
            (true, _) => Ok(ty),
            (false, Some(ty)) => Ok(ty),
            (false, None) => Ok(Ty::Void),
        }
    }

    /// An expression where a value of a type is wanted: a lambda, a method without its call and `new()` take their type from there.
    pub(super) fn valued(&mut self, value: &mut Expr, wanted: &Ty) -> Checked<Ty> {
        if let Ty::Function(function) = wanted {
            self.group_as_lambda(value, function.parameters.len())?;
            if matches!(value.kind, Kind::Lambda(_)) {
                let function = Arc::clone(function);
                return self.stored(value, &function.parameters, Some(&function.result));
            }
        }
        if let Kind::New(initializer) = &mut value.kind {
            let at = value.at;
            return self.new_value(initializer, at, Some(wanted));
        }
        self.expression(value)
    }

    /// A lambda as a value.
    pub(super) fn stored(&mut self, value: &mut Expr, parameters: &[Ty], wanted: Option<&Ty>) -> Checked<Ty> {
        let at = value.at;
        let Kind::Lambda(shared) = &mut value.kind else {
            return self.expression(value);
        };
        let Some(lambda) = Arc::get_mut(shared) else {
            return Err(Problem::new(at, "this lambda is used twice"));
        };
        if lambda.parameters.len() != parameters.len() {
            let message = format!(
                "this lambda has {} parameters, and its type has {}",
                lambda.parameters.len(),
                parameters.len()
            );
            return Err(Problem::new(at, message));
        }
        let result = self.lambda(lambda, parameters, wanted, true)?;
        let result = match wanted {
            Some(Ty::Void) => Ty::Void,
            Some(wanted) if !lambda.is_expression && result == Ty::Void && !leaves(&lambda.body) => {
                return Err(Problem::new(at, format!("this lambda must return a {wanted}")));
            }
            Some(wanted) => wanted.clone(),
            None => result,
        };
        let ty = Arc::new(FunctionTy {
            parameters: lambda.parameters.iter().map(|place| place.ty.clone()).collect(),
            result,
        });
        value.kind = Kind::Function(Arc::clone(shared), Arc::clone(&ty));
        Ok(Ty::Function(ty))
    }

    /// `var f = (int x) => x + 1`: all parameters have types.
    pub(super) fn natural_lambda(&mut self, value: &mut Expr, name: &str) -> Checked<Ty> {
        let Kind::Lambda(lambda) = &value.kind else {
            return self.expression(value);
        };
        let mut types = Vec::new();
        for place in &lambda.parameters {
            let Some(written) = &place.written else {
                let message = format!("{name} needs a type for its lambda: Func<int, int> {name} = x => x + 1");
                return Err(Problem::new(value.at, message));
            };
            types.push(self.resolve(written)?);
        }
        self.stored(value, &types, None)
    }

    /// `f(1)`: a local function, or a value that is one.
    pub(super) fn invoke(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let at = expr.at;
        let Kind::Invoke(target, arguments) = &mut expr.kind else {
            return Ok(Ty::Dynamic);
        };
        if let Kind::Name(name) = &target.kind
            && self.local(name).is_none()
        {
            let Some(number) = self.functions.number(name) else {
                let message = format!(
                    "there is no function {}; functions of Elsa's C# are members: Variable.Get<T>(\"X\"), Input.Get<T>(\"X\"), \
                     Output.From<T>(\"activity\")",
                    mainspring_language::shortened(name, 200)
                );
                return Err(Problem::new(target.at, message));
            };
            let name = Arc::clone(name);
            let given = std::mem::take(arguments);
            let (arguments, result) = self.function_arguments(number, &name, given, at)?;
            expr.kind = Kind::CallFunction(number, arguments);
            return Ok(result);
        }
        let ty = self.expression(target)?;
        let Ty::Function(function) = ty else {
            let message = format!("only a method or a function can be called, and this is a {ty}");
            return Err(Problem::new(at, message));
        };
        self.call_arguments(arguments, &function, at)?;
        Ok(function.result.clone())
    }

    /// The arguments of a call of a value.
    pub(super) fn call_arguments(
        &mut self,
        given: &mut [Argument],
        function: &FunctionTy,
        at: Position,
    ) -> Checked<()> {
        if given.len() != function.parameters.len() {
            let message = format!(
                "this function takes {} arguments, not {}",
                function.parameters.len(),
                given.len()
            );
            return Err(Problem::new(at, message));
        }
        for (argument, ty) in given.iter_mut().zip(&function.parameters) {
            self.parameter(argument, ty)?;
        }
        Ok(())
    }

    fn parameter(&mut self, argument: &mut Argument, ty: &Ty) -> Checked<()> {
        if argument.out.is_some() || argument.name.as_deref() == Some("out") {
            let message = "functions here have no out parameters; return the value";
            return Err(Problem::new(argument.value.at, message));
        }
        let from = self.valued(&mut argument.value, ty)?;
        self.convert(&mut argument.value, &from, ty)
    }

    /// The arguments of a local function in the order of its parameters, and its result.
    fn function_arguments(
        &mut self,
        number: usize,
        name: &str,
        given: Vec<Argument>,
        at: Position,
    ) -> Checked<(Vec<Argument>, Ty)> {
        let Some(known) = self.functions.all.get(number) else {
            return Ok((given, Ty::Dynamic));
        };
        let (parameters, result) = (known.parameters.clone(), known.result.clone());
        let count = given.len();
        let wrong = || {
            let least = parameters.iter().filter(|(_, _, default)| default.is_none()).count();
            let most = parameters.len();
            let wanted = if least == most {
                most.to_string()
            } else {
                format!("{least} to {most}")
            };
            Problem::new(at, format!("{name} takes {wanted} arguments, not {count}"))
        };
        let mut places: Vec<Option<Argument>> = parameters.iter().map(|_| None).collect();
        for (position, argument) in given.into_iter().enumerate() {
            let place = match argument.name.as_deref().filter(|name| *name != "out") {
                Some(named) => {
                    let found = parameters.iter().position(|(known, _, _)| **known == *named);
                    found.ok_or_else(|| Problem::new(argument.value.at, format!("{name} has no parameter {named}")))?
                }
                None => position,
            };
            let free = places.get_mut(place).filter(|place| place.is_none());
            *free.ok_or_else(wrong)? = Some(argument);
        }
        let mut all = Vec::new();
        for (place, (_, ty, default)) in places.into_iter().zip(&parameters) {
            let argument = match (place, default) {
                (Some(mut argument), _) => {
                    self.parameter(&mut argument, ty)?;
                    argument
                }
                (None, Some(default)) => Argument {
                    name: None,
                    value: default.clone(),
                    out: None,
                },
                (None, None) => return Err(wrong()),
            };
            all.push(argument);
        }
        Ok((all, result))
    }

    pub(super) fn returns(&mut self, value: &mut Option<Expr>, at: Position) -> Checked<()> {
        let wanted = self.returned.last().and_then(|returned| returned.wanted.clone());
        let ty = match (value, wanted) {
            (Some(value), Some(Ty::Void)) => {
                return Err(Problem::new(value.at, "this function returns no value; leave it out"));
            }
            (None, Some(wanted)) if wanted != Ty::Void => {
                return Err(Problem::new(at, format!("this function returns a {wanted}")));
            }
            (Some(value), Some(wanted)) => {
                let from = self.valued(value, &wanted)?;
                if !from.converts_to(&wanted) {
                    return Err(Problem::new(value.at, conversion_problem(&from, &wanted)));
                }
                self.convert(value, &from, &wanted)?;
                wanted
            }
            // The last expression of a script may return nothing, as a call of Variable.Set.
            (Some(value), None) if self.lambdas == 0 => {
                let ty = self.any_expression(value)?;
                if matches!(value.kind, Kind::Class(_) | Kind::Type(_)) || ty == Ty::Lambda {
                    self.expression(value)?;
                }
                if matches!(value.kind, Kind::Global(_)) {
                    self.expression_again(value, &ty)?;
                }
                ty
            }
            (Some(value), None) => self.expression(value)?,
            (None, _) => Ty::Void,
        };
        if let Some(known) = self.returned.last_mut() {
            let united = known.found.as_ref().and_then(|known| known.common(&ty));
            known.found = Some(united.unwrap_or(ty));
        }
        Ok(())
    }

    fn expression_again(&self, value: &Expr, ty: &Ty) -> Checked<()> {
        if ty.is_dynamic() {
            return Err(Problem::new(
                value.at,
                "this is not a value; read its members, such as Variables.X or Input.X",
            ));
        }
        Ok(())
    }
}
