//! Claims rows and loads their instances, within bounds of bytes.
//!
//! Most claims are small: one statement claims all, and sums only the sizes. If they exceed the room, it claims nothing, and
//! a second form of it claims what fits. Instances whose rows have an order are claimed by a separate statement. A large
//! state is read by a separate statement once it is known to fit.
//!
//! An instance is loaded before its rows are claimed, in an older snapshot: either a cancel that is accepted in between is
//! claimed, or the version differs from the loaded one and the burst cannot be committed.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use postgres_types::{FromSql, ToSql, Type};
use serde_json::Value;
use tokio_postgres::Row;

use super::{
    ClaimColumns, ClaimedInstance, ClaimedRow, InstanceKey, KeyColumns, LoadedRow, claim_of, columns as key_columns,
    instance_key,
};
use crate::db::{ANSWER_TIMEOUT, Exclusive, Pool, columns, is_in_doubt, within};
use crate::failpoint;
use crate::id::{DefinitionId, Incarnation, InstanceId, InstanceVersion, TenantId, VersionId};
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, DefinitionRef};
use crate::store::instance::Generation;
use crate::store::parts::with_parts;
use crate::{Error, Result};

const CLAIM: &str = include_str!("../../../sql/queries/work/claim.sql");
const CLAIM_IN_ORDER: &str = include_str!("../../../sql/queries/work/claim_in_order.sql");
const LOAD: &str = include_str!("../../../sql/queries/instance/load.sql");

/// Claims all rows, or none if they exceed the room.
pub(crate) static TOGETHER: LazyLock<String> = LazyLock::new(|| with_parts(CLAIM, |part| part == "together"));

/// Claims the rows that fit.
pub(crate) static BOUNDED: LazyLock<String> = LazyLock::new(|| with_parts(CLAIM, |part| part == "bounded"));

/// A claim that a crash of the server loses is only claimed again: no flush. One plan for all claims: to plan a small one again
/// takes longer than to execute it. Set for the transaction only, as RESET would restore the server's default.
const BEGIN_RELAXED: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_generic_plan";

/// The most rows of one instance per burst.
const PER_BURST: i64 = 100;

/// How many bytes a claim may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimBounds {
    /// Of the bodies of each instance, and of its state: so much is always taken.
    pub(crate) share: usize,
    /// Of what exceeds the shares.
    pub(crate) room: usize,
    /// Nothing in flight exceeds its share: one row or state that exceeds the room is taken.
    pub(crate) is_idle: bool,
}

impl ClaimBounds {
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        share: 1 << 40,
        room: 1 << 40,
        is_idle: true,
    };
}

/// The bytes of claimed rows and a loaded state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) all: usize,
    /// What exceeds the share.
    pub(crate) excess: usize,
}

impl Bytes {
    /// So many bytes, where each instance has this share.
    pub(crate) fn of(all: usize, share: usize) -> Self {
        Self {
            all,
            excess: all.saturating_sub(share),
        }
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.excess += other.excess;
    }
}

