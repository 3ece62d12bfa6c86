//! Settings of `eval`, and those that it shares with `serve`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::secret_file::secret_file;
use crate::expression::{NamedValues, ScriptOptions};
use crate::harness::settings::duration;

/// How long expressions may run, and what they read of the host.
#[derive(Debug, Args)]
pub(crate) struct ExpressionSettings {
    /// How long one script may run, not counting the time that it waits for a thread
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    script_time_limit: Duration,
    /// A setting that scripts read with `getConfig(NAME)`; can be repeated, or contain several separated by commas
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = named_value)]
    script_config: Vec<(String, String)>,
    /// A file with such settings, one per line; lines that begin with # are comments. Other users of this machine can read
    /// command lines
    #[arg(long, value_name = "FILE", value_parser = config_file)]
    script_config_file: Option<ConfigFile>,
    /// A directory with a file for each secret that scripts read with `getSecret(NAME)`
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
}

impl ExpressionSettings {
    /// The settings that scripts read; those of the command line or the environment take precedence.
    fn config(&self) -> BTreeMap<String, String> {
        let of_file = self.script_config_file.iter().flat_map(|ConfigFile(settings)| settings);
        of_file.chain(&self.script_config).cloned().collect()
    }

    pub(crate) fn script_options(&self) -> ScriptOptions {
        ScriptOptions {
            time_limit: self.script_time_limit,
            named: NamedValues {
                config: Arc::new(self.config()),
                secrets_dir: self.secrets_dir.clone().map(Arc::new),
            },
            ..ScriptOptions::default()
        }
    }
}

/// The settings of a file.
#[derive(Clone)]
struct ConfigFile(Vec<(String, String)>);

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigFile(…)")
    }
}

fn config_file(path: &str) -> Result<ConfigFile, String> {
    let text = secret_file(path)?;
    let lines = text.reveal().lines().map(str::trim).enumerate();
    let settings = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let named = settings.map(|(at, line)| named_value(line).map_err(|error| format!("line {}: {error}", at + 1)));
    named.collect::<Result<_, _>>().map(ConfigFile)
}

/// Settings of `eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalSettings {
    /// The type of the expression, as definitions name it: JavaScript, Liquid, CSharp, Object, Literal, Variable, Input,
    /// Output, Configuration or Secret
    #[arg(long = "type", value_name = "TYPE", default_value = "JavaScript")]
    pub(crate) kind: String,
    /// The expression; standard input unless this or --file is given
    #[arg(long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    /// A file with the expression; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The type to which the value is converted, such as Int32 or DateTime
    #[arg(long, value_name = "TYPE", default_value = "Object")]
    pub(crate) convert_to: String,
    /// The inputs of the workflow: a JSON object, or @FILE
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) inputs: String,
    /// The variables: a JSON object, or @FILE
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) variables: String,
    /// The outputs of activities: a JSON object of objects, by activity and output, or @FILE
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) outputs: String,
    /// The correlation id
    #[arg(long, value_name = "ID")]
    pub(crate) correlation_id: Option<String>,
    /// The id of the instance; random by default
    #[arg(long, value_name = "ID")]
    pub(crate) instance_id: Option<String>,
    /// The name of the instance
    #[arg(long, value_name = "NAME")]
    pub(crate) instance_name: Option<String>,
    #[command(flatten)]
    pub(crate) expressions: ExpressionSettings,
    /// Print {value, changes, error}, even if the expression fails
    #[arg(long)]
    pub(crate) json: bool,
}

/// `NAME=VALUE`.
fn named_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a setting as NAME=VALUE".to_owned()),
    }
}
