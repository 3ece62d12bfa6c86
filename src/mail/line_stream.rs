//! A connection that gives its reader no more than one line at once.
//!
//! What a server, or who sits between it and this node, sends behind its answer to STARTTLS is not encrypted. A reader with a
//! buffer would take it for answers of the encrypted connection. Here it stays below the encryption, which then fails.
//!
//! A reader collects a line until it ends, so what comes between two writes is bounded here, below the encryption as well.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// The most bytes that come before this node writes again: more than any reply, or than the certificates of any server.
const LONGEST: usize = 64 << 10;

/// A connection that gives its reader no more than one line at once.
#[derive(Debug)]
pub(super) struct LineStream {
    inner: BufReader<TcpStream>,
    /// How many bytes have come since the last write.
    unanswered: usize,
}

impl LineStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            inner: BufReader::new(stream),
            unanswered: 0,
        }
    }
}

impl AsyncRead for LineStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let available = ready!(Pin::new(&mut own.inner).poll_fill_buf(context))?;
        let line = available.split_inclusive(|byte| *byte == b'\n').next();
        let line = line.unwrap_or_default();
        let part = line.get(..into.remaining()).unwrap_or(line);
        into.put_slice(part);
        let count = part.len();
        Pin::new(&mut own.inner).consume(count);
        own.unanswered = own.unanswered.saturating_add(count);
        if own.unanswered > LONGEST {
            let reason = format!("it replies with more than {LONGEST} bytes");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.unanswered = 0;
        Pin::new(&mut own.inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

/// A line stream that its reader has for a while: until all clones but one are dropped.
#[derive(Clone, Debug)]
pub(super) struct LentStream(Arc<Mutex<LineStream>>);

impl LentStream {
    pub(super) fn new(stream: LineStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// The stream; `None` while it is lent.
    pub(super) fn take_back(self) -> Option<LineStream> {
        let stream = Arc::try_unwrap(self.0).ok()?;
        Some(stream.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn stream(&self) -> MutexGuard<'_, LineStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for LentStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(context, into)
    }
}

impl AsyncWrite for LentStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_reply_has_an_end_before_its_bound() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut stream = LineStream::new(stream);
        let (mut server, _) = listener.accept().await.unwrap();
        let endless = tokio::spawn(async move { while server.write_all(&[b'2'; 4096]).await.is_ok() {} });
        let mut reply = vec![0; LONGEST];
        stream.read_exact(&mut reply).await.unwrap();
        // What is written asks for another one.
        stream.write_all(b"QUIT\r\n").await.unwrap();
        stream.read_exact(&mut reply).await.unwrap();
        let error = stream.read_exact(&mut reply).await.unwrap_err();
        assert!(error.to_string().contains("65536 bytes"), "{error}");
        drop(stream);
        endless.await.unwrap();
    }
}
