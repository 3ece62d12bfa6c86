//! The batch statements that a connection has prepared: those of the shapes that it used last.

use postgres_types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::statement::StatementShape;

/// The most that a connection keeps. One with all parts holds 2.6 MB in its backend, so these are some 40 MB at most; the
/// shapes of one kind of workflow are fewer than ten.
pub(super) const MOST_PREPARED: usize = 16;

/// A shape, and whether its statement waits for locked rows.
pub(super) type PreparedShape = (StatementShape, bool);

/// The last used comes first. A statement that is left out is closed on the server with its last clone.
#[derive(Default)]
pub(super) struct PreparedStatements(Vec<(PreparedShape, Statement)>);

impl PreparedStatements {
    pub(super) fn find(&mut self, shape: PreparedShape) -> Option<Statement> {
        let place = self.0.iter().position(|(of, _)| *of == shape)?;
        if let Some(before) = self.0.get_mut(..=place) {
            before.rotate_right(1);
        }
        self.0.first().map(|(_, statement)| statement.clone())
    }

    pub(super) fn add(&mut self, shape: PreparedShape, statement: Statement) {
        self.0.truncate(MOST_PREPARED - 1);
        self.0.insert(0, (shape, statement));
    }
}

/// Runs a statement if the batch has rows for it.
pub(super) async fn query_if(
    wanted: bool,
    client: &Client,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if wanted {
        client.query(statement, params).await
    } else {
        Ok(Vec::new())
    }
}
