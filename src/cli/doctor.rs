//! `mainspring doctor`: what is wrong with the cluster, and how to remedy it.

use super::settings::{Common, DoctorSettings};
use crate::activity::printable;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::runtime::{self, Examination};

/// Exit code 0: nothing was found, or all of it is fixed; 1: something was found.
pub(super) async fn run(common: &Common, settings: &DoctorSettings) -> Result<(), Failure> {
    let url = common.database_url()?;
    let found = runtime::examine(&url, &common.schema, settings.older_than, settings.fix).await?;
    for line in report(&found, settings.json)? {
        print_line(&line);
    }
    if found.ok { Ok(()) } else { Err(Failure::reported()) }
}

fn report(found: &Examination, as_json: bool) -> Result<Vec<String>, Failure> {
    if as_json {
        let text = serde_json::to_string(found)
            .map_err(|error| Failure::failed(format!("the findings cannot be written: {error}")))?;
        return Ok(vec![text]);
    }
    // Rows contain ids that clients chose.
    Ok(found.lines().iter().map(|line| printable(line).into_owned()).collect())
}
