//! Connections that name their incarnation and end with their owner.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Notification};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use super::password::PasswordFile;
use super::{CONNECT_TIMEOUT, DatabaseUrl, Echo, Notice, STATEMENT_TIMEOUT, SchemaName, within};
use crate::Result;
use crate::id::{Incarnation, NodeId};

/// Opens the connections of one incarnation of a node.
#[derive(Clone)]
pub(crate) struct Connector {
    config: tokio_postgres::Config,
    password_file: Option<PasswordFile>,
    tls: MakeRustlsConnect,
    schema: SchemaName,
    echo: Echo,
}

impl Connector {
    /// A connector for what belongs to no incarnation: migrations, checks, the registration itself.
    pub(crate) fn new(url: &DatabaseUrl, schema: &SchemaName) -> Result<Self> {
        let mut config = url.config().clone();
        config
            .application_name("mainspring")
            .connect_timeout(CONNECT_TIMEOUT)
            // A peer that vanished without a word is noticed within about 10 s, not after Postgres's two hours.
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(3))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!(
            "{given} -c search_path={schema},pg_temp -c statement_timeout={statement} -c lock_timeout={lock} \
             -c idle_in_transaction_session_timeout={idle} -c tcp_keepalives_idle=3 -c tcp_keepalives_interval=2 \
             -c tcp_keepalives_count=3 -c jit=off -c timezone=UTC",
            statement = STATEMENT_TIMEOUT.as_millis(),
            lock = 5_000,
            idle = STATEMENT_TIMEOUT.as_millis(),
        ));
        Ok(Self {
            config,
            password_file: url.password_file().cloned(),
            tls: url.tls()?,
            schema: schema.clone(),
            echo: Echo::new(),
        })
    }

    /// The same, for an incarnation: `mainspring/<schema key>/<incarnation>/<node>`, cut by Postgres at 63 bytes, so
    /// that what a take-over matches stands first.
    pub(crate) fn of(&self, incarnation: Incarnation, node: &NodeId) -> Self {
        let mut connector = self.clone();
        connector.echo = Echo::new();
        connector
            .config
            .application_name(format!("mainspring/{}/{incarnation}/{node}", self.schema.key()));
        // Every statement of a node finds its rows by an index, and in its order: a plan that was made and kept while a
        // table was empty must neither scan it nor sort all of it when it is full.
        let given = connector.config.get_options().unwrap_or_default().to_owned();
        let by_index = "-c enable_seqscan=off -c enable_bitmapscan=off";
        connector.config.options(format!("{given} {by_index}"));
        connector
    }

    pub(crate) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// What the check-ins of this incarnation hear.
    pub(crate) fn echo(&self) -> &Echo {
        &self.echo
    }

    pub(crate) fn parts(&self) -> (tokio_postgres::Config, MakeRustlsConnect) {
        (self.config.clone(), self.tls.clone())
    }

    /// Connects, with the password that stands in its file now.
    pub(super) async fn connect(&self) -> Result<Connected, tokio_postgres::Error> {
        let mut config = self.config.clone();
        if let Some(file) = &self.password_file {
            match file.read().await {
                Ok(password) => {
                    config.password(password);
                }
                // The server says no then, and it is tried again as ever.
                Err(error) => tracing::warn!(file = %file.path(), %error, "the password file cannot be read"),
            }
        }
        config.connect(self.tls.clone()).await
    }

    /// Opens a connection of its own, outside the pool.
    pub(crate) async fn open(&self) -> Result<Session> {
        self.open_with(|_| {}).await
    }

    /// The same; what other sessions notify this one of goes to `heard`, whose readers may be slow.
    pub(crate) async fn open_hearing(&self, heard: broadcast::Sender<Notice>) -> Result<Session> {
        self.open_with(move |notification| {
            // Nobody may be listening.
            let _ = heard.send(Notice::Heard {
                channel: notification.channel().into(),
                payload: notification.payload().into(),
            });
        })
        .await
    }

    /// The same, with a listener for its notifications. It runs on the task that reads the connection: it must neither
    /// wait nor take its time.
    pub(crate) async fn open_with(&self, mut hear: impl FnMut(Notification) + Send + 'static) -> Result<Session> {
        let (client, mut connection) = within(CONNECT_TIMEOUT, self.connect()).await?;
        let (ended, lost) = watch::channel(false);
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => hear(notification),
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection ended");
                        break;
                    }
                }
            }
            ended.send_replace(true);
        });
        Ok(Session {
            client,
            lost,
            _driver: AbortOnDropHandle::new(driver),
        })
    }
}

type Connected = (
    Client,
    tokio_postgres::Connection<
        tokio_postgres::Socket,
        <MakeRustlsConnect as MakeTlsConnect<tokio_postgres::Socket>>::Stream,
    >,
);

/// A connection with the task that drives it. Dropping it closes the socket at once, whatever was under way.
pub(crate) struct Session {
    pub(crate) client: Client,
    lost: watch::Receiver<bool>,
    _driver: AbortOnDropHandle<()>,
}

impl Session {
    /// Turns true when the connection has ended. Cancellation safe.
    pub(crate) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }
}
