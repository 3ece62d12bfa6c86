//! One JavaScript heap with the functions that Elsa gives its scripts.
//!
//! A realm is a QuickJS runtime with one context, made on a pool thread and never leaving it. Its limits:
//!
//! - **time**: QuickJS calls the interrupt handler every few thousand steps, in bytecode and inside regular expressions.
//!   The error it raises cannot be caught by a script, and every further step is refused. The limit covers the whole
//!   evaluation: parsing, running, promise jobs, and the conversion of its results;
//! - **memory**: QuickJS's own allocator limit, which counts strings, array buffers and the stacks of regular
//!   expressions. A script can catch an out of memory, and then goes on within the limit;
//! - **stack**: QuickJS's own limit.
//!
//! Some native loops never call the handler; `guards.js` bounds those that could run for long, and the thread pool
//! abandons threads that hang in others.
//!
//! [`Evaluation::is_spent`] means that the realm must not be used again: it was interrupted, ran out of memory, or the
//! script has changed the language itself. A script that names prototypes gets a realm to itself too, so that its
//! changes to `Array.prototype` do not reach the next script of the burst.
//!
//! A script runs by a direct `eval` in an arrow function at the top: its value is that of its last expression statement,
//! and its declarations end with it (two scripts of one burst may both say `const x`). Elsa also lets a script `return`;
//! such a script is compiled as a function's body. To distinguish the two without running anything twice, the script is
//! compiled behind a `throw`.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Array, Context, Ctx, Error, Function, Object, Persistent, Runtime, TypedArray, Value as JsValue};
use serde_json::{Map, Value};

use super::accessor;
use super::convert::{ConversionError, JsonConverter, equal_in_script, to_js};
use super::interrupt::{InterruptHandler, StopReason};
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope};

const UTC: &str = include_str!("utc.js");
const GUARDS: &str = include_str!("guards.js");
const PRELUDE: &str = include_str!("prelude.js");
const RUNNER: &str = "(__mainspring_source__) => eval(__mainspring_source__)";
const MAX_MESSAGE: usize = 2_000;

/// The end of one evaluation.
pub(super) struct Evaluation {
    /// The result for the caller.
    pub(super) result: Result<ScriptResult, ScriptError>,
    /// The realm must not be used again.
    pub(super) is_spent: bool,
    /// The scope that was passed in, unchanged.
    pub(super) scope: ScriptScope,
}

/// One heap. Field order is drop order: functions, context, runtime.
pub(super) struct Realm {
    functions: Functions,
    context: Context,
    runtime: Runtime,
    interrupt: Rc<InterruptHandler>,
    scope: Rc<RefCell<ScriptScope>>,
}

struct Functions {
    begin: Persistent<Function<'static>>,
    finish: Persistent<Function<'static>>,
    reset: Persistent<Function<'static>>,
    flatten: Persistent<Function<'static>>,
    define: Persistent<Function<'static>>,
    run: Persistent<Function<'static>>,
}

impl Realm {
    /// Makes a realm with the limits of `options`, on the thread that will use it.
    pub(super) fn new(options: &ScriptOptions, interrupt: &Rc<InterruptHandler>) -> Result<Self, ScriptError> {
        Self::build(options, interrupt).map_err(|error| {
            ScriptError::new(
                ScriptErrorKind::Memory,
                format!("no heap for scripts can be made: {error}"),
            )
        })
    }

