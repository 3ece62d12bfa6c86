//! Every built-in function with values that make native loops long: each ends soon after its limit.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rquickjs::{Array, Context, Function, Runtime, Value};

use crate::expression::ScriptOptions;
use crate::expression::javascript::heap_allocator::HeapAllocator;
use crate::expression::javascript::own_realm::RealmKind;
use crate::expression::javascript::realm_functions::{HostState, RealmFunctions};
use crate::expression::javascript::script_watch::ScriptWatch;

/// After this time a call is interrupted.
const LIMIT: Duration = Duration::from_millis(2);

/// No call may outlive its limit by more; QuickJS is hardly optimised in a debug build, and machines are busy.
const OVERTIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// What runs at the moment, and since when.
#[derive(Default)]
struct Progress {
    call: usize,
    since: Option<Instant>,
    name: String,
    total: usize,
}

/// How often a function is called.
#[derive(Clone, Copy, Debug)]
enum Calls {
    Once,
    /// Until the interrupt; whatever it throws is caught.
    InLoop,
}

/// Calls from number `from` on, each `step`th.
fn call_all(calls: Calls, from: usize, step: usize, progress: &Mutex<Progress>) {
    let deadline = Rc::new(Cell::new(Instant::now() + Duration::from_secs(3600)));
    let until = Rc::clone(&deadline);
    let watch = Rc::new(ScriptWatch::new(64 << 20, move || Instant::now() >= until.get()));
    let runtime = Runtime::new_with_alloc(HeapAllocator::new(&watch)).expect("a runtime");
    runtime.set_memory_limit(64 << 20);
    let state = Rc::new(HostState::new(&ScriptOptions::default()));
    let asked = Rc::clone(&watch);
    runtime.set_interrupt_handler(Some(Box::new(move || asked.interrupts())));
    let context = Context::full(&runtime).expect("a context");
    let functions = context.with(|ctx| RealmFunctions::install(&ctx, &state, RealmKind::Shared).expect("functions"));
    watch.begin(&context);
    context.with(|ctx| {
        let parts: Array<'_> = ctx.eval(include_str!("builtins.js")).expect("the built-ins");
        let names: Vec<String> = parts.get(0).expect("names");
        let (values, lists): (usize, usize) = {
            let counts: Array<'_> = parts.get(1).expect("counts");
            (counts.get(0).expect("values"), counts.get(1).expect("lists"))
        };
        let call: Function<'_> = parts.get(2 + calls as usize).expect("a function");
        let total = names.len() * values * lists;
        progress.lock().expect("progress").total = total;
        for number in (from..total).step_by(step) {
            let (at, on, by) = (number / (values * lists), number / lists % values, number % lists);
            {
                let mut progress = progress.lock().expect("progress");
                progress.call = number;
                progress.name = format!("{} {on} {by}", names[at]);
                progress.since = Some(Instant::now());
            }
            watch.resume();
            deadline.set(Instant::now() + LIMIT);
            let _ = call.call::<_, Value<'_>>((at, on, by));
            ctx.catch();
            while Instant::now() < deadline.get() && ctx.execute_pending_job() {}
            deadline.set(Instant::now() + Duration::from_secs(3600));
        }
        progress.lock().expect("progress").since = None;
    });
    watch.end();
    drop(functions);
}

/// The calls that outlive their limit, with the names of functions. Such a call goes on in its thread, which is left alone.
fn too_long(calls: Calls, step: usize) -> (usize, Vec<String>) {
    let (mut from, mut found) = (0, Vec::new());
    loop {
        let progress = Arc::<Mutex<Progress>>::default();
        let shared = Arc::clone(&progress);
        let worker = thread::spawn(move || call_all(calls, from, step, &shared));
        loop {
            thread::sleep(Duration::from_millis(20));
            let progress = progress.lock().expect("progress");
            if progress.since.is_some_and(|since| since.elapsed() > LIMIT + OVERTIME) {
                found.push(progress.name.clone());
                from = progress.call + step;
                break;
            }
            if worker.is_finished() {
                assert!(
                    progress.total > 100_000,
                    "{} calls: {:?}",
                    progress.total,
                    progress.name
                );
                return (progress.total, found);
            }
        }
        if found.len() >= 40 {
            return (0, found);
        }
    }
}

#[test]
fn no_built_in_outlives_its_limit() {
    none_is_too_long(Calls::Once);
}

#[test]
fn no_loop_over_a_built_in_outlives_its_limit() {
    none_is_too_long(Calls::InLoop);
}

fn none_is_too_long(calls: Calls) {
    // A part of the calls that has each function, value and list; with 1 all of them, which takes a quarter of an hour.
    let step = std::env::var("MAINSPRING_TEST_CALL_STEP").map_or(Ok(499), |step| step.parse());
    let (total, found) = too_long(calls, step.expect("a number"));
    println!("{total} calls");
    assert!(found.is_empty(), "{found:#?}");
}
