//! An SMTP server that notes the mails that it gets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;

/// The only user of the server.
pub(crate) const USER: &str = "shop";
pub(crate) const PASSWORD: &str = "hunter2!";

/// When a connection is encrypted.
#[derive(Clone)]
pub(crate) enum Encryption {
    None,
    StartTls(TlsAcceptor),
    Implicit(TlsAcceptor),
}

/// A mail, with what is known of its connection.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedMail {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    /// Headers and body.
    pub(crate) text: String,
    pub(crate) is_encrypted: bool,
    pub(crate) has_user: bool,
}

impl ReceivedMail {
    /// A header field that is on one line.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.text.lines().take_while(|line| !line.is_empty());
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_default()
    }

    /// What its reader sees, of a mail without attachments.
    pub(crate) fn body(&self) -> String {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if self.header("Content-Transfer-Encoding") != "quoted-printable" {
            return body.to_owned();
        }
        let whole = body.replace("=\r\n", "");
        let mut parts = whole.split('=');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        String::from_utf8(bytes).unwrap()
    }
}

/// Ends with this value.
pub(crate) struct SmtpServer {
    port: u16,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    encryption: Encryption,
    mails: Mutex<Vec<ReceivedMail>>,
    /// All lines that it got, as they came.
    lines: Mutex<Vec<String>>,
    /// The connections that are open, and the most that were.
    open: AtomicUsize,
    most_open: AtomicUsize,
    /// Replies to lines that begin so, in place of its own; `cut` closes the connection.
    replies: Mutex<Vec<(&'static str, Vec<u8>)>>,
    /// The file that has the body of the last mail.
    copy: Mutex<Option<PathBuf>>,
}

/// What stands for the content of a mail among the lines that have replies.
pub(crate) const CONTENT: &str = "CONTENT";
pub(crate) const CUT: &str = "cut";

impl SmtpServer {
    pub(crate) async fn start(encryption: Encryption) -> Self {
        Self::at("127.0.0.1:0", encryption).await
    }

