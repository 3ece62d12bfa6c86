//! The resume links of a batch: rows of their own, written after it.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::CommitRequest;

/// The statement.
pub(super) const LINKS: &str = include_str!("../../../sql/queries/commit/links.sql");

/// A resume link that a burst makes.
#[derive(Clone, Debug)]
pub(crate) struct LinkRow {
    pub(crate) id: Uuid,
    /// The bookmark that it resumes; without one it triggers the event.
    pub(crate) bookmark_id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) uses: i32,
    /// The number of the key that has signed it.
    pub(crate) signed_by: i32,
    /// Microseconds from the commit until it expires, unless that is at a time.
    pub(crate) lifetime: Option<i64>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

/// The links of a batch, with their requests.
#[derive(Default)]
pub(super) struct LinkRows<'a>(Vec<(&'a CommitRequest, &'a LinkRow)>);

impl<'a> LinkRows<'a> {
    pub(super) fn add(&mut self, request: &'a CommitRequest) {
        self.0.extend(request.effects.links.iter().map(|link| (request, link)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes those of the requests that have won, if there are any.
    pub(super) async fn write(&self, client: &Client, statement: &Statement) -> Result<(), tokio_postgres::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let requests = || self.0.iter().map(|(request, _)| *request);
        let links = || self.0.iter().map(|(_, link)| *link);
        let ids: Vec<Uuid> = links().map(|link| link.id).collect();
        let tenants: Vec<&str> = requests().map(|request| request.tenant.as_str()).collect();
        let instances: Vec<&str> = requests().map(|request| request.instance.as_str()).collect();
        let bursts: Vec<Uuid> = requests().map(|request| request.burst.0).collect();
        let bookmarks: Vec<Option<&str>> = links().map(|link| link.bookmark_id.as_deref()).collect();
        let events: Vec<Option<&str>> = links().map(|link| link.event.as_deref()).collect();
        let uses: Vec<i32> = links().map(|link| link.uses).collect();
        let signed_by: Vec<i32> = links().map(|link| link.signed_by).collect();
        let lifetimes: Vec<Option<i64>> = links().map(|link| link.lifetime).collect();
        let times: Vec<Option<DateTime<Utc>>> = links().map(|link| link.expires_at).collect();
        let params: [&(dyn ToSql + Sync); 10] = [
            &ids, &tenants, &instances, &bursts, &bookmarks, &events, &uses, &lifetimes, &times, &signed_by,
        ];
        let written: Result<Vec<Row>, _> = client.query(statement, &params).await;
        written.map(drop)
    }
}
