//! Resolves starts whose acceptance is in doubt, because their statement was sent and its result was lost.
//!
//! # Invariants
//!
//! - As soon as there is a connection they are looked up by id. A generated id belongs to one start, so a row found under it
//!   is that start: it is accepted, and this node runs it if it was inserted claimed.
//! - A missing start is sent once more, never only reported as lost: the former backend may still commit. The unique index on
//!   starts admits one of the two; a start that is committed after its instance is discarded when it is claimed.
//! - An id that a caller chose may belong to the start of another caller: the outcome is unknown.

use std::time::Duration;

use postgres_types::ToSql;
use tokio_postgres::Row;

use super::{AcceptTask, ConnectionSource, Pending, StartOutcome, no_connection, route_moved};
use crate::db::{ANSWER_TIMEOUT, columns, within};
use crate::id::{VersionId, WorkId};
use crate::store::clock::DatabaseClock;
use crate::store::commit::DefinitionRef;
use crate::{Error, Result};

const FOUND: &str = include_str!("../../../sql/queries/start/find_accepted.sql");

/// The pauses between two lookups; they double.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether an error leaves open if the statement was executed.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    error.is_unavailable() && error.code() != "database-busy" && !error.is_database_fault()
}

impl AcceptTask {
    /// Replies to a batch whose statement may have been executed. `retried`: it was sent twice.
    pub(super) async fn resolve(&mut self, batch: Vec<Pending>, error: &Error, retried: bool) {
        if is_in_doubt(error) && !error.is_paused() {
            self.disconnect();
        }
        if error.code() == "database-read-only" && !retried {
            // The server executed nothing.
            for (_, reply) in batch {
                let refused = Error::unavailable("database-read-only", error.message());
                let _ = reply.send(Err(refused.caused_by(error.to_string())));
            }
            return;
        }
        metrics::counter!("mainspring_accepts_in_doubt_total").increment(batch.len() as u64);
        tracing::warn!(%error, starts = batch.len(), "the acceptance of starts is in doubt; they are looked up");
        let (chosen, generated): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(start, _)| start.has_chosen_id);
        unknown(chosen, error);
        let missing = self.find(generated).await;
        if retried {
            unknown(missing, error);
        } else if !missing.is_empty() {
            Box::pin(self.accept_batch(missing, true)).await;
        }
    }

    /// Replies to a start that was sent twice: its own first attempt may be why the second is refused. Where the route has moved
    /// meanwhile, the first attempt may still be committed: its outcome is unknown, and it is not sent to the new route.
    pub(super) async fn confirm(&mut self, pending: Pending, outcome: StartOutcome) {
        let is_refusal = !matches!(outcome, StartOutcome::Made { .. } | StartOutcome::NoDefinition);
        let missing = if is_refusal {
            self.find(vec![pending]).await
        } else {
            vec![pending]
        };
        if matches!(outcome, StartOutcome::RouteMoved) {
            unknown(missing, &route_moved());
        } else if let Some((_, reply)) = missing.into_iter().next() {
            let _ = reply.send(Ok(outcome));
        }
    }

    /// Replies to those that exist and returns the others. Retries until the lookup succeeds or no caller waits.
    async fn find(&mut self, mut batch: Vec<Pending>) -> Vec<Pending> {
        let mut pause = PAUSE;
        loop {
            batch.retain(|(_, reply)| !reply.is_closed());
            if batch.is_empty() {
                return batch;
            }
            match self.look_up(&batch).await {
                Ok(rows) => return reply_found(batch, &rows),
                Err(error) => {
                    tracing::debug!(%error, "starts in doubt cannot be looked up yet");
                    self.disconnect();
                }
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn look_up(&mut self, batch: &[Pending]) -> Result<Vec<Row>> {
        self.open().await?;
        let keys = batch
            .iter()
            .map(|(start, _)| (start.tenant.as_str(), start.instance.as_str()));
        let (tenants, instances): (Vec<&str>, Vec<&str>) = keys.unzip();
        let params: [&(dyn ToSql + Sync); 3] = [&self.incarnation.0, &tenants, &instances];
        match &self.source {
            ConnectionSource::Own(Some(channel)) => {
                within(ANSWER_TIMEOUT, channel.session.client.query(FOUND, &params)).await
            }
            ConnectionSource::Pooled(_, Some(lent)) => {
                let client = lent.client()?;
                within(ANSWER_TIMEOUT, client.query(FOUND, &params)).await
            }
            ConnectionSource::Own(None) | ConnectionSource::Pooled(_, None) => Err(no_connection()),
        }
    }

    /// Drops a connection that may be closed.
    fn disconnect(&mut self) {
        match &mut self.source {
            ConnectionSource::Own(channel) => *channel = None,
            ConnectionSource::Pooled(_, lent) => *lent = None,
        }
    }
}

/// Replies to the starts in `rows` and returns the others.
fn reply_found(batch: Vec<Pending>, rows: &[Row]) -> Vec<Pending> {
    let Ok(at) = columns!(*rows; no, id, version_id, definition_version, as_born, asked_at) else {
        return batch;
    };
    let mut batch: Vec<Option<Pending>> = batch.into_iter().map(Some).collect();
    for row in rows {
        let place = usize::try_from(row.get::<_, i32>(at.no) - 1).ok();
        let found = place.and_then(|place| batch.get_mut(place)).and_then(Option::take);
        let Some((start, reply)) = found else { continue };
        let outcome = match (
            row.get::<_, Option<i64>>(at.id),
            row.get::<_, Option<String>>(at.version_id),
        ) {
            // A queued start may be claimed by any node.
            (Some(work), Some(version_id)) if row.get(at.as_born) || !start.claimed => StartOutcome::Made {
                work: WorkId(work),
                definition: DefinitionRef {
                    definition_id: start.definition_id,
                    version_id: VersionId::from(version_id),
                    version: row.get(at.definition_version),
                },
                clock: DatabaseClock::read(row.get(at.asked_at)),
            },
            _ => StartOutcome::Existing,
        };
        let _ = reply.send(Ok(outcome));
    }
    batch.into_iter().flatten().collect()
}

fn unknown(batch: Vec<Pending>, error: &Error) {
    for (start, reply) in batch {
        let lost = Error::unknown_outcome(
            "the database connection was lost while the start was accepted; look the instance up, or try again with the same \
             Idempotency-Key",
        );
        let _ = reply.send(Err(lost.instance(start.instance.as_str()).caused_by(error.to_string())));
    }
}
