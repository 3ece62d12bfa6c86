//! The deliveries of what bursts cause: rows of their own, written after the batch, of its winners.

use postgres_types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::CommitRequest;
use super::row::DeliveryRow;

/// The statement.
pub(super) const DELIVERIES: &str = include_str!("../../../sql/queries/commit/deliveries.sql");

/// The deliveries of a batch.
#[derive(Default)]
pub(super) struct DeliveryRows<'a>(Vec<&'a DeliveryRow>);

/// Sets what all deliveries of a request share.
pub(super) fn complete(request: &mut CommitRequest) {
    for row in &mut request.effects.deliveries {
        request.tenant.as_str().clone_into(&mut row.tenant_id);
        request.instance.as_str().clone_into(&mut row.instance_id);
        request
            .definition
            .definition_id
            .as_str()
            .clone_into(&mut row.definition_id);
        row.burst = request.burst.0;
    }
}

impl<'a> DeliveryRows<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, request: &'a CommitRequest) {
        self.0.extend(&request.effects.deliveries);
    }

    /// Writes them, if there are any.
    pub(super) async fn write(&self, client: &Client, statement: &Statement) -> Result<(), tokio_postgres::Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let params: [&(dyn ToSql + Sync); 1] = [&self.0];
        let written: Result<Vec<Row>, _> = client.query(statement, &params).await;
        written.map(drop)
    }
}
