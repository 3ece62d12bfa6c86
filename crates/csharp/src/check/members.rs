//! Names and members: locals, Elsa's globals, types, and the members of values.

use std::sync::Arc;

use super::Checker;
use super::names::{Similar, pascal};
use super::results::{Known, result};
use super::type_names::simple;
use crate::library;
use crate::parse::remedy;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Constant, Expr, Global, Kind};
use crate::types::{ListKind, ObjectKind, Ty};
use mainspring_language::shortened;

/// In bytes: what a message shows of a name.
const MAX_SHOWN: usize = 200;

/// Classes of functions, which are no types of values.
const CLASSES: &[&str] = &[
    "Math",
    "Convert",
    "Enumerable",
    "Array",
    "JsonSerializer",
    "JsonNode",
    "CultureInfo",
    "NumberStyles",
    "DateTimeStyles",
    "BitConverter",
];

/// The class of functions of a name.
pub(super) fn class(name: &str) -> Option<&'static str> {
    CLASSES.iter().copied().find(|class| *class == name)
}

fn global(name: &str) -> Option<(Global, Ty)> {
    Some(match name {
        "Variable" | "Variables" => (Global::Variables, Ty::Dynamic),
        "Input" | "Inputs" => (Global::Input, Ty::Dynamic),
        "Output" => (Global::Output, Ty::Dynamic),
        "Outcome" => (Global::Outcome, Ty::Dynamic),
        "ExecutionContext" => (Global::ExecutionContext, Ty::Dynamic),
        "Args" | "Arguments" => (Global::Arguments, Ty::Dynamic),
        "WorkflowInstanceId" => (Global::WorkflowInstanceId, Ty::Text),
        "CorrelationId" => (Global::CorrelationId, Ty::Text),
        "WorkflowInstanceName" => (Global::WorkflowInstanceName, Ty::Text),
        _ => return None,
    })
}

/// The section of the table for a global.
pub(super) fn owner_of(global: Global) -> &'static str {
    match global {
        Global::Variables => "Variables",
        Global::Input => "Input",
        Global::Output => "Output",
        Global::Outcome => "Outcome",
        Global::ExecutionContext => "ExecutionContext",
        Global::Arguments => "Arguments",
        Global::WorkflowInstanceId | Global::CorrelationId | Global::WorkflowInstanceName => ".string",
    }
}

