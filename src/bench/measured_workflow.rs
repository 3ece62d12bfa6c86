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

/// What the built-in definition begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstActivity {
    /// One line on the console, which is all of it
    Line,
    /// The event `bench`, then the line
    Event,
    /// A request for `bench`, then a response
    Endpoint,
}

/// The definition `bench`: that of a file, or the built-in one.
pub fn measured_workflow(file: Option<&Path>, first: FirstActivity) -> Result<WorkflowDefinition, Failure> {
    let mut definition = match file {
        Some(file) => {
            let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
            WorkflowDefinition::from_json(&bytes).map_err(|error| failed(&error))?
        }
        None => WorkflowDefinition::from_value(built_in(first))?,
    };
    // A new definition id and version.
    definition.definition_id = DefinitionId::new("bench");
    definition.id = VersionId::new("");
    definition.version = 0;
    Ok(definition)
}

fn built_in(first: FirstActivity) -> Value {
    let text = "Hello from Mainspring!";
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": text});
    let steps = |activities: [Value; 2]| json!({"type": "Elsa.Sequence", "id": "steps", "activities": activities});
    let root = match first {
        FirstActivity::Line => line,
        FirstActivity::Event => steps([json!({"type": "Elsa.Event", "id": "event", "eventName": "bench"}), line]),
        FirstActivity::Endpoint => {
            let start = json!({"canStartWorkflow": true});
            let request =
                json!({"type": "Elsa.HttpEndpoint", "id": "request", "path": "bench", "customProperties": start});
            steps([
                request,
                json!({"type": "Elsa.WriteHttpResponse", "id": "response", "content": text}),
            ])
        }
    };
    json!({"definitionId": "bench", "root": root})
}
