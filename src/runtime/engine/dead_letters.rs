//! Dead letters: work that failed too often or crashed too many processes, and events that expired.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::Engine;
use super::events::event_published;
use crate::elsa_json;
use crate::id::{BookmarkId, DefinitionId, InstanceId, TenantId, WorkId};
use crate::runtime::context::request::{EventAccepted, Listed, Page};
use crate::store::code;
use crate::store::dead_letter::stimulus;
use crate::store::dead_letter::{self, SelectedDeadLetter};
use crate::{Error, Result};

/// From so many failures on a row becomes a dead letter; as `work/release.sql` says.
const FAILURES: i32 = 20;

/// Dead letters of one bulk replay: by default, at most, and in one statement.
const DEFAULT_BATCH: i64 = 100;
const LARGEST_BATCH: i64 = 1000;
const AT_ONCE: usize = 256;

/// The bytes of the bodies of one bulk replay, at most.
const BYTES_AT_ONCE: i64 = 16 << 20;

/// Why work became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeadLetterCause {
    /// It failed repeatedly; `last_error` says how.
    Failed,
    /// The processes that ran it crashed.
    Crashed,
    /// It is a stimulus for an instance, a correlation id or an activity, and no bookmark waited for it in time.
    Expired,
}

/// Work that became a dead letter. Its instance waits for it if it needs it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// Its id.
    pub id: String,
    /// What it was to do: `start`, `resume`, `stimulus`, `cancel`, `continue`, `delay`.
    pub kind: String,
    /// Why it became a dead letter.
    pub cause: DeadLetterCause,
    /// The same in words.
    pub reason: String,
    /// The error of its last attempt, if it failed by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it became a dead letter, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// When it was accepted; `None` for a delay.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub accepted_at: Option<DateTime<Utc>>,
    /// The instance that it is for; `None` for a stimulus for any matching instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_instance_id: Option<InstanceId>,
    /// The definition of that instance; `None` if the instance no longer exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<DefinitionId>,
    /// The correlation id of that instance, or the one that the stimulus was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The bookmark that it was to resume, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bookmark_id: Option<BookmarkId>,
    /// The stimulus that it was to deliver, hashed, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stimulus_hash: Option<String>,
    /// The activity type that waits for such a stimulus, if it expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_type_name: Option<String>,
    /// The activity that it was for, if it expired and was for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_instance_id: Option<String>,
    /// How often it was tried: failures and crashes together.
    pub attempts: u32,
    /// How often it failed.
    pub failures: u32,
    /// How many processes crashed with it.
    pub crashes: u32,
    /// The id of its former row of work; `None` for a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_id: Option<String>,
}

/// Which dead letters to list or to replay: those that match all given criteria.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Only of this instance.
    pub instance_id: Option<InstanceId>,
    /// Only of instances of this workflow, and starts of it.
    pub definition_id: Option<DefinitionId>,
    /// Only of these kinds: `start`, `resume`, `stimulus`, `cancel`, `continue`, `delay`, `child-end`. Empty means all.
    pub kinds: Vec<String>,
    /// Only with this cause.
    pub cause: Option<DeadLetterCause>,
    /// Only those whose reason or last error contains this, in any case.
    pub reason_contains: Option<String>,
    /// Only those created at this time or later, by the database's clock.
    pub from: Option<DateTime<Utc>>,
    /// Only those created before this time.
    pub until: Option<DateTime<Utc>>,
}

impl DeadLetterFilter {
    /// Whether it is empty, so that every dead letter matches.
    pub fn is_empty(&self) -> bool {
        self.instance_id.is_none()
            && self.definition_id.is_none()
            && self.kinds.is_empty()
            && self.cause.is_none()
            && self.reason_contains.is_none()
            && self.from.is_none()
            && self.until.is_none()
    }

    fn numbers(&self) -> Result<Vec<i16>> {
        let mut numbers = Vec::new();
        for word in &self.kinds {
            let found = dead_letter::kinds(word);
            if found.is_empty() {
                let message = format!(
                    "{word:?} is not a kind; use start, resume, stimulus, cancel, continue, delay or child-end"
                );
                return Err(Error::invalid("invalid-filter", message.clone()).field("kinds", message));
            }
            numbers.extend(found);
        }
        Ok(numbers)
    }

