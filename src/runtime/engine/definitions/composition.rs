//! Definitions that use others as activities: which versions they mean.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{compiled, is_large, model};
use crate::activity::{Descriptor, describe};
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::execution::{Composition, Program, References, WorkflowReference};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::composition::{composed, key_of, used_version_of};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::engine::Engine;
use crate::store::definition::composition::{
    self as store, FrozenDraft, Plan, ReferenceKey, ReferenceRow, ResolvedVersion,
};
use crate::{Error, Result, compute};

/// How often it is tried while what it is made from keeps changing.
pub(super) const ATTEMPTS: usize = 10;

/// The definitions that a publish writes, with the versions that they become.
#[derive(Default)]
pub(super) struct NewReferences {
    pub(super) versions: HashMap<DefinitionId, (VersionId, i32)>,
    pub(super) composition: Composition,
}

/// What a definition uses, as it is now.
#[derive(Default)]
pub(super) struct Resolution {
    pub(super) composition: Composition,
    /// The references of the definition itself.
    pub(super) references: Vec<ReferenceRow>,
    pub(super) resolved: Vec<(ReferenceKey, Option<ResolvedVersion>)>,
    pub(super) drafts: Vec<FrozenDraft>,
}

impl Engine {
    /// Validates and compiles a definition for a publish, with what it uses; what it warns of.
    pub(super) async fn compile_composed(
        &self,
        definition: &WorkflowDefinition,
        composition: &Composition,
    ) -> Result<(Program, Vec<ValidationError>)> {
        let used = &composition.used;
        let is_long = is_large(definition) || used.len() > 10 || used.values().any(|part| is_large(&part.definition));
        let (interpreter, definition, composition) =
            (self.inner.interpreter.clone(), definition.clone(), composition.clone());
        compute::check(is_long, move || compiled(&interpreter, &definition, &composition)).await?
    }

    /// What a definition uses: the versions that its references mean now, through all levels of drafts; a version that was
    /// published or started has decided what it uses. A cycle is refused with its path.
    pub(super) async fn resolve(
        &self,
        node: &NodeContext,
        definition: &WorkflowDefinition,
        written: &NewReferences,
    ) -> Result<Resolution> {
        let (pool, tenant, interpreter) = (&node.database.pool, &self.tenant, &self.inner.interpreter);
        let mut found = Resolution {
            composition: written.composition.clone(),
            ..Resolution::default()
        };
        found.composition.references = References::new();
        // The references that are not decided yet, each with the draft that has it; none: the definition itself.
        let mut pending: Vec<(Option<VersionId>, WorkflowReference)> = Vec::new();
        // The references that are noted, by their owner, and the places of the drafts.
        let mut noted: HashSet<(Option<VersionId>, ReferenceKey)> = HashSet::new();
        let mut places: HashMap<VersionId, usize> = HashMap::new();
        let of_definition = interpreter.references(definition);
        pending.extend(of_definition.into_iter().map(|(reference, _)| (None, reference)));
        while !pending.is_empty() {
            let keys: BTreeSet<ReferenceKey> = pending.iter().map(|(_, reference)| key_of(reference)).collect();
            let keys: Vec<ReferenceKey> = keys.into_iter().collect();
            let versions = store::resolve(pool, tenant, &keys).await?;
            let known: HashMap<ReferenceKey, Option<ResolvedVersion>> = keys.into_iter().zip(versions).collect();
            let mut wanted = BTreeSet::new();
            for (owner, reference) in std::mem::take(&mut pending) {
                let key = key_of(&reference);
                let Some(Some(version)) = known.get(&key) else { continue };
                let becomes = written.versions.get(&version.definition_id);
                let used = becomes.map_or(&version.version_id, |(version, _)| version).clone();
                if !found.composition.used.contains_key(&used) {
                    wanted.insert(used.clone());
                }
                let is_new = noted.insert((owner.clone(), key.clone()));
                let row = ReferenceRow {
                    key,
                    used_definition: version.definition_id.clone(),
                    used_version: Some(used.clone()),
                };
                match owner {
                    None => {
                        found.composition.references.insert(reference, used);
                        found.references.extend(is_new.then_some(row));
                    }
                    Some(owner) => {
                        if let Some(part) = found.composition.used.get_mut(&owner) {
                            part.references.insert(reference, used);
                        }
                        let draft = places.get(&owner).and_then(|place| found.drafts.get_mut(*place));
                        if let Some(draft) = draft.filter(|_| is_new) {
                            draft.references.push(row);
                        }
                    }
                }
            }
            found.resolved.extend(known);
            let wanted: Vec<&str> = wanted.iter().map(VersionId::as_str).collect();
            if wanted.is_empty() {
                continue;
            }
            for row in store::used_versions(pool, tenant, &wanted).await? {
                if found.composition.used.contains_key(&row.version_id) {
                    continue;
                }
                let draft = (!row.is_final).then(|| FrozenDraft {
                    definition_id: row.definition_id.clone(),
                    version_id: row.version_id.clone(),
                    row_version: row.row_version.clone(),
                    references: Vec::new(),
                });
                let part = used_version_of(row)?;
                if let Some(draft) = draft {
                    let inner = interpreter.references(&part.definition).into_iter();
                    pending.extend(inner.map(|(reference, _)| (Some(draft.version_id.clone()), reference)));
                    places.insert(draft.version_id.clone(), found.drafts.len());
                    found.drafts.push(draft);
                }
                found.composition.used.insert(part.definition.id.clone(), part);
            }
        }
        refuse_cycle(
            &found.composition,
            &found.composition.references,
            &definition.definition_id,
        )?;
        for draft in &found.drafts {
            if let Some(part) = found.composition.used.get(&draft.version_id) {
                refuse_cycle(&found.composition, &part.references, &draft.definition_id)?;
            }
        }
        Ok(found)
    }

