//! One connection to the server. Its awaits have no deadlines of their own: the client drops it when its time is over.

use std::net::IpAddr;
use std::time::Duration;

use lettre::address::{Address, Envelope};
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use tokio::net::TcpStream;

use super::line_stream::LineStream;
use super::mail_error::{MailError, Stage};
use super::server_url::{Encryption, ServerUrl};

/// In bytes: how much of a mail is encoded and written at once.
const PART: usize = 64 << 10;

/// How long the server may take to say goodbye, which changes nothing any more.
const GOODBYE: Duration = Duration::from_secs(1);

type Result<T> = std::result::Result<T, MailError>;

/// A connection that takes mails.
pub(super) struct SmtpSession(AsyncSmtpConnection);

impl SmtpSession {
    /// Connects, encrypts and logs in, as the URL says. `stage`: how far that has come.
    pub(super) async fn open(url: &ServerUrl, tls: &TlsParameters, stage: &mut Stage) -> Result<Self> {
        *stage = Stage::Connecting;
        let mut connection = match url.encryption {
            Encryption::Implicit => implicit(url, tls, stage).await?,
            Encryption::None => plain(url, stage).await?.0,
            Encryption::StartTls => {
                let (mut connection, own) = plain(url, stage).await?;
                *stage = Stage::Encrypting;
                if !connection.can_starttls() {
                    let reason = "it offers no STARTTLS; use smtps:// or, without encryption and password, ?tls=none";
                    return Err(MailError::unreachable(stage, reason));
                }
                let encrypted = connection.starttls(tls.clone(), &own).await;
                encrypted.map_err(|error| MailError::of(stage, &error))?;
                connection
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

/// A connection that is encrypted from its begin. Its own address is not known before the server speaks.
async fn implicit(url: &ServerUrl, tls: &TlsParameters, stage: &Stage) -> Result<AsyncSmtpConnection> {
    let server = (url.host.as_str(), url.port);
    let own = ClientId::default();
    let connected = AsyncSmtpConnection::connect_tokio1(server, None, &own, Some(tls.clone()), None).await;
    connected.map_err(|error| MailError::of(stage, &error))
}

/// A connection that is not encrypted, and the name that this node has given itself: its address, as RFC 5321 has it for a host
/// without a name that others know.
async fn plain(url: &ServerUrl, stage: &Stage) -> Result<(AsyncSmtpConnection, ClientId)> {
    let unreachable = |error: std::io::Error| MailError::unreachable(stage, &error.to_string());
    let stream = TcpStream::connect((url.host.as_str(), url.port))
        .await
        .map_err(unreachable)?;
    let own = match stream.local_addr().map_err(unreachable)?.ip().to_canonical() {
        IpAddr::V4(address) => ClientId::Ipv4(address),
        IpAddr::V6(address) => ClientId::Ipv6(address),
    };
    let stream = Box::new(LineStream::new(stream));
    let connected = AsyncSmtpConnection::connect_with_transport(stream, &own).await;
    let connection = connected.map_err(|error| MailError::of(stage, &error))?;
    Ok((connection, own))
}
