//! The watchdog of a node: notices that a part of it hangs, whatever state its threads are in.
//!
//! Check-ins have their own thread, so they continue while nothing else does. The watchdog asks the parts without which a
//! node does no work, in steps of a tenth of the tolerance. A part that does not answer for the tolerance makes the node
//! hung: its check-ins stop, its end is reported, and the program ends the process.
//!
//! # Invariants
//!
//! - Time is counted in steps of the watchdog's own thread. While the process does not run (SIGSTOP, a sleeping laptop), or
//!   the machine has no time for it, no step passes: lateness is several steps without an answer, never a jump of a clock.
//! - A part that awaits the database still answers: every such await has its own deadline.
//! - The thread waits for no other thread: not for a log whose reader has stopped, nor for a lock that a hung thread holds.
//!
//! # Layout
//!
//! - `part`: what is watched, and how it answers; `polled`: which bursts keep a thread.
//! - `state`: the answers so far, and their consequences; `thread`: the thread that asks, and the end of a hung node.

mod part;
mod polled;
mod state;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use part::{Part, WatchedPart};
pub(crate) use polled::{PollMark, Steps};
pub use state::Hang;
pub(crate) use state::Watchdog;
pub(crate) use thread::{HangReport, WatchdogOptions, WatchdogThread, start};
