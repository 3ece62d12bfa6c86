//! The private PostgreSQL of `mainspring dev`: a cluster in its own folder, reachable from this machine only.
//!
//! The folder contains `postgres/` (the cluster), `password` (0600), `port`, `postgres.log`, and `lock`, which the running
//! `mainspring dev` holds so that no second one starts.
//!
//! No kill requires manual cleanup:
//!
//! - `mainspring dev` was killed and its server still runs: the lock is free, so the next start stops that server and starts
//!   a new one as its own child.
//! - The server was killed: PostgreSQL recovers by itself. A new server refuses to start until the last backends have
//!   exited; the start is retried.
//! - The machine was restarted, and another process has the server's process id: PostgreSQL would refuse to start forever.
//!   If no process works in the folder, the stale `postmaster.pid` is removed.
//! - `initdb` was interrupted: it writes to `postgres.new`, which is renamed to `postgres` when it is complete.
//!
//! The server has its own process group: a Ctrl-C in the terminal reaches only `mainspring dev`, which drains before it
//! stops the server. The server's settings are those of production: `fsync` stays on.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::Child;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::{Error, Result};

mod folder;
mod installation;
mod leftover;
#[cfg(test)]
mod tests;

use folder::ServerFolder;
use installation::Installation;

/// The name of the role and of the database.
const NAME: &str = "mainspring";

/// Crash recovery can take minutes; the process runs meanwhile.
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// For transient failures: exiting backends of a killed server, a port that another process just took.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// A fast shutdown writes a checkpoint. After this timeout follows an immediate one, which costs a recovery.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const IMMEDIATE_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the private PostgreSQL is.
pub(crate) struct Options {
    /// The data folder; created if it is missing.
    pub(crate) folder: PathBuf,
}

/// A running private PostgreSQL. Dropping it sends the server a shutdown signal and does not wait.
pub(crate) struct PrivatePostgres {
    server: Server,
    folder: ServerFolder,
    url: String,
}