    fn build(options: &ScriptOptions, interrupt: &Rc<InterruptHandler>) -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(options.memory_limit);
        runtime.set_max_stack_size(options.stack_limit);
        let handler = Rc::clone(interrupt);
        runtime.set_interrupt_handler(Some(Box::new(move || handler.should_stop())));
        let scope = Rc::new(RefCell::new(ScriptScope::default()));
        let context = Context::full(&runtime)?;
        let functions = context.with(|ctx| Functions::install(&ctx, &scope))?;
        Ok(Self {
            functions,
            context,
            runtime,
            interrupt: Rc::clone(interrupt),
            scope,
        })
    }

    /// Runs one script until it ends or the thread's interrupt handler stops it.
    pub(super) fn evaluate(&self, script: &str, scope: ScriptScope, options: &ScriptOptions) -> Evaluation {
        *self.scope.borrow_mut() = scope;
        let mut result = self.context.with(|ctx| self.evaluate_or_error(&ctx, script, options));
        if self.interrupt.should_stop() {
            result = Err(self.stop_error(options));
        }
        let mut is_spent = self.interrupt.stop().is_some() || accessor::touches_prototypes(script);
        if let Err(error) = &result {
            is_spent |= error.kind == ScriptErrorKind::Memory || error.message.contains("threw null");
        }
        is_spent |= self.runtime.is_job_pending();
        let scope = self.scope.take();
        Evaluation {
            result,
            is_spent,
            scope,
        }
    }

    /// Resets the global object after a script. False: the script has changed the language itself, and the realm must be
    /// dropped. Getters of that script may run here, until the interrupt handler stops them.
    pub(super) fn reset(&self) -> bool {
        let clean = self.context.with(|ctx| {
            let reset = self.functions.reset.clone().restore(&ctx);
            let clean = reset.and_then(|reset| reset.call::<_, bool>(()));
            ctx.catch();
            clean.unwrap_or(false)
        });
        clean && !self.interrupt.should_stop() && !self.runtime.is_job_pending()
    }

    fn stop_error(&self, options: &ScriptOptions) -> ScriptError {
        let limit = options.time_limit;
        match self.interrupt.stop() {
            Some(StopReason::Cancelled) => ScriptError::new(ScriptErrorKind::Closed, "the script was cancelled"),
            Some(StopReason::Preempted) => ScriptError::new(ScriptErrorKind::Busy, "the script was preempted"),
            Some(StopReason::TimedOut) | None => ScriptError::new(
                ScriptErrorKind::Timeout,
                format!("the script ran longer than its limit of {limit:?}"),
            ),
        }
    }

    fn evaluate_or_error<'js>(
        &self,
        ctx: &Ctx<'js>,
        script: &str,
        options: &ScriptOptions,
    ) -> Result<ScriptResult, ScriptError> {
        match self.evaluate_in(ctx, script, options) {
            Ok(result) => Ok(result),
            Err(ConversionError::Refused(error)) => {
                ctx.catch();
                Err(error)
            }
            Err(ConversionError::Engine(error)) => Err(self.script_error(ctx, script, error)),
        }
    }

    fn evaluate_in<'js>(
        &self,
        ctx: &Ctx<'js>,
        script: &str,
        options: &ScriptOptions,
    ) -> Result<ScriptResult, ConversionError> {
        self.functions.begin.clone().restore(ctx)?.call::<_, ()>(())?;
        let define = self.functions.define.clone().restore(ctx)?;
        for accessor in accessor::required_accessors(script, &self.scope.borrow()) {
            define.call::<_, ()>((accessor.name, accessor.kind as i32, accessor.target, accessor.part))?;
        }
        let mut value = self.run(ctx, script)?;
        // Promise jobs run to their end also when the result does not depend on them: their writes are this script's.
        while !self.interrupt.should_stop() && ctx.execute_pending_job() {}
        if let Some(promise) = value.as_promise() {
            if promise.state() == PromiseState::Pending {
                let message = "the script returned a promise that nothing can ever settle";
                return Err(ConversionError::Refused(ScriptError::new(
                    ScriptErrorKind::Thrown,
                    message,
                )));
            }
            value = promise.result::<JsValue<'js>>().unwrap_or(Err(Error::WouldBlock))?;
        }
        self.collect(ctx, value, options)
    }

    fn run<'js>(&self, ctx: &Ctx<'js>, script: &str) -> Result<JsValue<'js>, ConversionError> {
        if script.contains("return") && !self.parses(ctx, script)? {
            let function: Function<'js> = ctx.globals().get("Function")?;
            // Not a function's body either: the run below gives the syntax error.
            match function.call::<_, Function<'js>>((script,)) {
                Ok(body) => return Ok(body.call(())?),
                Err(_) => drop(ctx.catch()),
            }
        }
        let run = self.functions.run.clone().restore(ctx)?;
        Ok(run.call((script,))?)
    }

    /// Whether a script parses, without running it: compiled behind a `throw 0`, it can only throw 0.
    fn parses<'js>(&self, ctx: &Ctx<'js>, script: &str) -> Result<bool, ConversionError> {
        let run = self.functions.run.clone().restore(ctx)?;
        match run.call::<_, JsValue<'js>>((format!("throw 0;{script}"),)) {
            Ok(_) => Ok(true),
            Err(Error::Exception) => Ok(ctx.catch().as_int() == Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    fn collect<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: JsValue<'js>,
        options: &ScriptOptions,
    ) -> Result<ScriptResult, ConversionError> {
        let flatten = self.functions.flatten.clone().restore(ctx)?;
        let should_stop = || self.interrupt.should_stop();
        let mut out = JsonConverter::new(&flatten, options.max_result_bytes, &should_stop);
        let mut result = ScriptResult {
            value: out.value(value)?,
            ..ScriptResult::default()
        };
        let finish = self.functions.finish.clone().restore(ctx)?;
        let Some(report) = finish.call::<_, Option<Array<'js>>>(())? else {
            return Ok(result);
        };
        let touched: Array<'js> = report.get(0)?;
        for entry in touched.iter::<Array<'js>>() {
            let entry = entry?;
            let name = out.text(&entry.get(0)?)?;
            let value = out.value(entry.get(1)?)?;
            let written: bool = entry.get(2)?;
            let before = self.scope.borrow();
            if written
                || !before
                    .variables
                    .get(&name)
                    .is_some_and(|before| equal_in_script(before, &value))
            {
                drop(before);
                result.variables_set.push((name, value));
            }
        }
        result.correlation_id_set = optional_text(&mut out, report.get(1)?)?;
        result.name_set = optional_text(&mut out, report.get(2)?)?;
        if let Some(outcomes) = report.get::<Option<Array<'js>>>(3)? {
            let mut list = Vec::new();
            for outcome in outcomes.iter() {
                list.push(out.text(&outcome?)?);
            }
            result.outcomes = Some(list);
        }
        Ok(result)
    }

    /// The pending exception as a [`ScriptError`].
    fn script_error<'js>(&self, ctx: &Ctx<'js>, script: &str, error: Error) -> ScriptError {
        if matches!(error, Error::Allocation) {
            return out_of_memory();
        }
        let pending = ctx.has_exception();
        let thrown = ctx.catch();
        if !pending && !matches!(error, Error::Exception) {
            return ScriptError::new(ScriptErrorKind::Thrown, error.to_string());
        }
        let (name, message) = describe(&thrown);
        ctx.catch();
        // Without memory for an exception QuickJS throws null.
        if thrown.is_null() && !script.contains("throw") && !script.contains("reject") {
            return out_of_memory();
        }
        if name == "InternalError" && message.contains("out of memory") {
            return out_of_memory();
        }
        let text = if name.is_empty() {
            message
        } else {
            format!("{name}: {message}")
        };
        let kind =
            if name == "SyntaxError" && !self.parses(ctx, script).unwrap_or(true) && !self.interrupt.should_stop() {
                ScriptErrorKind::Syntax
            } else {
                ScriptErrorKind::Thrown
            };
        ScriptError::new(kind, text)
    }
}

