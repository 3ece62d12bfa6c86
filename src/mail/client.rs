//! The client of a node: few connections for all workflows, and what it knows of the server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lettre::address::Envelope;
use lettre::message::Mailbox;
use rustls::pki_types::ServerName;
use tokio::sync::{Notify, OnceCell, Semaphore, SemaphorePermit};
use tokio_rustls::TlsConnector;

use super::address::address;
use super::mail_error::{MailError, MailErrorKind, Stage};
use super::options::MailOptions;
use super::server_url::ServerUrl;
use super::session::{MailTls, SmtpSession};
use crate::outgoing::{check_roots, tls_config};
use crate::{Error, Result};

/// How many mails of a node are sent at once: servers refuse more connections of one client.
const CONNECTIONS: usize = 8;

/// How many MiB of content are sent at once; a mail with more is sent alone. While a mail is written, it is in memory four times.
const CONTENT_MIB: u32 = 32;

/// The most that a mail may be allowed to attach, in bytes.
const MOST_ATTACHED: u64 = 100 << 20;

/// The longest timeout of a mail.
const LONGEST: Duration = Duration::from_secs(600);

/// The setting of a file with further roots.
const ROOTS: &str = "smtp-root-certificates";

/// The first pause before a server that is away is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, and that after a refused password: some servers lock a user out after few of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Sends the mails of workflows. Clones are the same client.
#[derive(Clone)]
pub(crate) struct MailClient(Arc<Shared>);

struct Shared {
    options: MailOptions,
    server: ServerUrl,
    sender: Option<Mailbox>,
    /// Made for the first connection: it reads the certificates of the system.
    tls: OnceCell<MailTls>,
    connections: Semaphore,
    /// In MiB, of the mails that are sent.
    content: Semaphore,
    /// Why the server is away, if it is.
    away: Mutex<Option<MailError>>,
    /// A mail has found it away.
    lost: Notify,
}

impl fmt::Debug for MailClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailClient").finish_non_exhaustive()
    }
}

impl MailClient {
    /// A client with these options; it does not connect yet.
    /// Errors: `invalid-settings`, which does not quote the URL.
    pub(crate) fn new(options: MailOptions) -> Result<Self> {
        let invalid = |name: &str, problem: String| {
            let message = format!("the setting {name} cannot be used: {problem}");
            Error::invalid("invalid-settings", message)
        };
        let server = ServerUrl::parse(&options.url).map_err(|problem| invalid("smtp-url", problem))?;
        let sender = options.from.as_deref().map(address).transpose();
        let sender = sender.map_err(|problem| invalid("mail-from", problem))?;
        if options.timeout.is_zero() || options.timeout > LONGEST {
            let problem = "it must be longer than zero, and at most 10 minutes".to_owned();
            return Err(invalid("smtp-timeout", problem));
        }
        if options.attachment_bytes > MOST_ATTACHED {
            let problem = format!("it is at most {}", MOST_ATTACHED >> 20);
            return Err(invalid("mail-attachment-mib", problem));
        }
        if let Some(file) = &options.root_certificates {
            check_roots(file, ROOTS)?;
        }
        Ok(Self(Arc::new(Shared {
            options,
            server,
            sender,
            tls: OnceCell::new(),
            connections: Semaphore::new(CONNECTIONS),
            content: Semaphore::new(CONTENT_MIB as usize),
            away: Mutex::default(),
            lost: Notify::new(),
        })))
    }

    pub(crate) fn options(&self) -> &MailOptions {
        &self.0.options
    }

    /// Who sends mails that name no sender.
    pub(crate) fn sender(&self) -> Option<&Mailbox> {
        self.0.sender.as_ref()
    }

