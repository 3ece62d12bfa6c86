//! A PostgreSQL of a test's own, to be restarted, crashed and stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::database::{Connection, TestDatabase, connect};
use super::{TIMEOUT, poll_until};

/// Servers of runs that were killed are ended when their folder is older than this.
const STRAY_AFTER: Duration = Duration::from_secs(3600);

const PREFIX: &str = "mainspring-server-";

/// A server with a folder of its own; both are gone at the end.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// What its processes are started with.
    variables: Vec<(&'static str, String)>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// Like a crash, with recovery at the next start.
    Immediate,
    /// In good order, without waiting for clients.
    Fast,
}

impl Server {
    /// Makes one and starts it.
    pub(crate) async fn start() -> Self {
        Self::start_as(programs(), Vec::new()).await
    }

    /// The same, whose processes have further variables.
    pub(crate) async fn start_with(variables: Vec<(&'static str, String)>) -> Self {
        Self::start_as(programs(), variables).await
    }

    /// The same, of the version that is installed, with all its programs: others may lack what copies a server.
    pub(crate) async fn start_installed() -> Self {
        Self::start_as(installed(), Vec::new()).await
    }

    async fn start_as(programs: PathBuf, variables: Vec<(&'static str, String)>) -> Self {
        let server = Self::with_a_place(programs, variables);
        std::fs::write(server.folder.join("password"), PASSWORD).unwrap();
        let port = server.port;
        let data = server.data();
        server.run(
            "initdb",
            &["-U", "postgres", "--auth=password", "--encoding=UTF8", "--locale=C"],
            |command| {
                // Connections need a password, as wrong ones are tested; in plain text, as hashing it
                // takes a debug build a tenth of a second.
                let password = server.folder.join("password");
                command
                    .arg("--no-sync")
                    .arg("--no-instructions")
                    .arg("-D")
                    .arg(&data)
                    .arg("--pwfile")
                    .arg(password);
            },
        );
        let settings = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 200\n\
             fsync = off\nshared_buffers = 32MB\n"
        );
        server.append("postgresql.conf", &settings);
        server.start_again();
        server.listens().await;
        server
    }

    /// A folder and a port for one.
    fn with_a_place(programs: PathBuf, variables: Vec<(&'static str, String)>) -> Self {
        end_strays();
        let folder = place().join(format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        if let Some(user) = lent_user() {
            run(Command::new("chown").arg(user).arg(&folder));
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Self {
            programs,
            folder,
            port,
            variables,
        }
    }

    async fn listens(&self) {
        poll_until(TIMEOUT, "the server to answer", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.ok()
        })
        .await;
    }

    /// A standby that follows it. From now on it answers for no commit that the standby lacks.
    pub(crate) async fn standby(&self) -> Self {
        let standby = Self::with_a_place(self.programs.clone(), Vec::new());
        let data = standby.data();
        let copy = ["-R", "--no-sync", "-c", "fast", "-X", "stream"];
        standby.run("pg_basebackup", &copy, |command| {
            command.arg("-D").arg(&data).arg("-d").arg(self.url());
        });
        standby.append("postgresql.conf", &format!("port = {}\n", standby.port));
        standby.start_again();
        standby.listens().await;
        self.append("postgresql.conf", "synchronous_standby_names = '*'\n");
        self.run("pg_ctl", &["reload", "-s"], |command| {
            command.arg("-D").arg(self.data());
        });
        standby
    }

    /// Makes a primary of a standby.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["promote", "-s", "-w", "-t", "60"], |command| {
            command.arg("-D").arg(self.data());
        });
    }

