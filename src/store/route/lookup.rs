//! Reads of routes: those that definitions have, and those at which instances wait.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use postgres_types::ToSql;
use serde_json::Value;

use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId, StimulusHash, TenantId};
use crate::store::instance::Generation;
use crate::store::stimulus_key::StimulusScope;

const READ: &str = include_str!("../../../sql/queries/route/read.sql");
const LIST: &str = include_str!("../../../sql/queries/route/list.sql");
const FIND: &str = include_str!("../../../sql/queries/route/find.sql");
const FIND_OWN: &str = include_str!("../../../sql/queries/route/find_own.sql");

/// The forms of the lookup.
pub(in crate::store) static FINDS: LazyLock<[String; 3]> = LazyLock::new(|| StimulusScope::texts(FIND));

/// The most instances that a lookup returns for one stimulus: a few more than an ambiguous request names.
pub(crate) const MOST_WAITING: usize = 17;

/// The most routes of bookmarks that a lookup returns for one path.
const MOST_ROUTES: usize = 500;

/// The most endpoints of one instance that a lookup returns.
const MOST_OWN: usize = 500;

/// The parameter of a limit; with one row more it is known whether there is more.
pub(super) fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// A route that a published definition has.
#[derive(Clone, Debug)]
pub(crate) struct PublishedRoute {
    pub(crate) definition_id: DefinitionId,
    pub(crate) activity_id: ActivityId,
    pub(crate) hash: StimulusHash,
    /// That of the publish which has these options.
    pub(crate) revision: i64,
    pub(crate) options: Arc<Value>,
}

/// Routes that definitions have since a revision.
#[derive(Debug)]
pub(crate) struct RoutesRead {
    /// Up to this revision. Each definition that was published since has all of its routes here.
    pub(crate) revision: i64,
    /// The number of all routes.
    pub(crate) total: usize,
    pub(crate) routes: Vec<PublishedRoute>,
}

fn hash_of(bytes: &[u8]) -> Option<StimulusHash> {
    Some(StimulusHash(<[u8; 32]>::try_from(bytes).ok()?))
}

/// Reads the routes that were published after a revision.
pub(crate) async fn read(pool: &Pool, tenant: &TenantId, after: i64) -> Result<RoutesRead> {
    let rows = pool.query(READ, &[&tenant.as_str(), &after]).await?;
    let at = columns!(rows; revision, total, definition_id, activity_id, hash, payload, trigger_revision)?;
    let route = |row: &tokio_postgres::Row| {
        Some(PublishedRoute {
            definition_id: DefinitionId::new(row.get::<_, Option<String>>(at.definition_id)?),
            activity_id: ActivityId::new(row.get::<_, String>(at.activity_id)),
            hash: hash_of(row.get(at.hash))?,
            revision: row.get(at.trigger_revision),
            options: Arc::new(row.get(at.payload)),
        })
    };
    let first = rows.first();
    Ok(RoutesRead {
        revision: first.map_or(0, |row| row.get(at.revision)),
        total: first.map_or(0, |row| usize::try_from(row.get::<_, i64>(at.total)).unwrap_or(0)),
        routes: rows.iter().filter_map(route).collect(),
    })
}

/// Lists all routes that definitions have.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId) -> Result<HashSet<(DefinitionId, StimulusHash)>> {
    let rows = pool.query(LIST, &[&tenant.as_str()]).await?;
    let at = columns!(rows; definition_id, hash)?;
    let route = |row: &tokio_postgres::Row| {
        let definition = DefinitionId::new(row.get::<_, String>(at.definition_id));
        Some((definition, hash_of(row.get(at.hash))?))
    };
    Ok(rows.iter().filter_map(route).collect())
}

/// What a request may be for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requested<'a> {
    /// Those that wait for these stimuli.
    pub(crate) hashes: &'a [StimulusHash],
    /// Routes with one of these anchors.
    pub(crate) anchors: &'a [Vec<u8>],
    /// Only in this instance.
    pub(crate) instance: Option<&'a InstanceId>,
    /// Only in instances with this correlation id.
    pub(crate) correlation_id: Option<&'a str>,
}

/// An endpoint at which an instance waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingEndpoint {
    pub(crate) hash: StimulusHash,
    pub(crate) instance_id: InstanceId,
    pub(crate) generation: Generation,
    pub(crate) bookmark_id: BookmarkId,
    pub(crate) options: Value,
}

/// A route that bookmarks have, or had.
#[derive(Clone, Debug)]
pub(crate) struct KnownRoute {
    pub(crate) hash: StimulusHash,
    pub(crate) template: String,
    /// In lower case.
    pub(crate) method: String,
}

/// What there is for a request, in one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// That of the definitions.
    pub(crate) revision: i64,
    pub(crate) waiting: Vec<WaitingEndpoint>,
    pub(crate) routes: Vec<KnownRoute>,
    /// There are more of them than are read.
    pub(crate) has_more_routes: bool,
}

/// Finds what waits for requests.
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, requested: &Requested<'_>) -> Result<Requests> {
    let hashes: Vec<&[u8]> = requested.hashes.iter().map(|hash| hash.0.as_slice()).collect();
    let instance = requested.instance.map(InstanceId::as_str);
    let scope = StimulusScope::of(requested.correlation_id, instance.is_some());
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &hashes,
        &requested.anchors,
        &instance,
        &requested.correlation_id,
        &limit(MOST_WAITING),
        &limit(MOST_ROUTES + 1),
    ];
    let rows = pool.query(scope.pick(&FINDS), &params).await?;
    let at = columns!(rows; revision, hash, template, method, instance_id, bookmark_id, payload, created_at)?;
    let mut found = Requests::default();
    for row in &rows {
        found.revision = row.get(at.revision);
        let Some(hash) = row.get::<_, Option<&[u8]>>(at.hash).and_then(hash_of) else {
            continue;
        };
        if let Some(template) = row.get(at.template) {
            found.routes.push(KnownRoute {
                hash,
                template,
                method: row.get(at.method),
            });
        } else {
            found.waiting.push(WaitingEndpoint {
                hash,
                instance_id: InstanceId::new(row.get::<_, String>(at.instance_id)),
                generation: Generation::of(row.get(at.created_at)),
                bookmark_id: BookmarkId::new(row.get::<_, String>(at.bookmark_id)),
                options: row.get(at.payload),
            });
        }
    }
    found.has_more_routes = found.routes.len() > MOST_ROUTES;
    found.routes.truncate(MOST_ROUTES);
    Ok(found)
}

/// Finds the endpoints at which an instance waits, and whether there are more than these.
pub(crate) async fn find_own(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    correlation_id: Option<&str>,
) -> Result<(Vec<WaitingEndpoint>, bool)> {
    let params: [&(dyn ToSql + Sync); 4] = [
        &tenant.as_str(),
        &instance.as_str(),
        &correlation_id,
        &limit(MOST_OWN + 1),
    ];
    let rows = pool.query(FIND_OWN, &params).await?;
    let at = columns!(rows; hash, instance_id, bookmark_id, payload, created_at)?;
    let waiting = rows.iter().take(MOST_OWN).filter_map(|row| {
        Some(WaitingEndpoint {
            hash: hash_of(row.get(at.hash))?,
            instance_id: InstanceId::new(row.get::<_, String>(at.instance_id)),
            generation: Generation::of(row.get::<_, Option<_>>(at.created_at)?),
            bookmark_id: BookmarkId::new(row.get::<_, String>(at.bookmark_id)),
            options: row.get(at.payload),
        })
    });
    Ok((waiting.collect(), rows.len() > MOST_OWN))
}
