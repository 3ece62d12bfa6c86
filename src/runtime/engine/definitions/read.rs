//! Reads of single versions.

use std::sync::Arc;

use serde_json::Value;

use super::{model, not_found, wanted};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::request::VersionOptions;
use crate::runtime::engine::Engine;
use crate::store::definition::{self, DefinitionRow, VersionSelector, read};
use crate::{Error, Result, compute, weight};

/// The most versions of one read, and the most bytes that their bodies have together.
const MOST_VERSIONS: usize = 1_000;
const MOST_BYTES: i64 = 64 << 20;

impl Engine {
    /// Reads one version of a definition. The published version may be the previous one until this node is notified of a
    /// publish on another node, after some milliseconds and at most about one check-in.
    pub async fn definition(&self, id: &DefinitionId, which: VersionOptions) -> Result<Value> {
        let node = self.node()?;
        // Without a recent check-in it is unknown what is stale.
        let is_recent = node.lifecycle.reports.borrow().sent.elapsed() < self.inner.settings.check_in * 2;
        if which != VersionOptions::Published || !is_recent {
            return self.definition_now(id, which).await;
        }
        let key = (self.tenant.clone(), id.clone());
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
        let row = definition::find(self.node()?.database.reads.by_key(), &self.tenant, &wanted).await?;
        self.shown(row.ok_or_else(|| not_found(id))?).await
    }

    /// Reads a version by its own id.
    pub async fn definition_version(&self, id: &VersionId) -> Result<Value> {
        let wanted = VersionSelector {
            version_id: Some(id.clone()),
            ..VersionSelector::default()
        };
        let row = definition::find(self.node()?.database.reads.by_key(), &self.tenant, &wanted).await?;
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
        self.definition_versions_with(ids, &mut |_| Ok::<_, Error>(())).await
    }

    /// The same; `admit` is asked about each body before it is parsed.
    pub(crate) async fn definition_versions_with<E: From<Error>>(
        &self,
        ids: &[VersionId],
        admit: &mut (dyn FnMut(&[u8]) -> Result<(), E> + Send),
    ) -> Result<Vec<Value>, E> {
        if ids.len() > MOST_VERSIONS {
            let message = format!("at most {MOST_VERSIONS} versions are read at a time");
            return Err(Error::invalid("too-large", message.clone())
                .field("ids", message)
                .into());
        }
        let ids: Vec<&str> = ids.iter().map(VersionId::as_str).collect();
        let node = self.node()?;
        let pool = node.database.reads.by_key();
        let rows = read::find_many_with(pool, &self.tenant, &ids, MOST_BYTES, admit).await?;
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.shown(row).await?);
        }
        Ok(shown)
    }

    /// Whether no newest version has this name, except that of the definition `besides`.
    pub async fn is_definition_name_unique(&self, name: &str, besides: Option<&DefinitionId>) -> Result<bool> {
        read::is_name_free(self.node()?.database.reads.by_key(), &self.tenant, name, besides).await
    }

    /// The number of definitions.
    pub async fn count_definitions(&self) -> Result<u64> {
        read::count(self.node()?.database.reads.by_key(), &self.tenant).await
    }

    /// A definition as it is stored, with node ids.
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
