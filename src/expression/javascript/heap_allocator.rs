//! The allocator of a realm's heap: it counts what the heap takes, and asks whether it may grow (`script_watch`).
//!
//! QuickJS keeps objects of up to 512 bytes in blocks of 4 KiB, so it requests only large objects and blocks here, and
//! a check of the time costs little compared with the request. QuickJS may lose objects when an allocation fails, so
//! the allocator frees whatever a realm leaves.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

use super::script_watch::ScriptWatch;

/// Rust's global allocator, with a watch.
pub(super) struct HeapAllocator {
    watch: Rc<ScriptWatch>,
    blocks: HashSet<NonNull<u8>, BuildHasherDefault<AddressHasher>>,
}

impl HeapAllocator {
    pub(super) fn new(watch: &Rc<ScriptWatch>) -> Self {
        Self {
            watch: Rc::clone(watch),
            blocks: HashSet::default(),
        }
    }

    /// Whether the heap may grow. A panic must not unwind through QuickJS: that of the interrupt handler ends the script.
    fn admits(&self, size: usize, grown: usize) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.watch.admits(size, grown))).unwrap_or_else(|_| {
            tracing::error!("asking whether a script may go on panicked");
            true
        })
    }

    /// Counts the block, if it exists, and returns it.
    fn counted(&mut self, block: *mut u8) -> *mut u8 {
        if let Some(address) = NonNull::new(block) {
            self.blocks.insert(address);
            // SAFETY: `RustAllocator` has just returned the block.
            #[expect(unsafe_code, reason = "the allocator of `rquickjs` takes plain pointers")]
            self.watch.allocated(unsafe { RustAllocator::usable_size(block) });
        }
        block
    }

    /// Forgets a block that no longer belongs to this allocator.
    fn forget(&mut self, block: *mut u8, size: usize) {
        if let Some(address) = NonNull::new(block) {
            self.blocks.remove(&address);
        }
        self.watch.freed(size);
    }
}

/// The runtime is freed before its allocator: nothing refers to what is left.
impl Drop for HeapAllocator {
    fn drop(&mut self) {
        let lost = std::mem::take(&mut self.blocks);
        if !lost.is_empty() {
            tracing::debug!(
                blocks = lost.len(),
                "a realm of scripts has lost blocks of its heap, which are freed"
            );
        }
        for block in lost {
            // SAFETY: `RustAllocator` has returned the block, and it is not freed, or it would not be in the set.
            #[expect(unsafe_code, reason = "the allocator of `rquickjs` takes plain pointers")]
            unsafe {
                self.watch.freed(RustAllocator::usable_size(block.as_ptr()));
                RustAllocator.dealloc(block.as_ptr());
            }
        }
    }
}

/// Addresses are spread already, and no script chooses them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // 2^64 divided by the golden ratio; the table takes its upper bits and its lower ones.
        self.0 = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

// SAFETY: each pointer is null or comes from `RustAllocator`, whose blocks have the size and the alignment that the trait
// asks for, and is given back to it.
#[expect(unsafe_code, reason = "the trait of `rquickjs` is unsafe to implement")]
unsafe impl Allocator for HeapAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.admits(size, size) {
            return null_mut();
        }
        self.counted(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let whole = count.saturating_mul(size);
        if !self.admits(whole, whole) {
            return null_mut();
        }
        self.counted(RustAllocator.calloc(count, size))
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller passes a block of this allocator, so of `RustAllocator`.
        unsafe {
            self.forget(block, RustAllocator::usable_size(block));
            RustAllocator.dealloc(block);
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`.
        let size = unsafe { RustAllocator::usable_size(block) };
        if new_size > size && !self.admits(new_size, new_size - size) {
            return null_mut();
        }
        // SAFETY: as in `dealloc`.
        let moved = unsafe { RustAllocator.realloc(block, new_size) };
        if !moved.is_null() {
            self.forget(block, size);
        }
        self.counted(moved)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: as in `dealloc`.
        unsafe { RustAllocator::usable_size(block) }
    }
}
