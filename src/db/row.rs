//! Rows are read by the names of their columns, which are looked up once for each result.

use tokio_postgres::Row;

use crate::{Error, Result};

/// What a statement returned: any number of rows, all with the same columns.
pub(crate) trait ResultRows {
    fn first_row(&self) -> Option<&Row>;
}

impl ResultRows for [Row] {
    fn first_row(&self) -> Option<&Row> {
        self.first()
    }
}

impl ResultRows for Vec<Row> {
    fn first_row(&self) -> Option<&Row> {
        self.first()
    }
}

impl ResultRows for Row {
    fn first_row(&self) -> Option<&Row> {
        Some(self)
    }
}

impl ResultRows for Option<Row> {
    fn first_row(&self) -> Option<&Row> {
        self.as_ref()
    }
}

/// The place of a column in a result. Without rows any place will do.
pub(crate) fn column(result: &(impl ResultRows + ?Sized), name: &str) -> Result<usize> {
    column_near(result, name, 0)
}

/// The same for one of several columns. Most are read in the order in which statements return them: the place `expected`
/// is tried before all others.
pub(crate) fn column_near(result: &(impl ResultRows + ?Sized), name: &str, expected: usize) -> Result<usize> {
    let Some(row) = result.first_row() else {
        return Ok(0);
    };
    if row.columns().get(expected).is_some_and(|column| column.name() == name) {
        return Ok(expected);
    }
    find_column(result, name).ok_or_else(|| Error::internal(format!("a result has no column {name}")))
}

/// The place of a column that only some forms of a statement return.
pub(crate) fn find_column(result: &(impl ResultRows + ?Sized), name: &str) -> Option<usize> {
    let row = result.first_row()?;
    row.columns().iter().position(|column| column.name() == name)
}

/// The places of columns in a result, as a struct with a field for each: `let at = columns!(rows; id, name)?;`, then
/// `row.get(at.id)`. With `struct` it declares one for a function that reads rows of several statements. Fails if the
/// result has rows and lacks a column.
macro_rules! columns {
    ($result:expr; $($name:ident),+ $(,)?) => {{
        crate::db::columns!(struct Columns { $($name),+ });
        Columns::of(&$result)
    }};
    (struct $type:ident { $($name:ident),+ $(,)? }) => {
        #[derive(Clone, Copy)]
        struct $type {
            $($name: usize,)+
        }

        impl $type {
            fn of(result: &(impl crate::db::ResultRows + ?Sized)) -> crate::Result<Self> {
                let mut places = 0..;
                Ok(Self {
                    $($name: crate::db::column_near(result, stringify!($name), places.next().unwrap_or_default())?,)+
                })
            }
        }
    };
}

pub(crate) use columns;
