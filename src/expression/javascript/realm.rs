//! One JavaScript heap with the functions that Elsa gives its scripts.
//!
//! A realm is a QuickJS runtime with one context. It is created on a pool thread and never leaves it. Its limits:
//!
//! - **time**: QuickJS calls the interrupt handler in bytecode and inside regular expressions. The error it raises cannot be
//!   caught by a script, and every further step is refused. The limit covers the whole evaluation: parsing, running, promise jobs,
//!   and the conversion of its results;
//! - **memory**: its allocator refuses large blocks beyond the limit, and the script is interrupted (`script_watch`);
//! - **stack**: QuickJS's own limit.
//!
//! `lockdown.js` bounds the built-ins whose native loops would never end or would end the process; a built-in that
//! still takes long blocks its thread, which the pool then abandons. No script compiles text, because released versions
//! of QuickJS do not survive a failed allocation there.
//!
//! # One instance after another
//! What scripts share is frozen (`freeze.js`), so a script can leave nothing behind except properties of the global
//! object, which [`Realm::reset`] removes. Freezing does not reach the following:
//!
//! | what | how it is closed |
//! |---|---|
//! | memory that is still held, garbage in cycles | after each script the heap is compared with its size when the realm was new; a realm that has grown is dropped |
//! | atoms, shapes, symbols of `Symbol.for` | they count as memory; a symbol can hold nothing |
//! | pending jobs | they run to their end, or the realm is dropped |
//! | callbacks of a `FinalizationRegistry`, settings of `Error` | `lockdown.js` removes them |
//! | the state of `Math.random` | the host's random numbers |
//! | statics of `RegExp` | QuickJS has none |
//! | weak references | nothing that outlives a script refers to what it made |
//! | `variables`, Elsa's functions and their caches | frozen, or made anew for each script |
//! | compiled scripts | arrow functions, which a script cannot reach as objects |
//! | running out of memory or time | the realm is dropped |
//!
//! After a script that cannot reach the global object (`pure_script`), as most expressions cannot, only the accessors that
//! were defined for it are removed: a sweep takes longer than such a script. A script that changes the language is refused
//! (`language_change`).
//!
//! # How a script runs
//! A script that is one expression, or the body of a function with `return`, is compiled once for each realm. Any other
//! script runs by a direct `eval` in a top-level arrow function: its value is that of its last expression statement,
//! and its declarations end with it. To distinguish bodies from programs without running anything twice, the script is
//! compiled after a `throw`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::promise::PromiseState;
use rquickjs::{Array, Context, Ctx, Error, Function, Persistent, Runtime, Value as JsValue};

use super::accessor;
use super::compiled_scripts::{Compiled, CompiledScripts};
use super::convert::{ConversionError, JsonConverter, equal_in_script, to_js};
use super::heap_allocator::HeapAllocator;
use super::interrupt::{InterruptHandler, StopReason};
use super::language_change::refused_change;
use super::pure_script;
use super::realm_functions::{HostState, RealmFunctions, count_globals};
use super::script_watch::ScriptWatch;
use super::thrown::{describe, place_of};
use crate::expression::script::{Evaluated, ScriptError, ScriptErrorKind, ScriptScope};
use crate::expression::script_options::ScriptOptions;

/// The length of what `prelude.js` writes before an expression, and before the body of a function.
const COMPILED_INDENT: u32 = 7;

/// The same for scripts that await.
const ASYNC_INDENT: u32 = 13;

/// The bytes by which a realm may have grown after a script: compiled scripts and garbage.
const GROWTH: usize = 4 << 20;

/// After this many scripts a realm is dropped.
const MAX_USES: u32 = 100_000;

/// The outcome of one evaluation.
pub(super) struct Evaluation {
    /// The result for the caller.
    pub(super) result: Result<Evaluated, ScriptError>,
    /// The realm must not be used again.
    pub(super) is_spent: bool,
    /// The scope that was passed in, unchanged.
    pub(super) scope: ScriptScope,
}

