//! The bounds of a burst: the options of the interpreter, the values that enter state and journal, and the timeout of an
//! activity call.
//!
//! - Each value is checked when it enters, and an invalid one faults the activity that brought it: the database or a
//!   later parse would refuse it when its origin can no longer be found.
//! - A call that takes longer than its timeout is dropped with all its commands, and its execution faults. The timeout
//!   does not change which executions exist or what ids they have: those are assigned before the first call. A call that
//!   blocks its thread cannot be dropped.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;

use crate::activity::{ActivityNode, Console, Descriptor, Fault, FlowchartMode, Stdout, Step};
use crate::definition::{JsonLimitError, check_json};
use crate::expression::{ScriptOptions, TimeSpan};
use crate::{Error, Result};

/// The bounds of the interpreter, how it runs flowcharts, and its console.
#[derive(Clone)]
pub struct InterpreterOptions {
    /// Activities that one burst executes before it yields. Default: 1000.
    pub activities_per_burst: usize,
    /// Estimated bytes of journal that one burst writes before it yields. Default: 4 MiB.
    pub bytes_per_burst: usize,
    /// How often a burst commits if its workflow has the periodic commit strategy. Default: 10 s.
    pub commit_period: Duration,
    /// Activities that an instance executes without waiting, over all its bursts, before it counts as an endless loop and
    /// faults. Default: 100,000.
    pub executions_without_wait: u64,
    /// Executions of activities that an instance may have started and not ended; one more faults. A loop that forks in
    /// each iteration grows without being endless. Default: 10,000.
    pub open_executions: usize,
    /// Bytes of JSON of one value that enters state or journal; a larger one faults its activity. Default: 1 MiB.
    pub max_value_bytes: usize,
    /// How long one call of an activity may take before it is dropped and its execution faults; waits at bookmarks do not
    /// count. The activity type ([`Descriptor::timeout`](crate::activity::Descriptor::timeout)) and the definition (custom
    /// property `activityTimeout`) may override it. Default: 10 minutes.
    pub activity_timeout: Duration,
    /// How flowcharts run if their workflow does not set the custom property `Flowchart:ExecutionMode`. A flowchart
    /// keeps the mode with which it began. Default: by counts, as in Elsa.
    pub flowchart_mode: FlowchartMode,
    /// Where `Elsa.WriteLine` writes. Default: standard output.
    pub console: Arc<dyn Console>,
    /// The bounds of scripts.
    pub script: ScriptOptions,
}

impl Default for InterpreterOptions {
    fn default() -> Self {
        Self {
            activities_per_burst: 1000,
            bytes_per_burst: 4 << 20,
            commit_period: Duration::from_secs(10),
            executions_without_wait: 100_000,
            open_executions: 10_000,
            max_value_bytes: 1 << 20,
            activity_timeout: Duration::from_secs(600),
            flowchart_mode: FlowchartMode::Counter,
            console: Arc::new(Stdout),
            script: ScriptOptions::default(),
        }
    }
}

impl fmt::Debug for InterpreterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterpreterOptions")
            .field("activities_per_burst", &self.activities_per_burst)
            .field("bytes_per_burst", &self.bytes_per_burst)
            .field("commit_period", &self.commit_period)
            .field("executions_without_wait", &self.executions_without_wait)
            .field("open_executions", &self.open_executions)
            .field("max_value_bytes", &self.max_value_bytes)
            .field("activity_timeout", &self.activity_timeout)
            .field("flowchart_mode", &self.flowchart_mode)
            .finish_non_exhaustive()
    }
}

/// The deepest nesting of a value in state. The state around it adds some levels, and the JSON parser must be able to read
/// it.
const MAX_VALUE_DEPTH: usize = 100;

/// Checks a value that enters state or journal; returns its size in bytes.
///
/// # Errors
/// A fault for U+0000, for nesting beyond 100 levels, and for a value larger than `max_bytes`.
pub(super) fn admit(what: &str, value: &Value, max_bytes: usize) -> std::result::Result<usize, Fault> {
    let weight = storable(what, value)?;
    if weight > max_bytes {
        let message = format!(
            "{what} is {weight} bytes large; at most {max_bytes} can be kept (the setting value-kib), store it elsewhere and \
             keep a reference"
        );
        return Err(Fault::new(message).category("Value"));
    }
    Ok(weight)
}

