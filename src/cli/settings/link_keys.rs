//! The commands of `mainspring link-keys`.

use clap::{Args, Subcommand};

/// The commands of `mainspring link-keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkKeysCommand {
    /// List the keys, the newest first; none is printed itself
    List(ListLinkKeys),
    /// Add a key, which signs new links from the next minute on; links that others have signed stay valid
    Rotate,
    /// Delete a key, so that no link that it has signed is valid any more
    Retire(RetireLinkKey),
}

/// Settings of `link-keys list`.
#[derive(Debug, Args)]
pub(crate) struct ListLinkKeys {
    /// Print the body of GET /cluster/link-keys
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `link-keys retire`.
#[derive(Debug, Args)]
pub(crate) struct RetireLinkKey {
    /// The number of the key, as `list` prints it
    pub(crate) id: i32,
    /// Also while links that the key has signed can be used
    #[arg(long)]
    pub(crate) force: bool,
}
