//! The caller of a script or template, which is asked from time to time whether the work continues.

/// What the caller of a script or template decides while it runs: a language counts steps, and asks its caller once in some
/// thousand of them.
///
/// Time, turns among several scripts and cancellation are the caller's: a language has no clock and no thread.
pub trait Steps {
    /// Returns when the work continues. The caller may keep it waiting meanwhile, so that other work has its turn.
    ///
    /// # Errors
    /// The work ends here, without a result.
    fn check(&self) -> Result<(), Stopped>;
}

/// Why a caller stops a script or template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its time is spent.
    OutOfTime,
    /// Nothing waits for its result any more.
    Cancelled,
}
