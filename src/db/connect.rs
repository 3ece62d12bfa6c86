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

/// Opens the connections of one incarnation of a node: each to the primary, with pinned session settings.
#[derive(Clone)]
pub(crate) struct Connector {
    url: DatabaseUrl,
    hosts: Hosts,
    tls: MakeRustlsConnect,
    schema: SchemaName,
    last_answer: LastAnswer,
}

impl Connector {
    /// A connector without an incarnation: for migrations, checks and the registration.
    pub(crate) fn new(url: &DatabaseUrl, schema: &SchemaName) -> Result<Self> {
        let mut hosts = Hosts::of(url.config());
        hosts.configure(|config| {
            let options = pinned::options(config.get_options().unwrap_or_default(), schema);
            config
                .options(options)
                .application_name("mainspring")
                .connect_timeout(CONNECT_TIMEOUT)
                // A lost peer is detected within about 10 s, not after the two hours of Postgres.
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

    /// The same for an incarnation, named `mainspring/<schema key>/<incarnation>/<node>`. Postgres cuts the name at 63 bytes,
    /// so the part that a take-over matches comes first.
    pub(crate) fn of(&self, incarnation: Incarnation, node: &NodeId) -> Self {
        let mut connector = self.clone();
        connector.last_answer = LastAnswer::new();
        let name = format!("mainspring/{}/{incarnation}/{node}", self.schema.key());
        connector.hosts.configure(|config| {
            config.application_name(&name);
            // Every statement of a node finds its rows by an index, in its order: a plan that was cached while a table was
            // empty must neither scan nor sort all of it later.
            let given = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{given} -c enable_seqscan=off -c enable_bitmapscan=off"));
        });
        connector
    }

    /// The same for lists: no statement takes longer at the server, and each plan is made for its parameters.
    pub(super) fn for_lists(&self, timeout: Duration) -> Self {
        let mut connector = self.clone();
        connector.hosts.configure(|config| {
            let given = config.get_options().unwrap_or_default().to_owned();
            config.options(format!(
                // A list may keep one of the server's processors busy, not all of them.
                "{given} -c statement_timeout={} -c plan_cache_mode=force_custom_plan -c max_parallel_workers_per_gather=0",
                timeout.as_millis()
            ));
        });
        connector
    }

    pub(crate) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// When the last answered check-in of this incarnation was sent.
    pub(crate) fn last_answer(&self) -> &LastAnswer {
        &self.last_answer
    }

    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    /// Warns of ways in which the password could be exposed.
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

    /// Connects to the primary, with the present password of the password file.
    pub(super) async fn connect(&self) -> Result<Connected, tokio_postgres::Error> {
        let mut password = None;
        if let Some(file) = self.url.password_file() {
            match file.read().await {
                Ok(read) => password = Some(read),
                // The server refuses the connection then, and it is retried.
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

    /// Connects to one host and settles the session.
    async fn settled(&self, config: tokio_postgres::Config) -> Result<Connected, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(self.tls.clone()).await?;
        // The connection makes progress only while it is polled; it listens to no channel yet.
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

    /// Opens a connection outside the pool.
    pub(crate) async fn open(&self) -> Result<Session> {
        self.open_with(|_| {}).await
    }

    /// The same; notifications go to `received`.
    pub(crate) async fn open_listening(&self, received: broadcast::Sender<Notification>) -> Result<Session> {
        self.open_with(move |notification| {
            // There may be no receiver.
            let _ = received.send(Notification::Received {
                channel: notification.channel().into(),
                payload: notification.payload().into(),
            });
        })
        .await
    }

    /// The same, with a callback for its notifications. It runs on the task that reads the connection, so it must not block.
    pub(crate) async fn open_with(
        &self,
        mut on_notification: impl FnMut(tokio_postgres::Notification) + Send + 'static,
    ) -> Result<Session> {
        // Boxed, as its ten kilobytes would be part of every future that may open a connection, and be moved with it.
        let (client, mut connection) = within(CONNECT_TIMEOUT, Box::pin(self.connect())).await?;
        let (ended, lost) = watch::channel(false);
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => on_notification(notification),
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

/// A connection with the task that drives it. Dropping it closes the socket at once, even during a statement.
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
