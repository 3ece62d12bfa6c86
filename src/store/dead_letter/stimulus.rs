//! Replays the dead letter of a stimulus: publishes it again, to the same target.

use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;

use super::super::event::{PUBLISHES, PublishedEvent, RANDOM_KEY_LIFETIME, published_event};
use super::super::fan_out::{MAX_DIRECT, MAX_DIRECT_BYTES};
use super::super::stimulus_key::{self, KeySet, LOCK, StimulusScope};
use crate::db::{ANSWER_TIMEOUT, Pool, within};
use crate::failpoint;
use crate::id::{InstanceId, StimulusHash, TenantId};
use crate::{Error, Result};

const FIND: &str = include_str!("../../../sql/queries/dead_letter/find_stimulus.sql");
const TAKE: &str = include_str!("../../../sql/queries/dead_letter/take_stimulus.sql");

/// The result of the replay of a stimulus.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedStimulus {
    /// The target instance, if it has one.
    pub(crate) instance: Option<InstanceId>,
    /// What the event became; `None` if its target instance has ended, and it was only deleted.
    pub(crate) published: Option<PublishedEvent>,
}

/// Publishes the stimulus of a dead letter and deletes it, or neither. `None` if there is no such dead letter of a stimulus.
pub(crate) async fn replay(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: i64,
    lifetime: Duration,
) -> Result<Option<ReplayedStimulus>> {
    let tenant = tenant.as_str();
    let Some(row) = pool.query_opt(FIND, &[&tenant, &id]).await? else {
        return Ok(None);
    };
    let hash: [u8; 32] = row
        .get::<_, Vec<u8>>("hash")
        .try_into()
        .map_err(|_| Error::internal("a dead letter has no stimulus"))?;
    let hash = StimulusHash(hash);
    let instance = row.get::<_, Option<String>>("instance_id").map(InstanceId::new);
    let execution: Option<String> = row.get("activity_execution_id");
    let correlation_id: Option<String> = row.get("correlation_id");
    let can_start = instance.is_none() && execution.is_none();
    // What is in the dead letter never changes.
    let target = stimulus_key::target(instance.as_ref(), execution.as_deref());
    let scope = StimulusScope::of(correlation_id.as_deref(), target.is_some() || execution.is_some());
    let (keys, modes) = KeySet::of_publisher(&hash, correlation_id.as_deref(), target.as_ref(), can_start).columns();
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let replayed = within(ANSWER_TIMEOUT, async {
        client.batch_execute("BEGIN").await?;
        // As in a publish: in a statement before the one that matches.
        client.query(LOCK, &[&lock_class, &keys, &modes]).await?;
        let Some(dead_letter) = client.query_opt(TAKE, &[&tenant, &id]).await? else {
            client.batch_execute("ROLLBACK").await?;
            return Ok(None);
        };
        failpoint::hit("replay.taken").await?;
        let mut published = None;
        if !dead_letter.get::<_, bool>("ended") {
            let key = format!("dead-letter-{id}");
            let lifetime = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
            let params: [&(dyn ToSql + Sync); 16] = [
                &tenant,
                &"replay",
                &key,
                &[0u8; 32].as_slice(),
                &hash.0.as_slice(),
                &dead_letter.get::<_, String>("name"),
                &dead_letter.get::<_, Option<Value>>("payload"),
                &correlation_id,
                &target.as_ref().map(InstanceId::as_str),
                &execution,
                &lifetime,
                &MAX_DIRECT,
                // A retry finds no dead letter: the key is not what keeps the event from being published twice.
                &i64::try_from(RANDOM_KEY_LIFETIME.as_micros()).unwrap_or(i64::MAX),
                &MAX_DIRECT_BYTES,
                // It is stored already: a replay is never refused.
                &true,
                &None::<String>,
            ];
            published = Some(published_event(
                &client.query_one(scope.pick(&PUBLISHES), &params).await?,
            ));
        }
        connection.commit().await?;
        Ok::<_, Error>(Some(ReplayedStimulus {
            instance: target,
            published,
        }))
    })
    .await?;
    connection.give_back();
    Ok(replayed)
}