/// Claims the due work of these instances and loads them, as far as it fits, in this order. The caller holds their locks.
/// With `isolated`, one isolated row is claimed too, if there is any: alone of its instance. Not cancellation safe:
/// dropped, the rows may be claimed.
pub(crate) async fn claim(
    pool: &Pool,
    incarnation: Incarnation,
    keys: &[InstanceKey],
    isolated: bool,
    bounds: ClaimBounds,
) -> Result<HashMap<InstanceKey, ClaimedInstance>> {
    failpoint::hit("claim.before").await?;
    let connection = pool.exclusive().await?;
    let claiming = Claiming {
        connection: &connection,
        incarnation,
        keys,
        isolated,
        bounds,
    };
    let (claimed, mut loaded) = claiming.send(&TOGETHER, false).await?;
    let mut found: HashMap<InstanceKey, ClaimedInstance> = HashMap::new();
    let mut first = read_rows(claimed, &mut found)?;
    if first.exceeds {
        let claimed;
        (claimed, loaded) = claiming.send(&BOUNDED, true).await?;
        first = read_rows(claimed, &mut found)?;
    }
    let mut large = read_instances(&loaded, &mut found)?;
    let mut is_sound = true;
    if !first.in_order.is_empty() {
        let used = found
            .values()
            .map(|instance| Bytes::of(instance.bytes.all, bounds.share).excess);
        let used = used.sum::<usize>();
        for key in &first.in_order {
            large.remove(key);
            if let Some(instance) = found.get_mut(key) {
                instance.loaded = None;
            }
        }
        let in_order = Claiming {
            keys: &first.in_order,
            bounds: ClaimBounds {
                room: bounds.room.saturating_sub(used),
                is_idle: bounds.is_idle && used == 0,
                ..bounds
            },
            ..claiming
        };
        match in_order.send_in_order().await {
            Ok((claimed, loaded)) => {
                read_rows(claimed, &mut found)?;
                large.extend(read_instances(&loaded, &mut found)?);
            }
            // What the first statement has claimed is committed.
            Err(error) => {
                tracing::warn!(%error, instances = first.in_order.len(), "rows of bursts that began could not be claimed; they are retried");
                is_sound = false;
                for key in &first.in_order {
                    if let Some(instance) = found.get_mut(key) {
                        instance.is_in_doubt = is_in_doubt(&error);
                    }
                }
            }
        }
    }
    found.retain(|_, instance| {
        let is_blocked = instance.is_left_out || instance.blocked.is_some();
        !instance.rows.is_empty() || !instance.unreadable.is_empty() || is_blocked
    });
    let fitting = fit(keys, bounds, &large, &mut found);
    if fitting.is_empty() {
        if is_sound {
            connection.give_back();
        }
    } else {
        match claiming.load(&fitting).await {
            Ok(loaded) => {
                connection.give_back();
                read_instances(&loaded, &mut found)?;
                for key in &fitting {
                    let version = large.get(key).map(|(_, version)| *version);
                    if let Some(instance) = found.get_mut(key)
                        && instance.loaded.as_ref().map(|loaded| loaded.version) != version
                    {
                        // It was cancelled or deleted since.
                        instance.is_unloaded = true;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, instances = fitting.len(), "large states could not be loaded; they are retried later");
                for key in &fitting {
                    if let Some(instance) = found.get_mut(key) {
                        (instance.is_unloaded, instance.is_left_out) = (true, true);
                    }
                }
            }
        }
    }
    failpoint::hit("claim.after").await?;
    Ok(found)
}

/// What the statements of a claim share.
struct Claiming<'a> {
    connection: &'a Exclusive,
    incarnation: Incarnation,
    keys: &'a [InstanceKey],
    isolated: bool,
    bounds: ClaimBounds,
}

impl Claiming<'_> {
    /// Claims by a form of the statement, and loads.
    async fn send(&self, form: &str, is_bounded: bool) -> Result<(Vec<Row>, Vec<Row>)> {
        let (tenants, instances) = key_columns(self.keys);
        let (share, mut room) = (number(self.bounds.share), number(self.bounds.room));
        if !is_bounded {
            // Together within one share, each is within its own.
            room = room.max(share);
        }
        let all: [&(dyn ToSql + Sync); 7] = [
            &self.incarnation.0,
            &tenants,
            &instances,
            &PER_BURST,
            &room,
            &share,
            &self.bounds.is_idle,
        ];
        self.send_with(form, if is_bounded { &all[..] } else { all.split_at(5).0 })
            .await
    }

    /// Claims the rows of instances whose order matters, and loads.
    async fn send_in_order(&self) -> Result<(Vec<Row>, Vec<Row>)> {
        failpoint::hit("claim.in_order").await?;
        let (tenants, instances) = key_columns(self.keys);
        let (share, room) = (number(self.bounds.share), number(self.bounds.room));
        let params: [&(dyn ToSql + Sync); 8] = [
            &self.incarnation.0,
            &tenants,
            &instances,
            &PER_BURST,
            &self.isolated,
            &room,
            &share,
            &self.bounds.is_idle,
        ];
        self.send_with(CLAIM_IN_ORDER, &params).await
    }

    async fn send_with(&self, claim: &str, params: &[&(dyn ToSql + Sync)]) -> Result<(Vec<Row>, Vec<Row>)> {
        let client = self.connection.client()?;
        let (tenants, instances) = key_columns(self.keys);
        let share = number(self.bounds.share);
        within(ANSWER_TIMEOUT, async {
            let claim = client.prepare_cached(claim).await?;
            let load = client.prepare_cached(LOAD).await?;
            let load_params: [&(dyn ToSql + Sync); 3] = [&tenants, &instances, &share];
            let (begun, loaded, claimed, committed) = futures_util::join!(
                client.batch_execute(BEGIN_RELAXED),
                client.query(&load, &load_params),
                client.query(&claim, params),
                client.batch_execute("COMMIT"),
            );
            begun?;
            let found = (claimed?, loaded?);
            committed?;
            Ok::<_, tokio_postgres::Error>(found)
        })
        .await
    }

    /// Loads instances with states of any size.
    async fn load(&self, keys: &[InstanceKey]) -> Result<Vec<Row>> {
        let client = self.connection.client()?;
        let (tenants, instances) = key_columns(keys);
        within(ANSWER_TIMEOUT, async {
            let load = client.prepare_cached(LOAD).await?;
            client.query(&load, &[&tenants, &instances, &i64::MAX]).await
        })
        .await
    }
}

