//! A proxy to the database that can stop forwarding without closing or refusing connections, like a pulled cable.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::failure::Failure;

/// The proxy. Dropping it closes all its connections.
pub(super) struct BlackholeProxy {
    address: SocketAddr,
    blocked: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl BlackholeProxy {
    /// Starts a proxy to `target`, host and port.
    pub(super) async fn to(target: String) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot open a proxy to the database: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (blocked, receiver) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                        open.spawn(forward(stream, target.clone(), receiver.clone()));
                    },
                    Some(_) = open.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            blocked,
            _task: AbortOnDropHandle::new(task),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn block(&self) {
        self.blocked.send_replace(true);
    }

    /// Closes blocked connections, and forwards new ones again.
    pub(super) fn unblock(&self) {
        self.blocked.send_replace(false);
    }
}

async fn forward(mut stream: TcpStream, target: String, mut blocked: watch::Receiver<bool>) {
    if !*blocked.borrow_and_update()
        && let Ok(mut server) = TcpStream::connect(&target).await
    {
        let _ = (stream.set_nodelay(true), server.set_nodelay(true));
        let was_blocked = {
            tokio::select! {
                _ = copy_bidirectional(&mut stream, &mut server) => false,
                changed = blocked.wait_for(|blocked| *blocked) => changed.is_ok(),
            }
        };
        if was_blocked {
            // Both connections stay open until then.
            let _ = blocked.wait_for(|blocked| !*blocked).await;
        }
        return;
    }
    let _ = blocked.wait_for(|blocked| !*blocked).await;
}

/// The URL with its authority (host and port) replaced by the proxy; none for a URL without exactly one.
pub(super) fn reroute(url: &str, proxy: SocketAddr) -> Option<String> {
    let (_, start, end) = parts(url)?;
    Some(format!("{}{proxy}{}", url.get(..start)?, url.get(end..)?))
}

/// The authority of a URL, with its port or the default one.
pub(super) fn target(url: &str) -> Option<String> {
    let (authority, ..) = parts(url)?;
    Some(
        if authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        {
            authority.to_owned()
        } else {
            format!("{authority}:5432")
        },
    )
}

/// The authority as written in the URL, without the user, with its start and end.
fn parts(url: &str) -> Option<(&str, usize, usize)> {
    let scheme = url.find("://")? + 3;
    let end = url.get(scheme..)?.find(['/', '?']).map_or(url.len(), |at| scheme + at);
    let start = url.get(scheme..end)?.rfind('@').map_or(scheme, |at| scheme + at + 1);
    let authority = url.get(start..end)?;
    (!authority.is_empty() && !authority.contains([',', '%'])).then_some((authority, start, end))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_url_is_rerouted() {
        let address: SocketAddr = "127.0.0.1:7".parse().unwrap();
        for (url, authority, rerouted) in [
            ("postgres://u:p@h:1/d?a=b", "h:1", "postgres://u:p@127.0.0.1:7/d?a=b"),
            ("postgresql://h/d", "h:5432", "postgresql://127.0.0.1:7/d"),
            ("postgres://u:p%40@h", "h:5432", "postgres://u:p%40@127.0.0.1:7"),
            ("postgres://u@[::1]:5433/d", "[::1]:5433", "postgres://u@127.0.0.1:7/d"),
        ] {
            assert_eq!(target(url).as_deref(), Some(authority));
            assert_eq!(reroute(url, address).as_deref(), Some(rerouted));
        }
        for url in ["host=h", "postgres://a,b/d", "postgres://%2Ftmp/d", "postgres:///d"] {
            assert_eq!(reroute(url, address), None, "{url}");
        }
    }

    #[tokio::test]
    async fn a_blocked_proxy_neither_forwards_nor_closes() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = BlackholeProxy::to(server.local_addr().unwrap().to_string())
            .await
            .unwrap();
        let mut near = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        near.write_all(b"a").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'a');
        proxy.block();
        // Lets the task observe the change before it reads again.
        tokio::task::yield_now().await;
        near.write_all(b"b").await.unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(100), far.read_u8());
        assert!(
            waited.await.is_err(),
            "the byte was forwarded, or the connection closed"
        );
        proxy.unblock();
        assert_eq!(
            near.read(&mut [0]).await.unwrap_or(0),
            0,
            "blocked connections are closed"
        );
        let mut near = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        near.write_all(b"c").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'c');
    }
}
