//! A stretch of wire that can be cut after the server has heard and before we hear the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct Proxy {
    pub(super) port: u16,
    deaf: Arc<AtomicBool>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Proxy {
    pub(super) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let deaf = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&deaf);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(carry(near, far, Arc::clone(&flag)));
            }
        });
        Self {
            port,
            deaf,
            _task: tokio_util::task::AbortOnDropHandle::new(task),
        }
    }

    /// The next answer of the server is swallowed, and its connection cut.
    pub(super) fn swallow_next_answer(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

async fn carry(near: TcpStream, far: TcpStream, deaf: Arc<AtomicBool>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
        if deaf.swap(false, Ordering::SeqCst) {
            break;
        }
        if near_out.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    up.abort();
}