/// One heap. Field order is drop order: functions, context, runtime.
pub(super) struct Realm {
    functions: RealmFunctions,
    compiled: CompiledScripts,
    context: Context,
    runtime: Runtime,
    interrupt: Rc<InterruptHandler>,
    watch: Rc<ScriptWatch>,
    state: Rc<HostState>,
    /// Bytes of its heap when it was new.
    base: usize,
    uses: Cell<u32>,
    /// The number of characters before the script in the first line of the text that runs.
    indent: Cell<u32>,
    /// The last script is pure: it leaves nothing but the accessors that were defined for it.
    is_pure: Cell<bool>,
    defined: RefCell<Vec<String>>,
}

impl Drop for Realm {
    fn drop(&mut self) {
        self.watch.end();
    }
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
        let handler = Rc::clone(interrupt);
        let watch = Rc::new(ScriptWatch::new(options.memory_limit, move || handler.should_stop()));
        let runtime = Runtime::new_with_alloc(HeapAllocator::new(&watch))?;
        runtime.set_max_stack_size(options.stack_limit);
        let asked = Rc::clone(&watch);
        runtime.set_interrupt_handler(Some(Box::new(move || asked.interrupts())));
        let state = Rc::new(HostState::new(options));
        // Nothing of what is made here is garbage.
        runtime.set_gc_threshold(GROWTH);
        let context = Context::full(&runtime)?;
        let functions = context.with(|ctx| {
            RealmFunctions::install(&ctx, &state, &watch).inspect_err(|_| {
                let thrown = ctx.catch();
                let (name, message) = describe(&thrown);
                tracing::error!(%name, %message, "the built-in scripts fail");
            })
        })?;
        let base = watch.bytes();
        runtime.set_gc_threshold(base + GROWTH);
        watch.begin();
        Ok(Self {
            functions,
            compiled: CompiledScripts::default(),
            context,
            runtime,
            interrupt: Rc::clone(interrupt),
            watch,
            state,
            base,
            uses: Cell::new(0),
            indent: Cell::new(0),
            is_pure: Cell::new(false),
            defined: RefCell::default(),
        })
    }

    /// Runs one script until it ends or the thread's interrupt handler stops it.
    pub(super) fn evaluate(&self, script: &str, scope: ScriptScope, options: &ScriptOptions) -> Evaluation {
        *self.state.scope.borrow_mut() = scope;
        self.state.secrets.borrow_mut().clear();
        self.indent.set(0);
        self.is_pure.set(false);
        let mut result = self.context.with(|ctx| self.evaluate_or_error(&ctx, script, options));
        self.watch.set_room(false);
        if self.interrupt.should_stop() {
            result = Err(self.stop_error(options));
        } else if self.watch.is_full() {
            result = Err(out_of_memory());
        }
        let mut is_spent = self.interrupt.stop().is_some() || self.watch.is_full();
        if let Err(error) = &result {
            is_spent |= error.kind == ScriptErrorKind::Memory || error.message.contains("threw null");
        }
        is_spent |= self.runtime.is_job_pending();
        let links = self.state.links.take();
        if let Ok(evaluated) = &mut result {
            evaluated.changes.links = links;
        }
        let secrets = self.state.secrets.take();
        if !secrets.is_empty() {
            result = keep_secret(result, &secrets);
        }
        Evaluation {
            result,
            is_spent,
            scope: self.state.scope.take(),
        }
    }

    /// Prepares the realm for the next script. Returns `false` when it must be dropped.
    pub(super) fn reset(&self) -> bool {
        let uses = self.uses.get() + 1;
        self.uses.set(uses);
        let sweep = &self.functions.sweep;
        let is_clean = self.context.with(|ctx| {
            let begin = self.functions.begin.clone().restore(&ctx);
            let is_clean = begin.and_then(|begin| {
                begin.call::<_, ()>(())?;
                let globals = ctx.globals();
                self.defined
                    .take()
                    .into_iter()
                    .try_for_each(|name| globals.remove(name))?;
                if self.is_pure.get() {
                    return Ok(true);
                }
                if count_globals(&ctx) == sweep.count && sweep.is_whole.clone().restore(&ctx)?.call(())? {
                    return Ok(true);
                }
                sweep.sweep.clone().restore(&ctx)?.call(())
            });
            ctx.catch();
            is_clean.unwrap_or(false)
        });
        is_clean
            && uses < MAX_USES
            && !self.interrupt.should_stop()
            && !self.runtime.is_job_pending()
            && self.is_small()
    }

    /// Whether the heap is about as large as when it was new. Garbage in cycles is collected before it counts.
    fn is_small(&self) -> bool {
        // A large script has raised it, and the next one would reach its limit before any collection.
        self.runtime.set_gc_threshold(self.base + GROWTH);
        let most = self.base + GROWTH;
        self.watch.bytes() <= most || {
            self.runtime.run_gc();
            self.watch.bytes() <= most
        }
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
    ) -> Result<Evaluated, ScriptError> {
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
    ) -> Result<Evaluated, ConversionError> {
        self.functions.begin.clone().restore(ctx)?.call::<_, ()>(())?;
        let define = self.functions.define.clone().restore(ctx)?;
        for accessor in accessor::required_accessors(script, &self.state.scope.borrow()) {
            self.defined.borrow_mut().push(accessor.name.clone());
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
        let compiled = match self.compiled.get(script) {
            Some(compiled) => compiled,
            None => {
                if let Some(refused) = refused_change(script) {
                    return Err(ConversionError::Refused(refused));
                }
                self.watch.set_room(true);
                let compiled = self.compile(ctx, script);
                self.watch.set_room(false);
                let compiled = compiled?;
                self.compiled.insert(script, &compiled);
                compiled
            }
        };
        match compiled {
            Compiled::Function { function, is_pure } => {
                self.indent.set(COMPILED_INDENT);
                self.is_pure.set(is_pure);
                Ok(function.restore(ctx)?.call(())?)
            }
            Compiled::Async { function } => {
                self.indent.set(ASYNC_INDENT);
                self.is_pure.set(false);
                Ok(function.restore(ctx)?.call(())?)
            }
            Compiled::Program => {
                let strict = if is_strict(script) { "'use strict';" } else { "" };
                let text = format!("{strict}{}{script}", self.functions.begin_call);
                self.indent
                    .set(u32::try_from(strict.len() + self.functions.begin_call.len()).unwrap_or_default());
                self.watch.set_room(true);
                Ok(self.eval(ctx, text)?)
            }
        }
    }

    fn compile<'js>(&self, ctx: &Ctx<'js>, script: &str) -> Result<Compiled, ConversionError> {
        let by = |compiler: &Persistent<Function<'static>>| -> Result<Option<Compiled>, ConversionError> {
            match compiler.clone().restore(ctx)?.call::<_, Function<'js>>((script,)) {
                Ok(function) => Ok(Some(Compiled::Function {
                    function: Persistent::save(ctx, function),
                    is_pure: pure_script::is_pure(script),
                })),
                Err(_) => {
                    ctx.catch();
                    Ok(None)
                }
            }
        };
        if CompiledScripts::may_be_expression(script)
            && let Some(compiled) = by(&self.functions.expression)?
        {
            return Ok(compiled);
        }
        if script.contains("return")
            && !self.parses(ctx, script)?
            && let Some(compiled) = by(&self.functions.body)?
        {
            return Ok(compiled);
        }
        // An `await` outside of any function makes the text that of an async function.
        if script.contains("await") && !self.parses(ctx, script)? {
            for compiler in [&self.functions.async_expression, &self.functions.async_body] {
                if let Some(Compiled::Function { function, .. }) = by(compiler)? {
                    return Ok(Compiled::Async { function });
                }
            }
        }
        // Also if it is neither: then its run gives the syntax error.
        Ok(Compiled::Program)
    }

    /// Whether a script parses, without running it: compiled after a `throw 0`, it can only throw 0.
    fn parses<'js>(&self, ctx: &Ctx<'js>, script: &str) -> Result<bool, ConversionError> {
        match self.eval(ctx, format!("throw 0;{script}")) {
            Ok(_) => Ok(true),
            Err(Error::Exception) => Ok(ctx.catch().as_int() == Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a text by a direct `eval`.
    fn eval<'js>(&self, ctx: &Ctx<'js>, text: String) -> rquickjs::Result<JsValue<'js>> {
        let eval = self.functions.eval.clone().restore(ctx)?;
        let begun = self.functions.begun.clone().restore(ctx)?;
        self.functions.run.clone().restore(ctx)?.call((text, eval, begun))
    }

    fn collect<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: JsValue<'js>,
        options: &ScriptOptions,
    ) -> Result<Evaluated, ConversionError> {
        let flatten = self.functions.flatten.clone().restore(ctx)?;
        let should_stop = || self.interrupt.should_stop();
        let mut out = JsonConverter::new(&flatten, options.max_result_bytes, &should_stop);
        let mut result = Evaluated {
            value: out.value(value)?,
            ..Evaluated::default()
        };
        let typed = self.functions.typed.clone().restore(ctx)?;
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
            let before = self.state.scope.borrow();
            let is_same = match before.variables.get(&name) {
                None => false,
                Some(_) if written => false,
                Some(old) => match before.kinds.variable(&name) {
                    None => equal_in_script(old, &value),
                    // A date has milliseconds, and bytes one form: what it was before is converted in the same way.
                    Some((kind, is_list)) => {
                        let old: JsValue<'js> = typed.call((kind as i32, is_list, to_js(ctx, old)?))?;
                        let mut converter = JsonConverter::new(&flatten, options.max_result_bytes, &should_stop);
                        equal_in_script(&converter.value(old)?, &value)
                    }
                },
            };
            if !is_same {
                drop(before);
                result.changes.variables.push((name, value));
            }
        }
        result.changes.correlation_id = optional_text(&mut out, report.get(1)?)?;
        result.changes.name = optional_text(&mut out, report.get(2)?)?;
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
        let place = place_of(&thrown, self.indent.get(), script);
        ctx.catch();
        // Without memory for an exception QuickJS throws null.
        if thrown.is_null() && !script.contains("throw") && !script.contains("reject") {
            return out_of_memory();
        }
        // Or one without a message.
        if name == "InternalError" && (message.is_empty() || message.contains("out of memory")) {
            return out_of_memory();
        }
        let text = if name.is_empty() {
            message
        } else {
            format!("{name}: {message}")
        };
        self.watch.set_room(true);
        let is_syntax =
            name == "SyntaxError" && !self.parses(ctx, script).unwrap_or(true) && !self.interrupt.should_stop();
        self.watch.set_room(false);
        let kind = if is_syntax {
            ScriptErrorKind::Syntax
        } else {
            ScriptErrorKind::Thrown
        };
        ScriptError {
            place,
            ..ScriptError::new(kind, text)
        }
    }
}