    pub(crate) async fn at(address: &str, encryption: Encryption) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            encryption,
            mails: Mutex::default(),
            lines: Mutex::default(),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            replies: Mutex::default(),
            copy: Mutex::default(),
        });
        let serving = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared, serving }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The setting of a node for a server without encryption.
    pub(crate) fn plain_url(&self) -> String {
        format!("smtp://{}?tls=none", self.address())
    }

    /// Replies so to each line that begins so, from now on.
    pub(crate) fn reply(&self, line: &'static str, reply: impl Into<Vec<u8>>) {
        self.shared.replies.lock().unwrap().push((line, reply.into()));
    }

    /// Replies as by itself again.
    pub(crate) fn reply_normally(&self) {
        self.shared.replies.lock().unwrap().clear();
    }

    /// The mails that it has the whole content of, in order.
    pub(crate) fn mails(&self) -> Vec<ReceivedMail> {
        self.shared.mails.lock().unwrap().clone()
    }

    /// Writes the body of each mail into this file, in place of the one before, before it is accepted.
    pub(crate) fn copy_to(&self, file: &Path) {
        *self.shared.copy.lock().unwrap() = Some(file.to_owned());
    }

    /// The most connections that were open at once.
    pub(crate) fn most_open(&self) -> usize {
        self.shared.most_open.load(SeqCst)
    }

    /// Whether a line that begins so has come.
    pub(crate) fn got(&self, line: &str) -> bool {
        self.count(line) > 0
    }

    /// How many lines that begin so have come.
    pub(crate) fn count(&self, line: &str) -> usize {
        let lines = self.shared.lines.lock().unwrap();
        lines.iter().filter(|it| it.starts_with(line)).count()
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What a server encrypts with.
pub(crate) fn acceptor(certificates: &Certificates) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificates.path("server.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let open = shared.open.fetch_add(1, SeqCst) + 1;
            shared.most_open.fetch_max(open, SeqCst);
            let _ = serve(stream, &shared).await;
            shared.open.fetch_sub(1, SeqCst);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let greeting = b"220 mail.test ready\r\n";
    if let Encryption::Implicit(acceptor) = &shared.encryption {
        let mut stream = BufReader::new(acceptor.accept(stream).await?);
        stream.write_all(greeting).await?;
        return converse(&mut stream, shared, true).await.map(drop);
    }
    let mut stream = BufReader::new(stream);
    stream.write_all(greeting).await?;
    if converse(&mut stream, shared, false).await?
        && let Encryption::StartTls(acceptor) = &shared.encryption
    {
        let mut stream = BufReader::new(acceptor.accept(stream.into_inner()).await?);
        converse(&mut stream, shared, true).await?;
    }
    Ok(())
}

/// Replies to lines. Returns whether the client is to begin encryption.
async fn converse<S>(stream: &mut BufReader<S>, shared: &Shared, is_encrypted: bool) -> io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut mail = ReceivedMail {
        from: String::new(),
        to: Vec::new(),
        text: String::new(),
        is_encrypted,
        has_user: false,
    };
    loop {
        let Some(line) = line(stream).await? else {
            return Ok(false);
        };
        shared.lines.lock().unwrap().push(line.clone());
        let replies = shared.replies.lock().unwrap().clone();
        let own = replies.iter().find(|(begin, _)| line.starts_with(begin));
        if let Some((_, reply)) = own {
            if reply == CUT.as_bytes() {
                return Ok(false);
            }
            stream.write_all(&[reply, &b"\r\n"[..]].concat()).await?;
            if line == "STARTTLS" {
                return Ok(true);
            }
            continue;
        }
        let reply = match line.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" if !is_encrypted && matches!(shared.encryption, Encryption::StartTls(_)) => {
                "250-mail.test\r\n250-8BITMIME\r\n250 STARTTLS"
            }
            "EHLO" if is_encrypted => "250-mail.test\r\n250 AUTH PLAIN LOGIN",
            "EHLO" => "250 mail.test",
            "STARTTLS" => {
                stream.write_all(b"220 go ahead\r\n").await?;
                return Ok(true);
            }
            "AUTH" => {
                let given = line.strip_prefix("AUTH PLAIN ").unwrap_or_default();
                mail.has_user = STANDARD
                    .decode(given)
                    .is_ok_and(|it| it == format!("\0{USER}\0{PASSWORD}").as_bytes());
                if mail.has_user {
                    "235 welcome"
                } else {
                    "535 5.7.8 wrong user or password"
                }
            }
            "MAIL" => {
                mail.from = address(&line);
                mail.to.clear();
                "250 ok"
            }
            "RCPT" => {
                mail.to.push(address(&line));
                "250 ok"
            }
            "DATA" => {
                stream.write_all(b"354 go ahead\r\n").await?;
                mail.text = content(stream).await?;
                shared.mails.lock().unwrap().push(mail.clone());
                if let Some(file) = &*shared.copy.lock().unwrap() {
                    std::fs::write(file, mail.body()).unwrap();
                }
                match replies.iter().find(|(begin, _)| *begin == CONTENT) {
                    Some((_, reply)) if reply == CUT.as_bytes() => return Ok(false),
                    Some((_, reply)) => std::str::from_utf8(reply).unwrap(),
                    None => "250 2.0.0 accepted",
                }
            }
            "QUIT" => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(false);
            }
            _ => "500 unknown",
        };
        stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
}

/// A line without its end; `None` at the end of the connection.
async fn line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await?;
    assert!(
        read == 0 || line.ends_with("\r\n"),
        "a line ends with CR and LF: {line:?}"
    );
    Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// The content of a mail, to the line that is a dot.
async fn content(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut content = String::new();
    while let Some(line) = line(stream).await? {
        if line == "." {
            return Ok(content);
        }
        assert!(line.len() <= 998, "a line of {} bytes", line.len());
        content.push_str(line.strip_prefix('.').unwrap_or(&line));
        content.push_str("\r\n");
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// What is between the brackets.
fn address(line: &str) -> String {
    let inside = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map(|(address, _)| address.to_owned()).unwrap_or_default()
}
