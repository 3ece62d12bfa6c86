//! Settings of `elsa report`.

use clap::{Args, Subcommand};

use super::eval::ExpressionSettings;
use super::secret_file::secret_file;
use crate::harness::secret::Secret;

/// The commands of `mainspring elsa`.
#[derive(Debug, Subcommand)]
pub(crate) enum ElsaCommand {
    /// Say of each definition of an Elsa server, or of a folder of exports, whether it runs here, and why not
    Report(Box<ReportSettings>),
}

/// Settings of `elsa report`.
#[derive(Debug, Args)]
pub(crate) struct ReportSettings {
    /// A folder with exports (.json, and .zip archives of them), one such file, or the root of the API of a running Elsa
    /// server, such as https://host/elsa/api. The certificates of this machine, or those of SSL_CERT_FILE, are trusted
    #[arg(value_name = "DIR|FILE|URL")]
    pub(crate) source: String,
    /// A file with the API key of the Elsa server
    #[arg(long, value_name = "FILE", value_parser = secret_file)]
    pub(crate) api_key_file: Option<Secret>,
    /// Import what runs into the database of --database-url, and publish it; an export that is a draft stays one
    #[arg(long)]
    pub(crate) import: bool,
    #[command(flatten)]
    pub(crate) expressions: ExpressionSettings,
    /// Print {definitions: [{source, definitionId, name, version, outcome, warnings, errors}], summary}
    #[arg(long)]
    pub(crate) json: bool,
}
