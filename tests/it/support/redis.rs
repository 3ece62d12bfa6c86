//! A Redis server of a test, on a port of its own, which ends with the test.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const START: Duration = Duration::from_secs(20);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) struct RedisProcess {
    child: Option<Child>,
    port: u16,
    tls_port: Option<u16>,
    directory: PathBuf,
    arguments: Vec<String>,
}

impl RedisProcess {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments of `redis-server`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_at(None, arguments)
    }

    /// The same with a second port for TLS.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library have no certificates"))]
    pub(crate) fn start_with_tls(arguments: &[&str]) -> Self {
        Self::start_at(Some(free_port()), arguments)
    }

    fn start_at(tls_port: Option<u16>, arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("mainspring-redis-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut server = Self {
            child: None,
            port: free_port(),
            tls_port,
            directory,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        };
        server.restart();
        server
    }

    /// Starts it, empty, on its port; kills the one before.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no"])
            .args(
                self.tls_port
                    .iter()
                    .flat_map(|port| ["--tls-port".to_owned(), port.to_string()]),
            )
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is missing: scripts/install-missing redis");
        self.child = Some(child);
        let began = Instant::now();
        while !self.answers() {
            assert!(began.elapsed() < START, "redis-server does not answer");
            std::thread::yield_now();
        }
    }

    fn answers(&self) -> bool {
        let answer = self.run(&["PING"]);
        answer.contains("PONG") || answer.contains("NOAUTH")
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal: STOP, CONT.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(
            Command::new("kill")
                .args([&format!("-{name}"), &id])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The port for TLS.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library have no certificates"))]
    pub(crate) fn tls_port(&self) -> u16 {
        self.tls_port.unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What `redis-cli` prints for a command.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(command)
            .output()
            .expect("redis-cli is missing: scripts/install-missing redis");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
