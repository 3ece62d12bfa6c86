//! Connections that name their incarnation and end with their owner.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use super::hosts::Hosts;
use super::pinned::{self, SETTLE};
use super::{CONNECT_TIMEOUT, DatabaseUrl, LastAnswer, Notification, SchemaName, within};
use crate::Result;
use crate::id::{Incarnation, NodeId};

/// Opens the connections of one incarnation of a node: each on the primary, with the settings that promises stand on.
#[derive(Clone)]
pub(crate) struct Connector {
    url: DatabaseUrl,
    hosts: Hosts,
    tls: MakeRustlsConnect,
    schema: SchemaName,
    last_answer: LastAnswer,
}

impl Connector {
    /// A connector for what belongs to no incarnation: migrations, checks, the registration itself.
    pub(crate) fn new(url: &DatabaseUrl, schema: &SchemaName) -> Result<Self> {
        let mut hosts = Hosts::of(url.config());
        hosts.configure(|config| {
            let options = pinned::options(config.get_options().unwrap_or_default(), schema);
            config
                .options(options)
                .application_name("mainspring")
                .connect_timeout(CONNECT_TIMEOUT)
                // A peer that vanished without a word is noticed within about 10 s, not after Postgres's two hours.
                .keepalives(true)
                .keepalives_idle(Duration::from_secs(3))
                .keepalives_interval(Duration::from_secs(2))
                .keepalives_retries(3)
                .tcp_user_timeout(Duration::from_secs(10));
        });
        Ok(Self {
            tls: url.tls()?,
            url: url.clone(),
            hosts,
            schema: schema.clone(),
            last_answer: LastAnswer::new(),
        })
    }

    /// The same, for an incarnation: `mainspring/<schema key>/<incarnation>/<node>`, cut by Postgres at 63 bytes, so
    /// that what a take-over matches stands first.
    pub(crate) fn of(&self, incarnation: Incarnation, node: &NodeId) -> Self {
        let mut connector = self.clone();
        connector.last_answer = LastAnswer::new();
        let name = format!("mainspring/{}/{incarnation}/{node}", self.schema.key());
        connector.hosts.configure(|config| {
            config.application_name(&name);
            // Every statement of a node finds its rows by an index, and in its order: a plan that was made and kept while
            // a table was empty must neither scan it nor sort all of it when it is full.
            let given = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{given} -c enable_seqscan=off -c enable_bitmapscan=off"));
        });
        connector
    }

    pub(crate) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// What the check-ins of this incarnation hear.
    pub(crate) fn last_answer(&self) -> &LastAnswer {
        &self.last_answer
    }

    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    /// Warns of ways in which others could learn the password.
    pub(super) async fn warn_of_exposure(&self) {
        if let Some(exposure) = self.url.exposure() {
            tracing::warn!("{exposure}");
        }
        if let Some(file) = self.url.password_file()
            && let Some(exposure) = file.exposure().await
        {
            tracing::warn!("{exposure}");
        }
    }

    /// Connects to the primary, with the password that stands in its file now.
    pub(super) async fn connect(&self) -> Result<Connected, tokio_postgres::Error> {
        let mut password = None;
        if let Some(file) = self.url.password_file() {
            match file.read().await {
                Ok(read) => password = Some(read),
                // The server says no then, and it is tried again as ever.
                Err(error) => tracing::warn!(file = %file.path(), %error, "the password file cannot be read"),
            }
        }
        let attempt = |mut config: tokio_postgres::Config| {
            if let Some(password) = &password {
                config.password(password);
            }
            self.settled(config)
        };
        self.hosts.reach(attempt).await
    }

    /// Connects to one host, and settles its session.
    async fn settled(&self, config: tokio_postgres::Config) -> Result<Connected, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(self.tls.clone()).await?;
        // It moves only while it is polled; it listens to nothing yet.
        let ends = async {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return error,
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            settled = client.simple_query(SETTLE) => settled?,
            error = ends => return Err(error),
        };
        Ok((client, connection))
    }

    /// Opens a connection of its own, outside the pool.
    pub(crate) async fn open(&self) -> Result<Session> {
        self.open_with(|_| {}).await
    }

    /// The same; what other sessions notify this one of goes to `heard`, whose readers may be slow.
    pub(crate) async fn open_listening(&self, heard: broadcast::Sender<Notification>) -> Result<Session> {
        self.open_with(move |notification| {
            // Nobody may be listening.
            let _ = heard.send(Notification::Received {
                channel: notification.channel().into(),
                payload: notification.payload().into(),
            });
        })
        .await
    }

    /// The same, with a listener for its notifications. It runs on the task that reads the connection: it must neither
    /// wait nor take its time.
    pub(crate) async fn open_with(
        &self,
        mut hear: impl FnMut(tokio_postgres::Notification) + Send + 'static,
    ) -> Result<Session> {
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
