//! The replies of a server as text: the reader below takes bytes that are no UTF-8 for a connection that is broken, and older servers
//! send Latin-1.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at once.
const PART: usize = 1024;

/// A connection that gives its reader whole lines of UTF-8. The stream below bounds how long a line is.
#[derive(Debug)]
pub(super) struct ReplyStream<S> {
    inner: S,
    peer: SocketAddr,
    /// What has come of a line.
    line: Vec<u8>,
    /// Whole lines, as text.
    text: Vec<u8>,
}

impl<S> ReplyStream<S> {
    pub(super) fn new(inner: S, peer: SocketAddr) -> Self {
        Self {
            inner,
            peer,
            line: Vec::new(),
            text: Vec::new(),
        }
    }

    /// For a reader that waits for a greeting, on a connection whose server has greeted before.
    pub(super) fn after_greeting(inner: S, peer: SocketAddr) -> Self {
        let text = b"220 encrypted\r\n".to_vec();
        Self {
            text,
            ..Self::new(inner, peer)
        }
    }

    /// Takes what has come; nothing is the end of the connection.
    fn take(&mut self, read: &[u8]) {
        self.line.extend_from_slice(read);
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            _ if read.is_empty() => self.line.len(),
            Some(last) => last + 1,
            None => return,
        };
        let rest = self.line.split_off(whole);
        let lines = std::mem::replace(&mut self.line, rest);
        self.text = String::from_utf8_lossy(&lines).into_owned().into_bytes();
    }
}

impl<S> AsyncTokioStream for ReplyStream<S>
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug,
{
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReplyStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        while own.text.is_empty() {
            let mut part = [0; PART];
            let mut read = ReadBuf::new(&mut part);
            ready!(Pin::new(&mut own.inner).poll_read(context, &mut read))?;
            let has_ended = read.filled().is_empty();
            own.take(read.filled());
            if has_ended {
                break;
            }
        }
        let count = own.text.len().min(into.remaining());
        into.put_slice(own.text.get(..count).unwrap_or_default());
        own.text.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReplyStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn lines_are_text_however_they_come() {
        let (mut server, client) = tokio::io::duplex(16);
        let peer = "127.0.0.1:25".parse().unwrap();
        let mut stream = ReplyStream::after_greeting(client, peer);
        let replies = tokio::spawn(async move {
            server.write_all(b"250-Gr\xfc\xdfe\r\n250 ").await.unwrap();
            // In two parts.
            for part in ["gr\u{fc}".as_bytes().split_at(3).0, b"\xbc\xc3\x9fe\r\nno end \xe4"] {
                server.write_all(part).await.unwrap();
            }
        });
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(
            text,
            "220 encrypted\r\n250-Gr\u{fffd}\u{fffd}e\r\n250 gr\u{fc}\u{df}e\r\nno end \u{fffd}"
        );
        replies.await.unwrap();
    }
}
