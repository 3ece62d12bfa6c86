//! Reads of single versions.

use std::sync::Arc;

use serde_json::Value;

use super::{model, not_found, wanted};
use crate::definition::WorkflowDefinition;
use crate::execution::{Composition, Interpreter};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::request::VersionOptions;
use crate::runtime::engine::Engine;
use crate::store::definition::{self, DefinitionRow, VersionSelector, read};
use crate::{Error, Result, compute, weight};

/// The most versions of one read, and the most bytes that their bodies have together.
const MOST_VERSIONS: usize = 1_000;
const MOST_BYTES: i64 = 64 << 20;

impl Engine {
    /// Reads one version of a definition. The published one may be the previous one until this node is notified of a publish
    /// on another node: some milliseconds, at most about one check-in.
    pub async fn definition(&self, id: &DefinitionId, which: VersionOptions) -> Result<Value> {
        let node = self.node()?;
        // Without a recent check-in it is unknown what is stale.
        let is_recent = node.lifecycle.reports.borrow().sent.elapsed() < self.inner.settings.check_in * 2;
        if which != VersionOptions::Published || !is_recent {
            return self.definition_now(id, which).await;
        }
        let key = (self.inner.tenant.clone(), id.clone());
        match node.caches.definitions.get(&key) {
            Ok(known) => compute::run(compute::is_large(&known), move || Value::clone(&known)).await,
            Err(fill) => {
                let read = self.definition_now(id, which).await?;
                let copying = compute::run(compute::is_large(&read), move || {
                    (weight::json(&read), read.clone(), read)
                });
                let (bytes, copy, read) = copying.await?;
                node.caches.definitions.keep(fill, key, Arc::new(copy), bytes);
                Ok(read)
            }
        }
    }

    pub(super) async fn definition_now(&self, id: &DefinitionId, which: VersionOptions) -> Result<Value> {
        let wanted = VersionSelector {
            definition_id: Some(id.clone()),
            ..wanted(which)
        };
        let row = definition::find(self.node()?.database.reads.by_key(), &self.inner.tenant, &wanted).await?;
        self.shown(row.ok_or_else(|| not_found(id))?).await
    }

    /// Reads a version by its own id.
    pub async fn definition_version(&self, id: &VersionId) -> Result<Value> {
        let wanted = VersionSelector {
            version_id: Some(id.clone()),
            ..VersionSelector::default()
        };
        let row = definition::find(self.node()?.database.reads.by_key(), &self.inner.tenant, &wanted).await?;
        let row = row.ok_or_else(|| {
            Error::not_found(
                "definition-not-found",
                format!("no workflow definition has the version id {:?}", id.as_str()),
            )
        });
        self.shown(row?).await
    }

    /// Reads versions by their own ids, in the order of the ids; unknown ones are left out. At most 1,000 versions and 64 MiB
    /// (`too-large`).
    pub async fn definition_versions(&self, ids: &[VersionId]) -> Result<Vec<Value>> {
        if ids.len() > MOST_VERSIONS {
            let message = format!("at most {MOST_VERSIONS} versions are read at a time");
            return Err(Error::invalid("too-large", message.clone()).field("ids", message));
        }
        let ids: Vec<&str> = ids.iter().map(VersionId::as_str).collect();
        let rows = read::find_many(
            self.node()?.database.reads.by_key(),
            &self.inner.tenant,
            &ids,
            MOST_BYTES,
        )
        .await?;
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.shown(row).await?);
        }
        Ok(shown)
    }

    /// Whether no newest version has this name, besides that of the definition `besides`.
    pub async fn is_definition_name_unique(&self, name: &str, besides: Option<&DefinitionId>) -> Result<bool> {
        read::is_name_free(self.node()?.database.reads.by_key(), &self.inner.tenant, name, besides).await
    }

    /// The number of definitions.
    pub async fn count_definitions(&self) -> Result<u64> {
        read::count(self.node()?.database.reads.by_key(), &self.inner.tenant).await
    }

    /// An activity of a version by its node id, else the root, as Elsa's designer takes it:
    /// `{activity, nodeId, port, children}`.
    pub async fn definition_subgraph(&self, id: &VersionId, node_id: Option<&str>) -> Result<Value> {
        let node_id = node_id.map(str::to_owned);
        self.of_root(id, move |interpreter, composition, root| {
            let own = root.get("nodeId").and_then(Value::as_str).unwrap_or_default();
            let found = node_id.and_then(|wanted| interpreter.subgraph(composition, root, &wanted));
            found.or_else(|| interpreter.subgraph(composition, root, own))
        })
        .await
    }

    /// The containers around an activity of a version: `{childNode, container, pathSegments}`. An unknown node id is refused
    /// as `node-not-found`.
    pub async fn definition_path_segments(&self, id: &VersionId, node_id: &str) -> Result<Value> {
        let node_id = node_id.to_owned();
        self.of_root(id, move |interpreter, composition, root| {
            interpreter.path_segments(composition, root, &node_id)
        })
        .await
    }

    /// What is computed from the root of a version.
    async fn of_root(
        &self,
        id: &VersionId,
        of: impl FnOnce(&Interpreter, &Composition, &Value) -> Option<Value> + Send + 'static,
    ) -> Result<Value> {
        let definition = self.definition_version(id).await?;
        // A draft may be saved before it has one.
        if !definition.get("root").is_some_and(Value::is_object) {
            let message = format!("the version {:?} has no root activity", id.as_str());
            return Err(Error::not_found("definition-not-found", message));
        }
        let interpreter = self.inner.interpreter.clone();
        let is_large = compute::is_large(&definition);
        let composition = self
            .used_by(&*self.node()?, &WorkflowDefinition::from_stored(definition.clone())?)
            .await?;
        let found = compute::run(is_large, move || {
            let root = definition.get("root");
            root.and_then(|root| of(&interpreter, &composition, root))
        });
        found.await?.ok_or_else(|| {
            let message = "the version has no activity with this node id";
            Error::invalid("node-not-found", message).field("nodeId", message)
        })
    }

    /// A definition as the API shows it.
    pub(super) async fn shown(&self, row: DefinitionRow) -> Result<Value> {
        let interpreter = self.inner.interpreter.clone();
        let showing = compute::run(compute::is_large(&row.body), move || {
            let mut model = model(&row)?;
            if let Some(root) = &mut model.root {
                interpreter.write_node_ids(root);
            }
            Ok(model.to_value())
        });
        showing.await?
    }
}