fn number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Counts the bytes of the instances, and returns those whose large states fit. Of the others the rows are to be released.
fn fit(
    keys: &[InstanceKey],
    bounds: ClaimBounds,
    large: &HashMap<InstanceKey, (usize, InstanceVersion)>,
    found: &mut HashMap<InstanceKey, ClaimedInstance>,
) -> Vec<InstanceKey> {
    let (mut used, mut fitting) = (0, Vec::new());
    for key in keys {
        let Some(instance) = found.get_mut(key).filter(|instance| !instance.rows.is_empty()) else {
            continue;
        };
        let mut bytes = Bytes::of(instance.bytes.all, bounds.share);
        let state = large.get(key).map(|(bytes, _)| *bytes);
        let small = instance.loaded.as_ref().map_or(0, |loaded| loaded.state.len());
        bytes += Bytes::of(state.unwrap_or(small), bounds.share);
        let is_first = used == 0 && bounds.is_idle;
        if bytes.excess > 0 && used + bytes.excess > bounds.room && !is_first {
            (instance.is_unloaded, instance.is_left_out) = (true, true);
            continue;
        }
        used += bytes.excess;
        instance.bytes = bytes;
        if state.is_some() {
            fitting.push(key.clone());
        }
    }
    fitting
}

/// What a claim has left.
#[derive(Default)]
struct Unclaimed {
    /// It has claimed nothing, as all of it exceeds the room.
    exceeds: bool,
    /// Instances whose rows have an order.
    in_order: Vec<InstanceKey>,
}

/// Adds the rows of a claim, each of which is dropped once it is parsed.
fn read_rows(rows: Vec<Row>, found: &mut HashMap<InstanceKey, ClaimedInstance>) -> Result<Unclaimed> {
    let (key_at, claim_at, row_at) = (KeyColumns::of(&rows)?, ClaimColumns::of(&rows)?, RowColumns::of(&rows)?);
    let mut unclaimed = Unclaimed::default();
    let mut followed = Vec::new();
    for row in rows {
        let left_out = row.get::<_, Option<&str>>(row_at.left_out);
        if row.get::<_, Option<&str>>(key_at.tenant_id).is_none() {
            unclaimed.exceeds = true;
            continue;
        }
        let key = instance_key(key_at, &row);
        let instance = found.entry(key.clone()).or_default();
        match left_out {
            None => {}
            Some("followed") => {
                followed.push(key);
                continue;
            }
            Some("bytes") => {
                (instance.is_left_out, instance.blocked) = (true, None);
                continue;
            }
            Some(_) => {
                let wait = row.get::<_, Option<i64>>(row_at.wait).unwrap_or(0);
                instance.blocked = Some(Duration::from_micros(u64::try_from(wait).unwrap_or(0)));
                unclaimed.in_order.push(key);
                continue;
            }
        }
        // Claimed after all, in its order.
        instance.blocked = None;
        let claim = claim_of(claim_at, &row)?;
        let had_begun = row.get(row_at.had_begun);
        match claimed_row(row_at, &row, claim.clone()) {
            Ok((row, bytes)) => {
                instance.bytes.all += bytes;
                instance.rows.push(row);
            }
            Err(error) => {
                tracing::error!(?claim, %error, "a claimed row cannot be read; it is released and retried later");
                instance.unreadable.push((claim, had_begun));
            }
        }
    }
    for key in followed {
        let rows = found.get_mut(&key).into_iter().flat_map(|instance| &mut instance.rows);
        rows.for_each(|row| row.is_followed = true);
    }
    Ok(unclaimed)
}

