//! Settings of `validate`.

use std::time::Duration;

use clap::Args;

use super::secret_file::secret_file;
use crate::harness::secret::Secret;
use crate::harness::settings::duration;

/// Settings of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateSettings {
    /// The URLs of the nodes, at least three, with commas: http://10.0.0.1:5001,http://10.0.0.2:5001,http://10.0.0.3:5001
    #[arg(long, value_name = "URL,URL,URL", required = true, value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// The URL of the load balancer in front of them; without it the load goes to the nodes that are ready, in turn
    #[arg(long, value_name = "URL")]
    pub(crate) through: Option<String>,
    /// A file with the API key of the nodes
    #[arg(long, value_name = "FILE", value_parser = secret_file)]
    pub(crate) api_key_file: Option<Secret>,
    /// The points of the checklist, with commas
    #[arg(long, value_name = "NUMBERS", default_value = "1,2,3,4,5,6", value_delimiter = ',', value_parser = point)]
    pub(crate) points: Vec<u8>,
    /// What stops the node $NODE_ID at $NODE_URL at once, as a crash does; a shell runs it. Without it a person is asked
    #[arg(long, value_name = "COMMAND")]
    pub(crate) stop_command: Option<String>,
    /// What restarts all nodes one after the other, and ends when that is done; a shell runs it. Without it a person is asked
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart_command: Option<String>,
    /// How long the timers of the points 2 and 4 wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timer: Duration,
    /// Within what time 95 of 100 simultaneous resumes must be answered: more than a lock takes (100ms for Redis)
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    pub(crate) lock_limit: Duration,
    /// Print {passed, nodes, points: [{point, name, outcome, seconds, found}], violations}
    #[arg(long)]
    pub(crate) json: bool,
    /// Delete the definitions and instances of this and earlier validations at the end
    #[arg(long)]
    pub(crate) cleanup: bool,
}

fn point(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| (1..=6).contains(number));
    number.ok_or_else(|| "give numbers from 1 to 6, such as 1,2,3,6".to_owned())
}
