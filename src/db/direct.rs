//! Whether the URL leads to a PostgreSQL that the engine can use, or to a pooler that lends a connection per transaction.
//!
//! Behind such a pooler an advisory lock stays with the connection of another client, LISTEN receives nothing, a setting is
//! lost, and none of this is ever an error. So a node checks this once, before anything else.

use std::error::Error as _;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_postgres::SimpleQueryMessage;

use super::{ANSWER_TIMEOUT, Connector, Notification, Session, server, within};
use crate::{Error, Result};

const PROBE: &str = include_str!("../../sql/queries/session/probe.sql");

/// How long a notification of our own may take on a busy server, and an answer of a session that has no other user.
const DEADLINE: Duration = Duration::from_secs(5);

/// Refuses a pooler, with what to do instead (code `pooled-connection`), and a server that is too old
/// (`unsupported-server`); warns of what puts passwords or data at risk. Leaves no change.
pub(crate) async fn verify(connector: &Connector) -> Result<()> {
    let (sender, mut received) = broadcast::channel(16);
    let ours = connector.open_listening(sender).await.map_err(|error| {
        if refuses_settings(&error) {
            pooled("it refuses the settings of a session").caused_by(error)
        } else {
            server::named(error)
        }
    })?;
    let Probe {
        session,
        search_path,
        version_num,
        version,
        fsync,
    } = probe(&ours).await?;
    server::refuse_older(version_num, &version)?;
    if search_path.replace(' ', "") != format!("{},pg_temp", connector.schema()) {
        return Err(pooled("the settings of a session are lost"));
    }
    // A pooler gives its only client the same connection again; so another session occupies one meanwhile.
    let channel = format!("mainspring_p_{}", uuid::Uuid::new_v4().simple());
    within(ANSWER_TIMEOUT, ours.client.batch_execute(&format!("LISTEN {channel}"))).await?;
    let other = connector.open().await?;
    within(ANSWER_TIMEOUT, other.client.batch_execute("BEGIN")).await?;
    match tokio::time::timeout(DEADLINE, probe(&ours)).await {
        Ok(answer) if answer.as_ref().is_ok_and(|again| again.session == session) => {}
        Ok(Err(error)) => return Err(error),
        Ok(Ok(_)) => return Err(pooled("two transactions of one connection run in two sessions")),
        Err(_) => return Err(pooled("a connection waits while another one is in a transaction")),
    }
    within(
        ANSWER_TIMEOUT,
        other.client.batch_execute(&format!("NOTIFY {channel}; COMMIT")),
    )
    .await?;
    let receives = async {
        loop {
            match received.recv().await {
                Ok(Notification::Received { channel: on, .. }) if *on == *channel => return true,
                Err(broadcast::error::RecvError::Closed) => return false,
                _ => {}
            }
        }
    };
    match tokio::time::timeout(DEADLINE, receives).await {
        Ok(true) => {}
        _ => return Err(pooled("notifications get lost")),
    }
    server::warn_of(&fsync);
    connector.warn_of_exposure().await;
    Ok(())
}

/// What a session reports of itself and its server.
struct Probe {
    session: String,
    search_path: String,
    version_num: u32,
    version: String,
    fsync: String,
}

/// By the simple protocol: a pooler may not know prepared statements.
async fn probe(session: &Session) -> Result<Probe> {
    let messages = within(ANSWER_TIMEOUT, session.client.simple_query(PROBE)).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let field = |name: &str| row.and_then(|row| row.get(name)).unwrap_or_default().to_owned();
    Ok(Probe {
        session: field("session"),
        search_path: field("search_path"),
        version_num: field("version_num").parse().unwrap_or(0),
        version: field("version"),
        fsync: field("fsync"),
    })
}

/// Whether a pooler refuses the startup parameters of a session.
fn refuses_settings(error: &Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    cause
        .and_then(tokio_postgres::Error::as_db_error)
        .is_some_and(|cause| cause.message().contains("startup parameter"))
}

fn pooled(why: &str) -> Error {
    Error::invalid(
        "pooled-connection",
        format!(
            "the database URL leads to a connection pooler, not to a session of PostgreSQL of its own ({why}); locks and \
             notifications need one: give the address of PostgreSQL itself with --direct-database-url \
             (MAINSPRING_DIRECT_DATABASE_URL)"
        ),
    )
}
