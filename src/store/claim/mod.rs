//! Polls work, claims it, loads the instances and releases claims.
//!
//! # Invariants
//!
//! - A poll locks and claims nothing. Only rows of instances whose lock the caller holds are claimed, so a claim is never
//!   released because the lock is missing.
//! - The load and the claim are statements issued after the lock was taken, so their snapshots see every earlier commit.
//! - A burst that began is repeated before anything else of its instance, with the same rows in the same order; only then
//!   does it run on the same state again.
//! - `claim_no` grows with each claim: it is the fencing token of a row.

mod rows;

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;

use super::clock::DatabaseClock;
use super::code::{ReleaseCode, WorkKind};
use super::commit::{Claim, DefinitionRef};
use super::instance::Generation;
use super::request::HTTP_ROUTE;
use crate::db::{Pool, columns};
use crate::failpoint;
pub(crate) use crate::id::InstanceKey;
use crate::id::{BookmarkId, ClaimNo, Incarnation, InstanceId, InstanceVersion, TenantId, VersionId, WorkId};
use crate::{Error, Result};

#[cfg(test)]
pub(crate) use rows::BOUNDED;
#[cfg(any(test, feature = "bench"))]
pub(crate) use rows::TOGETHER;
pub(crate) use rows::{Bytes, ClaimBounds, claim};

/// Also for experiments, which measure it.
pub(crate) const POLL: &str = include_str!("../../../sql/queries/work/poll.sql");
const POLL_SUPPORTED: &str = include_str!("../../../sql/queries/work/poll_supported.sql");
const NEXT_SUPPORTED_DUE: &str = include_str!("../../../sql/queries/work/next_supported_due.sql");
const RELEASE: &str = include_str!("../../../sql/queries/work/release.sql");
const DISCARD: &str = include_str!("../../../sql/queries/work/discard.sql");
const DISCARD_VOLATILE: &str = include_str!("../../../sql/queries/work/discard_volatile.sql");
const LEFT_TO_HOLDERS: &str = include_str!("../../../sql/queries/work/left_to_holders.sql");
const MINE: &str = include_str!("../../../sql/queries/work/list_claimed.sql");

/// From so many crashes on a row is isolated: it runs alone. The statements have the same number.
const ISOLATE_AFTER_CRASHES: i32 = 2;

/// A version of a definition of a tenant.
pub(crate) type VersionKey = (TenantId, VersionId);

/// A claimed row with its content.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedRow {
    pub(crate) claim: Claim,
    /// `None` for a timer that came due.
    pub(crate) instruction: Option<(WorkKind, Value)>,
    /// Of a start: the version that it runs.
    pub(crate) definition: Option<DefinitionRef>,
    pub(crate) failures: i32,
    pub(crate) crashes: i32,
    /// A burst with it may have begun before this claim.
    pub(crate) had_begun: bool,
    /// Rows of the lost burst are left behind it, which this claim did not take.
    pub(crate) is_followed: bool,
    /// Of a replayed dead letter: the row that it was at first.
    pub(crate) replays: Option<String>,
    /// The time of the claim, which is not before the row was due.
    pub(crate) clock: DatabaseClock,
    /// When it was due, at this claim.
    pub(crate) due: DateTime<Utc>,
}

impl ClaimedRow {
    /// The row, if a caller may wait to learn whether it matched anything.
    pub(crate) fn awaited_work(&self) -> Option<WorkId> {
        match (&self.claim, &self.instruction) {
            (Claim::Work(work, _), Some((WorkKind::Resume | WorkKind::Cancel, _))) => Some(*work),
            _ => None,
        }
    }

    /// It is not the row under which a burst goes on that yielded.
    pub(crate) fn is_from_outside(&self) -> bool {
        !matches!(self.instruction, Some((WorkKind::Continue, _)))
    }

    /// Two processes crashed with it claimed: it runs alone.
    pub(crate) fn is_isolated(&self) -> bool {
        self.crashes >= ISOLATE_AFTER_CRASHES
    }
}

/// An instance as loaded.
#[derive(Clone, Debug)]
pub(crate) struct LoadedRow {
    pub(crate) version: InstanceVersion,
    pub(crate) definition: DefinitionRef,
    pub(crate) state: Vec<u8>,
    pub(crate) generation: Generation,
}

/// The claimed rows of one instance, and the instance.
#[derive(Debug, Default)]
pub(crate) struct ClaimedInstance {
    pub(crate) rows: Vec<ClaimedRow>,
    /// Claimed rows that this build cannot read, each with whether a burst with it may have begun before.
    pub(crate) unreadable: Vec<(Claim, bool)>,
    pub(crate) loaded: Option<LoadedRow>,
    /// Of the rows and the state.
    pub(crate) bytes: Bytes,
    /// Some of it does not fit now: rows were not claimed, or the state was not read.
    pub(crate) is_left_out: bool,
    /// Its state was not read, and its rows are to be released.
    pub(crate) is_unloaded: bool,
    /// Nothing of it was claimed, as the first row of a burst that began cannot be claimed for so long; zero: unknown.
    pub(crate) blocked: Option<Duration>,
    /// Whether its rows were claimed in the order of a burst that began is unknown.
    pub(crate) is_in_doubt: bool,
}

