//! A request to the REST API, from the bytes of the request to those of the response.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::Engine;
use crate::api::{self, ApiOptions};
use crate::definition::WorkflowDefinition;
use crate::http::connections::{ConnectionLimits, ConnectionTable, TrackedStream};
use crate::http::peer::{Peer, Scheme};
use crate::http::server::{Served, serve_connection};
use crate::http::trusted_proxies::TrustedProxies;
use crate::testing::TestDatabase;
use crate::testing::instructions::{count, runtime};

/// An engine with a workflow, behind a connection that is kept. What the engine does by itself is not counted: it has threads of
/// its own.
struct Server {
    runtime: Runtime,
    of_engine: Runtime,
    stream: DuplexStream,
    engine: Engine,
    _database: TestDatabase,
}

impl Server {
    fn start() -> Self {
        let runtime = runtime();
        let (stream, served) = tokio::io::duplex(64 * 1024);
        let of_engine = Builder::new_multi_thread()
            .enable_all()
            .worker_threads(1)
            .build()
            .unwrap();
        let (engine, database) = of_engine.block_on(async {
            let database = TestDatabase::create().await;
            // Valgrind makes a node slow.
            let (check_in, tolerance) = (Duration::from_secs(10), Duration::from_secs(60));
            let builder = Engine::builder(database.url()).node_id("one");
            let builder = builder.check_in(check_in).tolerance(tolerance);
            let engine = builder.start().await.unwrap();
            let definition = json!({"definitionId": "hello",
                "root": {"type": "Elsa.WriteLine", "id": "line", "text": "Hello"}});
            let definition = WorkflowDefinition::from_value(definition).unwrap();
            engine.save(definition, true).await.unwrap();
            (engine, database)
        });
        let router = api::router(engine.clone(), ApiOptions::default());
        let peer = Peer(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let tracked = ConnectionTable::new(ConnectionLimits::default()).track();
        let state = std::sync::Arc::clone(&tracked.state);
        let stream_of_server = TrackedStream {
            stream: served,
            tracked,
        };
        let served = Served {
            router,
            trusted_proxies: TrustedProxies::default(),
            closing: CancellationToken::new(),
        };
        runtime.spawn(serve_connection(stream_of_server, state, peer, Scheme::Http, served));
        Self {
            runtime,
            of_engine,
            stream,
            engine,
            _database: database,
        }
    }

    fn count(mut self, request: &str) {
        count(|| {
            let answer = self.runtime.block_on(answer(&mut self.stream, request));
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        });
        self.of_engine.block_on(self.engine.shutdown());
    }
}

/// Sends a request, and reads the response to its end.
async fn answer(stream: &mut DuplexStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    loop {
        assert!(stream.read_buf(&mut received).await.unwrap() > 0);
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect(head).parse().unwrap();
        if body.len() >= length {
            return text.into_owned();
        }
    }
}

#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn executed_workflow() {
    Server::start().count(
        "POST /elsa/api/workflow-definitions/hello/execute HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    );
}
