//! Starts whose acceptance is in doubt: their statement was sent, and its answer is lost.
//!
//! # Invariants
//!
//! - As soon as there is a connection they are asked for by id. An id that was made for a start is of no other one, so what
//!   is found under it is that start: it is answered as accepted, and what was born claimed is run by whoever asked for it.
//! - What is not found is sent once more, never only called lost: the former backend may still be about to commit. Of the
//!   two the unique index on starts lets one in; a start that comes in after its instance is discarded when it is claimed.
//! - Under an id that a caller chose there may be another one's start: it is unknown what became of it.

use std::time::Duration;

use postgres_types::ToSql;
use tokio_postgres::Row;

use super::{AcceptTask, ConnectionSource, Pending, StartOutcome, no_connection};
use crate::db::{ANSWER_TIMEOUT, columns, within};
use crate::id::{VersionId, WorkId};
use crate::store::clock::DatabaseClock;
use crate::store::commit::DefinitionRef;
use crate::{Error, Result};

const FOUND: &str = include_str!("../../../sql/queries/start/find_accepted.sql");

/// Between two tries to ask.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether an error leaves open if the statement was carried out.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    error.is_unavailable() && error.code() != "database-busy" && !error.is_database_fault()
}

impl AcceptTask {
    /// Brings a batch to its answers whose statement may have been carried out. If `again`, it was sent twice.
    pub(super) async fn settle(&mut self, batch: Vec<Pending>, error: &Error, again: bool) {
        if is_in_doubt(error) {
            self.hang_up();
        }
        if error.code() == "database-read-only" && !again {
            // The server says that it did nothing.
            for (_, reply) in batch {
                let refused = Error::unavailable("database-read-only", error.message());
                let _ = reply.send(Err(refused.caused_by(error.to_string())));
            }
            return;
        }
        metrics::counter!("mainspring_accepts_in_doubt_total").increment(batch.len() as u64);
        tracing::warn!(%error, starts = batch.len(), "whether starts were accepted is in doubt; they are asked for");
        let (chosen, ours): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(start, _)| start.chosen);
        unknown(chosen, error);
        let missing = self.find(ours).await;
        if again {
            unknown(missing, error);
        } else if !missing.is_empty() {
            Box::pin(self.write(missing, true)).await;
        }
    }

    /// Answers a start that was sent twice: one that is refused may be so for the sake of its own first try.
    pub(super) async fn confirm(&mut self, pending: Pending, outcome: StartOutcome) {
        let is_refusal = !matches!(outcome, StartOutcome::Made { .. } | StartOutcome::NoDefinition);
        let missing = if is_refusal {
            self.find(vec![pending]).await
        } else {
            vec![pending]
        };
        if let Some((_, reply)) = missing.into_iter().next() {
            let _ = reply.send(Ok(outcome));
        }
    }

    /// Answers those that are there, and gives back the others. Tries until it can ask, or no caller waits any more.
    async fn find(&mut self, mut batch: Vec<Pending>) -> Vec<Pending> {
        let mut pause = PAUSE;
        loop {
            batch.retain(|(_, reply)| !reply.is_closed());
            if batch.is_empty() {
                return batch;
            }
            match self.ask(&batch).await {
                Ok(rows) => return answer(batch, &rows),
                Err(error) => {
                    tracing::debug!(%error, "starts in doubt cannot be asked for yet");
                    self.hang_up();
                }
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask(&mut self, batch: &[Pending]) -> Result<Vec<Row>> {
        self.open().await?;
        let keys = batch
            .iter()
            .map(|(start, _)| (start.tenant.as_str(), start.instance.as_str()));
        let (tenants, instances): (Vec<&str>, Vec<&str>) = keys.unzip();
        let params: [&(dyn ToSql + Sync); 3] = [&self.incarnation.0, &tenants, &instances];
        match &self.line {
            ConnectionSource::Own(Some(channel)) => {
                within(ANSWER_TIMEOUT, channel.session.client.query(FOUND, &params)).await
            }
            ConnectionSource::Lent(_, Some(lent)) => {
                let client = lent.client()?;
                within(ANSWER_TIMEOUT, client.query(FOUND, &params)).await
            }
            ConnectionSource::Own(None) | ConnectionSource::Lent(_, None) => Err(no_connection()),
        }
    }

    /// Gives up a connection that may be dead.
    fn hang_up(&mut self) {
        match &mut self.line {
            ConnectionSource::Own(channel) => *channel = None,
            ConnectionSource::Lent(_, lent) => *lent = None,
        }
    }
}

/// Answers those that the rows tell of, and gives back the others.
fn answer(batch: Vec<Pending>, rows: &[Row]) -> Vec<Pending> {
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
            // What was not born claimed is whoever's comes by.
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
            "the database went away while the start was accepted; look the instance up, or try again with the same \
             Idempotency-Key",
        );
        let _ = reply.send(Err(lost.instance(start.instance.as_str()).caused_by(error.to_string())));
    }
}
