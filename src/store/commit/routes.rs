//! The routes of new bookmarks: rows of their own, written before the batch.

use std::collections::BTreeMap;

use postgres_types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::CommitRequest;
use crate::store::route::BookmarkRoute;

/// The statement.
pub(super) const ROUTES: &str = include_str!("../../../sql/queries/commit/routes.sql");

/// The routes of a batch, each once.
#[derive(Default)]
pub(super) struct RouteRows<'a>(BTreeMap<Vec<u8>, (&'a str, &'a BookmarkRoute)>);

impl<'a> RouteRows<'a> {
    pub(super) fn add(&mut self, request: &'a CommitRequest) {
        for route in &request.effects.routes_made {
            let tenant = &request.tenant;
            self.0.insert(route.id(tenant), (tenant.as_str(), route));
        }
    }

    /// Writes them, if there are any.
    pub(super) async fn write(&self, client: &Client, statement: &Statement) -> Result<(), tokio_postgres::Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let ids: Vec<&[u8]> = self.0.keys().map(Vec::as_slice).collect();
        let rows = || self.0.values();
        let tenants: Vec<&str> = rows().map(|(tenant, _)| *tenant).collect();
        let anchors: Vec<&[u8]> = rows().map(|(_, route)| route.anchor.as_slice()).collect();
        let hashes: Vec<&[u8]> = rows().map(|(_, route)| route.hash.0.as_slice()).collect();
        let templates: Vec<&str> = rows().map(|(_, route)| route.template.as_str()).collect();
        let methods: Vec<&str> = rows().map(|(_, route)| route.method.as_str()).collect();
        let params: [&(dyn ToSql + Sync); 6] = [&ids, &tenants, &anchors, &hashes, &templates, &methods];
        let written: Result<Vec<Row>, _> = client.query(statement, &params).await;
        written.map(drop)
    }
}
