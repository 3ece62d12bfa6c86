//! A stimulus that was given up is published anew: as if it came now, to the same target.

use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;

use super::super::event::{Fanout, LOCK, PUBLISH, fanout};
use crate::db::{ANSWER_TIMEOUT, Pool, within};
use crate::failpoint;
use crate::id::{InstanceId, StimulusHash, TenantId};
use crate::{Error, Result};

const FIND: &str = include_str!("../../../sql/queries/dead_letter/find_stimulus.sql");
const TAKE: &str = include_str!("../../../sql/queries/dead_letter/take_stimulus.sql");

/// What became of a stimulus that was replayed.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// The instance that it was meant for, if it was for one.
    pub(crate) instance: Option<InstanceId>,
    /// Where it went; none: its instance has ended, and it is gone.
    pub(crate) fanout: Option<Fanout>,
}

/// Publishes the stimulus of a letter, and the letter is gone: both or neither. None: there is no such letter, or it is of
/// something else.
pub(crate) async fn replay(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: i64,
    lifetime: Duration,
) -> Result<Option<Replayed>> {
    let tenant = tenant.as_str();
    let Some(row) = pool.query_opt(FIND, &[&tenant, &id]).await? else {
        return Ok(None);
    };
    let hash: [u8; 32] = row
        .get::<_, Vec<u8>>("hash")
        .try_into()
        .map_err(|_| Error::internal("a dead letter has no stimulus"))?;
    let hash = StimulusHash(hash);
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let replayed = within(ANSWER_TIMEOUT, async {
        client.batch_execute("BEGIN").await?;
        // As whoever publishes: in a statement before the one that looks.
        client.query(LOCK, &[&lock_class, &hash.lock_key()]).await?;
        let Some(letter) = client.query_opt(TAKE, &[&tenant, &id]).await? else {
            client.batch_execute("ROLLBACK").await?;
            return Ok(None);
        };
        failpoint::hit("replay.taken").await?;
        let instance: Option<String> = letter.get("instance_id");
        let mut went = None;
        if !letter.get::<_, bool>("ended") {
            let key = format!("letter-{id}");
            let lifetime = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
            let params: [&(dyn ToSql + Sync); 11] = [
                &tenant,
                &"replay",
                &key,
                &[0u8; 32].as_slice(),
                &hash.0.as_slice(),
                &letter.get::<_, String>("name"),
                &letter.get::<_, Option<Value>>("payload"),
                &letter.get::<_, Option<String>>("correlation_id"),
                &instance,
                &letter.get::<_, Option<String>>("activity_execution_id"),
                &lifetime,
            ];
            went = Some(fanout(&client.query_one(PUBLISH, &params).await?));
        }
        client.batch_execute("COMMIT").await?;
        Ok::<_, Error>(Some(Replayed {
            instance: instance.map(InstanceId::new),
            fanout: went,
        }))
    })
    .await?;
    connection.give_back();
    Ok(replayed)
}
