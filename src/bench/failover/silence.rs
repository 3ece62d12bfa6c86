//! A way to the database that can fall silent: nothing is forwarded, nothing is closed, nothing is refused, as when a
//! cable is pulled.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::failure::Failure;

/// Dropping it closes all its connections.
pub(super) struct Silence {
    address: SocketAddr,
    silent: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Silence {
    /// Leads to `target`, host and port.
    pub(super) async fn to(target: String) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("no way to the database can be opened: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (silent, hears) = watch::channel(false);
        let task = tokio::spawn(async move {
            // As many as the node has connections.
            let mut open = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                        open.spawn(forward(stream, target.clone(), hears.clone()));
                    },
                    Some(_) = open.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            silent,
            _task: AbortOnDropHandle::new(task),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing comes through.
    pub(super) fn fall_silent(&self) {
        self.silent.send_replace(true);
    }

    /// What was silent is closed; new connections lead to the database again.
    pub(super) fn speak(&self) {
        self.silent.send_replace(false);
    }
}

async fn forward(mut stream: TcpStream, target: String, mut silent: watch::Receiver<bool>) {
    if !*silent.borrow_and_update()
        && let Ok(mut server) = TcpStream::connect(&target).await
    {
        let _ = (stream.set_nodelay(true), server.set_nodelay(true));
        let fell_silent = {
            tokio::select! {
                _ = copy_bidirectional(&mut stream, &mut server) => false,
                fell = silent.wait_for(|silent| *silent) => fell.is_ok(),
            }
        };
        if fell_silent {
            // Both stay open until then.
            let _ = silent.wait_for(|silent| !*silent).await;
        }
        return;
    }
    let _ = silent.wait_for(|silent| !*silent).await;
}

/// The same URL by way of another address, and where it led before; none for a URL without exactly one host.
pub(super) fn reroute(url: &str, way: SocketAddr) -> Option<String> {
    let (_, start, end) = parts(url)?;
    Some(format!("{}{way}{}", url.get(..start)?, url.get(end..)?))
}

/// Host and port that a URL leads to.
pub(super) fn target(url: &str) -> Option<String> {
    let (host, ..) = parts(url)?;
    Some(
        if host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        {
            host.to_owned()
        } else {
            format!("{host}:5432")
        },
    )
}

/// Host and port as they stand in the URL, and from where to where.
fn parts(url: &str) -> Option<(&str, usize, usize)> {
    let scheme = url.find("://")? + 3;
    let end = url.get(scheme..)?.find(['/', '?']).map_or(url.len(), |at| scheme + at);
    let start = url.get(scheme..end)?.rfind('@').map_or(scheme, |at| scheme + at + 1);
    let host = url.get(start..end)?;
    (!host.is_empty() && !host.contains([',', '%'])).then_some((host, start, end))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_url_is_rerouted() {
        let way: SocketAddr = "127.0.0.1:7".parse().unwrap();
        for (url, led_to, rerouted) in [
            ("postgres://u:p@h:1/d?a=b", "h:1", "postgres://u:p@127.0.0.1:7/d?a=b"),
            ("postgresql://h/d", "h:5432", "postgresql://127.0.0.1:7/d"),
            ("postgres://u:p%40@h", "h:5432", "postgres://u:p%40@127.0.0.1:7"),
            ("postgres://u@[::1]:5433/d", "[::1]:5433", "postgres://u@127.0.0.1:7/d"),
        ] {
            assert_eq!(target(url).as_deref(), Some(led_to));
            assert_eq!(reroute(url, way).as_deref(), Some(rerouted));
        }
        for url in ["host=h", "postgres://a,b/d", "postgres://%2Ftmp/d", "postgres:///d"] {
            assert_eq!(reroute(url, way), None, "{url}");
        }
    }

    #[tokio::test]
    async fn silence_neither_forwards_nor_closes() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silence = Silence::to(server.local_addr().unwrap().to_string()).await.unwrap();
        let mut near = TcpStream::connect(silence.address()).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        near.write_all(b"a").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'a');
        silence.fall_silent();
        // The task sees it before it reads again.
        tokio::task::yield_now().await;
        near.write_all(b"b").await.unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(100), far.read_u8());
        assert!(waited.await.is_err(), "it was forwarded, or closed");
        silence.speak();
        assert_eq!(near.read(&mut [0]).await.unwrap_or(0), 0, "what was silent is closed");
        let mut near = TcpStream::connect(silence.address()).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        near.write_all(b"c").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'c');
    }
}
