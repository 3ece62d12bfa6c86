//! Compiled definitions by version id. A version that was ever published never changes, so nothing here goes stale.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::db::Pool;
use crate::definition::WorkflowDefinition;
use crate::execution::{Interpreter, Program};
use crate::id::{TenantId, VersionId};
use crate::store::definition;
use crate::{Error, Result};

/// How many compiled definitions are kept.
const CAPACITY: usize = 512;

#[derive(Default)]
pub(super) struct Programs {
    known: Mutex<HashMap<(TenantId, VersionId), Arc<Program>>>,
}

impl Programs {
    /// The program of a version, compiled once.
    pub(super) async fn get(
        &self,
        pool: &Pool,
        interpreter: &Interpreter,
        tenant: &TenantId,
        version: &VersionId,
    ) -> Result<Arc<Program>> {
        let key = (tenant.clone(), version.clone());
        if let Some(program) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(program));
        }
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
        let program = Arc::new(interpreter.compile(&definition)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY
            && let Some(any) = known.keys().next().cloned()
        {
            known.remove(&any);
        }
        known.insert(key, Arc::clone(&program));
        Ok(program)
    }
}
