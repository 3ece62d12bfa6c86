//! The workflow that is measured, and its options.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::definition::WorkflowDefinition;
use crate::harness::failure::Failure;
use crate::id::{DefinitionId, VersionId};

/// The value as written on the command line.
pub fn name_of(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// When bursts commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CommitAt {
    /// At their end
    Burst,
    /// Also after each activity
    Activity,
}

/// The journal level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JournalSetting {
    /// Journal and activity executions are written
    Full,
    /// Neither is written
    Off,
}

/// The options of a measured workflow.
#[derive(Clone, Copy, Debug, Args)]
pub struct WorkflowOptions {
    /// When bursts commit
    #[arg(long, value_enum, default_value = "burst")]
    pub commit: CommitAt,
    /// The journal level
    #[arg(long, value_enum, default_value = "full")]
    pub journal: JournalSetting,
}

impl WorkflowOptions {
    /// The definition with these options.
    #[must_use]
    pub fn apply(self, mut definition: WorkflowDefinition) -> WorkflowDefinition {
        if self.commit == CommitAt::Activity {
            let strategy = "ActivityExecuted".into();
            definition.options.insert("commitStrategyName".to_owned(), strategy);
        }
        if self.journal == JournalSetting::Off {
            definition.options.insert("journal".to_owned(), "off".into());
        }
        definition
    }
}

/// The definition `bench`: that of a file, or one line on the console, after the event `bench` if it waits.
pub fn measured_workflow(file: Option<&Path>, waits: bool) -> Result<WorkflowDefinition, Failure> {
    let mut definition = match file {
        Some(file) => {
            let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
            WorkflowDefinition::from_json(&bytes).map_err(|error| failed(&error))?
        }
        None => WorkflowDefinition::from_value(built_in(waits))?,
    };
    // A new definition id and version.
    definition.definition_id = DefinitionId::new("bench");
    definition.id = VersionId::new("");
    definition.version = 0;
    Ok(definition)
}

fn built_in(waits: bool) -> Value {
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "Hello from Mainspring!"});
    let event = json!({"type": "Elsa.Event", "id": "event", "eventName": "bench"});
    let root = if waits {
        json!({"type": "Elsa.Sequence", "id": "steps", "activities": [event, line]})
    } else {
        line
    };
    json!({"definitionId": "bench", "root": root})
}
