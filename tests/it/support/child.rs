//! The program as a child process, to be watched, killed and driven through failpoints.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, assert_contains, poll_until, wait_until};

/// Runs a command of the program on a database; its exit code and what it prints.
pub(crate) fn command(database: &TestDatabase, arguments: &[&str]) -> (Option<i32>, String) {
    let url = database.url();
    let mut child = Child::start(&[arguments, &["--database-url", &url]].concat(), &[]);
    let code = child.wait(TIMEOUT).code();
    (code, child.stdout().join("\n"))
}

/// A child process that is killed at the latest when this is dropped, also by a test that fails.
pub(crate) struct Child {
    process: std::process::Child,
    what: String,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    lines: Mutex<Lines>,
    more: Condvar,
}

#[derive(Default)]
struct Lines {
    stdout: Vec<String>,
    stderr: Vec<String>,
    /// How many of the two have ended.
    ended: usize,
}

impl Child {
    /// Starts `mainspring` with these arguments, and these variables beside a clean environment.
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::program(env!("CARGO_BIN_EXE_mainspring"), arguments, variables)
    }

    /// Starts another program likewise.
    pub(crate) fn program(program: impl AsRef<OsStr>, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(&program);
        // Settings of the environment of the tests must not reach the program.
        for (name, _) in std::env::vars_os() {
            let foreign = [
                "MAINSPRING_",
                "ASPNETCORE_",
                "CONNECTIONSTRINGS_",
                "ELSA_",
                "LOGGING_",
                "HTTP_PORTS",
            ];
            let plain = name.to_string_lossy().to_uppercase();
            if foreign.iter().any(|prefix| plain.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.args(arguments).envs(variables.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let what = format!("{} {}", program.as_ref().to_string_lossy(), arguments.join(" "));
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let output = Arc::new(Output::default());
        let (stdout, stderr) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        read(stdout, Arc::clone(&output), |lines| &mut lines.stdout);
        read(stderr, Arc::clone(&output), |lines| &mut lines.stderr);
        Self { process, what, output }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The lines on standard output so far.
    pub(crate) fn stdout(&self) -> Vec<String> {
        self.output.lines.lock().unwrap().stdout.clone()
    }

    /// The lines on standard error so far.
    pub(crate) fn stderr(&self) -> Vec<String> {
        self.output.lines.lock().unwrap().stderr.clone()
    }

    /// Whether a line of standard error has this part.
    pub(crate) fn logs(&self, part: &str) -> bool {
        self.stderr().iter().any(|line| line.contains(part))
    }

    /// Waits until a line of standard error has this part.
    pub(crate) async fn wait_for_log(&self, part: &str) {
        wait_until(part, async || self.logs(part)).await;
    }

    /// A client of its `--health-listen` address.
    pub(crate) async fn health(&self) -> Http {
        let address = poll_until(
            LONG_TIMEOUT,
            "the address of the health listener in the log",
            async || {
                let lines = self.stderr();
                let line = lines.iter().find(|line| line.contains("health requests are served"))?;
                Some(line.split_once("address=")?.1.trim().to_owned())
            },
        );
        Http::new(&format!("http://{}", address.await))
    }

    /// What follows `prefix` in the first line of standard output that begins so; the test fails if the deadline
    /// passes or the output ends before there is one. Blocks the thread, which the child does not need.
    pub(crate) fn wait_for_line(&self, prefix: &str, deadline: Duration) -> String {
        let began = Instant::now();
        let mut lines = self.output.lines.lock().unwrap();
        loop {
            if let Some(rest) = lines.stdout.iter().find_map(|line| line.strip_prefix(prefix)) {
                return rest.trim().to_owned();
            }
            let left = deadline.saturating_sub(began.elapsed());
            if left.is_zero() || lines.ended == 2 {
                let (stdout, stderr) = (lines.stdout.join("\n"), lines.stderr.join("\n"));
                let why = if lines.ended == 2 {
                    "it ended"
                } else {
                    "the deadline passed"
                };
                drop(lines);
                panic!(
                    "{}: no line `{prefix}`, {why}.\nstdout:\n{stdout}\nstderr:\n{stderr}",
                    self.what
                );
            }
            lines = self.output.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Kills it as `kill -9` does, and waits until it is gone and its output read.
    pub(crate) fn kill9(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.drain();
    }

    /// Waits until all that it has written is read; a grandchild may hold the pipes open forever.
    fn drain(&self) {
        let lines = self
            .output
            .lines
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let timeout = Duration::from_secs(2);
        let _ended = self
            .output
            .more
            .wait_timeout_while(lines, timeout, |lines| lines.ended < 2);
    }

    /// Whether it has ended by now.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Sends a signal by name: `TERM`, `INT`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -s {name} {}", self.id());
        assert!(
            Command::new("sh").args(["-c", &line]).status().unwrap().success(),
            "{line}"
        );
    }

    /// Waits for its end, with all of its output read.
    pub(crate) fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                self.drain();
                return status;
            }
            let stderr = || self.stderr().join("\n");
            assert!(
                began.elapsed() < deadline,
                "{} does not end.\nstderr:\n{}",
                self.what,
                stderr()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Settings as `--name value`, by their names in the environment: `serve` has few of them as flags.
pub(crate) fn in_environment<'a>(settings: &[&'a str]) -> Vec<(String, &'a str)> {
    let mut variables: Vec<(String, &str)> = Vec::new();
    for word in settings {
        match (word.strip_prefix("--"), variables.last_mut()) {
            (Some(name), _) => {
                variables.push((format!("MAINSPRING_{}", name.replace('-', "_").to_uppercase()), "true"))
            }
            (None, Some((_, value))) => *value = word,
            (None, None) => panic!("{word} stands behind no name"),
        }
    }
    variables
}

/// A node and a migration end at once as wrong usage, and say why.
#[track_caller]
pub(crate) fn assert_wrong_server(url: &str, why: &[&str]) {
    for command in [
        &["serve", "--listen", "127.0.0.1:0", "--database-url", url][..],
        &["migrate", "--database-url", url],
    ] {
        let mut child = Child::start(command, &[]);
        let status = child.wait(TIMEOUT);
        let said = child.stderr().join("\n");
        assert_eq!(status.code(), Some(2), "{said}");
        assert_contains(&said, why);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            let lines = self
                .output
                .lines
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let last: Vec<&str> = lines.stderr.iter().rev().take(40).rev().map(String::as_str).collect();
            eprintln!("the end of the log of {}:\n{}", self.what, last.join("\n"));
        }
    }
}

fn read(from: impl Read + Send + 'static, output: Arc<Output>, to: fn(&mut Lines) -> &mut Vec<String>) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.read_until(b'\n', &mut line), Ok(length) if length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            to(&mut output.lines.lock().unwrap()).push(text);
            output.more.notify_all();
            line.clear();
        }
        output.lines.lock().unwrap().ended += 1;
        output.more.notify_all();
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::support::Child;

    #[test]
    fn a_child_is_watched_and_killed() {
        let script = "echo starting; echo oops >&2; echo \"ready $WHERE\"; while :; do sleep 1; done";
        let mut child = Child::program("sh", &["-c", script], &[("WHERE", "http://here")]);
        assert_eq!(child.wait_for_line("ready ", Duration::from_secs(10)), "http://here");
        assert_eq!(child.stdout(), ["starting", "ready http://here"]);
        child.kill9();
        assert_eq!(child.stderr(), ["oops"]);
        assert!(!child.wait(Duration::from_secs(10)).success());
    }

    #[test]
    fn a_child_reports_its_exit_status() {
        let mut child = Child::program(
            "sh",
            &[
                "-c",
                "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done",
            ],
            &[],
        );
        child.wait_for_line("up", Duration::from_secs(10));
        child.signal("TERM");
        assert_eq!(child.wait(Duration::from_secs(10)).code(), Some(3));
        assert_eq!(child.stdout(), ["up", "bye"]);
    }

    #[test]
    #[should_panic(expected = "no line `ready `, it ended")]
    fn a_child_that_ends_too_early_fails_the_test_at_once() {
        Child::program("true", &[], &[]).wait_for_line("ready ", Duration::from_secs(60));
    }

    #[test]
    fn the_program_itself_runs() {
        let mut child = Child::start(&["--help"], &[]);
        assert_eq!(child.wait(Duration::from_secs(10)).code(), Some(0));
    }
}
