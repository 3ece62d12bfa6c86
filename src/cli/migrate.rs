//! `mainspring migrate`: brings the database up to this version of the engine.

use super::settings::Common;
use crate::harness::failure::Failure;
use crate::harness::say;
use crate::runtime;

pub(super) async fn run(common: &Common) -> Result<(), Failure> {
    let applied = runtime::migrate(&common.database_url()?, &common.schema).await?;
    for name in &applied {
        say(&format!("applied {name}"));
    }
    if applied.is_empty() {
        say("nothing to do");
    }
    Ok(())
}
