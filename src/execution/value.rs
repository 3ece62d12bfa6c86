//! What may enter state and journal.
//!
//! Scripts and bodies can make what the database or a later parse would refuse, long after anybody could tell where it
//! came from. So each value is looked at when it enters, and the activity that brought it faults.

use serde_json::Value;

use crate::activity::Fault;
use crate::definition::{JsonLimitError, check_json};
use crate::{Error, Result};

/// The deepest nesting of a value in state. The state around it adds some levels, and all of it must stay within what
/// the JSON parser takes back.
const MAX_VALUE_DEPTH: usize = 100;

/// Checks a value and gives its weight in bytes.
pub(super) fn admit(what: &str, value: &Value, max_bytes: usize) -> std::result::Result<usize, Fault> {
    let fault = |message: String| Err(Fault::new(message).category("Value"));
    match check_json(value, MAX_VALUE_DEPTH) {
        Ok(weight) if weight > max_bytes => fault(format!(
            "{what} is {weight} bytes large; at most {max_bytes} can be kept, store it elsewhere and keep a reference"
        )),
        Ok(weight) => Ok(weight),
        Err(JsonLimitError::TooDeep) => fault(format!("{what} nests deeper than {MAX_VALUE_DEPTH} levels")),
        Err(JsonLimitError::Nul) => fault(format!("{what} contains the character U+0000, which cannot be stored")),
    }
}

/// Checks a value that comes from outside, such as the input of a start or the payload of an event.
///
/// # Errors
/// `invalid-text` for U+0000, `nesting-too-deep` beyond 100 levels, `value-too-large` beyond `max_bytes`.
pub fn check_value(field: &str, value: &Value, max_bytes: usize) -> Result<()> {
    match check_json(value, MAX_VALUE_DEPTH) {
        Ok(weight) if weight > max_bytes => Err(Error::too_large(
            "value-too-large",
            format!("The value of {field} is larger than {max_bytes} bytes"),
        )),
        Ok(_) => Ok(()),
        Err(JsonLimitError::TooDeep) => {
            let message = format!("The value of {field} nests deeper than {MAX_VALUE_DEPTH} levels");
            Err(Error::invalid("nesting-too-deep", message.clone()).field(field, message))
        }
        Err(JsonLimitError::Nul) => {
            let message = format!("The value of {field} contains the character U+0000");
            Err(Error::invalid("invalid-text", message.clone()).field(field, message))
        }
    }
}
