//! The private PostgreSQL of `mainspring dev`: a cluster in a folder of its own, that this machine alone can reach.
//!
//! What is kept in the folder: `postgres/` (the cluster), `password` (0600), `port`, `postgres.log`, and `lock`, which
//! the running `mainspring dev` holds, so that there is never a second one.
//!
//! Nothing has to be cleaned up by hand, whatever was killed:
//!
//! - `mainspring dev` was killed: its server still runs. The lock tells that nobody owns it, so it is stopped cleanly
//!   and started anew as our child, whose end we then notice.
//! - The server was killed: PostgreSQL recovers by itself. Its last backends may need a moment to see that it is gone;
//!   until then a new server refuses to start, and we try again.
//! - The machine was restarted, and the server's process id now belongs to somebody else: PostgreSQL would refuse for
//!   ever. If no process works in the folder, the stale file is taken away.
//! - `initdb` was interrupted: it works in `postgres.new`, which becomes `postgres` only when it is whole.
//!
//! The server is in a process group of its own: a Ctrl-C in the terminal reaches only `mainspring dev`, which finishes
//! its work before it stops the database under it. Settings are those that a real server has: `fsync` stays on.

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

use folder::Folder;
use installation::Installation;

/// The role that owns everything, and the name of the database.
const NAME: &str = "mainspring";

/// A server that recovers from a crash may take long, but it lives and says so.
const START_PATIENCE: Duration = Duration::from_secs(300);
/// For obstacles that go away by themselves: dying backends of a killed server, a port that somebody just took.
const RETRY_PATIENCE: Duration = Duration::from_secs(20);
/// A fast shutdown writes a checkpoint; after this it is told to go without one, which costs a recovery only.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const STOP_NOW_PATIENCE: Duration = Duration::from_secs(5);

/// Where the private PostgreSQL lives.
pub(crate) struct Options {
    /// The folder for everything; made if it is missing. `mainspring dev` takes `.mainspring` unless told otherwise.
    pub(crate) folder: PathBuf,
}

/// A running private PostgreSQL. Dropping it tells the server to shut down, and does not wait.
pub(crate) struct PrivatePostgres {
    server: Server,
    folder: Folder,
    url: String,
}

/// Starts the private PostgreSQL, and makes it first if it is not there yet.
///
/// Errors: `postgresql-not-installed`, `data-folder-in-use`, `private-postgresql`. Dropping the future leaves nothing
/// that the next start cannot use.
pub(crate) async fn start(options: Options) -> Result<PrivatePostgres> {
    let folder = Folder::open(&options.folder)?;
    let installation = Installation::find(folder.cluster_version()?)?;
    if !folder.has_cluster() {
        make_cluster(&folder, &installation).await?;
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
                if !(passes_by_itself(&log) && began.elapsed() < RETRY_PATIENCE) {
                    return Err(ended(status, &log));
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    }
}

/// Takes a folder away that nobody uses, with the server that may still run in it.
///
/// Errors: `data-folder-in-use`, `private-postgresql`.
pub(crate) async fn remove(folder: &Path) -> Result<()> {
    let folder = Folder::open(folder)?;
    if folder.has_cluster() {
        leftover::stop(&folder, &Installation::find(folder.cluster_version()?)?).await?;
    }
    std::fs::remove_dir_all(folder.path())
        .map_err(|error| broken(format!("cannot remove {}", folder.path().display())).caused_by(error))
}

impl PrivatePostgres {
    /// How to connect. It holds the password: never print it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder that is really used; not the wanted one if [`PrivatePostgres::notice`] says so.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the user should know about the folder, if anything.
    pub(crate) fn notice(&self) -> Option<&str> {
        self.folder.notice()
    }

    /// Waits until the server has ended without having been asked to, and says how. Cancellation safe.
    pub(crate) async fn died(&mut self) -> Error {
        match self.server.child.wait().await {
            Ok(status) => ended(status, &self.folder.log_tail()),
            Err(error) => broken("cannot watch the private PostgreSQL").caused_by(error),
        }
    }

    /// Stops the server: cleanly within 20 seconds, else at once, which costs a recovery at the next start. When this
    /// returns, it has ended. Dropping the future leaves it shutting down.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.server.stop().await
    }
}

enum Ready {
    Yes,
    Exited(ExitStatus),
}

/// The server as our child.
struct Server {
    child: Child,
    pg_ctl: PathBuf,
    user: Option<folder::User>,
    folder: PathBuf,
}

