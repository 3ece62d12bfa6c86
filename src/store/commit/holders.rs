//! The workflows whose instances hold an activation key, as far as the commits of a lane have shown.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{CommitRequest, FINISHED};
use crate::id::{DefinitionId, TenantId};

/// How long a workflow is known to hold something: it may have another strategy by then.
const HOLDER_TTL: Duration = Duration::from_secs(60);

/// The most such workflows.
const MAX_HOLDERS: usize = 1024;

/// Workflows whose instances hold something by an activation strategy until they end. A single-claim batch skips the end of
/// such an instance, and it is sent again; the next ones of its workflow go into multi-claim batches at once.
#[derive(Default)]
pub(super) struct ActivationHolders(HashMap<(TenantId, DefinitionId), Instant>);

impl ActivationHolders {
    pub(super) fn insert(&mut self, request: &CommitRequest) {
        if self.0.len() >= MAX_HOLDERS {
            self.0.clear();
        }
        self.0.insert(workflow(request), Instant::now());
    }

    /// Whether the request ends an instance of such a workflow.
    pub(super) fn contains(&self, request: &CommitRequest) -> bool {
        !self.0.is_empty()
            && request.effects.status == FINISHED
            && self
                .0
                .get(&workflow(request))
                .is_some_and(|since| since.elapsed() < HOLDER_TTL)
    }
}

fn workflow(request: &CommitRequest) -> (TenantId, DefinitionId) {
    (request.tenant.clone(), request.definition.definition_id.clone())
}
