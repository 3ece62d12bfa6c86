//! What engines say to the server, counted on the way: a door of this process that leads to the server.
//!
//! It costs time, so what is measured with it counts words, not seconds.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::config::Host;
use tokio_util::task::AbortOnDropHandle;

use crate::db::DatabaseUrl;
use crate::harness::failure::Failure;

/// What was counted.
#[derive(Default)]
pub(super) struct Words {
    /// Statements that were executed.
    pub(super) statements: AtomicU64,
    /// Times that an answer was asked for.
    pub(super) round_trips: AtomicU64,
}

pub(super) struct Tap {
    /// The same database, through this door.
    pub(super) url: String,
    pub(super) words: Arc<Words>,
    _door: AbortOnDropHandle<()>,
}

impl Tap {
    /// None: the server is not reached by TCP with a password that stands in the URL, or wants TLS.
    pub(super) async fn open(url: &str) -> Result<Option<Self>, Failure> {
        let parsed = DatabaseUrl::parse(url)?;
        let config = parsed.config();
        let (Some(Host::Tcp(host)), port) = (config.get_hosts().first(), config.get_ports().first()) else {
            return Ok(None);
        };
        if config.get_ssl_mode() == tokio_postgres::config::SslMode::Require {
            return Ok(None);
        }
        let target = (host.clone(), port.copied().unwrap_or(5432));
        let failed = |error| Failure::failed(format!("cannot count what is said to the server: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let own = listener.local_addr().map_err(failed)?.port();
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
        let words = Arc::new(Words::default());
        let counting = Arc::clone(&words);
        let door = tokio::spawn(async move {
            let mut passages = tokio::task::JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                passages.spawn(pass(near, target.clone(), Arc::clone(&counting)));
                // Those that have ended.
                while passages.try_join_next().is_some() {}
            }
        });
        Ok(Some(Self {
            url: parts.join(" "),
            words,
            _door: AbortOnDropHandle::new(door),
        }))
    }
}

async fn pass(near: TcpStream, target: (String, u16), words: Arc<Words>) -> std::io::Result<()> {
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let there = async {
        let mut reader = Reader::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = near_in.read(&mut buffer).await?;
            let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
                return far_out.shutdown().await;
            };
            reader.read(read, &words);
            far_out.write_all(read).await?;
        }
    };
    let back = tokio::io::copy(&mut far_in, &mut near_out);
    tokio::select! {
        outcome = there => outcome,
        outcome = back => outcome.map(|_| ()),
    }
}

/// Follows the messages of a client: a kind, a length that counts itself, and a body. The first has no kind.
#[derive(Default)]
struct Reader {
    begun: bool,
    head: Vec<u8>,
    /// Of the body that is being read.
    left: usize,
}

impl Reader {
    fn read(&mut self, mut bytes: &[u8], words: &Words) {
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
                Some(b'E') => _ = words.statements.fetch_add(1, Relaxed),
                Some(b'S') => _ = words.round_trips.fetch_add(1, Relaxed),
                Some(b'Q') => {
                    words.statements.fetch_add(1, Relaxed);
                    words.round_trips.fetch_add(1, Relaxed);
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
    fn messages_are_told_apart_however_they_come() {
        let message = |kind: &[u8], body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap();
            [kind, &length.to_be_bytes(), body].concat()
        };
        let said = [
            message(b"", b"user\0EEESSS\0"),
            message(b"P", b"select 'E'"),
            message(b"E", b"\0\0\0\0\0"),
            message(b"E", b"\0SSSQQ"),
            message(b"S", b""),
            message(b"Q", b"commit\0"),
            message(b"X", b""),
        ]
        .concat();
        for size in [1, 2, 3, 7, said.len()] {
            let (mut reader, words) = (Reader::default(), Words::default());
            said.chunks(size).for_each(|chunk| reader.read(chunk, &words));
            let [statements, trips] = [&words.statements, &words.round_trips].map(|count| count.load(Relaxed));
            assert_eq!((statements, trips), (3, 2), "{size} bytes at a time");
        }
    }
}
