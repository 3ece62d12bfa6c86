//! A connection that gives its reader no more than one line at once.
//!
//! What a server, or who sits between it and this node, sends behind its answer to STARTTLS is not encrypted. A reader with a
//! buffer would take it for answers of the encrypted connection. Here it stays below the encryption, which then fails.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// A connection that gives its reader no more than one line at once.
#[derive(Debug)]
pub(super) struct LineStream(BufReader<TcpStream>);

impl LineStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }
}

impl AsyncTokioStream for LineStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }
}

impl AsyncRead for LineStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let inner = &mut self.get_mut().0;
        let available = ready!(Pin::new(&mut *inner).poll_fill_buf(context))?;
        let line = available.split_inclusive(|byte| *byte == b'\n').next();
        let line = line.unwrap_or_default();
        let part = line.get(..into.remaining()).unwrap_or(line);
        into.put_slice(part);
        let count = part.len();
        Pin::new(inner).consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}