    fn which<'a>(&'a self, numbers: &'a [i16]) -> dead_letter::DeadLetterFilter<'a> {
        dead_letter::DeadLetterFilter {
            instance: self.instance_id.as_ref(),
            id: None,
            definition: self.definition_id.as_ref().map(DefinitionId::as_str),
            kinds: Some(numbers).filter(|_| !self.kinds.is_empty()),
            cause: self.cause.map(|cause| match cause {
                DeadLetterCause::Failed => code::DeadLetterCause::Failed.number(),
                DeadLetterCause::Crashed => code::DeadLetterCause::Crashed.number(),
                DeadLetterCause::Expired => code::DeadLetterCause::Expired.number(),
            }),
            reason: self.reason_contains.as_deref(),
            from: self.from,
            until: self.until,
        }
    }
}

/// The dead letters that a bulk replay takes in one call.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterBatch {
    /// Only dead letters after the one with this id: [`DeadLettersReplayed::next`] of the call before.
    pub after: Option<String>,
    /// The maximum number of dead letters, 1 to 1,000; 0 means 100.
    pub limit: u32,
}

/// The result of a bulk replay of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLettersReplayed {
    /// Dead letters that became work again, or were published again.
    pub replayed: u64,
    /// Dead letters that no instance needs any longer; they are deleted.
    pub not_needed: u64,
    /// Starts that an activation strategy or a schedule refuses now; they stay dead letters.
    pub refused: u64,
    /// The `after` of the next call, if more may match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The result of the replay of a dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetterReplayed {
    /// The instance that it is for; `None` for a stimulus for any matching instance.
    pub instance_id: Option<InstanceId>,
    /// Its new row of work.
    pub work_id: Option<WorkId>,
    /// The result of a stimulus that was published again. With neither of them, the dead letter was no longer needed and was
    /// deleted.
    pub published: Option<EventAccepted>,
}

impl Engine {
    /// The dead letters, newest first. Cancellation safe.
    pub async fn dead_letters(&self, filter: &DeadLetterFilter, page: Page) -> Result<Listed<DeadLetter>> {
        let (limit, offset) = page.window();
        let (node, tenant) = (self.node()?, &self.tenant);
        let numbers = filter.numbers()?;
        let which = filter.which(&numbers);
        let (total_count, rows) = dead_letter::list(node.database.reads.lists(), tenant, which, limit, offset).await?;
        Ok(Listed {
            items: rows.into_iter().map(shown).collect(),
            total_count,
        })
    }

    /// One dead letter; [`Error::is_not_found`](crate::Error::is_not_found) if there is none with this id. Cancellation
    /// safe.
    pub async fn dead_letter(&self, id: &str) -> Result<DeadLetter> {
        Ok(shown(
            dead_letter::find(self.node()?.database.reads.by_key(), self.tenant(), number(id)?).await?,
        ))
    }

    /// Turns a dead letter into work again, without its failures, to run at once on any node. A dead letter that is no
    /// longer needed because its instance has finished is deleted. Cancellation safe: either all of it is done or nothing.
    pub async fn replay_dead_letter(&self, id: &str) -> Result<DeadLetterReplayed> {
        let node = self.accepting()?;
        let lifetime = self.inner.settings.inbox_lifetime;
        let stimulus = stimulus::replay(
            &self.changes(&node),
            node.database.lock_class(),
            self.tenant(),
            number(id)?,
            lifetime,
        )
        .await?;
        if let Some(replayed) = stimulus {
            tracing::info!(dead_letter = id, published = ?replayed.published, "an expired event was published again from its dead letter");
            return Ok(DeadLetterReplayed {
                instance_id: replayed.instance,
                work_id: None,
                published: replayed.published.map(|published| event_published(&node, &published)),
            });
        }
        let replayed = dead_letter::replay(&self.changes(&node), self.tenant(), number(id)?).await?;
        if replayed.work.is_some() {
            node.work_accepted(Some(&replayed.instance), None, 1);
        }
        tracing::info!(dead_letter = id, instance = %replayed.instance, "a dead letter was replayed");
        Ok(DeadLetterReplayed {
            instance_id: Some(replayed.instance),
            work_id: replayed.work,
            published: None,
        })
    }

