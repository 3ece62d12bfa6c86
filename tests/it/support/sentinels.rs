//! A Redis master with a replica, and three sentinels that watch them, which end with the test.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::redis::RedisProcess;

/// What the sentinels call the master.
pub(crate) const MASTER: &str = "mymaster";

/// How long they may take to know each other.
const START: Duration = Duration::from_secs(30);

pub(crate) struct Sentinels {
    servers: Vec<RedisProcess>,
    sentinels: Vec<(u16, Child)>,
    folder: PathBuf,
}

impl Sentinels {
    pub(crate) fn start() -> Self {
        let master = RedisProcess::start();
        let port = master.port().to_string();
        let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &port]);
        let folder = std::env::temp_dir().join(format!("mainspring-sentinels-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut all = Self {
            servers: vec![master, replica],
            sentinels: Vec::new(),
            folder,
        };
        let began = Instant::now();
        while !all.servers[0].run(&["INFO", "replication"]).contains("state=online") {
            assert!(began.elapsed() < START, "the replica does not follow");
            std::thread::yield_now();
        }
        for _ in 0..3 {
            all.add(&port);
        }
        while !all.know_all() {
            assert!(began.elapsed() < START, "the sentinels do not know each other");
            std::thread::yield_now();
        }
        all
    }

    fn add(&mut self, master: &str) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = self.folder.join(format!("{port}.conf"));
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", self.folder.display()),
            format!("sentinel monitor {MASTER} 127.0.0.1 {master} 2"),
            format!("sentinel down-after-milliseconds {MASTER} 1000"),
            format!("sentinel failover-timeout {MASTER} 10000"),
        ];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is missing: scripts/install-missing redis");
        self.sentinels.push((port, child));
    }

    fn ask(&self, of: usize, command: &[&str]) -> String {
        let port = self.sentinels[of].0.to_string();
        let output = Command::new("redis-cli")
            .args(["-p", &port])
            .args(command)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn know_all(&self) -> bool {
        (0..3).all(|of| {
            let said = self.ask(of, &["SENTINEL", "MASTER", MASTER]);
            let mut lines = said.lines();
            let mut number = |name: &str| {
                lines.by_ref().skip_while(|line| *line != name).nth(1)
                    == Some(match name {
                        "num-slaves" => "1",
                        _ => "2",
                    })
            };
            number("num-slaves") && number("num-other-sentinels")
        })
    }

    /// The port of the master, as a sentinel names it.
    pub(crate) fn master(&self) -> String {
        let said = self.ask(0, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
        said.lines().last().unwrap_or_default().to_owned()
    }

    fn place_of_master(&self) -> usize {
        let master = self.master();
        let found = self
            .servers
            .iter()
            .position(|server| server.port().to_string() == master);
        found.expect("one of the servers is the master")
    }

    pub(crate) fn kill_master(&mut self) {
        let place = self.place_of_master();
        self.servers[place].kill();
    }

    /// Stops the master without closing a connection. Returns its place.
    pub(crate) fn pause_master(&self) -> usize {
        let place = self.place_of_master();
        self.servers[place].signal("STOP");
        place
    }

    /// Has a server continue that was stopped.
    pub(crate) fn resume(&self, place: usize) {
        self.servers[place].signal("CONT");
    }

    /// Ends the replication: what is written from now on, the replica never sees.
    pub(crate) fn cut_replication(&self) {
        let master = self.place_of_master();
        // No server has a password, so that a replica that gives one is refused.
        let refused = ["CONFIG", "SET", "masterauth", "unknown"];
        assert_eq!(self.servers[1 - master].run(&refused), "OK");
        self.servers[master].run(&["CLIENT", "KILL", "TYPE", "replica"]);
    }

    pub(crate) fn run_at(&self, place: usize, command: &[&str]) -> String {
        self.servers[place].run(command)
    }

    pub(crate) fn run_at_replica(&self, command: &[&str]) -> String {
        self.servers[1 - self.place_of_master()].run(command)
    }

    pub(crate) fn run_at_master(&self, command: &[&str]) -> String {
        self.servers[self.place_of_master()].run(command)
    }

    /// As StackExchange.Redis names them.
    pub(crate) fn connection_string(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect();
        format!("{},serviceName={MASTER}", hosts.join(","))
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (_, sentinel) in &mut self.sentinels {
            let _ = sentinel.kill();
            let _ = sentinel.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