    /// What a version uses: a draft as it would be now.
    pub(in crate::runtime::engine) async fn composition_of(
        &self,
        node: &NodeContext,
        version: &VersionId,
    ) -> Result<Option<(WorkflowDefinition, Composition)>> {
        let rows = store::used_versions(&node.database.pool, &self.tenant, &[version.as_str()]).await?;
        let is_final = rows.iter().any(|row| row.version_id == *version && row.is_final);
        let large = rows.iter().any(|row| compute::is_large(&row.body));
        let wanted = version.clone();
        let found = compute::run(large, move || composed(rows, &wanted)).await??;
        let Some((definition, mut composition)) = found else {
            return Ok(None);
        };
        if !is_final {
            composition = self
                .resolve(node, &definition, &NewReferences::default())
                .await?
                .composition;
        }
        Ok(Some((definition, composition)))
    }

    /// What a version uses, if it uses any.
    pub(in crate::runtime::engine) async fn used_by(
        &self,
        node: &NodeContext,
        definition: &WorkflowDefinition,
    ) -> Result<Composition> {
        if self.inner.interpreter.references(definition).is_empty() {
            return Ok(Composition::default());
        }
        let found = self.composition_of(node, &definition.id).await?;
        Ok(found.map(|(_, composition)| composition).unwrap_or_default())
    }

    /// Marks a draft as started, with the versions that it uses. Returns false if it changed in the meantime.
    pub(super) async fn start_composed_draft(&self, node: &NodeContext, version: &VersionId) -> Result<bool> {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let rows = store::used_versions(pool, tenant, &[version.as_str()]).await?;
        let Some(row) = rows.iter().find(|row| row.version_id == *version && !row.is_final) else {
            return Ok(true);
        };
        let (id, row_version) = (row.definition_id.clone(), row.row_version.clone());
        let Some((definition, _)) = composed(rows, version)? else {
            return Ok(false);
        };
        let found = self.resolve(node, &definition, &NewReferences::default()).await?;
        self.compile_composed(&definition, &found.composition).await?;
        let own = FrozenDraft {
            definition_id: id,
            version_id: version.clone(),
            row_version,
            references: found.references,
        };
        let drafts = distinct(found.drafts.into_iter().chain([own]));
        let plan = Plan {
            tenant,
            head: None,
            resolved: &found.resolved,
            drafts: &drafts,
            consumers: None,
            writes: Vec::new(),
        };
        Ok(store::write(pool, node.database.lock_class(), &plan).await?.is_some())
    }

    /// Marks a draft as started, see [`Engine::start_composed_draft`], as often as it changes meanwhile.
    pub(super) async fn freeze_composed_draft(&self, node: &NodeContext, version: &VersionId) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if self.start_composed_draft(node, version).await? {
                return Ok(());
            }
        }
        Err(changing())
    }

    /// The activity types that definitions provide: each version that is usable as an activity. An unpublished version is
    /// hidden.
    pub async fn workflow_activities(&self) -> Result<Vec<Descriptor>> {
        let rows = store::types(self.node()?.database.reads.lists(), &self.tenant).await?;
        let mut descriptors = Vec::with_capacity(rows.len());
        for row in rows {
            let mut definition = model(&row)?;
            definition.name.clone_from(&row.name);
            definition.description.clone_from(&row.description);
            let mut descriptor = describe(&definition);
            descriptor.is_hidden = !row.is_published;
            if self
                .inner
                .interpreter
                .catalogue()
                .descriptor(&descriptor.type_name, 0)
                .is_none()
            {
                descriptors.push(descriptor);
            }
        }
        Ok(descriptors)
    }
}

pub(super) fn distinct(drafts: impl Iterator<Item = FrozenDraft>) -> Vec<FrozenDraft> {
    let mut seen = BTreeSet::new();
    drafts.filter(|draft| seen.insert(draft.version_id.clone())).collect()
}

fn refuse_cycle(composition: &Composition, references: &References, id: &DefinitionId) -> Result<()> {
    let Some(path) = composition.path_from(references, id) else {
        return Ok(());
    };
    let path: Vec<&str> = std::iter::once(id).chain(&path).map(DefinitionId::as_str).collect();
    Err(cycle(id.as_str(), &path.join(" → ")))
}

pub(super) fn cycle(id: &str, path: &str) -> Error {
    let way = if path.is_empty() {
        String::new()
    } else {
        format!(": {path}")
    };
    let message = format!("the workflow {id} uses itself as an activity{way}; remove one of these uses");
    Error::invalid("composition-cycle", message.clone()).field("root", message)
}

pub(super) fn changing() -> Error {
    let message = "the definitions that belong together keep changing while they are published; try again";
    Error::conflict("definition-changing", message)
}
