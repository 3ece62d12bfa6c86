//! Children of bursts: which definitions are published, and what follows a commit that has started or ended some.

use std::pin::Pin;

use crate::activity::PublishedDefinitions;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::store::commit::Commit;
use crate::store::definition::read;

/// The definitions of a tenant.
pub(super) struct TenantDefinitions<'n> {
    pub(super) pool: &'n Pool,
    pub(super) tenant: &'n TenantId,
}

impl PublishedDefinitions for TenantDefinitions<'_> {
    fn is_published<'a>(&'a self, definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            match read::is_published(self.pool, self.tenant, definition_id).await {
                Ok(is_published) => is_published,
                Err(error) => {
                    tracing::debug!(%error, "whether a definition is published cannot be read; the commit decides");
                    true
                }
            }
        })
    }
}

/// A commit has inserted up to `made` rows of work for children or for a parent.
pub(super) fn committed(node: &NodeContext, instance: &InstanceId, commit: &Commit, made: usize) {
    if commit.refused_children > 0 {
        tracing::warn!(
            instance = ?instance.as_str(),
            children = commit.refused_children,
            "children were not started: their activation strategy refuses them, or their definition is no longer published"
        );
    }
    node.work_accepted(None, None, made);
}
