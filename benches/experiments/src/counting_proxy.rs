//! A proxy to the server that counts the statements and round trips of engines.
//!
//! It adds latency, so runs through it measure no times.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mainspring::internals::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_util::task::AbortOnDropHandle;

use crate::database::failed;

#[derive(Default)]
pub(crate) struct MessageCounts {
    /// Executed statements.
    pub(crate) statements: AtomicU64,
    /// Sync messages and simple queries.
    pub(crate) round_trips: AtomicU64,
}

pub(crate) struct CountingProxy {
    /// The URL of the database through this proxy.
    pub(crate) url: String,
    pub(crate) counts: Arc<MessageCounts>,
    _listener: AbortOnDropHandle<()>,
}

impl CountingProxy {
    /// Starts the proxy.
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let config: Config = url.parse().map_err(failed)?;
        let (Some(Host::Tcp(host)), port) = (config.get_hosts().first(), config.get_ports().first()) else {
            return Err(Failure::usage(
                "the counting proxy needs a server that is reached by TCP",
            ));
        };
        let target = (host.clone(), port.copied().unwrap_or(5432));
        let not_open = |error| Failure::failed(format!("cannot open the counting proxy: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(not_open)?;
        let own = listener.local_addr().map_err(not_open)?.port();
        let mut parts = vec![format!("host=127.0.0.1 port={own} sslmode=disable")];
        let password = config
            .get_password()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        for (name, value) in [
            ("user", config.get_user().map(str::to_owned)),
            ("password", password),
            ("dbname", config.get_dbname().map(str::to_owned)),
        ] {
            if let Some(value) = value {
                let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
                parts.push(format!("{name}='{quoted}'"));
            }
        }
        let counts = Arc::new(MessageCounts::default());
        let counting = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                connections.spawn(forward(near, target.clone(), Arc::clone(&counting)));
                // Removes those that have ended.
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            url: parts.join(" "),
            counts,
            _listener: AbortOnDropHandle::new(task),
        })
    }
}

async fn forward(near: TcpStream, target: (String, u16), counts: Arc<MessageCounts>) -> std::io::Result<()> {
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let there = async {
        let mut reader = MessageParser::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = near_in.read(&mut buffer).await?;
            let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
                return far_out.shutdown().await;
            };
            reader.read(read, &counts);
            far_out.write_all(read).await?;
        }
    };
    let back = tokio::io::copy(&mut far_in, &mut near_out);
    tokio::select! {
        outcome = there => outcome,
        outcome = back => outcome.map(|_| ()),
    }
}

/// Parses the messages of a client: a type byte, a length that includes itself, and a body. The first has no type.
#[derive(Default)]
struct MessageParser {
    begun: bool,
    head: Vec<u8>,
    /// The rest of the current body, in bytes.
    left: usize,
}

impl MessageParser {
    fn read(&mut self, mut bytes: &[u8], counts: &MessageCounts) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                self.left -= step;
                bytes = bytes.get(step..).unwrap_or_default();
                continue;
            }
            let wanted = if self.begun { 5 } else { 4 };
            let step = (wanted - self.head.len()).min(bytes.len());
            let (taken, rest) = bytes.split_at(step);
            self.head.extend_from_slice(taken);
            bytes = rest;
            if self.head.len() < wanted {
                return;
            }
            let (kind, length) = self.head.split_at(wanted - 4);
            let length = length.try_into().map_or(4, u32::from_be_bytes);
            match kind.first() {
                // Execute; Sync; a simple query is both.
                Some(b'E') => _ = counts.statements.fetch_add(1, Relaxed),
                Some(b'S') => _ = counts.round_trips.fetch_add(1, Relaxed),
                Some(b'Q') => {
                    counts.statements.fetch_add(1, Relaxed);
                    counts.round_trips.fetch_add(1, Relaxed);
                }
                _ => {}
            }
            self.left = (length as usize).saturating_sub(4);
            self.begun = true;
            self.head.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_in_fragments_of_any_size() {
        let message = |kind: &[u8], body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap();
            [kind, &length.to_be_bytes(), body].concat()
        };
        let stream = [
            message(b"", b"user\0EEESSS\0"),
            message(b"P", b"select 'E'"),
            message(b"E", b"\0\0\0\0\0"),
            message(b"E", b"\0SSSQQ"),
            message(b"S", b""),
            message(b"Q", b"commit\0"),
            message(b"X", b""),
        ]
        .concat();
        for size in [1, 2, 3, 7, stream.len()] {
            let (mut reader, counts) = (MessageParser::default(), MessageCounts::default());
            stream.chunks(size).for_each(|chunk| reader.read(chunk, &counts));
            let [statements, trips] = [&counts.statements, &counts.round_trips].map(|count| count.load(Relaxed));
            assert_eq!((statements, trips), (3, 2), "{size} bytes at a time");
        }
    }
}