/// Starts the private PostgreSQL, after creating its cluster if there is none.
/// Errors: `postgresql-not-installed`, `data-folder-in-use`, `private-postgresql`. Cancellation safe: the next start can
/// use what a dropped future leaves.
pub(crate) async fn start(options: Options) -> Result<PrivatePostgres> {
    let folder = ServerFolder::open(&options.folder)?;
    let installation = Installation::find(folder.cluster_version()?)?;
    if !folder.has_cluster() {
        create_cluster(&folder, &installation).await?;
    }
    folder.rotate_log()?;

    let began = Instant::now();
    loop {
        leftover::stop(&folder, &installation).await?;
        let port = choose_port(&folder)?;
        let mut server = Server::spawn(&folder, &installation, port)?;
        match server.until_ready(&folder, &installation, port).await? {
            Ready::Yes => {
                let url = url(folder.password(), port);
                return Ok(PrivatePostgres { server, folder, url });
            }
            Ready::Exited(status) => {
                let log = folder.log_tail();
                if !(is_transient(&log) && began.elapsed() < RETRY_TIMEOUT) {
                    return Err(exit_error(status, &log));
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    }
}

/// Stops a leftover server in an unused folder, and removes the folder.
///
/// Errors: `data-folder-in-use`, `private-postgresql`.
pub(crate) async fn remove(folder: &Path) -> Result<()> {
    let folder = ServerFolder::open(folder)?;
    if folder.has_cluster() {
        leftover::stop(&folder, &Installation::find(folder.cluster_version()?)?).await?;
    }
    std::fs::remove_dir_all(folder.path())
        .map_err(|error| failed_with(format!("cannot remove {}", folder.path().display())).caused_by(error))
}

impl PrivatePostgres {
    /// The database URL, with the password: not to be printed.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder in use; another one than requested if [`PrivatePostgres::notice`] says so.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Why another folder than the requested one is used, if so.
    pub(crate) fn notice(&self) -> Option<&str> {
        self.folder.notice()
    }

    /// Waits for an unexpected exit of the server, and returns it as an error. Cancellation safe.
    pub(crate) async fn exited(&mut self) -> Error {
        match self.server.child.wait().await {
            Ok(status) => exit_error(status, &self.folder.log_tail()),
            Err(error) => failed_with("cannot watch the private PostgreSQL").caused_by(error),
        }
    }

    /// Stops the server: a fast shutdown, and after 20 seconds an immediate one, which costs a recovery at the next start.
    /// Returns when the process has exited. If the future is dropped, the shutdown continues.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.server.stop().await
    }
}

enum Ready {
    Yes,
    Exited(ExitStatus),
}

/// The server process.
struct Server {
    child: Child,
    pg_ctl: PathBuf,
    user: Option<folder::User>,
    folder: PathBuf,
}

impl Server {
    fn spawn(folder: &ServerFolder, installation: &Installation, port: u16) -> Result<Self> {
        let log = folder.open_log()?;
        let errors = log
            .try_clone()
            .map_err(|error| failed_with("cannot open the log").caused_by(error))?;
        let mut command = folder.command(&installation.program("postgres"));
        command.arg("-D").arg(folder.cluster());
        command.args(["-h", "127.0.0.1", "-p"]).arg(port.to_string());
        // No socket file: its path could be too long.
        command.args(["-k", "", "-c", "max_connections=200", "-c", "logging_collector=off"]);
        command.args(["-c", "log_destination=stderr", "-c", "cluster_name=mainspring"]);
        command.stdout(log).stderr(errors);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|error| failed_with("cannot start PostgreSQL").caused_by(error))?;
        Ok(Self {
            child,
            pg_ctl: installation.program("pg_ctl"),
            user: folder.user(),
            folder: folder.path().to_owned(),
        })
    }

    /// Sends a signal with `pg_ctl kill`, as the server's user: std offers none but SIGKILL without unsafe code.
    fn signal(&self, name: &str, pid: u32) -> std::process::Command {
        let mut command = folder::command_as(self.user, &self.folder, &self.pg_ctl);
        command.args(["kill", name, &pid.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Whether this process, and no other one, listens on the port: PostgreSQL writes the status line of `postmaster.pid` after
    /// it has bound its port, and a server that cannot bind it exits.
    fn listens_on(&self, folder: &ServerFolder, port: u16) -> bool {
        let text = std::fs::read_to_string(folder.cluster().join("postmaster.pid")).unwrap_or_default();
        let line = |number: usize| text.lines().nth(number).map(str::trim);
        // The lines are counted from 0: the process id, the folder, the start time, the port, …, the status.
        line(0).and_then(|pid| pid.parse().ok()) == self.child.id()
            && line(3).and_then(|port| port.parse().ok()) == Some(port)
            && line(7) == Some("ready")
    }

    /// Waits until the database accepts connections, and creates it if it is missing. Until the port is known to belong to
    /// this server, nothing connects to it: another local user may have bound it first, and would be sent the password.
    async fn until_ready(&mut self, folder: &ServerFolder, installation: &Installation, port: u16) -> Result<Ready> {
        let began = Instant::now();
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user(NAME).dbname(NAME);
        config
            .password(folder.password())
            .connect_timeout(Duration::from_secs(5));
        loop {
            let error = match self.listens_on(folder, port) {
                true => match config.connect(NoTls).await {
                    Ok((_client, _connection)) => return Ok(Ready::Yes),
                    Err(error) => Some(error),
                },
                false => None,
            };
            if let Some(status) = self
                .child
                .try_wait()
                .map_err(|error| failed_with("cannot watch PostgreSQL").caused_by(error))?
            {
                return Ok(Ready::Exited(status));
            }
            match error.as_ref().and_then(|error| error.code()) {
                Some(&SqlState::INVALID_CATALOG_NAME) => create_database(folder, installation, port).await?,
                Some(&SqlState::INVALID_PASSWORD) if began.elapsed() > Duration::from_secs(2) => {
                    let file = folder.path().join("password");
                    return Err(failed_with(format!(
                        "the private PostgreSQL rejects the password in {}; restore the right one, or move {} away \
                         to create a new cluster",
                        file.display(),
                        folder.path().display()
                    )));
                }
                _ if began.elapsed() > START_TIMEOUT => {
                    let failure = failed_with("the private PostgreSQL accepts no connection");
                    return Err(match error {
                        Some(error) => failure.caused_by(error),
                        None => failure,
                    });
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn stop(&mut self) -> Result<()> {
        for (signal, timeout) in [("INT", STOP_TIMEOUT), ("QUIT", IMMEDIATE_STOP_TIMEOUT)] {
            let Some(pid) = self.child.id() else { return Ok(()) };
            // It fails if the server has just exited; the wait below shows it.
            let _ = tokio::process::Command::from(self.signal(signal, pid)).status().await;
            if let Ok(exited) = tokio::time::timeout(timeout, self.child.wait()).await {
                return exited
                    .map(drop)
                    .map_err(|error| failed_with("cannot watch PostgreSQL").caused_by(error));
            }
        }
        self.child
            .kill()
            .await
            .map_err(|error| failed_with("cannot stop PostgreSQL").caused_by(error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            let _ = self.signal("INT", pid).status();
        }
    }
}

async fn create_cluster(folder: &ServerFolder, installation: &Installation) -> Result<()> {
    let new_cluster = folder.prepare_cluster()?;
    let password = folder.copy_password()?;
    let mut command = folder.command(&installation.program("initdb"));
    command
        .arg("-D")
        .arg(&new_cluster)
        .arg("-U")
        .arg(NAME)
        .arg("--pwfile")
        .arg(&password);
    command.args([
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--data-checksums",
        "--no-instructions",
    ]);
    let outcome = run(command).await;
    let _ = std::fs::remove_file(&password);
    outcome
        .map_err(|error| failed_with("initdb cannot create the cluster of the private PostgreSQL").caused_by(error))?;
    folder.install_cluster(&new_cluster)
}

async fn create_database(folder: &ServerFolder, installation: &Installation, port: u16) -> Result<()> {
    let mut command = folder.command(&installation.program("createdb"));
    command.env("PGPASSWORD", folder.password());
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-U",
        NAME,
        "--no-password",
        NAME,
    ]);
    match run(command).await {
        Err(error) if !error.to_string().contains("already exists") => {
            Err(failed_with("createdb cannot create the database").caused_by(error))
        }
        _ => Ok(()),
    }
}

/// Runs a program to its end; the error contains its standard error.
async fn run(command: std::process::Command) -> io::Result<()> {
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("{} ({stderr})", output.status)))
}

/// The port of the previous run if it is free, else another one.
fn choose_port(folder: &ServerFolder) -> Result<u16> {
    if let Some(port) = folder.port()
        && TcpListener::bind(("127.0.0.1", port)).is_ok()
    {
        return Ok(port);
    }
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| failed_with("no free port on 127.0.0.1").caused_by(error))?
        .port();
    folder.keep_port(port)?;
    Ok(port)
}

fn url(password: &str, port: u16) -> String {
    // The password is hexadecimal and needs no escape.
    format!("postgresql://{NAME}:{password}@127.0.0.1:{port}/{NAME}")
}

/// Whether the log of a server that exited at its start names a transient cause.
fn is_transient(log: &str) -> bool {
    const TRANSIENT: [&str; 4] = [
        "could not bind IPv4 address",
        "could not create any TCP/IP sockets",
        "pre-existing shared memory block",
        "lock file \"postmaster.pid\" already exists",
    ];
    TRANSIENT.iter().any(|cause| log.contains(cause))
}

fn exit_error(status: ExitStatus, log: &str) -> Error {
    failed_with(format!(
        "the private PostgreSQL ended ({status}); the end of its log:\n{log}"
    ))
}

fn failed_with(message: impl Into<String>) -> Error {
    Error::unavailable("private-postgresql", message)
}

/// Writes a file that only its owner can read, atomically.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
