//! One connection to the server. Its awaits have no deadlines of their own: the client drops it when its time is over.

use std::net::IpAddr;
use std::time::Duration;

use lettre::address::{Address, Envelope};
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::line_stream::{LentStream, LineStream};
use super::mail_error::{MailError, Stage};
use super::reply_stream::ReplyStream;
use super::server_url::{Encryption, ServerUrl};

/// In bytes: how much of a mail is encoded and written at once.
const PART: usize = 64 << 10;

/// How long the server may take to say goodbye, which changes nothing any more.
const GOODBYE: Duration = Duration::from_secs(1);

type Result<T> = std::result::Result<T, MailError>;

/// How connections to the server are encrypted.
pub(super) struct MailTls {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl MailTls {
    async fn encrypt(&self, stream: LineStream, stage: &Stage) -> Result<TlsStream<LineStream>> {
        let encrypted = self.connector.connect(self.name.clone(), stream).await;
        encrypted.map_err(|error| MailError::unreachable(stage, &error.to_string()))
    }
}

/// A connection that takes mails.
pub(super) struct SmtpSession(AsyncSmtpConnection);

impl SmtpSession {
    /// Connects, encrypts and logs in, as the URL says. `stage`: how far that has come.
    pub(super) async fn open(url: &ServerUrl, tls: &MailTls, stage: &mut Stage) -> Result<Self> {
        *stage = Stage::Connecting;
        let unreachable = |error: std::io::Error| MailError::unreachable(&Stage::Connecting, &error.to_string());
        let server = (url.host.as_str(), url.port);
        let stream = TcpStream::connect(server).await.map_err(unreachable)?;
        let own = client_id(stream.local_addr().map_err(unreachable)?.ip());
        let peer = stream.peer_addr().map_err(unreachable)?;
        let stream = LineStream::new(stream);
        let mut connection = match url.encryption {
            Encryption::Implicit => {
                *stage = Stage::Encrypting;
                let encrypted = tls.encrypt(stream, stage).await?;
                greeted(ReplyStream::new(encrypted, peer), &own, stage).await?
            }
            Encryption::None => greeted(ReplyStream::new(stream, peer), &own, stage).await?,
            Encryption::StartTls => {
                let lent = LentStream::new(stream);
                let mut connection = greeted(ReplyStream::new(lent.clone(), peer), &own, stage).await?;
                *stage = Stage::Encrypting;
                if !connection.can_starttls() {
                    let reason = "it offers no STARTTLS; use smtps:// or, without encryption and password, ?tls=none";
                    return Err(MailError::unreachable(stage, reason));
                }
                let begins = connection.command(Starttls).await;
                begins.map_err(|error| MailError::of(stage, &error))?;
                drop(connection);
                let stream = lent.take_back();
                let stream = stream.ok_or_else(|| MailError::unreachable(stage, "its connection is in use"))?;
                let encrypted = tls.encrypt(stream, stage).await?;
                // The server does not greet again.
                greeted(ReplyStream::after_greeting(encrypted, peer), &own, stage).await?
            }
        };
        if let Some(credentials) = &url.credentials {
            *stage = Stage::LoggingIn;
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            let accepted = connection.auth(&mechanisms, credentials).await;
            accepted.map_err(|error| {
                if error.is_client() {
                    MailError::unreachable(stage, "it offers neither PLAIN nor LOGIN")
                } else {
                    MailError::of(stage, &error)
                }
            })?;
        }
        Ok(Self(connection))
    }

    /// Sends a mail to all of its recipients.
    /// Errors: It was sent to none of them, or the last answer is lost.
    pub(super) async fn send(&mut self, envelope: &Envelope, mail: &[u8], stage: &mut Stage) -> Result<()> {
        *stage = Stage::Sender;
        let mut parameters = Vec::new();
        let is_plain = |address: &Address| address.user().is_ascii() && address.domain().is_ascii();
        if !envelope.from().into_iter().chain(envelope.to()).all(is_plain) {
            if !self.0.server_info().supports_feature(Extension::SmtpUtfEight) {
                let reason =
                    "an address has other characters than ASCII, and the server does not support them (SMTPUTF8)";
                return Err(MailError::rejected(stage, reason));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let named = self.0.command(Mail::new(envelope.from().cloned(), parameters)).await;
        named.map_err(|error| MailError::of(stage, &error))?;
        for address in envelope.to() {
            *stage = Stage::Recipient(address.to_string());
            let named = self.0.command(Rcpt::new(address.clone(), Vec::new())).await;
            named.map_err(|error| MailError::of(stage, &error))?;
        }
        *stage = Stage::Sender;
        let ready = self.0.command(Data).await;
        ready.map_err(|error| MailError::of(stage, &error))?;
        *stage = Stage::Content;
        let accepted = self.0.message_iter(mail.chunks(PART)).await;
        accepted.map_err(|error| MailError::of(stage, &error))?;
        Ok(())
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        let _ = tokio::time::timeout(GOODBYE, self.0.quit()).await;
    }
}

/// The name that this node gives itself: its address, as RFC 5321 has it for a host without a name that others know.
fn client_id(own: IpAddr) -> ClientId {
    match own.to_canonical() {
        IpAddr::V4(address) => ClientId::Ipv4(address),
        IpAddr::V6(address) => ClientId::Ipv6(address),
    }
}

/// Reads the greeting, and names this node.
async fn greeted(
    stream: impl AsyncTokioStream + 'static,
    own: &ClientId,
    stage: &Stage,
) -> Result<AsyncSmtpConnection> {
    let connected = AsyncSmtpConnection::connect_with_transport(Box::new(stream), own).await;
    connected.map_err(|error| MailError::of(stage, &error))
}
