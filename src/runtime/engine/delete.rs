//! Deletes of instances, and bulk deletes and cancels.

use futures_util::{Stream, StreamExt};

use super::Engine;
use crate::db::bounded_list;
use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::runtime::context::instance_list::InstanceFilter;
use crate::runtime::context::replies::Reply;
use crate::runtime::context::request::{BulkResult, InstanceSelection};
use crate::store::instance::delete::{self, DeleteFilter};
use crate::store::instance::list::ListPools;
use crate::wake::WakeNotification;
use crate::{Error, Result};

/// How many instances of a bulk action are processed at once: fewer than there are pooled connections.
const CONCURRENCY: usize = 4;

/// The most instances that are changed while the caller waits.
const MAX_DIRECT: i64 = 1000;

impl Engine {
    /// Deletes an instance with everything that belongs to it in one transaction, or a start that has not run yet. From then
    /// on, a running burst of it on any node cannot commit. Callers that wait for it receive a not-found error.
    /// Returns false if it did not exist.
    ///
    /// # Errors
    /// Deleting again is safe. Dropping the future may or may not delete it; [`Error::is_unknown_outcome`] if the outcome is
    /// unknown.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool> {
        let node = self.accepting()?;
        let Some(deleted) = delete::delete(&self.changes_of(&node, id), &self.tenant, id).await? else {
            return Ok(false);
        };
        node.cancel_bursts(&self.tenant, id);
        if deleted.made > 0 {
            node.work_accepted(None, None, usize::try_from(deleted.made).unwrap_or(usize::MAX));
        }
        // It may have kept other instances of its schedule from starting. A poll of the schedules costs little.
        node.overlap_ended();
        for work in deleted.works {
            match node.notifications.replies.take(id, work) {
                Some(caller) => drop(caller.send(Reply::NoInstance)),
                None => node.notifications.wake.notify([WakeNotification::WorkDone(work)]),
            }
        }
        Ok(true)
    }

    /// Deletes every selected instance: up to 1,000 a few at a time and each in its own transaction, more as a bulk action
    /// ([`Engine::delete_all`]). An empty selection is refused (code `missing-field`). After an error, or if the future is
    /// dropped, some are deleted; try again.
    pub async fn delete_many(&self, which: &InstanceSelection) -> Result<BulkResult> {
        let Some(ids) = self.selected(which, false).await? else {
            return Ok(BulkResult::Accepted(self.delete_all(&filter_of(which)).await?));
        };
        let deletes = ids.into_iter().map(|id| {
            let engine = self.clone();
            async move { engine.delete(&id).await }
        });
        let deleted = counted(futures_util::stream::iter(deletes).buffer_unordered(CONCURRENCY)).await?;
        Ok(BulkResult::Done(deleted))
    }

    /// Cancels every selected instance that is unfinished: up to 1,000 as [`Engine::cancel`] does, a few at a time, more as a
    /// bulk action ([`Engine::cancel_all`]). Counts the cancelled instances, without cancels that became dead letters. An
    /// empty selection is refused (code `missing-field`).
    pub async fn cancel_many(&self, which: &InstanceSelection) -> Result<BulkResult> {
        let Some(ids) = self.selected(which, true).await? else {
            return Ok(BulkResult::Accepted(self.cancel_all(&filter_of(which)).await?));
        };
        let cancels = ids.into_iter().map(|id| {
            let engine = self.clone();
            async move {
                match engine.cancel(&id).await {
                    // It was deleted meanwhile, or its cancel is a dead letter; the others are cancelled all the same.
                    Err(error) if error.is_not_found() || error.is_dead_lettered() => Ok(false),
                    outcome => outcome,
                }
            }
        });
        let cancelled = counted(futures_util::stream::iter(cancels).buffer_unordered(CONCURRENCY)).await?;
        Ok(BulkResult::Done(cancelled))
    }

    /// The selected instances; `None` if there are more than can be changed at once, or finding them takes longer than a
    /// list may.
    async fn selected(&self, which: &InstanceSelection, unfinished: bool) -> Result<Option<Vec<InstanceId>>> {
        let definitions = which.definition_ids.as_ref();
        let meant = DeleteFilter {
            ids: which
                .ids
                .as_ref()
                .map(|ids| ids.iter().map(InstanceId::as_str).collect()),
            definition_ids: definitions.map(|ids| ids.iter().map(DefinitionId::as_str).collect()),
            version_id: which.version_id.as_ref().map(VersionId::as_str),
            version: which.version,
            unfinished,
            limit: MAX_DIRECT + 1,
        };
        if meant.ids.is_none() && meant.definition_ids.is_none() && meant.version_id.is_none() {
            let message = "name the instances, by their ids or by definition: all of them are meant only by accident";
            return Err(Error::invalid("missing-field", message).field("ids", "must be given, or a definition"));
        }
        let node = self.accepting()?;
        let pools = ListPools::of_reads(&node.database.reads);
        match bounded_list(delete::list_ids(pools, &self.tenant, &meant)).await {
            Ok(ids) => Ok((i64::try_from(ids.len()).is_ok_and(|count| count <= MAX_DIRECT)).then_some(ids)),
            Err(error) if error.code() == "read-timeout" => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A selection of many instances as a filter. An empty list in it selects nothing, so it never gets here.
fn filter_of(which: &InstanceSelection) -> InstanceFilter {
    InstanceFilter {
        ids: which.ids.clone().unwrap_or_default(),
        definition_ids: which.definition_ids.clone().unwrap_or_default(),
        version_ids: which.version_id.clone().into_iter().collect(),
        version: which.version,
        ..InstanceFilter::default()
    }
}

/// Counts the results that are true; returns the first error.
async fn counted(mut outcomes: impl Stream<Item = Result<bool>> + Unpin) -> Result<u64> {
    let mut count = 0;
    while let Some(outcome) = outcomes.next().await {
        count += u64::from(outcome?);
    }
    Ok(count)
}
