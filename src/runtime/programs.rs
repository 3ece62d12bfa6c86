//! Compiled definitions by version id. A version that was ever published never changes, so nothing here goes stale.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::db::Pool;
use crate::definition::WorkflowDefinition;
use crate::execution::{Interpreter, Program};
use crate::id::{ActivityId, DefinitionId, TenantId, VersionId};
use crate::store::definition::{self, Wanted};
use crate::{Error, Result};

/// How many compiled definitions are kept.
const CAPACITY: usize = 512;

/// Empty while one compiles, and the others wait.
type Cell = Arc<OnceCell<Arc<Program>>>;

#[derive(Default)]
pub(super) struct Programs {
    known: Mutex<HashMap<(TenantId, VersionId), Cell>>,
    /// Which version was the published one when somebody last looked. It may have been replaced since.
    published: Mutex<HashMap<(TenantId, DefinitionId), VersionId>>,
}

impl Programs {
    /// What keeps a start from this input: asked before it is accepted, so that nothing is changed. None of the
    /// published version's business when there is none: the statement that accepts a start finds that out.
    pub(super) async fn refuse(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        start: (&TenantId, &DefinitionId),
        input: &Map<String, Value>,
        trigger: Option<&ActivityId>,
    ) -> Result<Vec<(String, String)>> {
        let (tenant, definition) = start;
        let key = (tenant.clone(), definition.clone());
        let remembered = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(version) = remembered {
            let problems = self
                .get(pool, interpreter, tenant, &version)
                .await?
                .refuses(input, trigger);
            if problems.is_empty() {
                return Ok(problems);
            }
        }
        // Nothing remembered, or perhaps replaced since.
        let wanted = Wanted {
            definition_id: Some(definition.clone()),
            published: true,
            ..Wanted::default()
        };
        let Some(row) = definition::find(pool, tenant, &wanted).await? else {
            return Ok(Vec::new());
        };
        let version = row.version_id;
        {
            let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
            if published.len() >= CAPACITY {
                published.clear();
            }
            published.insert(key, version.clone());
        }
        Ok(self
            .get(pool, interpreter, tenant, &version)
            .await?
            .refuses(input, trigger))
    }

    /// Whether this node knows all activities of the published version, as far as somebody has just looked.
    pub(super) fn can_run(&self, tenant: &TenantId, definition: &DefinitionId) -> bool {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(version) = published.get(&(tenant.clone(), definition.clone())).cloned() else {
            return true;
        };
        drop(published);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = known.get(&(tenant.clone(), version)).cloned();
        drop(known);
        let program = cell.as_deref().and_then(OnceCell::get);
        program.is_none_or(|program| program.lacks().is_empty())
    }

    /// The program of a version, compiled once. Dropped while it compiles, the next who waits begins anew.
    pub(super) async fn get(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        tenant: &TenantId,
        version: &VersionId,
    ) -> Result<Arc<Program>> {
        let key = (tenant.clone(), version.clone());
        let cell = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= CAPACITY
                && !known.contains_key(&key)
                && let Some(any) = known.keys().next().cloned()
            {
                known.remove(&any);
            }
            Arc::clone(known.entry(key).or_default())
        };
        if let Some(program) = cell.get() {
            return Ok(Arc::clone(program));
        }
        let compiled = cell.get_or_try_init(|| compile(pool, interpreter, tenant, version));
        // Seldom waited for, by a future that every burst has in itself.
        Box::pin(compiled).await.map(Arc::clone)
    }
}

async fn compile(
    pool: &Pool,
    interpreter: &Interpreter,
    tenant: &TenantId,
    version: &VersionId,
) -> Result<Arc<Program>> {
    let (definition_id, number, body) = definition::body(pool, tenant, version).await?.ok_or_else(|| {
        Error::not_found(
            "definition-not-found",
            format!("no workflow definition has the version id {version:?}"),
        )
    })?;
    let mut definition = WorkflowDefinition::from_value(body)?;
    definition.id = version.clone();
    definition.definition_id = definition_id;
    definition.version = number;
    Ok(Arc::new(interpreter.compile(&definition)?))
}
