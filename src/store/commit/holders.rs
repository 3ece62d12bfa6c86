//! Workflows whose instances hold something by an activation strategy until they end. A plain batch steps over the end of
//! such an instance, and it is sent again; the next ones of its workflow are sent apart at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{CommitRequest, FINISHED};
use crate::id::{DefinitionId, TenantId};

/// How long a workflow is remembered: it may have another strategy by then.
const LASTS: Duration = Duration::from_secs(60);

/// How many are remembered.
const KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct ActivationHolders(HashMap<(TenantId, DefinitionId), Instant>);

impl ActivationHolders {
    pub(super) fn learn(&mut self, request: &CommitRequest) {
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        self.0.insert(key(request), Instant::now());
    }

    /// Whether the burst ends an instance of such a workflow.
    pub(super) fn knows(&self, request: &CommitRequest) -> bool {
        !self.0.is_empty()
            && request.effects.status == FINISHED
            && self.0.get(&key(request)).is_some_and(|learnt| learnt.elapsed() < LASTS)
    }
}

fn key(request: &CommitRequest) -> (TenantId, DefinitionId) {
    (request.tenant.clone(), request.definition.definition_id.clone())
}