    /// Waits for one of the connections of this node, for a mail of so many bytes. Cancellation safe.
    /// Errors: other mails have all of them for longer than the timeout, or the server is away. Only the watch tries it again then:
    /// each mail would wait for it in vain, or log in once more with a password that is refused.
    pub(crate) async fn place(&self, bytes: u64) -> std::result::Result<MailPlace<'_>, MailError> {
        self.refuse_if_away()?;
        let limit = self.0.options.timeout;
        let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let waiting = async {
            // In this order, so that a mail that waits for memory has no connection.
            let content = self.0.content.acquire_many(mib.clamp(1, CONTENT_MIB)).await.ok();
            (content, self.0.connections.acquire().await.ok())
        };
        let waited = tokio::time::timeout(limit, waiting).await;
        let (content, connection) = waited.map_err(|_| MailError::timed_out(&Stage::Waiting, limit))?;
        self.refuse_if_away()?;
        Ok(MailPlace {
            client: self,
            _content: content,
            _connection: connection,
        })
    }

    /// Errors: the server is away.
    pub(crate) fn refuse_if_away(&self) -> std::result::Result<(), MailError> {
        let away = self.0.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.as_ref().map_or(Ok(()), |cause| Err(cause.of_away()))
    }

    /// Why the server is away, if it is, as far as this node knows.
    pub(crate) fn away(&self) -> Option<String> {
        let away = self.0.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.as_ref().map(ToString::to_string)
    }

    /// Finds out whether the server is there: at once, again and again while it is not, and when a mail has not found it. It does
    /// not end. Cancellation safe.
    pub(crate) async fn watch(self) {
        loop {
            self.await_server().await;
            self.0.lost.notified().await;
        }
    }

    async fn await_server(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err((stage, error)) = self.probe().await {
            // A password that is refused for good: some servers lock its user out.
            let is_refused = stage == Stage::LoggingIn && error.kind != MailErrorKind::Deferred;
            self.note(Some(error));
            let next = if is_refused { LONGEST_PAUSE } else { pause };
            tokio::time::sleep(next.mul_f64(rand::random_range(0.75..1.25))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.note(None);
    }

    /// Connects and logs in, and sends nothing. Errors: how far that came, and why no further.
    async fn probe(&self) -> std::result::Result<(), (Stage, MailError)> {
        let limit = self.0.options.timeout;
        let mut stage = Stage::Connecting;
        let opened = tokio::time::timeout(limit, self.open(&mut stage)).await;
        match opened.unwrap_or_else(|_| Err(MailError::timed_out(&stage, limit))) {
            Ok(session) => session.close().await,
            Err(error) => return Err((stage, error)),
        }
        Ok(())
    }

    async fn open(&self, stage: &mut Stage) -> std::result::Result<SmtpSession, MailError> {
        *stage = Stage::Connecting;
        let shared = Arc::clone(&self.0);
        let make = || async move {
            let made = tokio::task::spawn_blocking(move || shared.tls()).await;
            made.map_err(|error| Error::internal("the TLS of mails panicked").caused_by(error))?
        };
        let tls = self.0.tls.get_or_try_init(make).await;
        let tls = tls.map_err(|error| MailError::unreachable(stage, &error.to_string()))?;
        SmtpSession::open(&self.0.server, tls, stage).await
    }

    /// Notes whether the server is away; a change is logged.
    fn note(&self, cause: Option<MailError>) {
        let mut away = self.0.away.lock().unwrap_or_else(PoisonError::into_inner);
        let server = format!("{}:{}", self.0.server.host, self.0.server.port);
        match (&*away, &cause) {
            (None, Some(cause)) => tracing::warn!(server, %cause, "the mail server is away; mails of workflows fail"),
            (Some(_), None) => tracing::info!(server, "the mail server is back"),
            _ => {}
        }
        metrics::gauge!("mainspring_mail_server_away").set(if cause.is_some() { 1.0 } else { 0.0 });
        *away = cause;
    }
}

/// A connection that a mail can have; without one, its content is not in memory.
#[derive(Debug)]
pub(crate) struct MailPlace<'c> {
    client: &'c MailClient,
    _content: Option<SemaphorePermit<'c>>,
    _connection: Option<SemaphorePermit<'c>>,
}

