//! Deleting instances, and ending many of them at once.

use futures_util::{Stream, StreamExt};

use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::runtime::context::replies::Tidings;
use crate::runtime::context::request::InstanceSelection;
use crate::runtime::engine::Engine;
use crate::store::instance::delete::{self, Meant};
use crate::{Error, Result};

/// How many instances of a bulk action are worked on at once: fewer than there are pooled connections.
const AT_ONCE: usize = 4;

impl Engine {
    /// Deletes an instance with its state, bookmarks, timers, pending work, journal and all else that belongs to it, in
    /// one transaction; or a start that has not run yet. A burst that runs it on any node has lost from this moment on:
    /// it writes nothing, and stops when word of it comes. Doors that wait for the instance are told that it does not
    /// exist. False: there was none, as when it was deleted before, so deleting again is safe.
    ///
    /// Dropping the future deletes it or not; [`Error::is_unknown_outcome`] if nobody can say.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool> {
        let shift = self.accepting()?;
        let Some(deleted) = delete::delete(&shift.pool, &self.inner.tenant, id).await? else {
            return Ok(false);
        };
        shift.lost(id);
        // Whether it was alone of a schedule is not asked for: to look costs little.
        shift.freed();
        for work in deleted.works {
            match shift.doors.take(id, work) {
                Some(door) => drop(door.send(Tidings::NoInstance)),
                None => shift.wake.ended(work),
            }
        }
        Ok(true)
    }

    /// Deletes every instance that is meant, a few at a time and each in a transaction of its own; gives how many there
    /// were. An empty selection is refused (code `missing-field`). After an error, or when the future is dropped, some
    /// are deleted: try again.
    pub async fn delete_many(&self, which: &InstanceSelection) -> Result<u64> {
        let ids = self.meant(which, false).await?;
        let deletes = ids.into_iter().map(|id| {
            let engine = self.clone();
            async move { engine.delete(&id).await }
        });
        counted(futures_util::stream::iter(deletes).buffer_unordered(AT_ONCE)).await
    }

    /// Cancels every unfinished instance that is meant, as [`Engine::cancel`] does, a few at a time; gives how many it
    /// has cancelled; a cancel that became a dead letter does not count. An empty selection is refused (code `missing-field`).
    pub async fn cancel_many(&self, which: &InstanceSelection) -> Result<u64> {
        let ids = self.meant(which, true).await?;
        let cancels = ids.into_iter().map(|id| {
            let engine = self.clone();
            async move {
                match engine.cancel(&id).await {
                    // Deleted meanwhile, or nobody can cancel it just now; the others are cancelled all the same.
                    Err(error) if error.is_not_found() || error.is_dead_lettered() => Ok(false),
                    outcome => outcome,
                }
            }
        });
        counted(futures_util::stream::iter(cancels).buffer_unordered(AT_ONCE)).await
    }

    async fn meant(&self, which: &InstanceSelection, unfinished: bool) -> Result<Vec<InstanceId>> {
        let definitions = which.definition_ids.as_ref();
        let meant = Meant {
            ids: which
                .ids
                .as_ref()
                .map(|ids| ids.iter().map(InstanceId::as_str).collect()),
            definition_ids: definitions.map(|ids| ids.iter().map(DefinitionId::as_str).collect()),
            version_id: which.version_id.as_ref().map(VersionId::as_str),
            version: which.version,
            unfinished,
        };
        if meant.ids.is_none() && meant.definition_ids.is_none() && meant.version_id.is_none() {
            let message = "name the instances, by their ids or by definition: all of them are meant only by accident";
            return Err(Error::invalid("missing-field", message).field("ids", "must be given, or a definition"));
        }
        delete::meant(&self.accepting()?.pool, &self.inner.tenant, &meant).await
    }
}

/// How many came out true; the first error ends it.
async fn counted(mut outcomes: impl Stream<Item = Result<bool>> + Unpin) -> Result<u64> {
    let mut count = 0;
    while let Some(outcome) = outcomes.next().await {
        count += u64::from(outcome?);
    }
    Ok(count)
}