fn out_of_memory() -> ScriptError {
    ScriptError::new(ScriptErrorKind::Memory, "the script needs more memory than it may have")
}

fn optional_text<'js>(
    out: &mut JsonConverter<'_, 'js>,
    cell: Option<Array<'js>>,
) -> Result<Option<Option<String>>, ConversionError> {
    let Some(cell) = cell else { return Ok(None) };
    match cell.get::<Option<rquickjs::String<'js>>>(0)? {
        Some(text) => Ok(Some(Some(out.text(&text)?))),
        None => Ok(Some(None)),
    }
}

/// Name and message of a thrown value. Getters may run here, under the same deadline.
fn describe(thrown: &JsValue<'_>) -> (String, String) {
    let Some(object) = thrown.as_object() else {
        let what = if thrown.is_undefined() {
            "undefined".to_owned()
        } else {
            short_text(thrown)
        };
        return (String::new(), format!("the script threw {what}"));
    };
    let name = object
        .get::<_, JsValue<'_>>("name")
        .map(|name| short_text(&name))
        .unwrap_or_default();
    let message = object
        .get::<_, JsValue<'_>>("message")
        .map(|message| short_text(&message))
        .unwrap_or_default();
    if name.is_empty() && message.is_empty() {
        return (String::new(), "the script threw an object without a message".to_owned());
    }
    (name, message)
}

/// A primitive as a short text that can be shown and stored.
fn short_text(value: &JsValue<'_>) -> String {
    let text = if let Some(text) = value.as_string() {
        text.to_string()
            .unwrap_or_else(|_| "a text with a lone surrogate".to_owned())
    } else if let Some(number) = value.as_number() {
        number.to_string()
    } else if let Some(flag) = value.as_bool() {
        flag.to_string()
    } else if value.is_undefined() || value.is_object() {
        String::new()
    } else {
        value.type_name().to_owned()
    };
    text.chars().filter(|c| *c != '\0').take(MAX_MESSAGE).collect()
}

