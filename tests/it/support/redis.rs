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

/// Where a server listens.
struct Ports {
    clients: u16,
    tls: Option<u16>,
    bus: Option<u16>,
}

impl Ports {
    fn free(with_tls: bool, with_bus: bool) -> Self {
        Self {
            clients: free_port(),
            tls: with_tls.then(free_port),
            bus: with_bus.then(free_port),
        }
    }

    fn arguments(&self) -> Vec<String> {
        let given = [
            ("--port", Some(self.clients)),
            ("--tls-port", self.tls),
            ("--cluster-port", self.bus),
        ];
        let each = given
            .into_iter()
            .filter_map(|(name, port)| Some([name.to_owned(), port?.to_string()]));
        each.flatten().collect()
    }
}

pub(crate) struct RedisProcess {
    child: Option<Child>,
    ports: Ports,
    directory: PathBuf,
    arguments: Vec<String>,
}

impl RedisProcess {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments of `redis-server`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_at(false, false, arguments)
    }

    /// The same with a second port for TLS.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library have no certificates"))]
    pub(crate) fn start_with_tls(arguments: &[&str]) -> Self {
        Self::start_at(true, false, arguments)
    }

    /// The same as a node of a cluster, perhaps with a port for TLS.
    pub(crate) fn start_in_cluster(with_tls: bool, arguments: &[&str]) -> Self {
        let of_cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        Self::start_at(with_tls, true, &[&of_cluster, arguments].concat())
    }

    fn start_at(with_tls: bool, with_bus: bool, arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("mainspring-redis-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut server = Self {
            child: None,
            ports: Ports::free(with_tls, with_bus),
            directory,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        };
        let began = Instant::now();
        // Another process may take a port before the server does.
        while !server.starts() {
            assert!(began.elapsed() < START, "redis-server does not start");
            server.ports = Ports::free(with_tls, with_bus);
        }
        server
    }

    /// Starts it, empty, on its port; kills the one before.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let began = Instant::now();
        while !self.starts() {
            assert!(began.elapsed() < START, "redis-server does not start again");
        }
    }

    /// False: it has ended.
    fn starts(&mut self) -> bool {
        let mut child = Command::new("redis-server")
            .args(self.ports.arguments())
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is missing: scripts/install-missing redis");
        let began = Instant::now();
        loop {
            let answers = self.answers();
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if answers {
                self.child = Some(child);
                return true;
            }
            if began.elapsed() > START {
                let _ = child.kill();
                panic!("redis-server does not answer");
            }
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
        self.ports.clients
    }

    /// The port for TLS.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library have no certificates"))]
    pub(crate) fn tls_port(&self) -> u16 {
        self.ports.tls.unwrap()
    }

    /// The port for other nodes of its cluster.
    pub(crate) fn bus_port(&self) -> u16 {
        self.ports.bus.unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// What `redis-cli` prints for a command.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port().to_string()])
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
