//! A proxy in front of a node that does not pass on resumes as they come.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of a resume.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resume {
    /// The node gets it twice, and the client the second answer.
    Repeated,
    /// The connection ends.
    Swallowed,
    /// The proxy itself answers 200.
    Pretended,
}

/// It ends with this value.
pub(super) struct FalseProxy {
    url: String,
    accepts: JoinHandle<()>,
}

impl FalseProxy {
    /// Listens in front of a node at an address.
    pub(super) async fn start(node: String, resume: Resume) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let accepts = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, node.clone(), resume));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { url, accepts }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for FalseProxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

/// One request: the client opens a connection for each.
async fn pass(mut client: TcpStream, node: String, resume: Resume) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let length = head
        .split_once("content-length: ")
        .and_then(|(_, rest)| rest.split("\r\n").next());
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    request.extend(body);
    let is_resume = head.lines().next().is_some_and(|line| line.contains("/resume "));
    match (is_resume, resume) {
        (true, Resume::Swallowed) => return Ok(()),
        (true, Resume::Pretended) => {
            return client
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                .await;
        }
        (true, Resume::Repeated) => drop(answer(&node, &request).await?),
        (false, _) => {}
    }
    let answer = answer(&node, &request).await?;
    client.write_all(&answer).await
}

/// Sends a request over a connection of its own, and reads to the end of the answer.
async fn answer(node: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(node).await?;
    let text = String::from_utf8_lossy(request);
    let (first, rest) = text.split_once("\r\n").unwrap();
    server
        .write_all(format!("{first}\r\nconnection: close\r\n{rest}").as_bytes())
        .await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    Ok(answer)
}