impl Checker<'_> {
    pub(super) fn name(&mut self, target: &mut Expr, name: &Arc<str>) -> Checked<Ty> {
        if let Some(slot) = self.local(name) {
            self.uses(slot);
            self.read_query(slot, name, target.at)?;
            target.kind = Kind::Local(slot);
            return Ok(self.slots.get(slot).cloned().unwrap_or(Ty::Dynamic));
        }
        if let Some((global, ty)) = global(name) {
            target.kind = Kind::Global(global);
            return Ok(ty);
        }
        if let Some(class) = class(name) {
            target.kind = Kind::Class(class);
            return Ok(Ty::Void);
        }
        if let Some(ty) = simple(name).filter(|ty| !ty.is_dynamic()) {
            target.kind = Kind::Type(ty);
            return Ok(Ty::Void);
        }
        let message = remedy(name).unwrap_or_else(|| self.undeclared(name));
        Err(Problem::new(target.at, message))
    }

    fn undeclared(&self, name: &str) -> String {
        let found = self.names.similar(name);
        let name = shortened(name, MAX_SHOWN);
        match found {
            Some(Similar::Variable(variable)) => {
                let variable = pascal(variable);
                let shown = shortened(&variable, MAX_SHOWN);
                return format!("{name} is not declared; the variable of the workflow is Variables.{shown}");
            }
            Some(Similar::Input(input)) => {
                let input = shortened(input, MAX_SHOWN);
                return format!("{name} is not declared; the input of the workflow is Input.{input}");
            }
            None => {}
        }
        format!("{name} is not declared; declare it as a local, or read Variables.{name} or Input.{name}")
    }

    /// The declared variable that `Variables.Name` means.
    fn variable(&self, name: &Arc<str>, at: Position) -> Checked<(Arc<str>, Ty)> {
        match self.names.variable(name) {
            Some((known, ty)) => Ok((known.into(), ty.clone())),
            None if self.names.is_open => Ok((Arc::clone(name), Ty::Dynamic)),
            None => {
                let known = listed(self.names.variables.keys(), pascal);
                let message = format!(
                    "there is no variable {}; the workflow has {known}",
                    shortened(name, MAX_SHOWN)
                );
                Err(Problem::new(at, message))
            }
        }
    }

    fn input(&self, name: &Arc<str>, at: Position) -> Checked<Ty> {
        match self.names.input(name) {
            Some(ty) => Ok(ty.clone()),
            None if self.names.is_open => Ok(Ty::Dynamic),
            None => {
                let known = listed(self.names.inputs.keys(), str::to_owned);
                let name = shortened(name, MAX_SHOWN);
                let message = format!(
                    "the workflow declares no input {name}, only {known}; use Input.Get<T>(\"{name}\") for one that is not declared"
                );
                Err(Problem::new(at, message))
            }
        }
    }

    pub(super) fn member(&mut self, whole: &mut Expr) -> Checked<Ty> {
        let at = whole.at;
        let Kind::Member(target, name) = &mut whole.kind else {
            return Ok(Ty::Dynamic);
        };
        // The only use of GetType that is no reflection.
        if let ("Name", Kind::Call(call)) = (&**name, &mut target.kind)
            && &*call.name == "GetType"
            && call.arguments.is_empty()
            && self.target(&mut call.target.clone())? == Ty::Object(ObjectKind::Exception)
        {
            self.target(&mut call.target)?;
            whole.kind = Kind::ExceptionName(Box::new(call.target.clone()));
            return Ok(Ty::Text);
        }
        let ty = self.target(target)?;
        let name = Arc::clone(name);
        match &target.kind {
            Kind::Global(Global::Variables) => {
                let (known, ty) = self.variable(&name, at)?;
                whole.kind = Kind::Variable(known);
                return Ok(ty);
            }
            Kind::Global(Global::Input) => {
                let ty = self.input(&name, at)?;
                whole.kind = Kind::Input(name, ty.clone());
                return Ok(ty);
            }
            Kind::Global(Global::Arguments) => {
                whole.kind = Kind::Variable(name);
                return Ok(Ty::Dynamic);
            }
            Kind::Global(other) if *ty_of_global(*other) == Ty::Dynamic => {
                let owner = owner_of(*other);
                if library::property(&[owner], &name).is_some() {
                    return Ok(Ty::Dynamic);
                }
                return Err(unknown_member(at, owner, &[owner], &name));
            }
            Kind::Class(class) => {
                let class = *class;
                let Some(letters) = library::property(&[class], &name) else {
                    return Err(unknown_member(at, class, &[class], &name));
                };
                return Ok(static_type(letters, &Ty::Dynamic));
            }
            Kind::Type(ty) => {
                let ty = ty.clone();
                return self.static_member(whole, &ty, &name, at);
            }
            _ => {}
        }
        value_member(&ty, &name, at)
    }

    fn static_member(&mut self, whole: &mut Expr, ty: &Ty, name: &Arc<str>, at: Position) -> Checked<Ty> {
        if let Ty::Enum(kind) = ty {
            if kind.number(name).is_none() {
                let message = format!(
                    "{} has no value {name}; it has {}",
                    kind.name(),
                    kind.members().join(", ")
                );
                return Err(Problem::new(at, message));
            }
            return Ok(ty.clone());
        }
        if let Some(constant) = limit(ty, name) {
            whole.kind = Kind::Constant(constant);
            return Ok(ty.clone());
        }
        let owner = ty.to_string();
        match library::property(&[owner.as_str()], name) {
            Some(letters) => Ok(static_type(letters, ty)),
            None => Err(unknown_member(at, &owner, &[owner.as_str()], name)),
        }
    }

    /// The target of a member or a call, which may be a type.
    pub(super) fn target(&mut self, target: &mut Expr) -> Checked<Ty> {
        let ty = self.any_expression(target)?;
        let is_type = matches!(target.kind, Kind::Class(_) | Kind::Type(_));
        match ty {
            Ty::Void if is_type => Ok(Ty::Void),
            Ty::Void => Err(Problem::new(target.at, "this returns no value, so it has no members")),
            Ty::Null => Err(Problem::new(target.at, "null has no members")),
            Ty::Lambda => Err(Problem::new(target.at, "a lambda has no members")),
            other => Ok(other),
        }
    }
}

/// The first names, as a message lists them.
fn listed<'n>(names: impl Iterator<Item = &'n String>, shown: impl Fn(&str) -> String) -> String {
    let names = names.take(20).map(|name| shown(&shortened(name, MAX_SHOWN)));
    let known: Vec<String> = names.collect();
    if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    }
}

fn ty_of_global(global: Global) -> &'static Ty {
    match global {
        Global::WorkflowInstanceId | Global::CorrelationId | Global::WorkflowInstanceName => &Ty::Text,
        _ => &Ty::Dynamic,
    }
}

