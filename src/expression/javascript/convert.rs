//! Values between JSON and JavaScript.
//!
//! A value without a JSON form of its own is converted:
//!
//! | JavaScript | JSON |
//! |---|---|
//! | `undefined`, a symbol, `NaN`, an infinity | null |
//! | a function | null; as an object's property it is left out |
//! | half of a surrogate pair in a text | U+FFFD |
//! | a whole number within 2^53 | an integer: `2`, never `2.0` |
//! | a BigInt | an integer if it fits 64 bits, else its digits as a text |
//! | a Date | ISO 8601 in UTC; an invalid one is null |
//! | a Map | an object; a Set: an array |
//! | a Uint8Array or ArrayBuffer | Base64, as .NET writes bytes; other typed arrays: numbers |
//! | an Error | its name and message; a RegExp: its text |
//! | a cycle | an error |
//!
//! The walk is bounded by depth and by bytes: it refuses a million nested arrays, and an object that refers to another
//! one twice, thirty levels deep. Getters and proxies run script code during the walk, under the script's deadline.

use rquickjs::{Array, Ctx, Error, Filter, FromJs as _, Function, Object, String as JsString, Value as JsValue};
use serde_json::{Map, Number, Value};

use crate::expression::script::{ScriptError, ScriptErrorKind};

/// Levels of nesting that a result may have. JSON parsers with a recursion limit stop at 128 levels, and a value must
/// still be readable inside an instance's state.
const MAX_DEPTH: usize = 100;

/// The largest whole number up to which doubles have no gaps.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a value cannot be converted.
#[derive(Debug)]
pub(super) enum ConversionError {
    /// An error of QuickJS; an exception may be pending.
    Engine(Error),
    /// A limit of the conversion.
    Refused(ScriptError),
}

impl From<Error> for ConversionError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

fn refuse(kind: ScriptErrorKind, message: impl Into<String>) -> ConversionError {
    ConversionError::Refused(ScriptError::new(kind, message))
}

/// Converts the values of one evaluation to JSON within one common budget.
pub(super) struct JsonConverter<'a, 'js> {
    flatten: &'a Function<'js>,
    remaining: usize,
    limit: usize,
    path: Vec<Object<'js>>,
    should_stop: &'a dyn Fn() -> bool,
    steps: u8,
}

impl<'a, 'js> JsonConverter<'a, 'js> {
    /// `flatten` is the realm's function of that name; `limit` is in bytes of JSON, estimated; `should_stop` says that the
    /// script's time is over.
    pub(super) fn new(flatten: &'a Function<'js>, limit: usize, should_stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            flatten,
            remaining: limit,
            limit,
            path: Vec::new(),
            should_stop,
            steps: 0,
        }
    }

    /// The JSON form of a value.
    pub(super) fn value(&mut self, value: JsValue<'js>) -> Result<Value, ConversionError> {
        if let Some(int) = value.as_int() {
            self.charge(4)?;
            return Ok(int.into());
        }
        if let Some(text) = value.as_string() {
            return Ok(Value::String(self.text(text)?));
        }
        if let Some(flag) = value.as_bool() {
            self.charge(5)?;
            return Ok(flag.into());
        }
        if let Some(number) = value.as_float() {
            self.charge(8)?;
            return Ok(from_double(number));
        }
        if value.is_big_int() {
            return self.big_int(value);
        }
        if value.is_function() {
            self.charge(4)?;
            return Ok(Value::Null);
        }
        match value.into_object() {
            Some(object) => self.nested(object),
            None => {
                self.charge(4)?;
                Ok(Value::Null)
            }
        }
    }

    /// A text, if it can be stored.
    pub(super) fn text(&mut self, text: &JsString<'js>) -> Result<String, ConversionError> {
        let text = match text.to_string() {
            // Half of a surrogate pair, which is no character of its own, becomes U+FFFD.
            Err(Error::Utf8(_)) => {
                let formed: Array<'js> = self.flatten.call((text.clone(),))?;
                formed.get::<String>(1)?
            }
            text => text?,
        };
        self.charge(text.len().saturating_add(2))?;
        if text.contains('\0') {
            return Err(refuse(
                ScriptErrorKind::InvalidText,
                "a text holds U+0000, which cannot be stored",
            ));
        }
        Ok(text)
    }

    fn big_int(&mut self, value: JsValue<'js>) -> Result<Value, ConversionError> {
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

    fn nested(&mut self, object: Object<'js>) -> Result<Value, ConversionError> {
        if self.path.contains(&object) {
            return Err(refuse(
                ScriptErrorKind::Thrown,
                "a value refers to itself, which JSON cannot express",
            ));
        }
        if self.path.len() >= MAX_DEPTH {
            let message = format!("a value is nested deeper than {MAX_DEPTH} levels");
            return Err(refuse(ScriptErrorKind::TooLarge, message));
        }
        self.charge(2)?;
        self.path.push(object.clone());
        let value = self.walk(object);
        self.path.pop();
        value
    }

    fn walk(&mut self, object: Object<'js>) -> Result<Value, ConversionError> {
        if let Some(array) = object.as_array() {
            // Not by `Array::len`, which panics beyond 2^31.
            let length: f64 = array.as_object().get("length")?;
            let length = length.max(0.0) as usize;
            self.charge(length)?;
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
        // Keys as values of QuickJS: converted to Rust text directly, they would not be checked.
        for key in object.own_keys::<JsValue<'js>>(Filter::default()) {
            let key = key?;
            let value: JsValue<'js> = object.get(key.clone())?;
            if value.is_function() {
                self.charge(1)?;
                continue;
            }
            let name = JsString::from_js(key.ctx(), key.clone())?;
            let name = self.text(&name)?;
            map.insert(name, self.value(value)?);
        }
        Ok(Value::Object(map))
    }

    fn charge(&mut self, bytes: usize) -> Result<(), ConversionError> {
        match self.remaining.checked_sub(bytes) {
            Some(remaining) => {
                self.remaining = remaining;
                self.steps = self.steps.wrapping_add(1);
                if self.steps == 0 && (self.should_stop)() {
                    return Err(refuse(
                        ScriptErrorKind::Timeout,
                        "the time limit was reached while a result was converted",
                    ));
                }
                Ok(())
            }
            None => {
                let message = format!("the result of a script is larger than {} bytes", self.limit);
                Err(refuse(ScriptErrorKind::TooLarge, message))
            }
        }
    }
}

fn from_double(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A JSON value as a value of the realm.
pub(super) fn to_js<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<JsValue<'js>> {
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

/// Whether a script sees two values as equal, such as 2 and 2.0, or two integers beyond 2^53. A value that was only
/// read must not be written back with the rounding of a double.
pub(super) fn equal_in_script(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal_in_script(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| equal_in_script(left, right)))
        }
        _ => left == right,
    }
}