/// The size in bytes of a value that can be stored.
fn storable(what: &str, value: &Value) -> std::result::Result<usize, Fault> {
    match check_json(value, MAX_VALUE_DEPTH) {
        Ok(weight) => Ok(weight),
        Err(JsonLimitError::TooDeep) => {
            let message = format!("{what} nests deeper than {MAX_VALUE_DEPTH} levels");
            Err(Fault::new(message).category("Value"))
        }
        Err(JsonLimitError::Nul) => Err(nul_fault(what)),
    }
}

fn nul_fault(what: &str) -> Fault {
    Fault::new(format!("{what} contains the character U+0000, which cannot be stored")).category("Value")
}

/// The longest name or correlation id that an instance keeps, in bytes: the database has indexes of them.
const LONGEST_NAME: usize = 1024;

/// What is wrong with a name for an instance.
pub(super) fn name_problem(name: &str) -> Option<String> {
    let bytes = name.len();
    (bytes > LONGEST_NAME)
        .then(|| format!("has {bytes} bytes, and at most {LONGEST_NAME} are allowed; give it a shorter one"))
}

/// Checks a name, or an id that people choose, before an instance keeps it.
///
/// # Errors
/// A fault for a longer one than [`LONGEST_NAME`], and for U+0000.
pub(super) fn admit_name(what: &str, name: &str) -> std::result::Result<(), Fault> {
    if name.contains('\0') {
        return Err(nul_fault(what));
    }
    match name_problem(name) {
        Some(problem) => Err(Fault::new(format!("{what} {problem}")).category("Value")),
        None => Ok(()),
    }
}

/// Checks a value that comes from outside, such as the input of a start or the payload of an event.
///
/// # Errors
/// `invalid-text` for U+0000, `nesting-too-deep` beyond 100 levels, `value-too-large` beyond `max_bytes`.
pub(crate) fn check_value(field: &str, value: &Value, max_bytes: usize) -> Result<()> {
    match check_json(value, MAX_VALUE_DEPTH) {
        Ok(weight) if weight > max_bytes => Err(Error::too_large(
            "value-too-large",
            format!("The value of {field} is larger than {max_bytes} bytes (the setting value-kib)"),
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

/// The custom property of an activity in a definition.
const TIMEOUT_PROPERTY: [&str; 2] = ["activityTimeout", "ActivityTimeout"];

/// The timeout of an activity: from the definition, or its type, or the server's options.
pub(super) fn activity_timeout(node: &ActivityNode, descriptor: Option<&Descriptor>, server: Duration) -> Duration {
    let own = custom_timeout(node).and_then(parse_timeout);
    own.or_else(|| descriptor.and_then(|descriptor| descriptor.timeout))
        .unwrap_or(server)
}

/// The error of an invalid timeout in the definition.
pub(super) fn activity_timeout_error(node: &ActivityNode) -> Option<String> {
    let invalid = custom_timeout(node).filter(|value| parse_timeout(value).is_none())?;
    Some(format!(
        "The custom property {} of the activity {} must be a length of time above zero, as \"00:10:00\" or \"PT10M\", and \
         is {invalid}",
        TIMEOUT_PROPERTY[0],
        node.title()
    ))
}

fn custom_timeout(node: &ActivityNode) -> Option<&Value> {
    let custom = node.property("customProperties")?;
    let given = TIMEOUT_PROPERTY.iter().find_map(|name| custom.get(*name));
    given.filter(|value| !value.is_null())
}

fn parse_timeout(value: &Value) -> Option<Duration> {
    let limit = TimeSpan::parse(value.as_str()?)?.to_duration()?;
    (!limit.is_zero()).then_some(limit)
}

/// Awaits a call, and drops it after its timeout.
pub(super) async fn with_timeout(
    node: &ActivityNode,
    timeout: impl FnOnce() -> Duration,
    calling: impl Future<Output = std::result::Result<Step, Fault>>,
) -> std::result::Result<Step, Fault> {
    let mut calling = pin!(calling);
    // Most calls are ready at once: no timer is needed for them.
    if let Poll::Ready(ended) = poll_fn(|context| Poll::Ready(calling.as_mut().poll(context))).await {
        return ended;
    }
    let timeout = timeout();
    if let Ok(ended) = tokio::time::timeout(timeout, calling).await {
        return ended;
    }
    metrics::counter!("mainspring_activity_timeouts_total").increment(1);
    Err(Fault::new(format!(
        "The activity {} did not return within {timeout:?} and was dropped. To allow more time, set its custom property {}, \
         a timeout of its type, or the server's activity-timeout",
        node.title(),
        TIMEOUT_PROPERTY[0]
    ))
    .code("activity-timeout")
    .quoting_nothing(true))
}