fn static_type(letters: &str, receiver: &Ty) -> Ty {
    let known = Known {
        receiver,
        arguments: &[],
        lambdas: &[],
        type_argument: None,
    };
    result(letters, &known)
}

/// The limits of whole numbers are constants.
fn limit(ty: &Ty, name: &str) -> Option<Constant> {
    Some(match (ty, name) {
        (Ty::Int, "MaxValue") => Constant::Int(i32::MAX),
        (Ty::Int, "MinValue") => Constant::Int(i32::MIN),
        (Ty::Long, "MaxValue") => Constant::Long(i64::MAX),
        (Ty::Long, "MinValue") => Constant::Long(i64::MIN),
        _ => return None,
    })
}

/// The sections of the table that describe values of a type, the most special first.
pub(super) fn owners(ty: &Ty) -> &'static [&'static str] {
    match ty {
        Ty::Text => &[".string", ".any", ".sequence"],
        Ty::Bool => &[".bool", ".any"],
        Ty::Date => &[".DateTime", ".any"],
        Ty::Offset => &[".DateTimeOffset", ".any"],
        Ty::Span => &[".TimeSpan", ".any"],
        Ty::Nullable(_) => &[".Nullable", ".any"],
        Ty::List(ListKind::List, _) => &[".list", ".sequence", ".any"],
        Ty::List(ListKind::Array, _) => &[".array", ".sequence", ".any"],
        Ty::List(ListKind::Set, _) => &[".set", ".sequence", ".any"],
        Ty::Object(ObjectKind::Builder) => &[".StringBuilder", ".any"],
        Ty::Object(ObjectKind::Encoding) => &[".Encoding", ".any"],
        Ty::Object(ObjectKind::Exception) => &[".Exception", ".any"],
        Ty::Object(ObjectKind::Regex) => &[".Regex", ".any"],
        Ty::Object(ObjectKind::Match) => &[".Match", ".Group", ".any"],
        Ty::Object(ObjectKind::Group) => &[".Group", ".any"],
        Ty::Object(ObjectKind::Groups) => &[".GroupCollection", ".sequence", ".any"],
        Ty::List(ListKind::Sequence, _) | Ty::Group(..) => &[".sequence", ".any"],
        Ty::Map(..) => &[".map", ".sequence", ".any"],
        _ => &[".any"],
    }
}

fn value_member(ty: &Ty, name: &str, at: Position) -> Checked<Ty> {
    match ty {
        Ty::Dynamic => return Ok(Ty::Dynamic),
        Ty::Record(fields) => {
            if let Some((_, ty)) = fields.iter().find(|(field, _)| **field == *name) {
                return Ok(ty.clone());
            }
            // A part of a named tuple has its number, too.
            let place = name
                .strip_prefix("Item")
                .and_then(|number| number.parse::<usize>().ok());
            if let Some((_, ty)) = place.and_then(|place| fields.get(place.checked_sub(1)?)) {
                return Ok(ty.clone());
            }
            let known: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
            let message = format!("there is no member {name}; it has {}", known.join(", "));
            return Err(Problem::new(at, message));
        }
        Ty::Pair(key, _) if name == "Key" => return Ok((**key).clone()),
        Ty::Pair(_, value) if name == "Value" => return Ok((**value).clone()),
        Ty::Group(key, _) if name == "Key" => return Ok((**key).clone()),
        // Elsa's objects are read by their members.
        Ty::Map(key, _) if **key == Ty::Text && library::property(&[".map"], name).is_none() => {
            let message = format!("a {ty} has no member {name}; write [\"{name}\"]");
            return Err(Problem::new(at, message));
        }
        _ => {}
    }
    let owners = owners(ty);
    let Some(letters) = library::property(owners, name) else {
        if library::methods(owners, name).is_some() {
            return Err(Problem::new(at, format!("{name} is a method; call it: {name}()")));
        }
        return Err(unknown_member(at, &ty.to_string(), owners, name));
    };
    Ok(static_type(letters, ty))
}

pub(super) fn unknown_member(at: Position, shown: &str, owners: &[&str], name: &str) -> Problem {
    let all = library::names(owners);
    let near: Vec<&&str> = all.iter().filter(|known| known.eq_ignore_ascii_case(name)).collect();
    let (shown, name) = (shortened(shown, 400), shortened(name, MAX_SHOWN));
    let message = match near.as_slice() {
        [near, ..] => format!("{shown} has no member {name}; write {near}"),
        [] => {
            let known = shortened(&all.join(", "), 400).into_owned();
            let known = if known.is_empty() { "nothing".to_owned() } else { known };
            format!("{shown} has no member {name} in the C# that runs here; it has {known}")
        }
    };
    Problem::new(at, message)
}
