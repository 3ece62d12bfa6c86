//! Values between JSON and JavaScript.
//!
//! What has no JSON form of its own becomes, on its way out:
//!
//! | JavaScript | JSON |
//! |---|---|
//! | `undefined`, a symbol, `NaN`, an infinity | null |
//! | a function | null; as an object's property it is left out, as `JSON.stringify` does |
//! | a whole number within 2^53 | an integer: `2`, never `2.0` |
//! | a BigInt | an integer if it fits 64 bits, else its digits as a text |
//! | a Date | ISO 8601 in UTC; an invalid one is null |
//! | a Map | an object; a Set: an array |
//! | a Uint8Array or ArrayBuffer | Base64, as .NET writes bytes; other typed arrays: numbers |
//! | an Error | its name and message; a RegExp: its text |
//! | a cycle | an error |
//!
//! The walk is bounded by depth and by bytes, so that neither a million nested arrays nor an object that refers to
//! another one twice, thirty levels deep, gets through. Getters and proxies run script code in it, under the same
//! deadline as the script.

use rquickjs::{Array, Ctx, Error, Filter, FromJs as _, Function, Object, String as JsString, Value as JsValue};
use serde_json::{Map, Number, Value};

use super::script::{ScriptError, ScriptErrorKind};

/// Levels of nesting that a result may have. A reader of JSON that guards its stack stops at 128 levels, and a value
/// must still be readable inside an instance's state.
const MAX_DEPTH: usize = 100;

/// The largest whole number up to which doubles have no gaps.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a value cannot leave.
#[derive(Debug)]
pub(super) enum Failure {
    /// The engine says so; an exception may be pending.
    Engine(Error),
    /// We say so.
    Refused(ScriptError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Utf8(_) => refuse(
                ScriptErrorKind::InvalidText,
                "a text holds a lone surrogate, which is no character",
            ),
            other => Self::Engine(other),
        }
    }
}

fn refuse(kind: ScriptErrorKind, message: impl Into<String>) -> Failure {
    Failure::Refused(ScriptError::new(kind, message))
}

/// One conversion out of a realm: all values of one evaluation share its budget.
pub(super) struct Outbound<'a, 'js> {
    flatten: &'a Function<'js>,
    left: usize,
    limit: usize,
    path: Vec<Object<'js>>,
    over: &'a dyn Fn() -> bool,
    steps: u8,
}

impl<'a, 'js> Outbound<'a, 'js> {
    /// `flatten` is the realm's own function of that name; `limit` counts bytes of JSON, roughly; `over` says that
    /// time is up.
    pub(super) fn new(flatten: &'a Function<'js>, limit: usize, over: &'a dyn Fn() -> bool) -> Self {
        Self {
            flatten,
            left: limit,
            limit,
            path: Vec::new(),
            over,
            steps: 0,
        }
    }

    /// The JSON form of a value.
    pub(super) fn value(&mut self, value: JsValue<'js>) -> Result<Value, Failure> {
        if let Some(int) = value.as_int() {
            self.pay(4)?;
            return Ok(int.into());
        }
        if let Some(text) = value.as_string() {
            return Ok(Value::String(self.text(text)?));
        }
        if let Some(flag) = value.as_bool() {
            self.pay(5)?;
            return Ok(flag.into());
        }
        if let Some(number) = value.as_float() {
            self.pay(8)?;
            return Ok(from_double(number));
        }
        if value.is_big_int() {
            return self.big(value);
        }
        if value.is_function() {
            self.pay(4)?;
            return Ok(Value::Null);
        }
        match value.into_object() {
            Some(object) => self.nested(object),
            None => {
                self.pay(4)?;
                Ok(Value::Null)
            }
        }
    }

