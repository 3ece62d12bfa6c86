//! Nodes as child processes: this same binary, started as `mainspring serve`, on one database.
//!
//! # Invariants
//!
//! - No child outlives this process: it watches its standard input, a pipe whose other end only this process holds. When
//!   this process ends, the pipe closes and the child shuts down.
//! - A child has its own process group: a Ctrl-C in the terminal reaches this process alone, which stops the children.
//! - A child does not inherit `MAINSPRING_…` variables: its settings are those of [`NodeOptions`].

use std::collections::VecDeque;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;

/// How long a node may take to get ready: it migrates an empty database, on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// The drain timeout of a node.
const DRAIN: Duration = Duration::from_secs(10);
/// A node that is still running after this time is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How many log lines are kept to explain an early exit.
const LAST_LINES: usize = 5;
/// The word that `serve` prints before its URL.
const READY: &str = "ready ";

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Lines of workflows.
    Stdout,
    /// The log.
    Stderr,
}

/// Receives each output line of each node, with the node's name. It runs on the runtime and must not block.
pub type LineHandler = Arc<dyn Fn(&str, Output, &str) + Send + Sync>;

/// Prints the log on standard error, and discards the lines of workflows.
pub fn log_only() -> LineHandler {
    Arc::new(|name, output, line| {
        if output == Output::Stderr {
            eprintln!("{name} | {line}");
        }
    })
}

/// The variable that registers the activity Mainspring.Work.
pub(crate) const BENCH_ACTIVITIES: &str = "MAINSPRING_BENCH_ACTIVITIES";