fn columns(keys: &[InstanceKey]) -> (Vec<&str>, Vec<&str>) {
    keys.iter()
        .map(|(tenant, instance)| (tenant.as_str(), instance.as_str()))
        .unzip()
}

/// The result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolledWork {
    /// Instances with due work, oldest first.
    pub(crate) instances: Vec<InstanceKey>,
    /// How many of the polled rows each of them has.
    pub(crate) rows: Vec<i64>,
    /// The limit was reached: more instances may follow.
    pub(crate) full: bool,
    /// How long until the next row is due, if the poll read that.
    pub(crate) next_due: Option<Duration>,
    /// The due time of the last of them, if the poll read that.
    pub(crate) last: Option<DateTime<Utc>>,
}

impl PolledWork {
    pub(crate) fn empty() -> Self {
        Self {
            instances: Vec::new(),
            rows: Vec::new(),
            full: false,
            next_due: None,
            last: None,
        }
    }
}

/// A shard of the backlog: of `count` shards that with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) count: i32,
    pub(crate) index: i32,
}

impl Shard {
    pub(crate) const WHOLE: Shard = Shard { count: 1, index: 0 };
}

/// Polls the oldest `limit` rows of a shard that were due at `since` or later, without the instances in `except`; with
/// `isolated`, isolated rows too.
pub(crate) async fn poll_work(
    pool: &Pool,
    limit: usize,
    except: &[InstanceKey],
    isolated: bool,
    since: DateTime<Utc>,
    shard: Shard,
) -> Result<PolledWork> {
    poll_rows(pool, limit, except, isolated, since, None, shard).await
}

/// The same for rows that have waited for less than `age`, by the database's clock, without isolated rows.
pub(crate) async fn poll_recent_work(
    pool: &Pool,
    limit: usize,
    except: &[InstanceKey],
    since: DateTime<Utc>,
    age: Duration,
    shard: Shard,
) -> Result<PolledWork> {
    poll_rows(pool, limit, except, false, since, Some(age), shard).await
}

async fn poll_rows(
    pool: &Pool,
    limit: usize,
    except: &[InstanceKey],
    isolated: bool,
    since: DateTime<Utc>,
    age: Option<Duration>,
    shard: Shard,
) -> Result<PolledWork> {
    failpoint::hit("claim.poll").await?;
    let (tenants, instances) = columns(except);
    let limit = limit as i64;
    let age = age.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
    let params: [&(dyn ToSql + Sync); 8] = [
        &limit,
        &tenants,
        &instances,
        &isolated,
        &since,
        &age,
        &shard.count,
        &shard.index,
    ];
    let rows = pool.query(POLL, &params).await?;
    let at = columns!(rows; next_due, tenant_id, instance_id, count, oldest)?;
    let mut seen = PolledWork::empty();
    for row in &rows {
        seen.next_due = row.get::<_, Option<i64>>(at.next_due).map(micros);
        if let (Some(tenant), Some(instance)) = (
            row.get::<_, Option<String>>(at.tenant_id),
            row.get::<_, Option<String>>(at.instance_id),
        ) {
            seen.rows.push(row.get(at.count));
            seen.last = row.get(at.oldest);
            seen.instances.push((TenantId::new(tenant), InstanceId::new(instance)));
        }
    }
    seen.full = seen.rows.iter().sum::<i64>() >= limit;
    Ok(seen)
}

fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// What the poll of a node leaves out that cannot run every version.
#[derive(Debug)]
pub(crate) struct VersionFilter<'a> {
    /// The versions that it cannot run.
    pub(crate) unsupported: &'a [VersionKey],
    /// Older rows are left out; `None` if no row is.
    pub(crate) since: Option<DateTime<Utc>>,
}