impl Server {
    fn spawn(folder: &Folder, installation: &Installation, port: u16) -> Result<Self> {
        let log = folder.open_log()?;
        let errors = log
            .try_clone()
            .map_err(|error| broken("cannot open the log").caused_by(error))?;
        let mut command = folder.command(&installation.program("postgres"));
        command.arg("-D").arg(folder.cluster());
        command.args(["-h", "127.0.0.1", "-p"]).arg(port.to_string());
        // No socket file: its path could be too long, and its folder is one more thing to get wrong.
        command.args(["-k", "", "-c", "max_connections=200", "-c", "logging_collector=off"]);
        command.args(["-c", "log_destination=stderr", "-c", "cluster_name=mainspring"]);
        command.stdout(log).stderr(errors);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|error| broken("cannot start PostgreSQL").caused_by(error))?;
        Ok(Self {
            child,
            pg_ctl: installation.program("pg_ctl"),
            user: folder.user(),
            folder: folder.path().to_owned(),
        })
    }

    /// Sends a signal by `pg_ctl kill`, as the server's user: std has no other way without unsafe code.
    fn signal(&self, name: &str, pid: u32) -> std::process::Command {
        let mut command = folder::command_as(self.user, &self.folder, &self.pg_ctl);
        command.args(["kill", name, &pid.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Waits until the database answers, and makes it if it is missing.
    async fn until_ready(&mut self, folder: &Folder, installation: &Installation, port: u16) -> Result<Ready> {
        let began = Instant::now();
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user(NAME).dbname(NAME);
        config
            .password(folder.password())
            .connect_timeout(Duration::from_secs(5));
        loop {
            let refusal = match config.connect(NoTls).await {
                Ok((_client, _connection)) => return Ok(Ready::Yes),
                Err(error) => error,
            };
            if let Some(status) = self
                .child
                .try_wait()
                .map_err(|error| broken("cannot watch PostgreSQL").caused_by(error))?
            {
                return Ok(Ready::Exited(status));
            }
            match refusal.code() {
                Some(&SqlState::INVALID_CATALOG_NAME) => create_database(folder, installation, port).await?,
                Some(&SqlState::INVALID_PASSWORD) if began.elapsed() > Duration::from_secs(2) => {
                    let file = folder.path().join("password");
                    return Err(broken(format!(
                        "the private PostgreSQL does not know the password in {}; put the right one back, or move {} \
                         away to begin anew",
                        file.display(),
                        folder.path().display()
                    )));
                }
                _ if began.elapsed() > START_PATIENCE => {
                    return Err(broken("the private PostgreSQL does not get ready").caused_by(refusal));
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn stop(&mut self) -> Result<()> {
        for (signal, patience) in [("INT", STOP_PATIENCE), ("QUIT", STOP_NOW_PATIENCE)] {
            let Some(pid) = self.child.id() else { return Ok(()) };
            // It fails if the server has just gone; the wait tells.
            let _ = tokio::process::Command::from(self.signal(signal, pid)).status().await;
            if let Ok(ended) = tokio::time::timeout(patience, self.child.wait()).await {
                return ended
                    .map(drop)
                    .map_err(|error| broken("cannot watch PostgreSQL").caused_by(error));
            }
        }
        self.child
            .kill()
            .await
            .map_err(|error| broken("cannot stop PostgreSQL").caused_by(error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            let _ = self.signal("INT", pid).status();
        }
    }
}

async fn make_cluster(folder: &Folder, installation: &Installation) -> Result<()> {
    let making = folder.prepare_cluster()?;
    let password = folder.lend_password()?;
    let mut command = folder.command(&installation.program("initdb"));
    command
        .arg("-D")
        .arg(&making)
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
    let made = run(command).await;
    let _ = std::fs::remove_file(&password);
    made.map_err(|error| broken("initdb could not make the private PostgreSQL").caused_by(error))?;
    folder.adopt_cluster(&making)
}

async fn create_database(folder: &Folder, installation: &Installation, port: u16) -> Result<()> {
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
            Err(broken("createdb could not make the database").caused_by(error))
        }
        _ => Ok(()),
    }
}

/// Runs a program to its end; what it said is the error.
async fn run(command: std::process::Command) -> io::Result<()> {
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("{} ({said})", output.status)))
}

/// The port of last time, as long as nobody else has it.
fn choose_port(folder: &Folder) -> Result<u16> {
    if let Some(port) = folder.port()
        && TcpListener::bind(("127.0.0.1", port)).is_ok()
    {
        return Ok(port);
    }
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| broken("no free port on 127.0.0.1").caused_by(error))?
        .port();
    folder.keep_port(port)?;
    Ok(port)
}

fn url(password: &str, port: u16) -> String {
    // The password is hexadecimal: nothing to escape.
    format!("postgresql://{NAME}:{password}@127.0.0.1:{port}/{NAME}")
}

/// Whether the log of a server that refused to start names an obstacle that goes away.
fn passes_by_itself(log: &str) -> bool {
    const PASSING: [&str; 4] = [
        "could not bind IPv4 address",
        "could not create any TCP/IP sockets",
        "pre-existing shared memory block",
        "lock file \"postmaster.pid\" already exists",
    ];
    PASSING.iter().any(|obstacle| log.contains(obstacle))
}

fn ended(status: ExitStatus, log: &str) -> Error {
    broken(format!(
        "the private PostgreSQL ended ({status}); the end of its log:\n{log}"
    ))
}

fn broken(message: impl Into<String>) -> Error {
    Error::unavailable("private-postgresql", message)
}

/// A file that only its owner can read, complete or not there at all.
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
