//! Whether the script of a realm must stop, and whether its heap may grow.
//!
//! QuickJS calls the interrupt handler after ten thousand steps, where a step is a call or an iteration of a loop. The
//! allocator (`heap_allocator`) asks, too: once a script exceeds its heap limit, it gets no more large blocks, and once it
//! must stop hardly any, and its next call of the handler ends it. It still gets small blocks far beyond the limit ([`most`]),
//! because QuickJS does not survive every failed allocation. No block is refused while text is compiled, because only
//! authors write it and it is short.

use std::cell::Cell;

/// The smallest block that can be refused, in bytes. Smaller ones hold single objects, or many small ones.
const LARGE: usize = 8 << 10;

/// Of so many large blocks that a script asks for after its time, the last [`GRANTED`] are not refused: the text of the interrupt
/// may be long, and a script can catch what a refused block throws in its place.
const LATE_BLOCKS: u32 = 1 << 13;
/// As many as a text of megabytes needs while it grows.
const GRANTED: u32 = 24;

/// The maximum size in bytes of a heap with this limit.
fn most(limit: usize) -> usize {
    limit.saturating_mul(4).max(limit.saturating_add(64 << 20))
}

/// Watches over one realm.
pub(super) struct ScriptWatch {
    must_stop: Box<dyn Fn() -> bool>,
    memory_limit: usize,
    /// The bytes of the heap.
    bytes: Cell<usize>,
    /// Scripts are running.
    is_active: Cell<bool>,
    /// The heap has room for a compiler.
    has_room: Cell<bool>,
    /// The script has reached its heap limit.
    is_full: Cell<bool>,
    /// The large blocks that a script has asked for after its time.
    late_blocks: Cell<u32>,
}

impl ScriptWatch {
    /// `must_stop` may block; `memory_limit` is the limit of the heap in bytes.
    pub(super) fn new(memory_limit: usize, must_stop: impl Fn() -> bool + 'static) -> Self {
        Self {
            must_stop: Box::new(must_stop),
            memory_limit,
            bytes: Cell::new(0),
            is_active: Cell::new(false),
            has_room: Cell::new(false),
            is_full: Cell::new(false),
            late_blocks: Cell::new(0),
        }
    }

    /// The bytes of the heap.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// From now on scripts run.
    pub(super) fn begin(&self) {
        self.is_active.set(true);
    }

    /// No more scripts run.
    pub(super) fn end(&self) {
        self.is_active.set(false);
    }

    /// Sets whether text is compiled from now on.
    pub(super) fn set_room(&self, has_room: bool) {
        self.has_room.set(has_room);
    }

    /// Whether the script has reached its heap limit. The realm is spent then.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.get()
    }

    /// The interrupt handler of QuickJS: true makes it interrupt the script. Blocks while it waits for a time slice.
    pub(super) fn interrupts(&self) -> bool {
        self.is_full.get() || (self.must_stop)()
    }

    /// Whether the heap may get a block of this size, which makes it grow by `grown`. Blocks while the script waits for
    /// a time slice.
    pub(super) fn admits(&self, size: usize, grown: usize) -> bool {
        if !self.is_active.get() || self.has_room.get() {
            return true;
        }
        let must_stop = (self.must_stop)();
        let after = self.bytes.get().saturating_add(grown);
        if after > self.memory_limit {
            self.is_full.set(true);
            if size >= LARGE {
                return false;
            }
        } else if must_stop && size >= LARGE {
            let asked = self.late_blocks.get().wrapping_add(1);
            self.late_blocks.set(asked);
            if asked % LATE_BLOCKS < LATE_BLOCKS - GRANTED {
                return false;
            }
        }
        after <= most(self.memory_limit)
    }

    /// The heap has grown.
    pub(super) fn allocated(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// The heap has shrunk.
    pub(super) fn freed(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}
