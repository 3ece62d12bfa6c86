//! Filters for numbers: .NET's decimals, which overflow past 28 digits.

use super::{Call, Filter, Filtered, filter, with};
use crate::error::TemplateFailure;
use crate::value::Value;
use mainspring_language::{Decimal, Rounding};

pub(super) static FILTERS: [Filter; 11] = [
    filter("abs", |call| Ok(Value::Number(call.input.number(call.budget)?.abs()))),
    filter("at_least", |call| {
        let least = call.argument(0);
        Ok(if call.input.number(call.budget)? < least.number(call.budget)? {
            least
        } else {
            call.input
        })
    }),
    filter("at_most", |call| {
        let most = call.argument(0);
        Ok(if call.input.number(call.budget)? > most.number(call.budget)? {
            most
        } else {
            call.input
        })
    }),
    filter("ceil", |call| {
        Ok(Value::Number(
            call.input.number(call.budget)?.round(0, Rounding::Ceiling),
        ))
    }),
    filter("floor", |call| {
        Ok(Value::Number(call.input.number(call.budget)?.round(0, Rounding::Floor)))
    }),
    with("divided_by", 1, "divided_by: 2", divided_by),
    filter("minus", |call| of_two(&call, Decimal::subtract)),
    with("modulo", 1, "modulo: 2", modulo),
    filter("plus", |call| of_two(&call, Decimal::add)),
    filter("round", round),
    filter("times", |call| of_two(&call, Decimal::multiply)),
];

fn of_two<'a>(call: &Call<'a, '_>, compute: fn(Decimal, Decimal) -> Option<Decimal>) -> Filtered<'a> {
    computed(compute(
        call.input.number(call.budget)?,
        call.argument(0).number(call.budget)?,
    ))
}

fn computed<'a>(result: Option<Decimal>) -> Filtered<'a> {
    match result {
        Some(result) => Ok(Value::Number(result)),
        None => Err(TemplateFailure::invalid(
            "the result has more than the 28 digits that a template supports",
        )),
    }
}

fn division_by_zero() -> TemplateFailure {
    TemplateFailure::invalid("the divisor is 0; test it with if before, or give it a default")
}

/// By a whole number the result is one, too, rounded down.
fn divided_by<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let (dividend, divisor) = (call.input.number(call.budget)?, call.argument(0).number(call.budget)?);
    if divisor.is_zero() {
        return Err(division_by_zero());
    }
    let result = dividend.divide(divisor);
    if divisor.scale() == 0 {
        return computed(result.map(|result| result.round(0, Rounding::Floor)));
    }
    computed(result)
}

/// Of integers: both are rounded to one.
fn modulo<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let (dividend, divisor) = (
        call.input.integer("the dividend", call.budget)?,
        call.argument(0).integer("the divisor", call.budget)?,
    );
    match dividend.checked_rem(divisor) {
        Some(rest) => Ok(Value::whole(rest)),
        None => Err(division_by_zero()),
    }
}

/// Half goes to the even digit.
fn round<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let digits = call.argument_integer(0, 0)?;
    let Some(digits) = u32::try_from(digits).ok().filter(|digits| *digits <= 28) else {
        return Err(TemplateFailure::invalid(format!(
            "{digits} digits cannot be kept; use 0 to 28"
        )));
    };
    Ok(Value::Number(
        call.input.number(call.budget)?.round(digits, Rounding::HalfEven),
    ))
}
