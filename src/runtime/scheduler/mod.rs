//! Fires schedules: `fire` is the loop, `decide` says what becomes of a schedule that is due.

pub(crate) mod decide;
pub(crate) mod fire;
#[cfg(test)]
mod tests;
