//! HAProxy in front of nodes, as a deployment has it: it asks each node for its readiness.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::node::Node;
use super::{Child, poll_until};

const START: Duration = Duration::from_secs(20);

/// HAProxy with a place per node. It ends with this value.
pub(crate) struct HaProxy {
    folder: PathBuf,
    port: u16,
    _child: Child,
}

impl HaProxy {
    /// Starts it, with no node behind it yet.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-haproxy-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        // Another process could take the port before HAProxy does: then it does not start, and the test says so.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let places = names
            .iter()
            .map(|name| format!("  server {name} 127.0.0.1:1 check inter 100ms fall 1 rise 1 disabled\n"));
        // A connection that a node has closed is found out by a request only: each has a key, so that it can be sent again.
        let configuration = format!(
            "global\n  stats socket {socket} mode 600 level admin\n  maxconn 2000\n\
             defaults\n  mode http\n  option forwardfor\n  timeout connect 5s\n  timeout check 10s\n  timeout client 60s\n  timeout server 60s\n  retries 3\n  \
             option redispatch 1\n  retry-on conn-failure empty-response\n\
             frontend clients\n  bind 127.0.0.1:{port}\n  default_backend nodes\n\
             backend nodes\n  balance roundrobin\n  option httpchk GET /health/ready\n{}",
            places.collect::<String>(),
            socket = folder.join("socket").display(),
        );
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, configuration).unwrap();
        let path = ["haproxy", "/usr/sbin/haproxy"];
        let program = path.into_iter().find(|program| {
            let version = std::process::Command::new(program).arg("-v").output();
            version.is_ok_and(|output| output.status.success())
        });
        let program = program.expect("HAProxy: `scripts/install-missing haproxy`");
        let child = Child::program(program, &["-db", "-f", file.to_str().unwrap()], &[]);
        let proxy = Self {
            folder,
            port,
            _child: child,
        };
        poll_until(START, "HAProxy to listen", async || {
            UnixStream::connect(proxy.folder.join("socket")).ok()
        })
        .await;
        proxy
    }

    /// Starts it in front of these nodes, and waits until it sends requests to all of them.
    pub(crate) async fn in_front_of(nodes: &[Node]) -> Self {
        let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
        let proxy = Self::start(&names).await;
        nodes.iter().for_each(|node| proxy.serve(node));
        proxy.waits_for(nodes.len()).await;
        proxy
    }

    /// Where clients reach the nodes.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Puts a node, which has another port after each start, into its place.
    pub(crate) fn serve(&self, node: &Node) {
        let address = node.http.as_ref().unwrap().address();
        let port = address.rsplit(':').next().unwrap();
        let name = node.name;
        for command in [
            format!("set server nodes/{name} state maint"),
            format!("set server nodes/{name} addr 127.0.0.1 port {port}"),
            format!("set server nodes/{name} state ready"),
        ] {
            self.command(&command);
        }
    }

    /// Waits until HAProxy sends requests to so many nodes.
    pub(crate) async fn waits_for(&self, count: usize) {
        poll_until(START, "HAProxy to see its nodes", async || {
            let state = self.command("show stat");
            let up = state
                .lines()
                .filter(|line| line.starts_with("nodes,") && line.contains(",UP,"));
            // The line of the backend itself is UP as well.
            (up.count() == count + 1).then_some(())
        })
        .await;
    }

    fn command(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.join("socket")).unwrap();
        stream.set_read_timeout(Some(START)).unwrap();
        writeln!(stream, "{command}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
