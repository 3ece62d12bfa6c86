//! A proxy between a client and the server that loses an answer and cuts the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::store::commit::SendMode;

const FORWARD: u8 = 0;
const NEXT: u8 = 1;
const UP_TO_COMMIT: u8 = 2;
const COMMIT: u8 = 3;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: Arc<AtomicU8>,
    cut: Arc<Notify>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(FORWARD));
        let cut = Arc::new(Notify::new());
        let (flag, scissors) = (Arc::clone(&mode), Arc::clone(&cut));
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
            mode,
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
        self.mode.store(NEXT, Ordering::SeqCst);
    }

    /// The answer to the next COMMIT is lost, with the connection; of a pipeline all answers before it, too.
    pub(crate) fn lose_commit(&self, send: SendMode) {
        match send {
            SendMode::Pipelined => self.swallow_up_to_commit(),
            SendMode::Stepwise => self.mode.store(COMMIT, Ordering::SeqCst),
        }
    }

    /// The answer to the next commit of a single statement is lost, with the connection.
    pub(crate) fn lose_answer(&self, send: SendMode) {
        match send {
            SendMode::Pipelined => self.swallow_next_answer(),
            SendMode::Stepwise => self.mode.store(COMMIT, Ordering::SeqCst),
        }
    }

    /// Everything up to the answer to a COMMIT is swallowed, and its connection cut.
    pub(crate) fn swallow_up_to_commit(&self) {
        self.mode.store(UP_TO_COMMIT, Ordering::SeqCst);
    }
}

/// How the answer to a statement that is prepared begins.
const PREPARED: &[u8] = b"1\0\0\0\x04";

async fn carry(near: TcpStream, far: TcpStream, mode: Arc<AtomicU8>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
    let mut buffer = vec![0; 1 << 16];
    let mut swallowed: Option<Vec<u8>> = None;
    while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
        match mode.swap(FORWARD, Ordering::SeqCst) {
            NEXT => break,
            // A statement is prepared first, in the shape of what is written.
            UP_TO_COMMIT if buffer[..count].starts_with(PREPARED) => mode.store(UP_TO_COMMIT, Ordering::SeqCst),
            UP_TO_COMMIT => swallowed = Some(Vec::new()),
            COMMIT if buffer[..count].windows(7).any(|tag| tag == b"COMMIT\0") => break,
            COMMIT => mode.store(COMMIT, Ordering::SeqCst),
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
