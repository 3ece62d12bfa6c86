//! A stretch of wire that can be cut after the server has heard and before we hear the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const HEARS: u8 = 0;
const NEXT: u8 = 1;
const UP_TO_COMMIT: u8 = 2;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    deaf: Arc<AtomicU8>,
    cut: Arc<Notify>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let deaf = Arc::new(AtomicU8::new(HEARS));
        let cut = Arc::new(Notify::new());
        let (flag, scissors) = (Arc::clone(&deaf), Arc::clone(&cut));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (flag, scissors) = (Arc::clone(&flag), Arc::clone(&scissors));
                tokio::spawn(async move {
                    tokio::select! {
                        () = carry(near, far, flag) => {}
                        () = scissors.notified() => {}
                    }
                });
            }
        });
        Self {
            port,
            deaf,
            cut,
            _task: tokio_util::task::AbortOnDropHandle::new(task),
        }
    }

    /// Every connection is cut now, while the server may still be working for it.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// The next answer of the server is swallowed, and its connection cut. Of a pipeline this is the answer to BEGIN:
    /// its session may notice before it commits.
    pub(crate) fn swallow_next_answer(&self) {
        self.deaf.store(NEXT, Ordering::SeqCst);
    }

    /// Everything up to the answer to a COMMIT is swallowed, and its connection cut.
    pub(crate) fn swallow_up_to_commit(&self) {
        self.deaf.store(UP_TO_COMMIT, Ordering::SeqCst);
    }
}

/// How the answer to a statement that is prepared begins.
const PREPARED: &[u8] = b"1\0\0\0\x04";

async fn carry(near: TcpStream, far: TcpStream, deaf: Arc<AtomicU8>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
    let mut buffer = vec![0; 1 << 16];
    let mut swallowed: Option<Vec<u8>> = None;
    while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
        match deaf.swap(HEARS, Ordering::SeqCst) {
            NEXT => break,
            // A statement is prepared first, in the shape of what is written.
            UP_TO_COMMIT if buffer[..count].starts_with(PREPARED) => deaf.store(UP_TO_COMMIT, Ordering::SeqCst),
            UP_TO_COMMIT => swallowed = Some(Vec::new()),
            _ => {}
        }
        if let Some(swallowed) = &mut swallowed {
            swallowed.extend_from_slice(&buffer[..count]);
            if swallowed.windows(7).any(|tag| tag == b"COMMIT\0") {
                break;
            }
            continue;
        }
        if near_out.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    up.abort();
}
