//! A proxy that serves a node below a path, as an ingress does, and one page of its own beside it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The path of its own page, which is empty.
pub(crate) const ELSEWHERE: &str = "/elsewhere";

/// It ends with this value.
pub(crate) struct PrefixProxy(JoinHandle<()>);

impl PrefixProxy {
    /// Passes what is below `prefix` to the node at an address, without it.
    pub(crate) fn start(listener: TcpListener, prefix: &'static str, node: String) -> Self {
        Self(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, prefix, node.clone()));
                while connections.try_join_next().is_some() {}
            }
        }))
    }
}

impl Drop for PrefixProxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One request: each has a connection of its own.
async fn pass(mut client: TcpStream, prefix: &str, node: String) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let (method, rest) = head.split_once(' ').unwrap_or_default();
    if rest.starts_with(ELSEWHERE) {
        let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return client.write_all(page.as_bytes()).await;
    }
    let Some(rest) = rest.strip_prefix(prefix) else {
        let none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return client.write_all(none.as_bytes()).await;
    };
    let rest = rest.replacen("Connection: keep-alive\r\n", "Connection: close\r\n", 1);
    let mut server = TcpStream::connect(node).await?;
    server.write_all(format!("{method} {rest}").as_bytes()).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
