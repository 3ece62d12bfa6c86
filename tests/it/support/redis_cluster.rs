//! A Redis cluster of a test: three masters, each with a replica if asked for, which end with the test.

use std::time::{Duration, Instant};

use super::redis::RedisProcess;

/// How long the nodes may take to know each other.
const START: Duration = Duration::from_secs(60);
/// How often they are asked.
const POLL: Duration = Duration::from_millis(20);
/// The hash slots of the masters.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

pub(crate) struct RedisCluster {
    /// The masters of the start, then their replicas.
    pub(crate) nodes: Vec<RedisProcess>,
}

impl RedisCluster {
    /// Three masters.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments of each `redis-server`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::join(3, || RedisProcess::start_in_cluster(false, arguments))
    }

    /// The same with a second port for TLS.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library have no certificates"))]
    pub(crate) fn start_with_tls(arguments: &[&str]) -> Self {
        Self::join(3, || RedisProcess::start_in_cluster(true, arguments))
    }

    /// Three masters, each with a replica.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library promote no replica"))]
    pub(crate) fn start_with_replicas() -> Self {
        let cluster = Self::join(6, || RedisProcess::start_in_cluster(false, &[]));
        let began = Instant::now();
        for (master, replica) in cluster.nodes[..3].iter().zip(&cluster.nodes[3..]) {
            let id = master.run(&["CLUSTER", "MYID"]);
            assert_eq!(replica.run(&["CLUSTER", "REPLICATE", &id]), "OK");
        }
        while !cluster.nodes[..3]
            .iter()
            .all(|node| node.run(&["INFO", "replication"]).contains("state=online"))
        {
            assert!(began.elapsed() < START, "the replicas do not follow");
            std::thread::sleep(POLL);
        }
        cluster
    }

    /// So many servers, of which the first three have the hash slots.
    fn join(count: usize, start: impl Fn() -> RedisProcess) -> Self {
        let cluster = Self {
            nodes: std::iter::repeat_with(start).take(count).collect(),
        };
        for (number, (node, (first, last))) in cluster.nodes.iter().zip(RANGES).enumerate() {
            let epoch = (number + 1).to_string();
            assert_eq!(node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]), "OK");
            let slots = ["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()];
            assert_eq!(node.run(&slots), "OK");
        }
        // Each meets each, so that none waits for gossip.
        for met in &cluster.nodes {
            let [port, bus] = [met.port(), met.bus_port()].map(|port| port.to_string());
            for node in cluster.nodes.iter().filter(|node| node.port() != met.port()) {
                assert_eq!(node.run(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]), "OK");
            }
        }
        cluster.wait("the nodes to know each other", |info| {
            info.contains("cluster_state:ok")
                && info.lines().any(|line| *line == format!("cluster_known_nodes:{count}"))
        });
        cluster
    }

    /// Waits until each node says so in `CLUSTER INFO`.
    fn wait(&self, what: &str, says: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !self.nodes.iter().all(|node| says(&node.run(&["CLUSTER", "INFO"]))) {
            assert!(began.elapsed() < START, "{what}");
            std::thread::sleep(POLL);
        }
    }

    /// Its URL, by two of its nodes.
    pub(crate) fn url(&self) -> String {
        let [one, two, ..] = self.nodes.as_slice() else {
            panic!()
        };
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", one.port(), two.port())
    }

    /// The master of a key, as the first node that answers sees it.
    pub(crate) fn master_of(&self, key: &str) -> &RedisProcess {
        let slot: u16 = self.nodes[0].run(&["CLUSTER", "KEYSLOT", key]).parse().unwrap();
        let of_slot = RANGES.iter().position(|(first, last)| (*first..=*last).contains(&slot));
        &self.nodes[of_slot.unwrap()]
    }

    /// What `redis-cli` prints for a command with a key, asked at its master.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        self.nodes[0].run(&[&["-c"], command].concat())
    }

    /// The keys of all masters.
    pub(crate) fn keys(&self, pattern: &str) -> Vec<String> {
        let masters = self.nodes.iter().take(3).map(|node| node.run(&["KEYS", pattern]));
        let mut keys: Vec<String> = masters
            .flat_map(|keys| {
                keys.lines()
                    .filter(|key| !key.is_empty())
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect();
        keys.sort();
        keys
    }

    /// Kills the second master.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library promote no replica"))]
    pub(crate) fn kill_master(&mut self) {
        self.nodes[1].kill();
    }

    /// Whether the replica of the second master has become one.
    #[cfg_attr(test, allow(dead_code, reason = "tests of the library promote no replica"))]
    pub(crate) fn is_promoted(&self) -> bool {
        self.nodes[4].run(&["ROLE"]).starts_with("master")
    }
}
