//! Promise 7. No thread, task or connection per waiting thing; what is large or slow does not stop the rest.

mod claimed_bytes;
mod database_costs;
mod fan_out;
#[cfg(target_os = "linux")]
mod large_definitions;
mod reads;
mod scripts;
mod time_limits;
mod vacuum_horizon;
