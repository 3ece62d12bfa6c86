//! A proxy between a node and its database that stalls, delays and cuts connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Chunks in flight in one direction of a connection; more than these wait.
const ON_THE_WAY: usize = 1024;

/// Forwards everything to one server, or nothing. It closes a connection only when it is cut.
pub(crate) struct Proxy {
    url: String,
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
}

struct Shared {
    server: String,
    /// Each way.
    delay: Duration,
    silent: watch::Sender<bool>,
    /// By the client port that the server sees.
    connections: Mutex<HashMap<u16, watch::Sender<bool>>>,
    /// Grows with each cut.
    cut: watch::Sender<u64>,
}

impl Proxy {
    /// A proxy before the server of a database URL.
    pub(crate) async fn before(database_url: &str) -> Self {
        Self::with_delay(database_url, Duration::ZERO).await
    }

    /// The same; whatever passes, takes so long each way.
    pub(crate) async fn with_delay(database_url: &str, delay: Duration) -> Self {
        let mut url = reqwest::Url::parse(database_url).unwrap();
        let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        let shared = Arc::new(Shared {
            server,
            delay,
            silent: watch::Sender::new(false),
            connections: Mutex::default(),
            cut: watch::Sender::new(0),
        });
        let accepts = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            url: url.into(),
            shared,
            accepts,
        }
    }

    /// The database by way of this proxy.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From now on nothing passes, not even an end; new connections are accepted and get no answer.
    pub(crate) fn stall(&self) {
        self.shared.silent.send_replace(true);
    }

    /// The same for one connection, by the client port that the server sees (`pg_stat_activity.client_port`).
    pub(crate) fn stall_connection(&self, port: u16) {
        let connections = self.shared.connections.lock().unwrap();
        connections
            .get(&port)
            .expect("a connection of this proxy")
            .send_replace(true);
    }

    /// Everything passes again, what was held back first.
    pub(crate) fn resume_traffic(&self) {
        self.shared.silent.send_replace(false);
        for silent in self.shared.connections.lock().unwrap().values() {
            silent.send_replace(false);
        }
    }

    /// Closes every connection, in both directions.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_modify(|cut| *cut += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(connection(client, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let own = watch::Sender::new(false);
    let works = async {
        passes(&shared.silent, &own).await;
        let Ok(server) = TcpStream::connect(&shared.server).await else {
            return;
        };
        let port = server.local_addr().unwrap().port();
        shared.connections.lock().unwrap().insert(port, own.clone());
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::join!(
            way(from_client, to_server, &shared, &own),
            way(from_server, to_client, &shared, &own)
        );
        shared.connections.lock().unwrap().remove(&port);
    };
    tokio::select! {
        () = works => {}
        _ = cut.changed() => {}
    }
}

/// Returns when neither stall applies.
async fn passes(all: &watch::Sender<bool>, own: &watch::Sender<bool>) {
    loop {
        let (mut all, mut own) = (all.subscribe(), own.subscribe());
        all.wait_for(|silent| !silent).await.unwrap();
        own.wait_for(|silent| !silent).await.unwrap();
        if !*all.borrow() {
            return;
        }
    }
}

/// One direction, to its end.
async fn way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, own: &watch::Sender<bool>) {
    let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let reads = async move {
        let mut buffer = vec![0; 65536];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let chunk = (Instant::now() + shared.delay, buffer[..length].to_vec());
            if sender.send(chunk).await.is_err() {
                return;
            }
        }
    };
    let writes = async move {
        while let Some((at, chunk)) = chunks.recv().await {
            tokio::time::sleep_until(at).await;
            passes(&shared.silent, own).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        passes(&shared.silent, own).await;
        let _ = to.shutdown().await;
    };
    tokio::join!(reads, writes);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::support::{Proxy, TestDatabase};

    async fn connect(url: &str) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    #[tokio::test]
    async fn a_proxy_stalls_goes_on_and_is_cut() {
        let database = TestDatabase::create().await;
        let proxy = Proxy::before(&database.url()).await;
        let (one, other) = (connect(proxy.url()).await, connect(proxy.url()).await);
        let brief = Duration::from_millis(100);
        let port = "SELECT client_port FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let port: i32 = one.query_one(port, &[]).await.unwrap().get(0);
        proxy.stall_connection(port as u16);
        assert!(
            tokio::time::timeout(brief, one.batch_execute("SELECT 1"))
                .await
                .is_err()
        );
        other.batch_execute("SELECT 1").await.unwrap();
        proxy.stall();
        assert!(
            tokio::time::timeout(brief, other.batch_execute("SELECT 1"))
                .await
                .is_err()
        );
        assert!(tokio::time::timeout(brief, connect(proxy.url())).await.is_err());
        proxy.resume_traffic();
        one.batch_execute("SELECT 1").await.unwrap();
        proxy.cut();
        assert!(other.batch_execute("SELECT 1").await.is_err());
    }

    #[tokio::test]
    async fn a_delay_applies_each_way() {
        let database = TestDatabase::create().await;
        let proxy = Proxy::with_delay(&database.url(), Duration::from_millis(20)).await;
        let client = connect(proxy.url()).await;
        let began = Instant::now();
        client.batch_execute("SELECT 1").await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(40));
    }
}
