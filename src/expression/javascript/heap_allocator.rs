//! The allocator of a realm's heap: it counts what the heap takes, and asks whether the script may go on.
//!
//! Where each step of a script takes a millisecond, as a product of integers of 2^19 bits does, the interrupt handler would be
//! called too late; but each such step allocates its result. If the script must stop, its next step is interrupted. QuickJS
//! keeps objects of up to 512 bytes in blocks of 4 KiB, so that it asks here for large objects and for blocks only, where a
//! check of the time costs little beside the request.
//!
//! No block is refused: QuickJS counts what it has allocated against the heap limit, and its parser does not survive every
//! failed allocation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

use super::script_watch::ScriptWatch;

/// Rust's global allocator, with a watch.
pub(super) struct HeapAllocator {
    watch: Rc<ScriptWatch>,
}

impl HeapAllocator {
    pub(super) fn new(watch: &Rc<ScriptWatch>) -> Self {
        Self {
            watch: Rc::clone(watch),
        }
    }

    /// A panic must not unwind through QuickJS.
    fn ask(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.watch.ask())).is_err() {
            tracing::error!("asking whether a script may go on panicked");
            // The panic of the interrupt handler ends the script.
            self.watch.ask_at_next_step();
        }
    }

    /// The block, which is counted if there is one.
    fn counted(&self, block: *mut u8) -> *mut u8 {
        if !block.is_null() {
            // SAFETY: `RustAllocator` has just returned the block.
            #[expect(unsafe_code, reason = "the allocator of `rquickjs` takes plain pointers")]
            self.watch.allocated(unsafe { RustAllocator::usable_size(block) });
        }
        block
    }
}

// SAFETY: each pointer is null or comes from `RustAllocator`, whose blocks have the size and the alignment that the trait
// asks for, and is given back to it.
#[expect(unsafe_code, reason = "the trait of `rquickjs` is unsafe to implement")]
unsafe impl Allocator for HeapAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.ask();
        self.counted(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        self.ask();
        self.counted(RustAllocator.calloc(count, size))
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller passes a block of this allocator, so of `RustAllocator`.
        unsafe {
            self.watch.freed(RustAllocator::usable_size(block));
            RustAllocator.dealloc(block);
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        self.ask();
        // SAFETY: as in `dealloc`.
        let (size, moved) = unsafe {
            (
                RustAllocator::usable_size(block),
                RustAllocator.realloc(block, new_size),
            )
        };
        if !moved.is_null() {
            self.watch.freed(size);
        }
        self.counted(moved)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: as in `dealloc`.
        unsafe { RustAllocator::usable_size(block) }
    }
}
