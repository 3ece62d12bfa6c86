//! Where this engine differs from Elsa on purpose: each difference is a row of `table`, and a test shows it.
//!
//! `docs/reference/differences-from-elsa.md` is made of the rows. A row names a test that exists, and each test of this folder
//! has a row: the rows of an area stand above its tests, and a row whose difference is tested elsewhere names that test.

mod api;
mod containers;
mod events;
mod expressions;
mod http;
mod instances;
mod mail;
mod nodes;
mod publish;
mod run;
mod table;

use table::Difference;
