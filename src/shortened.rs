//! Texts of any length, as a message quotes them.

pub(crate) use mainspring_language::shortened;
