//! Queries of designers: the activity types of this node, what scripts can name, and the value of an expression.

use super::Engine;
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{EvaluatedExpression, ExpressionRequest};
use crate::id::DefinitionId;
use crate::runtime::context::request::VersionOptions;
use crate::{Result, compute};

impl Engine {
    /// The activity types that this node knows, Elsa's and the program's.
    pub fn catalogue(&self) -> &Catalogue {
        self.inner.interpreter.catalogue()
    }

    /// Evaluates an expression within the limits of a burst; nothing is stored. It reads no secrets: an expression that asks
    /// for one fails with `secrets-not-available`.
    ///
    /// # Errors
    /// `scripts-busy` and `too-many-requests`. Dropping the future ends the evaluation.
    pub async fn evaluate_expression(&self, mut request: ExpressionRequest) -> Result<EvaluatedExpression> {
        self.accepting()?;
        let _permit = self.test_permit()?;
        request.scope.hides_secrets = true;
        self.inner.interpreter.evaluate_expression(request).await
    }

    /// What the scripts of the latest version of a definition can name (its variables and inputs, the outputs of its
    /// activities, and the functions of every script), as declarations in TypeScript, for a script editor.
    pub async fn script_declarations(&self, id: &DefinitionId) -> Result<String> {
        let body = self.definition(id, VersionOptions::Latest).await?;
        let interpreter = self.inner.interpreter.clone();
        let is_large = compute::is_large(&body);
        let definition = WorkflowDefinition::from_stored(body)?;
        let composition = self.used_by(&*self.node()?, &definition).await?;
        compute::run(is_large, move || {
            interpreter.script_declarations(&definition, &composition)
        })
        .await
    }
}
