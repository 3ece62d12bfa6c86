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
    match find_column(result, name) {
        None if result.first_row().is_some() => Err(Error::internal(format!("a result has no column {name}"))),
        place => Ok(place.unwrap_or(0)),
    }
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
                Ok(Self { $($name: crate::db::column(result, stringify!($name))?,)+ })
            }
        }
    };
}

pub(crate) use columns;
