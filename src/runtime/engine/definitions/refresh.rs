//! Refreshes of published definitions: their triggers and schedules are computed again.
//!
//! They are a function of the stored version and of the build that publishes it, so a refresh changes something where
//! another build derives others, or where the triggers or the specification of a schedule were changed by an operator. A schedule with
//! an equal specification is left alone, also its other columns.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::{PUBLISH_ATTEMPTS, announce_change};
use crate::id::DefinitionId;
use crate::runtime::context::request::Refreshed;
use crate::runtime::engine::Engine;
use crate::runtime::scheduler::decide::RefreshedSchedules;
use crate::store::definition::{StartSources, refresh};
use crate::{Error, Result};

/// How many definitions are read at a time.
const PAGE: i64 = 100;

/// How many are refreshed at once: fewer than there are pooled connections.
const CONCURRENCY: usize = 4;

/// How long each repetition waits whose cause may pass: scripts are busy, or another session holds a lock.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];

/// The most failures that are reported.
const MOST_FAILED: usize = 1_000;

impl Engine {
    /// Computes the triggers and schedules of published definitions again and writes them, each definition in a transaction
    /// of its own, and notifies all nodes, which read it again; `None` means all definitions. An equal schedule stays as it is, with
    /// its next occurrence, and so does one that is computed by an expression, as long as its activity has the same type and
    /// the same kind of schedule. Those that fail stay as they are, and are reported.
    ///
    /// # Errors
    /// If the node stops or has lost its database; what was refreshed before stays so. Dropping the future ends a refresh of
    /// named definitions in between; that of all goes on, and a node runs one of these at a time.
    pub async fn refresh_definitions(&self, ids: Option<&[DefinitionId]>) -> Result<Refreshed> {
        let mut done = Refreshed::default();
        if let Some(ids) = ids {
            self.refresh_page(ids.to_vec(), &mut done).await?;
            return Ok(done);
        }
        let Ok(permit) = Arc::clone(&self.inner.refreshes).try_acquire_owned() else {
            done.is_in_progress = true;
            return Ok(done);
        };
        let (engine, node) = (self.clone(), self.node()?);
        let own = Arc::clone(&node);
        // A task of its own: a client that disconnects does not leave the last definitions out.
        let refreshing = node.lifecycle.tasks.spawn(async move {
            let _permit = permit;
            tokio::select! {
                done = engine.refresh_all(done) => done,
                () = own.lifecycle.closed() => Err(stopping()),
                () = own.lifecycle.stop.cancelled() => Err(stopping()),
            }
        });
        refreshing.await.map_err(|_| Error::internal("the refresh failed"))?
    }

    async fn refresh_all(&self, mut done: Refreshed) -> Result<Refreshed> {
        let mut after = DefinitionId::new("");
        loop {
            let node = self.node()?;
            let page = refresh::list_published(&node.database.pool, &self.tenant, &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.clone();
            self.refresh_page(page, &mut done).await?;
        }
        // What is retracted or deleted meanwhile was not asked for.
        done.not_found.clear();
        Ok(done)
    }

    async fn refresh_page(&self, ids: Vec<DefinitionId>, done: &mut Refreshed) -> Result<()> {
        let refreshes = ids.into_iter().map(|id| {
            let engine = self.clone();
            async move { (engine.refresh_definition(&id).await, id) }
        });
        let mut refreshes = stream::iter(refreshes).buffered(CONCURRENCY);
        while let Some((outcome, id)) = refreshes.next().await {
            let error = match outcome {
                Ok(true) => {
                    done.refreshed.push(id);
                    continue;
                }
                Ok(false) => {
                    done.not_found.push(id);
                    continue;
                }
                Err(error) if error.is_stopped() => return Err(error),
                Err(error) => error,
            };
            if error.is_transient() {
                // Without the database the others fail, too, each after a long wait.
                let node = self.node()?;
                refresh::list_published(&node.database.pool, &self.tenant, &id, 1).await?;
            }
            tracing::warn!(definition = %id, %error, "a published definition cannot be refreshed; what starts it stays as it is");
            if done.failed.len() < MOST_FAILED {
                done.failed.insert(id, reported(&error));
            }
        }
        Ok(())
    }

    /// Returns false if no version is published. What may pass is tried again.
    async fn refresh_definition(&self, id: &DefinitionId) -> Result<bool> {
        for pause in PAUSES {
            match self.try_refresh(id).await {
                Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
                outcome => return outcome,
            }
        }
        self.try_refresh(id).await
    }

    async fn try_refresh(&self, id: &DefinitionId) -> Result<bool> {
        for _ in 0..PUBLISH_ATTEMPTS {
            let node = self.node()?;
            let (pool, tenant) = (&self.changes(&node), &self.tenant);
            let Some(version) = refresh::published_version(pool, tenant, id).await? else {
                return Ok(false);
            };
            let Some((definition, composition)) = self.composition_of(&node, &version).await? else {
                continue;
            };
            let (program, _) = self.compile_composed(&definition, &composition).await?;
            let validated = self.starts_of(program).await?;
            let starts = StartSources {
                triggers: &validated.triggers,
                schedules: &RefreshedSchedules(&validated.schedules),
            };
            let class = node.database.lock_class();
            if refresh::refresh(pool, class, tenant, id, &version, starts).await? {
                announce_change(&node, tenant, id);
                // Its triggers may match events in the inbox.
                node.inbox_matches.notify_one();
                return Ok(true);
            }
        }
        Err(Error::conflict(
            "definition-changing",
            "the published version keeps changing while it is refreshed; try again",
        ))
    }
}

fn stopping() -> Error {
    Error::unavailable(
        "draining",
        "this node is about to stop; ask another one to refresh the definitions",
    )
}

/// What the response says: a defect is described in the log only.
fn reported(error: &Error) -> String {
    let is_known = error.is_invalid() || error.is_conflict() || error.is_too_large() || error.is_transient();
    let message = if is_known {
        error.message()
    } else {
        "it failed inside the engine; the log of the node says why"
    };
    message.to_owned()
}
