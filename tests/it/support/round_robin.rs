//! A proxy that gives each connection to the next of several nodes, as a load balancer without sticky sessions does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// It ends with this value.
pub(crate) struct RoundRobin {
    url: String,
    accepts: JoinHandle<()>,
}

impl RoundRobin {
    /// Listens for connections to these addresses.
    pub(crate) async fn start(addresses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let accepts = tokio::spawn(accept(listener, addresses.into()));
        Self { url, accepts }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn accept(listener: TcpListener, addresses: Arc<[String]>) {
    let turn = Arc::<AtomicUsize>::default();
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let (turn, addresses) = (Arc::clone(&turn), Arc::clone(&addresses));
        connections.spawn(async move {
            // A node that does not listen is passed over.
            for _ in 0..addresses.len() {
                let next = turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
                if let Ok(mut node) = TcpStream::connect(&addresses[next]).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut node).await;
                    return;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
