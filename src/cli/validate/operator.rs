//! Who stops and restarts nodes: a command of the operator, or the person at the terminal.

use std::io::{IsTerminal, stderr, stdin};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::progress;
use super::target_cluster::TargetNode;

/// How long a command may take: a rolling restart drains each node.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Who does what the validation itself cannot do.
pub(super) enum Operator<'a> {
    /// A shell runs this.
    Command(&'a str),
    /// It is asked for.
    Person,
}

impl<'a> Operator<'a> {
    /// The command, else the person at the terminal, if there is one.
    pub(super) fn of(command: Option<&'a str>) -> Option<Self> {
        match command {
            Some(command) => Some(Self::Command(command)),
            None => (stdin().is_terminal() && stderr().is_terminal()).then_some(Self::Person),
        }
    }

    /// Has it done, and waits until it is. Errors: the command failed.
    pub(super) async fn act(&self, wanted: &str, node: Option<&TargetNode>) -> Result<(), String> {
        match self {
            Self::Command(command) => run(command, node).await,
            Self::Person => {
                progress(&format!("{wanted}, and press Enter"));
                let line = tokio::task::spawn_blocking(|| stdin().read_line(&mut String::new()));
                match line.await {
                    Ok(Ok(_)) => Ok(()),
                    _ => Err("no answer can be read from the terminal".to_owned()),
                }
            }
        }
    }
}

async fn run(command: &str, node: Option<&TargetNode>) -> Result<(), String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    // Values of a server must not become a part of the command.
    if let Some(node) = node {
        shell.env("NODE_ID", &node.identity.id).env("NODE_URL", node.api.url());
    }
    // Standard output is for the report.
    shell.stdin(Stdio::null()).stdout(stderr()).kill_on_drop(true);
    match tokio::time::timeout(TIMEOUT, shell.status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("the command `{command}` ended with {status}")),
        Ok(Err(error)) => Err(format!("the command `{command}` cannot be run: {error}")),
        Err(_) => Err(format!(
            "the command `{command}` has not ended after {} s",
            TIMEOUT.as_secs()
        )),
    }
}
