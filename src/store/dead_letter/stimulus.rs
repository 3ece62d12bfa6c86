//! Replays the dead letter of a stimulus: publishes it again, to the same target.

use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;

use super::super::event::{Fanout, KEY_LIFETIME, PUBLISHES, fanout};
use super::super::fan_out::MAX_DIRECT;
use super::super::stimulus_key::{KeySet, LOCK, StimulusScope};
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
    /// Its fan-out; none: its target instance has ended, and it was only deleted.
    pub(crate) fanout: Option<Fanout>,
}

/// Publishes the stimulus of a dead letter and deletes it, or neither. None: there is no such dead letter of a stimulus.
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
    let target: Option<String> = row.get("instance_id");
    let correlation_id: Option<String> = row.get("correlation_id");
    let can_start = target.is_none() && row.get::<_, Option<String>>("activity_execution_id").is_none();
    let target = target.map(InstanceId::new);
    let scope = StimulusScope::of(correlation_id.as_deref(), target.as_ref());
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
        let instance: Option<String> = dead_letter.get("instance_id");
        let mut published = None;
        if !dead_letter.get::<_, bool>("ended") {
            let key = format!("letter-{id}");
            let lifetime = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
            let params: [&(dyn ToSql + Sync); 13] = [
                &tenant,
                &"replay",
                &key,
                &[0u8; 32].as_slice(),
                &hash.0.as_slice(),
                &dead_letter.get::<_, String>("name"),
                &dead_letter.get::<_, Option<Value>>("payload"),
                &dead_letter.get::<_, Option<String>>("correlation_id"),
                &instance,
                &dead_letter.get::<_, Option<String>>("activity_execution_id"),
                &lifetime,
                &MAX_DIRECT,
                &i64::try_from(KEY_LIFETIME.as_micros()).unwrap_or(i64::MAX),
            ];
            published = Some(fanout(&client.query_one(scope.pick(&PUBLISHES), &params).await?));
        }
        client.batch_execute("COMMIT").await?;
        Ok::<_, Error>(Some(ReplayedStimulus {
            instance: instance.map(InstanceId::new),
            fanout: published,
        }))
    })
    .await?;
    connection.give_back();
    Ok(replayed)
}