impl Functions {
    fn install<'js>(ctx: &Ctx<'js>, scope: &Rc<RefCell<ScriptScope>>) -> rquickjs::Result<Self> {
        let host = Object::new(ctx.clone())?;
        let from = Rc::clone(scope);
        host.set("pull", Function::new(ctx.clone(), ScopeReader(from).function())?)?;
        let from = Rc::clone(scope);
        let names = move || from.borrow().variables.keys().cloned().collect::<Vec<String>>();
        host.set("names", Function::new(ctx.clone(), names)?)?;
        host.set("guid", Function::new(ctx.clone(), || uuid::Uuid::new_v4().to_string())?)?;
        host.set("encode", Function::new(ctx.clone(), encode)?)?;
        host.set("decode", Function::new(ctx.clone(), decode)?)?;
        let utc: Function<'js> = ctx.eval(UTC)?;
        utc.call::<_, ()>(())?;
        let guards: Function<'js> = ctx.eval(GUARDS)?;
        let is_proxy = Function::new(ctx.clone(), |value: JsValue<'_>| value.is_proxy())?;
        guards.call::<_, ()>((is_proxy,))?;
        let prelude: Function<'js> = ctx.eval(PRELUDE)?;
        let parts: Array<'js> = prelude.call((host,))?;
        let keep = |index| Ok::<_, Error>(Persistent::save(ctx, parts.get::<Function<'js>>(index)?));
        let mut sloppy = EvalOptions::default();
        sloppy.strict = false;
        let run: Function<'js> = ctx.eval_with_options(RUNNER, sloppy)?;
        Ok(Self {
            begin: keep(0)?,
            finish: keep(1)?,
            reset: keep(2)?,
            flatten: keep(3)?,
            define: keep(4)?,
            run: Persistent::save(ctx, run),
        })
    }
}

/// Reads single values of the scope when a script asks for them.
struct ScopeReader(Rc<RefCell<ScriptScope>>);

impl ScopeReader {
    fn function(self) -> impl for<'js> Fn(Ctx<'js>, i32, String, Option<String>) -> rquickjs::Result<JsValue<'js>> {
        move |ctx, kind, name, part| {
            let scope = self.0.borrow();
            let found = match kind {
                0 => scope.variables.get(&name),
                1 => scope.inputs.get(&name),
                2 => scope
                    .outputs
                    .get(&name)
                    .and_then(|outputs| output(outputs, part.as_deref())),
                4 => scope.last_result.as_ref(),
                _ => return fact(&ctx, &scope, &name),
            };
            found.map_or_else(|| Ok(JsValue::new_undefined(ctx.clone())), |value| to_js(&ctx, value))
        }
    }
}

/// One output of an activity: the named one, or the only one, or else `Result`.
fn output<'a>(outputs: &'a Value, name: Option<&str>) -> Option<&'a Value> {
    let outputs: &Map<String, Value> = outputs.as_object()?;
    match name {
        Some(name) => outputs.get(name),
        None => outputs
            .get("Result")
            .or_else(|| outputs.get("result"))
            .or_else(|| outputs.values().next()),
    }
}

fn fact<'js>(ctx: &Ctx<'js>, scope: &ScriptScope, name: &str) -> rquickjs::Result<JsValue<'js>> {
    let facts = &scope.workflow;
    let text = match name {
        "instanceId" => Some(&facts.instance_id),
        "definitionId" => Some(&facts.definition_id),
        "definitionVersionId" => Some(&facts.definition_version_id),
        "definitionVersion" => return Ok(JsValue::new_int(ctx.clone(), facts.definition_version)),
        "correlationId" => facts.correlation_id.as_ref(),
        "name" => facts.name.as_ref(),
        _ => None,
    };
    match text {
        Some(text) => rquickjs::String::from_str(ctx.clone(), text).map(rquickjs::String::into_value),
        None => Ok(JsValue::new_null(ctx.clone())),
    }
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> rquickjs::Result<TypedArray<'js, u8>> {
    TypedArray::new(ctx, text.into_bytes())
}

/// As in .NET, invalid UTF-8 becomes U+FFFD.
fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
