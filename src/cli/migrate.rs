//! `mainspring migrate`: migrates the database to this version of the engine.

use super::settings::{Common, MigrateSettings};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime;

pub(super) async fn run(common: &Common, settings: &MigrateSettings) -> Result<(), Failure> {
    let applied = runtime::migrate(&common.database_url()?, &common.schema).await?;
    for name in &applied {
        print_line(&format!("applied {name}"));
    }
    if settings.elsa_views {
        runtime::make_elsa_views(&common.database_url()?, &common.schema).await?;
        print_line("made the views by Elsa's names");
    } else if applied.is_empty() {
        print_line("nothing to do");
    }
    Ok(())
}
