//! The built-in scripts of realms as bytecode, compiled once per process because parsing them takes longer than running
//! them.
//!
//! The bytecode is a module that this process has written and that only this process reads. It exports nothing: a
//! script that imports it by name receives an empty namespace. Its functions reach the host through a property of the
//! global object, which the host removes before any script runs.

use std::sync::OnceLock;

use rquickjs::loader::{Bundle, Loader};
use rquickjs::{Array, Context, Ctx, Error, Function, Module, Runtime, WriteOptions};

const UTC: &str = include_str!("utc.js");
const TYPES: &str = include_str!("types.js");
const PRELUDE: &str = include_str!("prelude.js");
const LOCKDOWN: &str = include_str!("lockdown.js");
const FREEZE: &str = include_str!("freeze.js");

/// The name of the module in stack frames.
const MODULE: &str = "mainspring";

/// The property that passes the functions on.
const PARTS: &str = "__mainspring_parts__";

/// The built-in scripts as functions.
pub(super) struct RealmScripts<'js> {
    /// Makes local time UTC.
    pub(super) utc: Function<'js>,
    /// Makes the types of .NET.
    pub(super) types: Function<'js>,
    /// Makes Elsa's functions.
    pub(super) prelude: Function<'js>,
    /// Bounds what scripts are given.
    pub(super) lockdown: Function<'js>,
    /// Freezes what scripts share.
    pub(super) freeze: Function<'js>,
}

impl<'js> RealmScripts<'js> {
    /// Loads them into a new realm.
    pub(super) fn load(ctx: &Ctx<'js>) -> rquickjs::Result<Self> {
        let mut bundle = Bundle { 0: modules()? };
        let (_, ended) = bundle.load(ctx, MODULE, None)?.eval()?;
        ended.finish::<()>()?;
        let globals = ctx.globals();
        let parts: Array<'js> = globals.get(PARTS)?;
        globals.remove(PARTS)?;
        Ok(Self {
            utc: parts.get(0)?,
            types: parts.get(1)?,
            prelude: parts.get(2)?,
            lockdown: parts.get(3)?,
            freeze: parts.get(4)?,
        })
    }
}

/// Names and bytecode, in the form that a loader takes. They live as long as the process.
type Modules = &'static [(&'static str, &'static [u8])];

fn modules() -> rquickjs::Result<Modules> {
    static MODULES: OnceLock<Modules> = OnceLock::new();
    if let Some(modules) = MODULES.get() {
        return Ok(modules);
    }
    let bytecode = compile(MODULE, &[UTC, TYPES, PRELUDE, LOCKDOWN, FREEZE])?;
    // Threads that start at the same time compile it each, and one of them keeps it.
    Ok(MODULES.get_or_init(|| Vec::leak(vec![(MODULE, &*Vec::leak(bytecode))])))
}

fn compile(name: &str, scripts: &[&str]) -> rquickjs::Result<Vec<u8>> {
    let source = format!("globalThis.{PARTS} = [\n{}];", scripts.join(",\n"));
    let runtime = Runtime::new()?;
    Context::full(&runtime)?.with(|ctx| {
        // Nothing but the places of errors within these scripts is lost, and they load faster.
        let options = WriteOptions {
            strip_source: true,
            strip_debug: true,
            ..WriteOptions::default()
        };
        let module = Module::declare(ctx, name, source)?;
        module.write(options).map_err(|_| Error::Allocation)
    })
}
