//! Fires schedules: `fire` is the loop, and `decide` says what happens to a due schedule.

pub(crate) mod decide;
pub(crate) mod fire;
#[cfg(test)]
mod tests;
