//! The settings that every command has in common, once flags and environment are resolved.

use super::failure::Failure;

/// The database of a command, and its log filter.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The URL, if one is given.
    pub(crate) database_url: Option<String>,
    pub(crate) schema: String,
    /// The log filter, as `tracing_subscriber` reads it.
    pub(crate) log: String,
}

impl Target {
    /// The URL of the database, which is required by all commands but `dev` and `demo`.
    ///
    /// # Errors
    /// Wrong usage if no URL is given.
    pub(crate) fn database_url(&self) -> Result<&str, Failure> {
        self.database_url.as_deref().ok_or_else(|| {
            Failure::usage(
                "which database? Give --database-url postgres://user@host:port/database, or set \
                 MAINSPRING_DATABASE_URL (there a password does not show in the list of processes). Without a database of \
                 your own, try `mainspring dev`.",
            )
        })
    }

    /// The log filter of child nodes: `quiet` unless another filter than the default is given.
    pub(crate) fn child_log(&self, quiet: &str) -> String {
        if self.log == "info" { quiet } else { &self.log }.to_owned()
    }
}
