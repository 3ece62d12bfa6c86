//! `Mainspring.Call`: adds a line to a file, where an activity of a program would call a service. Tests compare the
//! idempotency keys of such calls across killed processes. It exists only with the feature `failpoints`, in a process that
//! has the variable `MAINSPRING_TEST_CALLS`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use crate::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};
use crate::failpoint;

/// Names the file.
const FILE: &str = "MAINSPRING_TEST_CALLS";

pub(crate) struct CallActivity(PathBuf);

impl CallActivity {
    /// `None` if this process records no calls.
    pub(crate) fn of_environment() -> Option<Self> {
        std::env::var_os(FILE).map(|path| Self(path.into()))
    }
}

impl Activity for CallActivity {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Mainspring.Call")
            .describe("Demonstration", "Adds a line to a file.")
            .input(InputDescriptor::new("Name", "String").describe("What is called."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("Name").unwrap_or_default();
        let line = json!({
            "key": context.idempotency_key(),
            "name": name,
            "instance": context.instance_id(),
            "execution": context.execution_id(),
            "attempt": context.attempt(),
        });
        // In one write, as several processes add to the file.
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        failpoint::hit_of("call.made.", &name).await?;
        Ok(Step::Done)
    }
}
