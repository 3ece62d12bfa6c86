//! Texts of any length, shortened for messages.

pub(crate) use mainspring_language::shortened;