/// Adds loaded instances; returns those whose states were too large to be read, with their sizes.
fn read_instances(
    rows: &[Row],
    found: &mut HashMap<InstanceKey, ClaimedInstance>,
) -> Result<HashMap<InstanceKey, (usize, InstanceVersion)>> {
    let at = columns!(*rows; tenant_id, id, version, definition_id, version_id, definition_version, state, bytes, created_at)?;
    let mut large = HashMap::new();
    for row in rows {
        let key = (
            TenantId::new(row.get::<_, String>(at.tenant_id)),
            InstanceId::new(row.get::<_, String>(at.id)),
        );
        let Some(state) = row.get::<_, Option<Vec<u8>>>(at.state) else {
            let bytes = usize::try_from(row.get::<_, i32>(at.bytes)).unwrap_or(0);
            large.insert(key, (bytes, InstanceVersion(row.get(at.version))));
            continue;
        };
        found.entry(key).or_default().loaded = Some(LoadedRow {
            version: InstanceVersion(row.get(at.version)),
            definition: DefinitionRef {
                definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
                version_id: VersionId::new(row.get::<_, String>(at.version_id)),
                version: row.get(at.definition_version),
            },
            state,
            generation: Generation::of(row.get(at.created_at)),
        });
    }
    Ok(large)
}

columns!(struct RowColumns {
    kind,
    body,
    definition_id,
    version_id,
    definition_version,
    failures,
    crashes,
    payload_bytes,
    replays,
    had_begun,
    claimed_at,
    available_at,
    left_out,
    wait
});

/// The text of a JSON value.
struct JsonText<'a>(&'a [u8]);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSON
    }
}

/// A row, and how many bytes its body has, with the payload of its fan-out.
fn claimed_row(at: RowColumns, row: &Row, claim: Claim) -> Result<(ClaimedRow, usize)> {
    let mut bytes = 0;
    let instruction = match row.get::<_, Option<i16>>(at.kind) {
        None => None,
        Some(number) => {
            let kind = WorkKind::from_number(number)
                .ok_or_else(|| Error::internal(format!("work of the unknown kind {number}; a newer node wrote it")))?;
            let body: Option<JsonText<'_>> = row.get(at.body);
            let payload = row.get::<_, Option<i32>>(at.payload_bytes).unwrap_or(0);
            bytes = body.as_ref().map_or(0, |body| body.0.len()) + usize::try_from(payload).unwrap_or(0);
            // Postgres accepts JSON that nests too deep for serde_json.
            let body: Option<Value> = body
                .map(|body| serde_json::from_slice(body.0))
                .transpose()
                .map_err(|error| Error::internal("the body of a row of work cannot be read").caused_by(error))?;
            Some((kind, body.unwrap_or(Value::Null)))
        }
    };
    let definition = row
        .get::<_, Option<String>>(at.version_id)
        .map(|version_id| DefinitionRef {
            definition_id: DefinitionId::new(row.get::<_, Option<String>>(at.definition_id).unwrap_or_default()),
            version_id: VersionId::new(version_id),
            version: row.get::<_, Option<i32>>(at.definition_version).unwrap_or_default(),
        });
    let row = ClaimedRow {
        claim,
        instruction,
        definition,
        failures: row.get(at.failures),
        crashes: row.get(at.crashes),
        had_begun: row.get(at.had_begun),
        is_followed: false,
        replays: row.get(at.replays),
        clock: DatabaseClock::read(row.get(at.claimed_at)),
        due: row.get(at.available_at),
    };
    Ok((row, bytes))
}