/// Whether a program begins with the directive that makes it strict.
fn is_strict(script: &str) -> bool {
    let start = script.trim_start();
    ["'use strict'", "\"use strict\""]
        .iter()
        .any(|directive| start.starts_with(directive))
}

/// Marks values that may hold a secret which the script has read, and refuses secrets in what is recorded and shown. A
/// message of the script goes to the incident and the journal, so it is dropped.
fn keep_secret(result: Result<Evaluated, ScriptError>, secrets: &[String]) -> Result<Evaluated, ScriptError> {
    let holds_secret = |text: &str| {
        let mut secrets = secrets.iter().filter(|secret| !secret.is_empty());
        secrets.any(|secret| text.contains(secret.as_str()))
    };
    match result {
        Ok(result) => {
            let names = [&result.changes.correlation_id, &result.changes.name].into_iter();
            let mut shown = names.flatten().flatten().chain(result.outcomes.iter().flatten());
            let is_shown = shown.any(|text| holds_secret(text));
            drop(shown);
            if is_shown {
                let message = "an outcome, the correlation id and the name of the instance are recorded, so none may hold a secret";
                return Err(ScriptError::new(ScriptErrorKind::Thrown, message));
            }
            Ok(Evaluated {
                may_hold_secret: true,
                ..result
            })
        }
        Err(error)
            if matches!(
                error.kind,
                ScriptErrorKind::Thrown
                    | ScriptErrorKind::Syntax
                    | ScriptErrorKind::InvalidText
                    | ScriptErrorKind::TooLarge
            ) =>
        {
            Err(ScriptError {
                message: "the script failed after it had read a secret; its message, which may hold it, is not kept"
                    .to_owned(),
                ..error
            })
        }
        Err(error) => Err(error),
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

/// Searches the text of a script for what decides how it runs, as each evaluation does.
#[cfg(test)]
pub(crate) fn search_script(script: &str, scope: &ScriptScope) {
    let _ = (
        accessor::required_accessors(script, scope),
        pure_script::is_pure(script),
    );
    let _ = (refused_change(script), CompiledScripts::may_be_expression(script));
}
