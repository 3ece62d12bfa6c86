//! Calls: the method, its arity, its arguments and the type of its result.

use std::sync::Arc;

use super::fits::{accepts, lambda_parameters, wanted};
use super::members::{owner_of, owners, unknown_member};
use super::results::{Known, result};
use super::{Checker, conversion_problem};
use crate::library::{self, Signature};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Argument, Call, Expr, Global, Kind};
use crate::types::Ty;

impl Checker<'_> {
    pub(super) fn call(&mut self, call: &mut Call, at: Position) -> Checked<Ty> {
        let receiver = self.target(&mut call.target)?;
        if let (Ty::Function(function), "Invoke") = (&receiver, &*call.name) {
            let function = Arc::clone(function);
            self.call_arguments(&mut call.arguments, &function, at)?;
            call.result = function.result.clone();
            return Ok(function.result.clone());
        }
        call.takes_null = matches!(receiver, Ty::Nullable(_)) && matches!(&*call.name, "ToString" | "Equals");
        call.types = call
            .type_arguments
            .iter()
            .map(|written| self.resolve(written))
            .collect::<Checked<Vec<_>>>()?;
        let static_owner = match &call.target.kind {
            Kind::Class(class) => Some((*class).to_owned()),
            Kind::Type(ty) => Some(ty.to_string()),
            Kind::Global(global) if receiver.is_dynamic() => {
                if *global == Global::Outcome && !self.names.is_activity {
                    let message = "outcomes can only be set by the script of the activity Elsa.RunCSharp";
                    return Err(Problem::new(at, message));
                }
                Some(owner_of(*global).to_owned())
            }
            _ => None,
        };
        let signatures: Vec<&'static Signature> = match &static_owner {
            Some(owner) => {
                let found = library::methods(&[owner.as_str()], &call.name);
                let found = found.ok_or_else(|| self.unknown(at, owner, &[owner.as_str()], &call.name))?;
                found.iter().collect()
            }
            None if receiver.is_dynamic() => {
                let found = library::any_methods(&call.name);
                if found.is_empty() {
                    return Err(self.unknown(at, "a value", &[".any"], &call.name));
                }
                found
            }
            None => {
                let list = owners(&receiver);
                let found = library::methods(list, &call.name);
                let found = found.ok_or_else(|| self.unknown(at, &receiver.to_string(), list, &call.name))?;
                found.iter().collect()
            }
        };
        let takes: Vec<&'static Signature> = self.by_count(&signatures, call, at)?;
        let (arguments, lambdas) = self.arguments(call, &receiver, &takes, at)?;
        let Some(signature) = self.chosen(&takes, &arguments, call, at)? else {
            return Ok(Ty::Dynamic);
        };
        if receiver.is_dynamic() && static_owner.is_none() {
            // Only what is the same for all types is known.
            let same = signatures.iter().all(|other| other.result == signature.result);
            let is_plain = ["t", "b", "i", "_", "l", "d"].contains(&signature.result);
            let ty = call.types.first().cloned();
            let known = if same && is_plain {
                self.result(signature, &receiver, &arguments, &lambdas, None)
            } else {
                Ty::Dynamic
            };
            call.result = ty.filter(|_| signature.result.contains('T')).unwrap_or(known);
            if matches!(&*call.name, "ToList" | "ToArray" | "Cast" | "OfType") {
                call.result = Ty::Dynamic;
            }
            return Ok(call.result.clone());
        }
        let ty = self.result(signature, &receiver, &arguments, &lambdas, call.types.first());
        call.result = ty.clone();
        Ok(ty)
    }

    fn result(
        &self,
        signature: &Signature,
        receiver: &Ty,
        arguments: &[Ty],
        lambdas: &[Ty],
        type_argument: Option<&Ty>,
    ) -> Ty {
        result(
            signature.result,
            &Known {
                receiver,
                arguments,
                lambdas,
                type_argument,
            },
        )
    }

    fn unknown(&self, at: Position, shown: &str, owners: &[&str], name: &str) -> Problem {
        let message = match name {
            "GetType" => "GetType is reflection, which is not available; compare with is: x is string",
            "GetHashCode" => "GetHashCode differs from run to run; use the value itself",
            "Wait" | "GetAwaiter" => "a script has nothing to wait for; let an activity wait, such as Elsa.Delay",
            "ToListAsync" | "FirstOrDefaultAsync" | "AnyAsync" => "lists are in memory already; leave out Async",
            "Join" | "GroupJoin" if owners.contains(&".sequence") => {
                "Join of LINQ is not part of the C# that runs here: use SelectMany and Where, or a dictionary"
            }
            "ToLookup" => "ToLookup is not part of the C# that runs here: use GroupBy",
            "Index" => "Index is not part of the C# that runs here: use Select((x, i) => (i, x))",
            "GetProperty" | "RootElement" | "GetInt32" | "GetString" | "AsArray" | "AsObject" | "AsValue" => {
                "members of JSON are read by their names here: value.name or value[\"name\"]"
            }
            "ToJsonString" => "write JsonSerializer.Serialize(value)",
            _ => return unknown_member(at, shown, owners, name),
        };
        Problem::new(at, message)
    }

    fn by_count(
        &self,
        signatures: &[&'static Signature],
        call: &Call,
        at: Position,
    ) -> Checked<Vec<&'static Signature>> {
        let count = call.arguments.len();
        let takes: Vec<&'static Signature> = signatures.iter().copied().filter(|one| one.takes(count)).collect();
        if takes.is_empty() {
            let least = signatures.iter().map(|one| one.least).min().unwrap_or(0);
            let most = signatures.iter().map(|one| one.arguments.len()).max().unwrap_or(0);
            let wanted = if least == most {
                least.to_string()
            } else {
                format!("{least} to {most}")
            };
            let mut message = format!("{} takes {wanted} arguments, not {count}", call.name);
            if count == most + 1 {
                message.push_str(without_comparer(&call.name));
            }
            return Err(Problem::new(at, message));
        }
        Ok(takes)
    }

    /// The types of the arguments, and what the lambdas among them return.
    fn arguments(
        &mut self,
        call: &mut Call,
        receiver: &Ty,
        signatures: &[&'static Signature],
        at: Position,
    ) -> Checked<(Vec<Ty>, Vec<Ty>)> {
        let (mut types, mut lambdas) = (Vec::new(), Vec::new());
        let name = Arc::clone(&call.name);
        for (number, argument) in call.arguments.iter_mut().enumerate() {
            let letters: Vec<char> = signatures.iter().map(|one| one.letter(number)).collect();
            if argument.out.is_some() || argument.name.as_deref() == Some("out") {
                if !letters.contains(&'O') {
                    return Err(Problem::new(
                        argument.value.at,
                        format!("{name} has no out argument here"),
                    ));
                }
                self.out_argument(argument, receiver, &call.target)?;
                types.push(Ty::Dynamic);
                continue;
            }
            let most = letters.iter().filter_map(|letter| lambda_parameters(*letter)).max();
            if let Some(most) = most {
                let count = if letters.contains(&'g') { 2 } else { 1.min(most) };
                self.group_as_lambda(&mut argument.value, count)?;
            }
            if let Kind::Lambda(lambda) = &mut argument.value.kind {
                let Some(most) = most else {
                    return Err(Problem::new(lambda.at, format!("{name} takes no lambda here")));
                };
                let given = lambda.parameters.len();
                let is_pair = letters.contains(&'g');
                if given > most || given == 0 || (is_pair && given != 2) {
                    let wanted = if is_pair {
                        "two parameters".to_owned()
                    } else {
                        format!("one to {most} parameters")
                    };
                    return Err(Problem::new(
                        lambda.at,
                        format!("the lambda of {name} takes {wanted}, not {given}"),
                    ));
                }
                let parameters = lambda_types(&name, number, receiver, &types, &lambdas);
                let Some(lambda) = Arc::get_mut(lambda) else {
                    return Err(Problem::new(at, "this lambda is used twice"));
                };
                let returned = self.lambda(lambda, &parameters, None, false)?;
                let is_condition = matches!(&*name, "Where" | "TakeWhile" | "SkipWhile")
                    || letters.iter().all(|letter| *letter == 'p');
                if is_condition && !matches!(returned, Ty::Bool | Ty::Dynamic) {
                    let message = format!("the lambda of {name} must return a bool, not {returned}");
                    return Err(Problem::new(lambda.at, message));
                }
                lambdas.push(returned);
                types.push(Ty::Lambda);
                continue;
            }
            let ty = self.any_expression(&mut argument.value)?;
            if let (Ty::Function(function), Some(most)) = (&ty, most) {
                let given = function.parameters.len();
                if given == 0 || given > most {
                    let message = format!("{name} takes a function of at most {most} parameters, not a {ty}");
                    return Err(Problem::new(argument.value.at, message));
                }
                lambdas.push(function.result.clone());
                types.push(Ty::Lambda);
                continue;
            }
            types.push(ty);
        }
        Ok((types, lambdas))
    }

    fn out_argument(&mut self, argument: &mut Argument, receiver: &Ty, target: &Expr) -> Checked<()> {
        let known = match (&target.kind, receiver) {
            (Kind::Type(ty), _) => ty.clone(),
            (_, Ty::Map(_, value)) => (**value).clone(),
            _ => Ty::Dynamic,
        };
        let Some(place) = &mut argument.out else {
            // An existing local.
            if matches!(&argument.value.kind, Kind::Name(name) if **name == *"_") {
                argument.value.kind = Kind::Constant(crate::syntax::Constant::Null);
                return Ok(());
            }
            self.any_expression(&mut argument.value)?;
            if !matches!(argument.value.kind, Kind::Local(_)) {
                return Err(Problem::new(argument.value.at, "out needs a local: out var x"));
            }
            return Ok(());
        };
        place.ty = match &place.written {
            Some(written) => self.resolve(written)?,
            None => known,
        };
        place.slot = self.declare(&place.name, place.at, place.ty.clone())?;
        argument.value.kind = Kind::Local(place.slot);
        Ok(())
    }

    /// The signature that fits the types.
    fn chosen(
        &self,
        signatures: &[&'static Signature],
        types: &[Ty],
        call: &Call,
        at: Position,
    ) -> Checked<Option<&'static Signature>> {
        let fits = |signature: &Signature| {
            let mut all = types.iter().enumerate();
            all.all(|(number, ty)| signature.letter(number) == 'O' || accepts(signature.letter(number), ty))
        };
        if let Some(found) = signatures.iter().copied().find(|one| fits(one)) {
            let is_mixed = types.contains(&Ty::Decimal) && types.contains(&Ty::Double) && found.result == "W";
            if is_mixed {
                let message = format!(
                    "{} of a decimal and a double is ambiguous; write m after the literal, or (decimal) before the double",
                    call.name
                );
                return Err(Problem::new(at, message));
            }
            return Ok(Some(found));
        }
        let Some(first) = signatures.first() else {
            return Ok(None);
        };
        for (number, ty) in types.iter().enumerate() {
            let letter = first.letter(number);
            if letter != 'O' && !accepts(letter, ty) {
                let at = call.arguments.get(number).map_or(at, |argument| argument.value.at);
                let (name, wanted, place) = (&call.name, wanted(letter), number + 1);
                let remedy = match (letter, ty) {
                    ('t', _) | ('c', Ty::Int) => "; write .ToString()",
                    ('i', Ty::Long | Ty::Double | Ty::Decimal) => "; write (int) before it",
                    ('d', Ty::Decimal) => "; write (double) before it",
                    _ => "",
                };
                let message = format!("{name} takes {wanted} as argument {place}, not {ty}{remedy}");
                return Err(Problem::new(at, message));
            }
        }
        Err(Problem::new(
            at,
            format!("no overload of {} takes these arguments", call.name),
        ))
    }

    /// A condition must be a bool.
    pub(super) fn condition(&mut self, condition: &mut Expr) -> Checked<()> {
        let ty = self.expression(condition)?;
        match ty {
            Ty::Bool => Ok(()),
            Ty::Dynamic => self.convert(condition, &ty, &Ty::Bool),
            other => Err(Problem::new(condition.at, conversion_problem(&other, &Ty::Bool))),
        }
    }
}

