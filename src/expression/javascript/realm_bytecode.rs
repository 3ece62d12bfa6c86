//! The built-in scripts of realms as bytecode, made once for each process: to parse them takes longer than to run them.
//!
//! The bytecode is that of two modules, which this process has written itself and which only this process reads. They
//! export nothing: a script that imports one by name receives an empty namespace. Their functions go to the host by a property
//! of the global object, which the host removes before any script runs.

use std::sync::OnceLock;

use rquickjs::loader::{Bundle, Loader};
use rquickjs::{Array, Context, Ctx, Error, Function, Module, Runtime, WriteOptions};

const UTC: &str = include_str!("utc.js");
const GUARDS: &str = include_str!("guards.js");
const PRELUDE: &str = include_str!("prelude.js");
const FREEZE: &str = include_str!("freeze.js");

/// The names of the modules, in frames of a stack: what each realm has, and what only a shared one has.
const MODULE: &str = "mainspring";
const SHARED_MODULE: &str = "mainspring-shared";

/// The property that passes the functions on.
const PARTS: &str = "__mainspring_parts__";

/// The functions that the built-in scripts are.
pub(super) struct RealmScripts<'js> {
    /// Makes local time UTC.
    pub(super) utc: Function<'js>,
    /// Bounds the native loops.
    pub(super) guards: Function<'js>,
    /// Makes Elsa's functions.
    pub(super) prelude: Function<'js>,
}

impl<'js> RealmScripts<'js> {
    /// Loads them into a new realm.
    pub(super) fn load(ctx: &Ctx<'js>) -> rquickjs::Result<Self> {
        let parts = load(ctx, MODULE)?;
        Ok(Self {
            utc: parts.get(0)?,
            guards: parts.get(1)?,
            prelude: parts.get(2)?,
        })
    }
}

/// Loads the function that freezes a shared realm.
pub(super) fn load_freeze<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
    load(ctx, SHARED_MODULE)?.get(0)
}

/// Loads the functions of a module.
fn load<'js>(ctx: &Ctx<'js>, module: &str) -> rquickjs::Result<Array<'js>> {
    let mut bundle = Bundle { 0: modules()? };
    let (_, ended) = bundle.load(ctx, module, None)?.eval()?;
    ended.finish::<()>()?;
    let globals = ctx.globals();
    let parts = globals.get(PARTS)?;
    globals.remove(PARTS)?;
    Ok(parts)
}

/// Name and bytecode, in the form of a loader. They live as long as the process.
type Modules = &'static [(&'static str, &'static [u8])];

fn modules() -> rquickjs::Result<Modules> {
    static MODULES: OnceLock<Modules> = OnceLock::new();
    if let Some(modules) = MODULES.get() {
        return Ok(modules);
    }
    let own = compile(MODULE, &[UTC, GUARDS, PRELUDE])?;
    let shared = compile(SHARED_MODULE, &[FREEZE])?;
    // Threads that start at the same time compile them each, and one of them keeps them.
    let leaked = |name: &'static str, bytecode: Vec<u8>| (name, &*Vec::leak(bytecode));
    Ok(MODULES.get_or_init(|| Vec::leak(vec![leaked(MODULE, own), leaked(SHARED_MODULE, shared)])))
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
