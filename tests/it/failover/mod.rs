//! Promise 5. A crashed process is taken over.

mod busy;
mod cpu_starvation;
mod election;
mod hung;
mod take_over;
mod unresponsive;