/// The types of the parameters of a lambda.
fn lambda_types(method: &str, number: usize, receiver: &Ty, types: &[Ty], lambdas: &[Ty]) -> Vec<Ty> {
    let item = receiver.item().unwrap_or(Ty::Dynamic);
    match (method, number) {
        ("Aggregate", 0) => vec![item.clone(), item],
        ("Aggregate", 1) => vec![types.first().cloned().unwrap_or(Ty::Dynamic), item],
        ("Aggregate", _) => vec![types.first().cloned().unwrap_or(Ty::Dynamic)],
        ("Zip", _) => vec![item, types.first().and_then(Ty::item).unwrap_or(Ty::Dynamic)],
        ("SelectMany", 1) => {
            let inner = lambdas.first().and_then(Ty::item).unwrap_or(Ty::Dynamic);
            vec![item, inner]
        }
        _ => vec![item, Ty::Int],
    }
}

/// What to write instead of a method with a comparer, which is the last of one argument too many.
fn without_comparer(method: &str) -> &'static str {
    match method {
        "OrderBy" | "OrderByDescending" | "ThenBy" | "ThenByDescending" | "Order" | "OrderDescending" => {
            "; there are no comparers here: order by a key, as in OrderBy(x => x.ToLowerInvariant())"
        }
        "Sort" => "; there are no comparers here: write list = list.OrderBy(x => …).ToList()",
        "Distinct" | "Union" | "Intersect" | "Except" | "ToHashSet" => {
            "; there are no comparers here: convert the items first, as in Select(x => x.ToLowerInvariant())"
        }
        "Contains" | "SequenceEqual" => {
            "; there are no comparers here: write Any(x => x.Equals(value, StringComparison.OrdinalIgnoreCase))"
        }
        "DistinctBy" | "GroupBy" | "ToDictionary" | "MinBy" | "MaxBy" => {
            "; there are no comparers here: convert the key, as in GroupBy(x => x.ToLowerInvariant())"
        }
        _ => "",
    }
}
