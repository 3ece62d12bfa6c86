//! `mainspring migrate`: migrates the database to this version of the engine.

use super::settings::Common;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime;

pub(super) async fn run(common: &Common) -> Result<(), Failure> {
    let applied = runtime::migrate(&common.database_url()?, &common.schema).await?;
    for name in &applied {
        print_line(&format!("applied {name}"));
    }
    if applied.is_empty() {
        print_line("nothing to do");
    }
    Ok(())
}