    /// Replays the dead letters that match, oldest first, a bounded number of them; [`DeadLettersReplayed::next`] is where
    /// to continue. Each is replayed at most once, however many calls run at the same time, and a repeated call replays only
    /// the rest. It stops early at the answer timeout. Cancellation safe: the rest stay dead letters.
    pub async fn replay_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        batch: &DeadLetterBatch,
    ) -> Result<DeadLettersReplayed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let (numbers, tenant) = (filter.numbers()?, self.tenant());
        let behind = batch.after.as_deref().map(number).transpose()?.unwrap_or(0);
        let limit = match batch.limit {
            0 => DEFAULT_BATCH,
            limit => i64::from(limit).min(LARGEST_BATCH),
        };
        let which = filter.which(&numbers);
        let (picked, is_cut) =
            dead_letter::select(&node.database.pool, tenant, which, behind, limit, BYTES_AT_ONCE).await?;
        let mut done = DeadLettersReplayed::default();
        if is_cut || i64::try_from(picked.len()).unwrap_or(i64::MAX) == limit {
            done.next = picked.last().map(|last| last.id.to_string());
        }
        let (together, alone): (Vec<SelectedDeadLetter>, Vec<SelectedDeadLetter>) =
            picked.into_iter().partition(|letter| letter.is_plain);
        let together: Vec<i64> = together.into_iter().map(|letter| letter.id).collect();
        for ids in together.chunks(AT_ONCE) {
            let many = dead_letter::replay_many(&self.changes(&node), tenant, ids).await?;
            done.replayed += many.rows;
            done.not_needed += many.taken.saturating_sub(many.rows);
            if many.rows > 0 {
                node.work_accepted(None, None, usize::try_from(many.rows).unwrap_or(usize::MAX));
            }
        }
        for letter in alone {
            if Instant::now() >= deadline {
                done.next = Some((letter.id - 1).to_string());
                break;
            }
            match self.replay_dead_letter(&letter.id.to_string()).await {
                Ok(replayed) if replayed.work_id.is_some() || replayed.published.is_some() => done.replayed += 1,
                Ok(_) => done.not_needed += 1,
                Err(error) if error.is_conflict() => done.refused += 1,
                // Another call has replayed it.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        tracing::info!(
            replayed = done.replayed,
            not_needed = done.not_needed,
            refused = done.refused,
            "dead letters were replayed in bulk"
        );
        Ok(done)
    }

    /// Deletes a dead letter. [`Error::is_conflict`](crate::Error::is_conflict), code `dead-letter-needed`, if its instance
    /// would wait forever without it. Cancellation safe.
    pub async fn delete_dead_letter(&self, id: &str) -> Result<()> {
        dead_letter::delete(&self.changes(&*self.node()?), self.tenant(), number(id)?).await?;
        tracing::info!(dead_letter = id, "a dead letter was deleted");
        Ok(())
    }

    fn tenant(&self) -> &TenantId {
        &self.tenant
    }
}

/// An id that is not a number belongs to no dead letter.
fn number(id: &str) -> Result<i64> {
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let number = id.parse().ok().filter(|_| plain);
    number.ok_or_else(|| dead_letter::not_found(id))
}

fn shown(row: dead_letter::DeadLetterRow) -> DeadLetter {
    let text = |field: &str| row.body.get(field).and_then(Value::as_str).map(str::to_owned);
    let failed = row.failures >= FAILURES;
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    DeadLetter {
        id: row.id.to_string(),
        kind: row.kind.to_owned(),
        cause: if row.stimulus.is_some() {
            DeadLetterCause::Expired
        } else if failed {
            DeadLetterCause::Failed
        } else {
            DeadLetterCause::Crashed
        },
        reason: if failed {
            format!("it failed {} times", row.failures)
        } else {
            row.reason.clone()
        },
        last_error: failed.then(|| row.reason.clone()),
        created_at: row.created_at,
        accepted_at: row.accepted_at,
        workflow_instance_id: row.instance.clone(),
        definition_id: row.definition.clone().map(DefinitionId::new),
        correlation_id: row.correlation_id.clone().or_else(|| text("correlationId")),
        bookmark_id: row.timer.clone().or_else(|| text("bookmarkId")).map(BookmarkId::new),
        stimulus_hash: row.stimulus.as_ref().map(|it| it.hash.clone()).or_else(|| text("hash")),
        activity_type_name: row.stimulus.as_ref().map(|it| it.name.clone()),
        activity_instance_id: row.stimulus.as_ref().and_then(|it| it.activity_execution_id.clone()),
        attempts: count(row.failures) + count(row.crashes),
        failures: count(row.failures),
        crashes: count(row.crashes),
        work_id: row.work.map(|id| id.to_string()),
    }
}
