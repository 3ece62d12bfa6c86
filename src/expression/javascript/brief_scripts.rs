//! Brief scripts run on the thread of their caller: to hand one to another thread and back takes longer than to run it.
//!
//! A script is brief if it is pure, calls only what takes little time, and sees little ([`MAX_SEEN`]). So it needs no
//! supervision, and it can be run again: whatever does not end well within [`LIMIT`] is run by the pool, which also has the last
//! word on each error.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::interrupt::InterruptHandler;
use super::pure_script::is_brief;
use super::realm::Realm;
use super::slow_scripts::SlowScripts;
use crate::expression::script::{Evaluated, ScriptScope};
use crate::expression::script_options::ScriptOptions;
use crate::weight;

/// The time that a brief script may take here: a thousand times what it takes, as a busy machine may stop this thread meanwhile.
const LIMIT: Duration = Duration::from_millis(10);

/// The bytes of values that a brief script may see: copies and conversions take time, too.
const MAX_SEEN: usize = 16 << 10;

/// The stack of QuickJS. Brief scripts define no function, and their parser recurses little.
const STACK: usize = 256 << 10;

/// The realm of a thread, for the scripts of one engine.
struct OwnRealm {
    slow: Arc<SlowScripts>,
    options: ScriptOptions,
    interrupt: Rc<InterruptHandler>,
    realm: Realm,
}

thread_local! {
    static OWN_REALM: RefCell<Option<OwnRealm>> = const { RefCell::new(None) };
}

/// Runs a script here if it is brief. The scope comes back when the pool must run it.
pub(super) fn run_brief(
    slow: &Arc<SlowScripts>,
    script: &str,
    scope: ScriptScope,
) -> Result<Evaluated, Box<ScriptScope>> {
    if !is_brief(script) || !sees_little(&scope) {
        return Err(Box::new(scope));
    }
    // A thread that is ending has none any more.
    let kept = OWN_REALM.try_with(RefCell::take).ok().flatten();
    let of_engine = kept.filter(|own| Arc::ptr_eq(&own.slow, slow));
    let Some(own) = of_engine.or_else(|| OwnRealm::new(slow)) else {
        return Err(Box::new(scope));
    };
    own.interrupt.begin_brief(LIMIT);
    let evaluation = own.realm.evaluate(script, scope, &own.options);
    if !evaluation.is_spent && own.realm.reset() {
        let _ = OWN_REALM.try_with(|kept| kept.replace(Some(own)));
    }
    evaluation.result.map_err(|_| Box::new(evaluation.scope))
}

impl OwnRealm {
    fn new(slow: &Arc<SlowScripts>) -> Option<Self> {
        let interrupt = Rc::new(InterruptHandler::new(slow, Box::new(|_| false)));
        let options = ScriptOptions {
            stack_limit: STACK,
            ..(*slow.options).clone()
        };
        interrupt.disarm();
        Some(Self {
            slow: Arc::clone(slow),
            realm: Realm::new(&options, &interrupt).ok()?,
            options,
            interrupt,
        })
    }
}

fn sees_little(scope: &ScriptScope) -> bool {
    let last = scope.last_result.as_ref().map_or(0, weight::json);
    [&scope.variables, &scope.inputs, &scope.outputs]
        .into_iter()
        .map(weight::map)
        .sum::<usize>()
        .saturating_add(last)
        <= MAX_SEEN
}