    /// A text, if it is one that can be stored.
    pub(super) fn text(&mut self, text: &JsString<'js>) -> Result<String, Failure> {
        let text = text.to_string()?;
        self.pay(text.len().saturating_add(2))?;
        if text.contains('\0') {
            return Err(refuse(
                ScriptErrorKind::InvalidText,
                "a text holds U+0000, which cannot be stored",
            ));
        }
        Ok(text)
    }

    fn big(&mut self, value: JsValue<'js>) -> Result<Value, Failure> {
        let digits: JsValue<'js> = value
            .ctx()
            .globals()
            .get::<_, Function<'js>>("String")?
            .call((value,))?;
        let digits = match digits.as_string() {
            Some(digits) => self.text(digits)?,
            None => return Ok(Value::Null),
        };
        Ok(match (digits.parse::<i64>(), digits.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => Value::String(digits),
        })
    }

    fn nested(&mut self, object: Object<'js>) -> Result<Value, Failure> {
        if self.path.contains(&object) {
            return Err(refuse(
                ScriptErrorKind::Thrown,
                "a value refers to itself, which JSON cannot say",
            ));
        }
        if self.path.len() >= MAX_DEPTH {
            let message = format!("a value is nested deeper than {MAX_DEPTH} levels");
            return Err(refuse(ScriptErrorKind::TooLarge, message));
        }
        self.pay(2)?;
        self.path.push(object.clone());
        let value = self.walk(object);
        self.path.pop();
        value
    }

    fn walk(&mut self, object: Object<'js>) -> Result<Value, Failure> {
        if let Some(array) = object.as_array() {
            // Not by `Array::len`, which panics beyond 2^31.
            let length: f64 = array.as_object().get("length")?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let length = length.max(0.0) as usize;
            self.pay(length)?;
            let mut list = Vec::with_capacity(length.min(1024));
            for index in 0..length {
                list.push(self.value(array.get(index)?)?);
            }
            return Ok(Value::Array(list));
        }
        if let Some(plain) = self.flatten.call::<_, Option<Array<'js>>>((object.clone(),))? {
            return self.value(plain.get(1)?);
        }
        let mut map = Map::new();
        // Keys as values of the engine: taking them as Rust text directly would not check them.
        for key in object.own_keys::<JsValue<'js>>(Filter::default()) {
            let key = key?;
            let value: JsValue<'js> = object.get(key.clone())?;
            if value.is_function() || value.is_undefined() {
                self.pay(1)?;
                continue;
            }
            let name = JsString::from_js(key.ctx(), key.clone())?;
            let name = self.text(&name)?;
            map.insert(name, self.value(value)?);
        }
        Ok(Value::Object(map))
    }

    fn pay(&mut self, bytes: usize) -> Result<(), Failure> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                self.steps = self.steps.wrapping_add(1);
                if self.steps == 0 && (self.over)() {
                    return Err(refuse(ScriptErrorKind::Timeout, "time was up while a result was taken"));
                }
                Ok(())
            }
            None => {
                let message = format!("a script handed back more than {} bytes", self.limit);
                Err(refuse(ScriptErrorKind::TooLarge, message))
            }
        }
    }
}

fn from_double(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        #[allow(clippy::cast_possible_truncation)]
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A JSON value as one of the realm's.
pub(super) fn inbound<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<JsValue<'js>> {
    match value {
        Value::Null => Ok(JsValue::new_null(ctx.clone())),
        Value::Bool(flag) => Ok(JsValue::new_bool(ctx.clone(), *flag)),
        Value::Number(number) => Ok(JsValue::new_number(ctx.clone(), number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => JsString::from_str(ctx.clone(), text).map(JsString::into_value),
        Value::Array(_) | Value::Object(_) => {
            let json = serde_json::to_vec(value)
                .map_err(|error| Error::new_into_js_message("JSON", "value", error.to_string()))?;
            ctx.json_parse(json)
        }
    }
}

/// Whether two values are the same to a script, to which 2 and 2.0, or two integers beyond 2^53, can be equal. A value
/// that was only read must not come back changed because a double cannot hold it.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}