/// The same for a node that cannot run every version; also returns the time from which its next polls can start: that of the
/// oldest row that was found, or of this poll.
pub(crate) async fn poll_supported_work(
    pool: &Pool,
    limit: usize,
    except: &[InstanceKey],
    isolated: bool,
    filter: &VersionFilter<'_>,
) -> Result<(PolledWork, DateTime<Utc>)> {
    failpoint::hit("claim.poll").await?;
    let (tenants, instances) = columns(except);
    let (version_tenants, versions) = version_columns(filter.unsupported);
    let limit = limit as i64;
    let since = filter.since.unwrap_or(DateTime::UNIX_EPOCH);
    let params: [&(dyn ToSql + Sync); 7] = [
        &limit,
        &tenants,
        &instances,
        &isolated,
        &version_tenants,
        &versions,
        &since,
    ];
    let rows = pool.query(POLL_SUPPORTED, &params).await?;
    let at = columns!(rows; polled_at, tenant_id, instance_id, count, oldest)?;
    let mut seen = PolledWork::empty();
    let mut oldest = since;
    for row in &rows {
        let (Some(tenant), Some(instance)) = (
            row.get::<_, Option<String>>(at.tenant_id),
            row.get::<_, Option<String>>(at.instance_id),
        ) else {
            oldest = row.get(at.polled_at);
            continue;
        };
        if seen.instances.is_empty() {
            oldest = row.get(at.oldest);
        }
        seen.rows.push(row.get(at.count));
        seen.instances.push((TenantId::new(tenant), InstanceId::new(instance)));
    }
    seen.full = seen.rows.iter().sum::<i64>() >= limit;
    Ok((seen, oldest))
}

/// How long until work is due for a node that cannot run these versions; `None` if there is none.
pub(crate) async fn next_supported_due(pool: &Pool, unsupported: &[VersionKey]) -> Result<Option<Duration>> {
    let (tenants, versions) = version_columns(unsupported);
    let count: Option<i64> = pool
        .query_one(NEXT_SUPPORTED_DUE, &[&tenants, &versions])
        .await?
        .get("next_due");
    Ok(count.map(micros))
}

fn version_columns(keys: &[VersionKey]) -> (Vec<&str>, Vec<&str>) {
    keys.iter()
        .map(|(tenant, version)| (tenant.as_str(), version.as_str()))
        .unzip()
}

columns!(struct KeyColumns { tenant_id, instance_id });

fn instance_key(at: KeyColumns, row: &tokio_postgres::Row) -> InstanceKey {
    (
        TenantId::new(row.get::<_, String>(at.tenant_id)),
        InstanceId::new(row.get::<_, String>(at.instance_id)),
    )
}

columns!(struct ClaimColumns { work_id, timer_id, claim_no });

fn claim_of(at: ClaimColumns, row: &tokio_postgres::Row) -> Result<Claim> {
    let claim_no = ClaimNo(row.get(at.claim_no));
    match (
        row.get::<_, Option<i64>>(at.work_id),
        row.get::<_, Option<String>>(at.timer_id),
    ) {
        (Some(id), _) => Ok(Claim::Work(WorkId(id), claim_no)),
        (None, Some(id)) => Ok(Claim::Timer(BookmarkId::new(id), claim_no)),
        (None, None) => Err(Error::internal("a claim names neither work nor timer")),
    }
}

/// Why a claim is released; decides which counter grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseCause<'a> {
    None,
    /// A transient failure: retried with a growing backoff, never a dead letter.
    Transient,
    /// A failure of the row itself, for this reason: the twentieth makes it a dead letter.
    Row(&'a str),
}

/// How a claim is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release<'a> {
    pub(crate) cause: ReleaseCause<'a>,
    /// How long no node claims the rows.
    pub(crate) pause: Duration,
}

impl<'a> Release<'a> {
    /// Without a pause, and no counter grows.
    pub(crate) const IMMEDIATE: Release<'static> = Release {
        cause: ReleaseCause::None,
        pause: Duration::ZERO,
    };

    /// After a burst failed to run or to be committed.
    pub(crate) fn after(error: &Error, reason: &'a str, pause: Duration) -> Self {
        let cause = if error.is_transient() || error.is_unknown_outcome() {
            ReleaseCause::Transient
        } else {
            ReleaseCause::Row(reason)
        };
        Self { cause, pause }
    }
}

/// Releases claims of a burst that may have begun. Rows that this incarnation no longer holds are left alone.
pub(crate) async fn release(
    pool: &Pool,
    incarnation: Incarnation,
    key: &InstanceKey,
    claims: &[Claim],
    release: Release<'_>,
) -> Result<()> {
    let begun = vec![true; claims.len()];
    release_as(pool, incarnation, key, claims, &begun, release).await
}

