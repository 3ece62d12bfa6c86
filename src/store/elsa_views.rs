//! Views by the names of Elsa's and Quartz's tables, so that an operator's statements for those work here. They are read-only.

use std::error::Error as _;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::db::{ANSWER_TIMEOUT, within};
use crate::{Error, Result};

const CREATE: &str = include_str!("../../sql/queries/elsa_views/create.sql");

/// Makes or renews the views, all or none.
///
/// # Errors
/// `elsa-tables` if the database has tables of these names.
pub(crate) async fn make(client: &Client) -> Result<()> {
    let made = within(ANSWER_TIMEOUT, client.batch_execute(CREATE)).await;
    made.map_err(|error| {
        if meets_table(&error) {
            taken().caused_by(error)
        } else {
            error
        }
    })
}

/// Whether a table has the name of a view.
fn meets_table(error: &Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    cause.and_then(tokio_postgres::Error::code) == Some(&SqlState::WRONG_OBJECT_TYPE)
}

fn taken() -> Error {
    Error::conflict(
        "elsa-tables",
        "the database has tables of Elsa or Quartz with the names of these views: give Mainspring a database of its own, or rename \
         those tables",
    )
}
