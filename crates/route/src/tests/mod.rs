//! Templates, paths and tables: anchors, a table of ASP.NET Core's outcomes, refusals, templates that overlap, random texts, tables against a plain search.

mod anchors;
mod cases;
mod methods;
mod overlap;
mod random;
mod refused;
mod same;
mod speed;

use crate::{Methods, RequestPath, RouteTable, Template};

fn template(source: &str) -> Template {
    Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn path(raw: &str) -> RequestPath<'_> {
    RequestPath::parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}"))
}

/// A table of these templates for any method; the values are their numbers from 1.
fn table<'s>(sources: impl IntoIterator<Item = &'s str>) -> RouteTable<usize> {
    let mut table = RouteTable::new();
    for (at, source) in sources.into_iter().enumerate() {
        table.insert(template(source), Methods::any(), at + 1);
    }
    table
}
