//! The steps of a script until QuickJS calls the interrupt handler.
//!
//! QuickJS counts down from ten thousand. It counts long native operations as steps, too (`vendor/README.md`).

use std::ptr::NonNull;

use rquickjs::{Context, qjs};

/// The counter of a context.
pub(super) struct StepCounter {
    /// Keeps the memory of the counter.
    _context: Context,
    raw: NonNull<qjs::JSContext>,
}

impl StepCounter {
    pub(super) fn of(context: &Context) -> Self {
        Self {
            _context: context.clone(),
            raw: context.with(|ctx| ctx.as_raw()),
        }
    }

    /// Bounds the heap while a script runs, when the runtime cannot be reached in a safe way.
    pub(super) fn set_memory_limit(&self, bytes: usize) {
        // SAFETY: the context is kept, and so is its runtime; QuickJS only stores the number.
        #[expect(unsafe_code, reason = "`Runtime` is locked as long as a script runs")]
        unsafe {
            qjs::JS_SetMemoryLimit(qjs::JS_GetRuntime(self.raw.as_ptr()), bytes as _);
        }
    }

    /// The handler is called after so many steps at most.
    pub(super) fn set_at_most(&self, steps: i32) {
        // SAFETY: the context is kept, and is used by this thread only, as `Context` is not `Send`; QuickJS only stores the
        // number.
        #[expect(unsafe_code, reason = "`rquickjs` has no function that sets it")]
        unsafe {
            qjs::JS_LowerInterruptCounter(self.raw.as_ptr(), steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use rquickjs::Runtime;

    use super::*;

    #[test]
    fn the_counter_is_lowered_and_never_raised() {
        let runtime = Runtime::new().expect("a runtime");
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            counted.set(counted.get() + 1);
            false
        })));
        let context = Context::full(&runtime).expect("a context");
        let counter = StepCounter::of(&context);
        let calls_in = |script: &str| {
            let before = calls.get();
            context.with(|ctx| ctx.eval::<(), _>(script).expect(script));
            calls.get() - before
        };
        assert_eq!(
            calls_in("for (let i = 0; i < 5; i++);"),
            1,
            "a new context asks at once"
        );
        counter.set_at_most(20_000);
        assert_eq!(calls_in("for (let i = 0; i < 2000; i++);"), 0, "it is never raised");
        counter.set_at_most(100);
        assert_eq!(calls_in("for (let i = 0; i < 2000; i++);"), 1);
        // A million characters are as many steps as a loop of thousands.
        counter.set_at_most(100);
        assert_eq!(calls_in("var t = 'a'.repeat(1e6), u = 'a'.repeat(1e6); t === u;"), 1);
    }
}
