//! The allocator of a realm's heap: it refuses memory to a script that must stop, and counts what the heap takes.
//!
//! Where each step of a script takes a millisecond, as a product of integers of 2^19 bits does, the interrupt handler is
//! called too late; but each such step allocates its result. QuickJS keeps objects of up to 512 bytes in blocks of 4 KiB, so
//! that it asks here for large objects and for blocks only, where a check of the time costs little beside the request.
//!
//! A script can catch an out of memory. It gets no large object after that, so that the steps to the interrupt, which it
//! cannot catch, are soon over. QuickJS itself counts what it has allocated against the heap limit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

use super::script_watch::ScriptWatch;

/// Allocates with Rust's global allocator as long as the script may go on.
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
    fn is_refused(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.watch.must_stop())).unwrap_or(true)
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
// asks for, and is given back to it. A refused `realloc` leaves the block as it is, as in C.
#[expect(unsafe_code, reason = "the trait of `rquickjs` is unsafe to implement")]
unsafe impl Allocator for HeapAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if self.is_refused() {
            return ptr::null_mut();
        }
        self.counted(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if self.is_refused() {
            return ptr::null_mut();
        }
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
        if self.is_refused() {
            return ptr::null_mut();
        }
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
