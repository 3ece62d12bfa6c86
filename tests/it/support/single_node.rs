//! What harms others if nothing stops it: requests without a key, web pages, connections that stall, text that forges.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Child, Http, LONG_TIMEOUT, TestDatabase, in_environment};

/// The key of nodes that ask for one.
pub(crate) const KEY: &str = "0123456789abcdef";

/// A node of its own database.
pub(crate) struct SingleNode {
    pub(crate) http: Http,
    pub(crate) address: String,
    pub(crate) child: Child,
    pub(crate) database: TestDatabase,
}

impl SingleNode {
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let database = TestDatabase::create().await;
        let given = in_environment(settings);
        // What comes later wins.
        let listen = ("MAINSPRING_LISTEN", "127.0.0.1:0");
        let variables = [listen]
            .into_iter()
            .chain(given.iter().map(|(name, value)| (&**name, *value)));
        let child = Child::start(
            &["serve", "--database-url", &database.url()],
            &variables.collect::<Vec<_>>(),
        );
        Self::ready(database, child)
    }

    /// One that asks for [`KEY`].
    pub(crate) async fn with_key(settings: &[&str]) -> Self {
        Self::start(&[&["--api-key", KEY], settings].concat()).await
    }

    pub(crate) fn ready(database: TestDatabase, child: Child) -> Self {
        let base = child.wait_for_line("ready ", LONG_TIMEOUT);
        Self {
            http: Http::new(&base).with_key(KEY),
            address: base.trim_start_matches("http://").to_owned(),
            child,
            database,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    /// Sends bytes over a connection of their own, and gives what comes back by the end of the answer's head.
    pub(crate) async fn head_of(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        head(&mut stream).await
    }

    /// Saves and publishes a workflow with this root.
    pub(crate) async fn publish(&self, id: &str, root: Value) {
        let model = json!({"definitionId": id, "root": root});
        let body = json!({"model": model, "publish": true});
        self.http.post("workflow-definitions", &body).await.expect(200);
    }

    /// Bytes of memory that are resident now (`VmRSS`) or were at most (`VmHWM`).
    pub(crate) fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        let kibibytes = line.trim_matches(|c: char| !c.is_ascii_digit());
        kibibytes.parse::<u64>().unwrap() * 1024
    }

    /// The database agrees with itself.
    pub(crate) fn assert_invariants(&self) {
        let mut check = Child::start(&["check"], &[("MAINSPRING_DATABASE_URL", &self.database.url())]);
        let status = check.wait(LONG_TIMEOUT);
        assert!(status.success(), "{:?} {:?}", check.stdout(), check.stderr());
    }
}

/// The head of the answer that comes next; empty if the connection ends.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => seen.push(byte),
                Err(_) => break,
            }
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, reading).await.expect("an answer");
    String::from_utf8_lossy(&seen).into_owned()
}

pub(crate) fn literal(text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "Literal", "value": text}})
}

pub(crate) fn waits_for(event: &str) -> Value {
    json!({"id": "e", "type": "Elsa.Event", "eventName": literal(event)})
}
