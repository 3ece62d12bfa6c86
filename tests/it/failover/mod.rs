//! Promise 5. A crashed process is taken over.

mod cpu_starvation;
mod election;
mod take_over;
mod unresponsive;