impl MailPlace<'_> {
    /// Sends a mail to all recipients of its envelope. Cancellation safe: the connection ends with the future.
    /// Errors: It was sent to none of them, or that is in doubt.
    pub(crate) async fn send(self, envelope: &Envelope, mail: &[u8]) -> std::result::Result<(), MailError> {
        let client = self.client;
        let limit = client.0.options.timeout;
        let mut stage = Stage::Connecting;
        let sending = async {
            let mut session = client.open(&mut stage).await?;
            session.send(envelope, mail, &mut stage).await?;
            Ok::<_, MailError>(session)
        };
        let sent = tokio::time::timeout(limit, sending).await;
        let sent = sent.unwrap_or_else(|_| Err(MailError::timed_out(&stage, limit)));
        match &sent {
            Err(error) if stage.is_of_server() && error.kind != MailErrorKind::Deferred => {
                client.note(Some(error.clone()));
                client.0.lost.notify_one();
            }
            // It was there, whatever has become of the mail.
            _ => client.note(None),
        }
        sent?.close().await;
        Ok(())
    }
}

impl Shared {
    /// Reads files: call it where that may block.
    fn tls(&self) -> Result<MailTls> {
        let config = tls_config(self.options.root_certificates.as_deref(), ROOTS)?;
        let host = self.server.host.clone();
        let name = ServerName::try_from(host)
            .map_err(|error| Error::internal("no certificate has the name of this server").caused_by(error))?;
        Ok(MailTls {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::MailErrorKind;

    #[test]
    fn settings_that_cannot_be_used_are_named_and_not_quoted() {
        let of = |change: &dyn Fn(&mut MailOptions)| {
            let mut options = MailOptions::new("smtp://u:hunter2@mail.example");
            change(&mut options);
            MailClient::new(options).map(drop)
        };
        assert!(of(&|_| {}).is_ok());
        assert!(of(&|options| options.from = Some("Shop <shop@example.org>".to_owned())).is_ok());
        type Change = dyn Fn(&mut MailOptions);
        let cases: [(&str, &Change); 7] = [
            ("smtp-url", &|options| {
                options.url = "imap://u:hunter2@mail.example".to_owned()
            }),
            ("mail-from", &|options| options.from = Some("shop".to_owned())),
            ("mail-from", &|options| {
                options.from = Some("shop@example.org\r\nX: y".to_owned())
            }),
            ("mail-attachment-mib", &|options| options.attachment_bytes = 101 << 20),
            ("smtp-timeout", &|options| options.timeout = Duration::ZERO),
            ("smtp-timeout", &|options| options.timeout = Duration::from_secs(601)),
            ("smtp-root-certificates", &|options| {
                options.root_certificates = Some("Cargo.toml".into())
            }),
        ];
        for (name, change) in cases {
            let error = of(change).unwrap_err();
            let message = error.to_string();
            assert_eq!(error.code(), "invalid-settings");
            assert!(
                message.contains(&format!("the setting {name} ")) && !message.contains("hunter2"),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn mails_wait_for_memory_as_well_as_for_connections() {
        let mut options = MailOptions::new("smtp://mail.example");
        options.timeout = Duration::from_millis(20);
        let client = MailClient::new(options).unwrap();
        let large = client.place(100 << 20).await.unwrap();
        let waited = client.place(1).await.unwrap_err();
        assert_eq!(waited.kind, MailErrorKind::TimedOut);
        assert!(waited.to_string().contains("memory"), "{waited}");
        drop(large);
        let mut small = Vec::new();
        for _ in 0..CONNECTIONS {
            small.push(client.place(1).await.unwrap());
        }
        assert!(client.place(1).await.is_err());
        small.pop();
        assert!(client.place(1).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_that_is_away_gets_no_mail_until_it_is_back() {
        let client = MailClient::new(MailOptions::new("smtp://mail.example")).unwrap();
        client.note(Some(MailError::timed_out(&Stage::Connecting, Duration::from_secs(9))));
        let refused = client.place(1).await.unwrap_err();
        assert_eq!(refused.kind, MailErrorKind::TimedOut);
        assert!(
            refused.to_string().contains("is away") && refused.to_string().contains("9s"),
            "{refused}"
        );
        client.note(None);
        assert!(client.place(1).await.is_ok());
    }
}
