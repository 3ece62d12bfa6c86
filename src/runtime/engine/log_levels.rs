//! Levels of the log that are changed while the nodes run: at this node, or at all that run now.
//!
//! They are for an operator who looks for something: a change travels over NOTIFY alone, and a node that starts later, or has no
//! connection at that moment, has the levels of its settings.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::broadcast;

use super::Engine;
use crate::db::{Channel, Notification};
use crate::id::NodeId;
use crate::log::{self, LevelChange, LogLevelOf};
use crate::runtime::context::node_context::NodeContext;
use crate::{Error, Result};

/// The levels of the log of one node.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogLevels {
    /// The node.
    pub node_id: NodeId,
    /// The filter of its settings.
    pub settings: String,
    /// What differs from that.
    pub levels: Vec<LogLevelOf>,
}

impl Engine {
    /// The levels of the log of this node.
    /// Errors: `log-elsewhere` in a program with a log of its own.
    pub fn log_levels(&self) -> Result<LogLevels> {
        let (settings, levels) = log::levels()?;
        Ok(LogLevels {
            node_id: self.node_id(),
            settings,
            levels,
        })
    }

    /// Sets a level at this node, and with `everywhere` at all others that listen now; without a level, sets it back. If the
    /// future is dropped, it may be set at this node only.
    /// Errors: `log-elsewhere` in a program with a log of its own; `too-many-log-levels`.
    pub async fn set_log_level(&self, of: LogLevelOf, everywhere: bool) -> Result<LogLevels> {
        change(of.clone())?;
        if everywhere {
            let payload = serde_json::to_string(&of)
                .map_err(|error| Error::internal("a level of the log cannot be written as JSON").caused_by(error))?;
            let node = self.node()?;
            let notifier = &node.notifications.notifier;
            notifier.notify(notifier.name(Channel::LogLevels), &[payload]).await?;
        }
        self.log_levels()
    }
}

fn change(of: LogLevelOf) -> Result<()> {
    let (level, target) = (of.level.map(|level| level.to_string()), of.clone());
    if log::change_level(of)? == LevelChange::Changed {
        tracing::info!(
            level = level.as_deref().unwrap_or("that of the settings"),
            instance = target.workflow_instance_id.as_ref().map(|id| id.as_str()),
            definition = target.definition_id.as_ref().map(|id| id.as_str()),
            "the level of the log is changed"
        );
    }
    Ok(())
}

/// Sets what other nodes ask for, until the incarnation stops.
pub(super) async fn follow(node: Arc<NodeContext>) {
    let channel = node.notifications.notifier.name(Channel::LogLevels).to_owned();
    let mut received = node.notifications.notifier.subscribe();
    loop {
        // Both are cancellation safe.
        let notification = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            notification = received.recv() => notification,
        };
        let payload = match notification {
            Ok(Notification::Received { channel: on, payload }) if *on == *channel => payload,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => {
                // The owner of the connection ends this incarnation.
                node.lifecycle.stop.cancelled().await;
                return;
            }
        };
        let asked = serde_json::from_str(&payload).map(change);
        match asked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the level of the log stays as it is"),
            Err(error) => tracing::debug!(%error, "a malformed notification was ignored"),
        }
    }
}