/// A free port of this machine.
pub const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The settings that all child nodes share.
#[derive(Clone)]
pub struct NodeOptions {
    /// The URL of the database.
    pub database_url: String,
    /// The schema of the cluster.
    pub schema: String,
    /// The log filter.
    pub log: String,
    /// Further arguments of `serve`.
    pub arguments: Vec<String>,
    /// Settings without a flag, by their variables in the environment, which other users do not see.
    pub variables: Vec<(&'static str, String)>,
    /// Receives what the nodes write.
    pub on_line: LineHandler,
}

/// A running child node. Dropping it kills the process.
pub struct Node {
    /// Its node id.
    pub name: String,
    child: Child,
    pid: u32,
    stdin: Option<ChildStdin>,
    url: watch::Receiver<Option<String>>,
    last: Arc<Mutex<VecDeque<String>>>,
    readers: [AbortOnDropHandle<()>; 2],
}

impl Node {
    /// Starts a node and returns before it is ready. Port 0 takes any free port.
    pub fn start(options: &NodeOptions, name: &str, listen: SocketAddr) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot start {name}: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("MAINSPRING_") {
                command.env_remove(variable);
            }
        }
        command.args(["serve", "--node-id", name]);
        command.args([
            "--listen",
            &listen.to_string(),
            "--schema",
            &options.schema,
            "--log",
            &options.log,
        ]);
        command.args(["--drain-timeout", &format!("{}s", DRAIN.as_secs())]);
        command.args(&options.arguments);
        // An argument would show a password in the list of processes.
        command.env("MAINSPRING_DATABASE_URL", &options.database_url);
        command.env("MAINSPRING_STOP_WITH_STDIN", "true");
        command.envs(options.variables.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;

        let (found, url) = watch::channel(None);
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let lines = {
            let (on_line, name) = (Arc::clone(&options.on_line), name.to_owned());
            // The console of `serve` escapes workflow lines that begin like this one.
            let mut found = Some(found);
            move |line: &str| match line.strip_prefix(READY).filter(|_| found.is_some()) {
                Some(url) => {
                    if let Some(found) = found.take() {
                        found.send_replace(Some(url.to_owned()));
                    }
                }
                None => on_line(&name, Output::Stdout, line),
            }
        };
        let log = {
            let (on_line, name, last) = (Arc::clone(&options.on_line), name.to_owned(), Arc::clone(&last));
            move |line: &str| {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.len() == LAST_LINES {
                    last.pop_front();
                }
                last.push_back(line.to_owned());
                drop(last);
                on_line(&name, Output::Stderr, line);
            }
        };
        Ok(Self {
            name: name.to_owned(),
            pid: child.id().unwrap_or_default(),
            stdin: child.stdin.take(),
            readers: [read(child.stdout.take(), lines), read(child.stderr.take(), log)],
            child,
            url,
            last,
        })
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The base URL of its API; empty before it is ready.
    pub fn url(&self) -> String {
        self.url.borrow().clone().unwrap_or_default()
    }

    /// Waits until it answers requests. Cancellation safe.
    pub async fn ready(&mut self) -> Result<(), Failure> {
        let waits = async {
            tokio::select! {
                found = self.url.wait_for(Option::is_some) => found.is_ok(),
                _ = self.child.wait() => false,
            }
        };
        match tokio::time::timeout(READY_TIMEOUT, waits).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let status = self.exited().await;
                self.drain_output().await;
                let lines: Vec<String> = self.last_log_lines();
                Err(Failure::with_code(
                    status.and_then(|status| status.code()),
                    format!("{} ended before it was ready: {}", self.name, lines.join("; ")),
                ))
            }
            Err(_) => Err(Failure::failed(format!(
                "{} is not ready after {} s",
                self.name,
                READY_TIMEOUT.as_secs()
            ))),
        }
    }

    fn last_log_lines(&self) -> Vec<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().cloned().collect()
    }

    /// Waits until the process exits. Cancellation safe.
    pub(crate) async fn exited(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Sends SIGKILL, and does not wait for the exit.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.child
            .start_kill()
            .map_err(|error| Failure::failed(format!("cannot kill {}: {error}", self.name)))
    }

    /// Sends a signal by its name, as `STOP` or `CONT`.
    pub(crate) async fn signal(&self, name: &str) -> Result<(), Failure> {
        // std offers no signal but SIGKILL without unsafe code.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("kill -s {name} {}", self.pid)]);
        match command.stdin(Stdio::null()).stderr(Stdio::null()).status().await {
            Ok(status) if status.success() => Ok(()),
            _ => Err(Failure::failed(format!("cannot send {name} to {}", self.name))),
        }
    }

    /// Shuts it down, or kills it after a timeout. Its remaining output is still delivered.
    pub async fn stop(&mut self) {
        self.stdin = None;
        if tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        self.drain_output().await;
    }

    /// Delivers the output that the exited process has left in the pipes.
    pub(crate) async fn drain_output(&mut self) {
        // A finished task handle must not be polled again.
        let reading = self.readers.iter_mut().filter(|reader| !reader.is_finished());
        let _ = tokio::time::timeout(Duration::from_secs(1), join_all(reading)).await;
    }
}

fn read(
    from: Option<impl AsyncRead + Unpin + Send + 'static>,
    mut on_line: impl FnMut(&str) + Send + 'static,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let Some(from) = from else { return };
        let (mut from, mut line) = (BufReader::new(from), Vec::new());
        while matches!(from.read_until(b'\n', &mut line).await, Ok(length) if length > 0) {
            on_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
            line.clear();
        }
    }))
}

/// Waits until all nodes are ready, or one fails. Cancellation safe.
pub(crate) async fn wait_until_ready(nodes: &mut [Node]) -> Result<(), Failure> {
    for node in nodes {
        node.ready().await?;
    }
    Ok(())
}

/// Waits until one of the nodes exits, and removes it from the list. Pends forever on an empty list. Cancellation safe.
pub(crate) async fn first_exit(nodes: &mut Vec<Node>) -> (Node, Option<ExitStatus>) {
    if nodes.is_empty() {
        pending::<()>().await;
    }
    let waits = nodes.iter_mut().map(|node| Box::pin(node.exited()));
    let (status, at, _) = select_all(waits).await;
    (nodes.remove(at), status)
}

/// Shuts all nodes down, concurrently.
pub(crate) async fn stop_all(nodes: &mut [Node]) {
    join_all(nodes.iter_mut().map(Node::stop)).await;
}

pub(crate) fn describe_exit(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())
}
