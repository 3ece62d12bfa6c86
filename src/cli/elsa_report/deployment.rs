//! The database into which the definitions that run are imported.

use super::read_definition::ReadDefinition;
use crate::Engine;
use crate::cli::settings::Common;
use crate::harness::failure::Failure;
use crate::runtime::Role;

/// A node that only imports: it runs nothing.
pub(super) struct Deployment(Engine);

impl Deployment {
    /// Joins the cluster of the database.
    pub(super) async fn open(common: &Common) -> Result<Self, Failure> {
        let engine = Engine::builder(common.database_url()?)
            .schema(&common.schema)
            .roles([Role::Api])
            .start()
            .await?;
        Ok(Self(engine))
    }

    /// Imports one definition, and publishes it unless it is a draft. Errors: why it is not imported.
    pub(super) async fn import(&self, read: &ReadDefinition) -> Result<(), String> {
        let definition = read.definition.clone()?;
        let done = match read.is_draft {
            true => self.0.import(definition).await.map(drop),
            false => self.0.save(definition, true).await.map(drop),
        };
        done.map_err(|error| error.to_string())
    }

    /// Leaves the cluster.
    pub(super) async fn close(self) {
        self.0.shutdown().await;
    }
}
