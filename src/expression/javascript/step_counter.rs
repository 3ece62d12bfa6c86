//! The steps of a script until QuickJS calls the interrupt handler.
//!
//! QuickJS counts down from ten thousand, and has no function to change that. The counter is a number in the memory of the
//! context. Where it is depends on how QuickJS was built, so the first realm of the process has it found: among the numbers
//! of a context, the one which two loops of different lengths lower by the length of each, and which causes a call once it
//! is low. If none or several do, scripts run with QuickJS's own count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::OnceLock;

use rquickjs::allocator::{Allocator, RustAllocator};
use rquickjs::{Context, Function, Runtime, qjs};

/// Where in a context the counter is, in bytes.
static OFFSET: OnceLock<Option<usize>> = OnceLock::new();

/// A loop without anything in it.
const LOOP: &str = "(turns) => { for (let turn = 0; turn < turns; turn++); }";

/// The counter of a context.
pub(super) struct StepCounter {
    counter: NonNull<i32>,
    /// Keeps the memory of the counter.
    _context: Context,
    raw: NonNull<qjs::JSContext>,
}

impl StepCounter {
    /// None if the counter cannot be found.
    pub(super) fn of(context: &Context) -> Option<Self> {
        let offset = OFFSET.get_or_init(|| {
            let found = find().ok().flatten();
            if found.is_none() {
                tracing::warn!("the step counter of QuickJS is not found; scripts may run past their limit for longer");
            }
            found
        });
        Self::at(context, (*offset)?)
    }

    fn at(context: &Context, offset: usize) -> Option<Self> {
        let start = context.with(|ctx| ctx.as_raw());
        let address = start.as_ptr().wrapping_byte_add(offset).cast::<i32>();
        NonNull::new(address).map(|counter| Self {
            counter,
            _context: context.clone(),
            raw: start,
        })
    }

    fn get(&self) -> i32 {
        // SAFETY: `find` has seen that this place is inside the memory of a context, aligned and initialised. The context
        // is kept, and is used by this thread only, as `Context` is not `Send`.
        #[expect(unsafe_code, reason = "QuickJS has no function that returns it")]
        unsafe {
            self.counter.read()
        }
    }

    fn set(&self, steps: i32) {
        // SAFETY: as in `get`. `find` has seen that QuickJS only counts with this number: any value is valid.
        #[expect(unsafe_code, reason = "QuickJS has no function that sets it")]
        unsafe {
            self.counter.write(steps);
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
        if self.get() > steps {
            self.set(steps);
        }
    }
}

/// Finds the counter in a context of its own.
fn find() -> rquickjs::Result<Option<usize>> {
    let blocks = Rc::<RefCell<BTreeMap<usize, usize>>>::default();
    let runtime = Runtime::new_with_alloc(ZeroingAllocator(Rc::clone(&blocks)))?;
    let calls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&calls);
    runtime.set_interrupt_handler(Some(Box::new(move || {
        counted.set(counted.get() + 1);
        false
    })));
    let context = Context::full(&runtime)?;
    let start = context.with(|ctx| ctx.as_raw().as_ptr().addr());
    let end = match blocks.borrow().range(..=start).next_back() {
        Some((block, size)) => block + size,
        None => return Ok(None),
    };
    let counters: Vec<StepCounter> = (0..end.saturating_sub(start) / size_of::<i32>())
        .filter_map(|place| StepCounter::at(&context, place * size_of::<i32>()))
        .collect();
    let read = || counters.iter().map(StepCounter::get).collect::<Vec<i32>>();
    context.with(|ctx| {
        let spin: Function<'_> = ctx.eval(LOOP)?;
        // The first call of all asks at once.
        spin.call::<_, ()>((1,))?;
        let before = read();
        spin.call::<_, ()>((1_000,))?;
        let between = read();
        spin.call::<_, ()>((2_000,))?;
        let after = read();
        // A turn has a jump or two, and each is a step; what a call itself costs is the same both times.
        let lowered = before.iter().zip(&between).zip(&after);
        let mut found = lowered.enumerate().filter(|(_, ((before, between), after))| {
            let (first, second) = (before.wrapping_sub(**between), between.wrapping_sub(**after));
            let turn = second.wrapping_sub(first) / 1_000;
            (1..=2).contains(&turn)
                && (0..10).contains(&first.wrapping_sub(1_000 * turn))
                && second.wrapping_sub(first) == 1_000 * turn
        });
        let (Some((place, _)), None) = (found.next(), found.next()) else {
            return Ok(None);
        };
        let Some(counter) = counters.get(place) else {
            return Ok(None);
        };
        let calls_in = |turns: i32, steps: i32| {
            counter.set(steps);
            let before = calls.get();
            spin.call::<_, ()>((turns,)).map(|()| calls.get() - before)
        };
        let obeys = calls_in(20, 100)? == 0 && calls_in(200, 100)? == 1 && calls_in(1, 1)? == 1;
        Ok(obeys.then_some(place * size_of::<i32>()))
    })
}

/// Clears its blocks, so that all of them can be read, and keeps their places and sizes.
struct ZeroingAllocator(Rc<RefCell<BTreeMap<usize, usize>>>);

impl ZeroingAllocator {
    fn recorded(&self, block: *mut u8, size: usize) -> *mut u8 {
        if !block.is_null() {
            self.0.borrow_mut().insert(block.addr(), size);
        }
        block
    }
}

// SAFETY: each pointer is null or comes from `RustAllocator`, and is given back to it.
#[expect(unsafe_code, reason = "the trait of `rquickjs` is unsafe to implement")]
unsafe impl Allocator for ZeroingAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.calloc(1, size)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        self.recorded(RustAllocator.calloc(count, size), count.saturating_mul(size))
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        self.0.borrow_mut().remove(&block.addr());
        // SAFETY: the caller passes a block of this allocator, so of `RustAllocator`.
        unsafe { RustAllocator.dealloc(block) }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`.
        let moved = unsafe { RustAllocator.realloc(block, new_size) };
        if !moved.is_null() {
            self.0.borrow_mut().remove(&block.addr());
        }
        self.recorded(moved, new_size)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: as in `dealloc`.
        unsafe { RustAllocator::usable_size(block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_and_obeyed() {
        assert!(find().expect("a realm").is_some());
        let runtime = Runtime::new().expect("a runtime");
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            counted.set(counted.get() + 1);
            false
        })));
        let context = Context::full(&runtime).expect("a context");
        let counter = StepCounter::of(&context).expect("a counter");
        context.with(|ctx| ctx.eval::<(), _>("for (let i = 0; i < 5; i++);").expect("a loop"));
        assert_eq!(calls.replace(0), 1, "a new context asks at once");
        counter.set_at_most(20_000);
        context.with(|ctx| ctx.eval::<(), _>("for (let i = 0; i < 2000; i++);").expect("a loop"));
        assert_eq!(calls.get(), 0, "it is never raised");
        counter.set_at_most(100);
        context.with(|ctx| ctx.eval::<(), _>("for (let i = 0; i < 2000; i++);").expect("a loop"));
        assert_eq!(calls.get(), 1);
    }
}
