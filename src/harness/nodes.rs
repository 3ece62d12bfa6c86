//! Nodes as children of this program: this same binary as `mainspring serve`, on one database.
//!
//! # Invariants
//!
//! - No orphans: a child watches its standard input, a pipe whose other end only this process has. Whatever ends this
//!   process closes it, and the child stops in good order.
//! - A child is in a process group of its own: a Ctrl-C in the terminal reaches this process alone, which then says in
//!   which order things end.
//! - What is set in the environment for this process is not meant for its children: they get what is named here.

use std::collections::VecDeque;
use std::future::pending;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;

/// A node that migrates an empty database on a busy machine takes seconds.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// What a node may take to end its work when it is asked to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// A node that has not ended by then is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// How much of a log is kept to explain an early end.
const LAST_LINES: usize = 5;
/// What `serve` prints before its address.
const READY: &str = "ready ";

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Standard output: what workflows write.
    Lines,
    /// Standard error.
    Log,
}

/// Gets each line of each node, with the node's name. It runs on a task of the runtime: it must not wait for long.
pub(crate) type Ear = Arc<dyn Fn(&str, Output, &str) + Send + Sync>;

/// What all nodes of a program have in common.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) database_url: String,
    pub(crate) schema: String,
    /// The filter of the log.
    pub(crate) log: String,
    /// Further arguments of `serve`.
    pub(crate) arguments: Vec<String>,
    pub(crate) ear: Ear,
}

/// A running node. Dropping it kills it.
pub(crate) struct Node {
    pub(crate) name: String,
    child: Child,
    pid: u32,
    stdin: Option<ChildStdin>,
    url: watch::Receiver<Option<String>>,
    last: Arc<Mutex<VecDeque<String>>>,
    readers: [AbortOnDropHandle<()>; 2],
}

impl Node {
    /// Starts a node; it is not ready yet. Port 0 takes any free one.
    pub(crate) fn start(plan: &Plan, name: &str, listen: SocketAddr) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot start {name}: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("MAINSPRING_") {
                command.env_remove(variable);
            }
        }
        command.args(["serve", "--stop-with-stdin", "--node-id", name]);
        command.args([
            "--listen",
            &listen.to_string(),
            "--schema",
            &plan.schema,
            "--log",
            &plan.log,
        ]);
        command.args(["--drain-timeout", &format!("{}s", DRAIN.as_secs())]);
        command.args(&plan.arguments);
        // Not as an argument: it may hold a password, and everybody sees those.
        command.env("MAINSPRING_DATABASE_URL", &plan.database_url);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;

        let (found, url) = watch::channel(None);
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let lines = {
            let (ear, name) = (Arc::clone(&plan.ear), name.to_owned());
            // No line of a workflow begins so: what writes them sees to it.
            let mut found = Some(found);
            move |line: &str| match line.strip_prefix(READY).filter(|_| found.is_some()) {
                Some(url) => {
                    if let Some(found) = found.take() {
                        found.send_replace(Some(url.to_owned()));
                    }
                }
                None => ear(&name, Output::Lines, line),
            }
        };
        let log = {
            let (ear, name, last) = (Arc::clone(&plan.ear), name.to_owned(), Arc::clone(&last));
            move |line: &str| {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.len() == LAST_LINES {
                    last.pop_front();
                }
                last.push_back(line.to_owned());
                drop(last);
                ear(&name, Output::Log, line);
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

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it answers; empty before it is ready.
    pub(crate) fn url(&self) -> String {
        self.url.borrow().clone().unwrap_or_default()
    }

    /// Waits until it answers. Cancellation safe.
    pub(crate) async fn ready(&mut self) -> Result<(), Failure> {
        let waits = async {
            tokio::select! {
                found = self.url.wait_for(Option::is_some) => found.is_ok(),
                _ = self.child.wait() => false,
            }
        };
        match tokio::time::timeout(READY_PATIENCE, waits).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let status = self.ended().await;
                self.finish_reading().await;
                let said: Vec<String> = self.last_words();
                Err(Failure::with_code(
                    status.and_then(|status| status.code()),
                    format!("{} ended before it was ready: {}", self.name, said.join("; ")),
                ))
            }
            Err(_) => Err(Failure::failed(format!(
                "{} is not ready after {} s",
                self.name,
                READY_PATIENCE.as_secs()
            ))),
        }
    }

    fn last_words(&self) -> Vec<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().cloned().collect()
    }

    /// Waits for its end. Cancellation safe.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// `kill -9`: when this returns, the signal is sent.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.child
            .start_kill()
            .map_err(|error| Failure::failed(format!("cannot kill {}: {error}", self.name)))
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub(crate) async fn signal(&self, name: &str) -> Result<(), Failure> {
        // std has no other way without unsafe code.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("kill -s {name} {}", self.pid)]);
        match command.stdin(Stdio::null()).stderr(Stdio::null()).status().await {
            Ok(status) if status.success() => Ok(()),
            _ => Err(Failure::failed(format!("cannot send {name} to {}", self.name))),
        }
    }

    /// Stops it in good order, or kills it when that takes too long. What it says meanwhile is still heard.
    pub(crate) async fn stop(&mut self) {
        self.stdin = None;
        if tokio::time::timeout(STOP_PATIENCE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        self.finish_reading().await;
    }

    /// Hears what it has said before its end.
    pub(crate) async fn finish_reading(&mut self) {
        // One that has been waited for must not be waited for again.
        let reading = self.readers.iter_mut().filter(|reader| !reader.is_finished());
        let _ = tokio::time::timeout(Duration::from_secs(1), join_all(reading)).await;
    }
}

fn read(
    from: Option<impl AsyncRead + Unpin + Send + 'static>,
    mut hear: impl FnMut(&str) + Send + 'static,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let Some(from) = from else { return };
        let (mut from, mut line) = (BufReader::new(from), Vec::new());
        while matches!(from.read_until(b'\n', &mut line).await, Ok(length) if length > 0) {
            hear(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
            line.clear();
        }
    }))
}

/// Waits until all answer; the first that does not is the failure. Cancellation safe.
pub(crate) async fn all_ready(nodes: &mut [Node]) -> Result<(), Failure> {
    for node in nodes {
        node.ready().await?;
    }
    Ok(())
}

/// Waits until one of them ends, and takes it out. Without any this waits for ever. Cancellation safe.
pub(crate) async fn first_to_end(nodes: &mut Vec<Node>) -> (Node, Option<ExitStatus>) {
    if nodes.is_empty() {
        pending::<()>().await;
    }
    let waits = nodes.iter_mut().map(|node| Box::pin(node.ended()));
    let (status, at, _) = select_all(waits).await;
    (nodes.remove(at), status)
}

/// Stops all of them at once, in good order.
pub(crate) async fn stop_all(nodes: &mut [Node]) {
    join_all(nodes.iter_mut().map(Node::stop)).await;
}

/// How a process ended, for a person.
pub(crate) fn how(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())
}