    /// The URL of its superuser.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// A session of a role of its own that may do nothing but connect to a database.
    pub(crate) async fn foreign_role(&self, database: &TestDatabase) -> Connection {
        let create = "CREATE ROLE foreign_role LOGIN PASSWORD 'o'";
        database.connect().await.run(create).await;
        let (port, name) = (self.port, database.name());
        connect(&format!("postgres://foreign_role:o@127.0.0.1:{port}/{name}")).await
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends it and starts it again.
    pub(crate) fn restart(&self, how: Stop) {
        self.stop(how);
        self.start_again();
    }

    pub(crate) fn stop(&self, how: Stop) {
        let mode = format!("-m{how:?}").to_lowercase();
        self.run("pg_ctl", &["stop", "-s", "-w", "-t", "60", &mode], |command| {
            command.arg("-D").arg(self.data());
        });
    }

    /// Starts it on the port that it had.
    pub(crate) fn start_again(&self) {
        self.run("pg_ctl", &["start", "-s", "-w", "-t", "60"], |command| {
            command
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(self.folder.join("log"));
        });
    }

    /// Sends a signal to all of its processes: `STOP` stalls the whole database, `CONT` lets it continue.
    pub(crate) fn signal(&self, name: &str) {
        let first = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let postmaster = first.lines().next().unwrap().trim();
        // The postmaster first, so that it starts no new process meanwhile; all others are its children.
        let line = format!("kill -s {name} {postmaster}; pkill -{name} -P {postmaster}");
        run(Command::new("sh").args(["-c", &line]));
    }

    /// Kills one of its processes as `kill -9` does: it begins anew, without what it had not written.
    pub(crate) fn crash(&self, process: i32) {
        run(Command::new("sh").args(["-c", &format!("kill -s KILL {process}")]));
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join("log")).unwrap()).into_owned()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn append(&self, file: &str, text: &str) {
        use std::io::Write;
        let path = self.data().join(file);
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn run(&self, program: &str, arguments: &[&str], more: impl FnOnce(&mut Command)) {
        let program = self.programs.join(program);
        let mut command = match lent_user() {
            None => Command::new("env"),
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--", "env"]);
                command
            }
        };
        // Not those of the program that lends the user: a library may make what only its first user can open.
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        command.args(variables).arg(program);
        command.args(arguments).current_dir(&self.folder);
        more(&mut command);
        run(&mut command);
    }
}

/// It guards nothing: the server is a test's own, and on this machine alone.
const PASSWORD: &str = "first";

impl Drop for Server {
    fn drop(&mut self) {
        end(&self.folder);
    }
}

fn end(folder: &Path) {
    let pid = std::fs::read_to_string(folder.join("data/postmaster.pid"));
    if let Some(postmaster) = pid.ok().and_then(|text| text.lines().next().map(str::to_owned)) {
        // Whatever state it is in; its children end with it, and none of it is of value.
        let line = format!("kill -s CONT {postmaster}; pkill -CONT -P {postmaster}; kill -s QUIT {postmaster}");
        let _ = Command::new("sh").args(["-c", &line]).stderr(Stdio::null()).status();
        let began = Instant::now();
        while folder.join("data/postmaster.pid").exists() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// Ends what runs that were killed left behind.
fn end_strays() {
    for entry in std::fs::read_dir(place()).unwrap().flatten() {
        let name = entry.file_name();
        let old = entry
            .metadata()
            .and_then(|of| of.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if name.to_string_lossy().starts_with(PREFIX) && old.is_some_and(|old| old > STRAY_AFTER) {
            end(&entry.path());
        }
    }
}

/// Where the server's user may walk.
fn place() -> PathBuf {
    if lent_user().is_some() {
        PathBuf::from("/tmp")
    } else {
        std::env::temp_dir()
    }
}

/// Root may not run a server, so another user does.
fn lent_user() -> Option<&'static str> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    let known = || {
        Command::new("id")
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    root.then(|| {
        if known().is_ok_and(|status| status.success()) {
            "postgres"
        } else {
            "nobody"
        }
    })
}

/// The programs of the server that the tests run on, if it is known; else the installed ones.
fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("MAINSPRING_TEST_POSTGRESQL") {
        return PathBuf::from(folder);
    }
    installed()
}

fn installed() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/find-postgresql");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "there is no PostgreSQL here");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