/// The same, each with whether a burst with it may have begun.
pub(crate) async fn release_as(
    pool: &Pool,
    incarnation: Incarnation,
    key: &InstanceKey,
    claims: &[Claim],
    begun: &[bool],
    release: Release<'_>,
) -> Result<()> {
    failpoint::hit("claim.release").await?;
    let (mut works, mut timers, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for claim in claims {
        let (work, timer, number) = match claim {
            Claim::Work(id, number) => (Some(id.0), None, number.0),
            Claim::Timer(id, number) => (None, Some(id.as_str()), number.0),
        };
        works.push(work);
        timers.push(timer);
        numbers.push(number);
    }
    let tenants = vec![key.0.as_str(); claims.len()];
    let instances = vec![key.1.as_str(); claims.len()];
    let (cause, reason) = match release.cause {
        ReleaseCause::None => (ReleaseCode::None, ""),
        ReleaseCause::Transient => (ReleaseCode::Transient, ""),
        ReleaseCause::Row(reason) => (ReleaseCode::Row, reason),
    };
    let pause = i64::try_from(release.pause.as_micros()).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 10] = [
        &incarnation.0,
        &tenants,
        &instances,
        &works,
        &timers,
        &numbers,
        &cause.number(),
        &pause,
        &reason,
        &begun,
    ];
    let dead_letters: i64 = pool.query_one(RELEASE, &params).await?.get("dead_letters");
    if dead_letters > 0 {
        tracing::error!(instance = %key.1, dead_letters, reason, "rows that failed too often became dead letters");
    }
    Ok(())
}

/// Deletes claimed rows of work that can have no effect.
pub(crate) async fn discard_work(
    pool: &Pool,
    incarnation: Incarnation,
    tenant: &TenantId,
    claims: &[Claim],
) -> Result<()> {
    let (ids, numbers): (Vec<i64>, Vec<i64>) = claims
        .iter()
        .filter_map(|claim| match claim {
            Claim::Work(id, number) => Some((id.0, number.0)),
            Claim::Timer(..) => None,
        })
        .unzip();
    let tenants = vec![tenant.as_str(); ids.len()];
    pool.query(DISCARD, &[&incarnation.0, &tenants, &ids, &numbers]).await?;
    Ok(())
}

/// Deletes a claimed row of a request that is lost, and its idempotency key: the client may send it again.
pub(crate) async fn discard_volatile(
    pool: &Pool,
    incarnation: Incarnation,
    instance: &InstanceKey,
    claim: &Claim,
    key: Option<&str>,
) -> Result<()> {
    let Claim::Work(id, number) = claim else { return Ok(()) };
    let holder = Some((incarnation, *number));
    discard(pool, (&instance.0, &instance.1), *id, holder, key).await?;
    Ok(())
}

/// Which of these rows of a tenant are left to the holder of their request, each given with whether it needs that one.
pub(crate) async fn left_to_holders(
    pool: &Pool,
    tenant: &TenantId,
    rows: &[(WorkId, Incarnation, bool)],
) -> Result<Vec<WorkId>> {
    let ids: Vec<i64> = rows.iter().map(|row| row.0.0).collect();
    let holders: Vec<i64> = rows.iter().map(|row| row.1.0).collect();
    let needs: Vec<bool> = rows.iter().map(|row| row.2).collect();
    let tenant = tenant.as_str();
    let left = pool.query(LEFT_TO_HOLDERS, &[&tenant, &ids, &holders, &needs]).await?;
    Ok(left.iter().map(|row| WorkId(row.get("id"))).collect())
}

/// What became of a row that was to be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// It is deleted, and had no effect.
    Discarded,
    /// A burst of it was committed, and goes on.
    Continues,
    /// It is claimed by another holder, or a burst of it has begun; or there is no such row any more.
    Stays,
}

/// Deletes a row of a request, and its idempotency key, if this holder has the claim, or if no node has one and no burst of it
/// has begun.
pub(super) async fn discard(
    pool: &Pool,
    (tenant, instance): (&TenantId, &InstanceId),
    work: WorkId,
    holder: Option<(Incarnation, ClaimNo)>,
    key: Option<&str>,
) -> Result<Withdrawal> {
    let (claimed_by, number) = holder.map(|(incarnation, number)| (incarnation.0, number.0)).unzip();
    let params: [&(dyn ToSql + Sync); 7] = [
        &claimed_by,
        &tenant.as_str(),
        &work.0,
        &number,
        &HTTP_ROUTE,
        &key,
        &instance.as_str(),
    ];
    let row = pool.query_one(DISCARD_VOLATILE, &params).await?;
    Ok(match (row.get("is_discarded"), row.get("continues")) {
        (true, _) => Withdrawal::Discarded,
        (false, true) => Withdrawal::Continues,
        (false, false) => Withdrawal::Stays,
    })
}

/// Every row that is claimed by this incarnation in the database.
pub(crate) async fn claimed_by(pool: &Pool, incarnation: Incarnation) -> Result<Vec<(InstanceKey, Claim)>> {
    let rows = pool.query(MINE, &[&incarnation.0]).await?;
    let (key_at, claim_at) = (KeyColumns::of(&rows)?, ClaimColumns::of(&rows)?);
    Ok(rows
        .iter()
        .filter_map(|row| {
            let claim = claim_of(claim_at, row).ok()?;
            Some((instance_key(key_at, row), claim))
        })
        .collect())
}
