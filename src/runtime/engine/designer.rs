//! What designers ask: the activity types of this node, and what scripts can name.

use super::Engine;
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::id::DefinitionId;
use crate::runtime::context::request::VersionOptions;
use crate::{Result, compute};

impl Engine {
    /// The activity types that this node knows, Elsa's and the program's.
    pub fn catalogue(&self) -> &Catalogue {
        self.inner.interpreter.catalogue()
    }

    /// What the scripts of the latest version of a definition can name (its variables and inputs, the outputs of its
    /// activities, and the functions of every script), as declarations in TypeScript, for a script editor.
    pub async fn script_declarations(&self, id: &DefinitionId) -> Result<String> {
        let body = self.definition(id, VersionOptions::Latest).await?;
        let interpreter = self.inner.interpreter.clone();
        let declaring = compute::run(compute::is_large(&body), move || {
            let definition = WorkflowDefinition::from_value(body)?;
            Ok(interpreter.script_declarations(&definition))
        });
        declaring.await?
    }
}
