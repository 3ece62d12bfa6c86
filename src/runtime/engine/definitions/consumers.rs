//! Publishes of definitions that belong together: a definition, and the consumers that are updated with it.
//!
//! Everything is read, compiled and evaluated before the transaction, which compares the sources and writes the results; if
//! a source has changed in the meantime, everything begins again.

use std::collections::{BTreeSet, HashMap};

use super::composition::{ATTEMPTS, NewReferences, Resolution, changing, cycle, distinct};
use super::{Validated, announce_change, log_warnings, model, new_definition, not_found};
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::execution::{Targets, UsedVersion, WorkflowReference};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::composition::{composed, key_of};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::engine::Engine;
use crate::runtime::scheduler::decide::PublishedSchedules;
use crate::store::definition::composition::{self as store, ConsumerRow, Plan, PlannedWrite, ReferenceKey};
use crate::store::definition::refresh::published_version;
use crate::store::definition::{NewDefinition, Saved, read, refuse_readonly};
use crate::{Error, Result};

/// The most definitions that a publish updates.
const MOST_CONSUMERS: usize = 200;

/// The most bytes of their bodies.
const MOST_BYTES: i64 = 64 << 20;

/// A consumer that a publish updates.
struct Updated {
    new: NewDefinition,
    becomes: (VersionId, i32),
    /// `None` if it stays a draft.
    validated: Option<Validated>,
    resolution: Resolution,
}

/// The definitions that references mean.
type Meanings = HashMap<ReferenceKey, DefinitionId>;

fn meaning(meanings: &Meanings, reference: &WorkflowReference) -> DefinitionId {
    let known = meanings.get(&key_of(reference));
    known.unwrap_or(&reference.definition_id).clone()
}

/// What is published.
pub(super) enum Subject {
    /// A definition that is saved with it.
    Save(Box<NewDefinition>, Box<WorkflowDefinition>),
    /// The newest version of a definition, which is a draft.
    Draft(DefinitionId),
    /// Nothing: only the consumers of the published version are updated.
    Consumers(DefinitionId),
}

impl Engine {
    /// Publishes a definition that uses others or that others use, and updates those that use it; returns what was saved, the
    /// definition first, and what its publish warns of. Consumers were warned of by their own publish.
    pub(super) async fn publish_composed(
        &self,
        node: &NodeContext,
        subject: &Subject,
    ) -> Result<(Vec<Saved>, Vec<ValidationError>)> {
        for _ in 0..ATTEMPTS {
            if let Some((saved, mut warnings)) = self.try_publish_composed(node, subject).await? {
                match saved.first() {
                    Some(first) if !first.is_unchanged => log_warnings(&first.row.definition_id, &warnings),
                    _ => warnings.clear(),
                }
                for saved in saved.iter().filter(|saved| !saved.is_unchanged) {
                    announce_change(node, &self.tenant, &saved.row.definition_id);
                }
                // The triggers may match events in the inbox.
                node.inbox_matches.notify_one();
                return Ok((saved, warnings));
            }
        }
        Err(changing())
    }

    async fn try_publish_composed(
        &self,
        node: &NodeContext,
        subject: &Subject,
    ) -> Result<Option<(Vec<Saved>, Vec<ValidationError>)>> {
        let (pool, class, tenant) = (&self.changes(node), node.database.lock_class(), &self.tenant);
        let (mut new, mut definition, head) = match subject {
            Subject::Save(new, definition) => (NewDefinition::clone(new), WorkflowDefinition::clone(definition), None),
            Subject::Draft(id) | Subject::Consumers(id) => {
                let head = store::head(pool, tenant, id).await?;
                let head = head.ok_or_else(|| not_found(id))?;
                let is_consumers = matches!(subject, Subject::Consumers(_));
                if self.guards_readonly {
                    if is_consumers {
                        refuse_readonly(id, head.is_readonly, head.is_system)?;
                    } else {
                        head.refuse_publish(id)?;
                    }
                }
                let version = if is_consumers {
                    match published_version(pool, tenant, id).await? {
                        Some(published) => published,
                        // No consumer can name a published version.
                        None => return Ok(Some((Vec::new(), Vec::new()))),
                    }
                } else {
                    head.version.0.clone()
                };
                let found = read::find_many(pool, tenant, &[version.as_str()], MOST_BYTES).await?;
                let row = found.into_iter().next().ok_or_else(|| not_found(id))?;
                let definition = model(&row)?;
                let mut new = new_definition(tenant.clone(), &self.inner.interpreter, definition.clone())?;
                new.version = 0;
                (new, definition, Some((id, head.version)))
            }
        };
        // Of a stored one it is decided above, and the transaction compares its row.
        new.guards_readonly = self.guards_readonly && head.is_none();
        // A definition without an id gets one when it is saved.
        definition.definition_id = new.definition_id.clone();
        new.version_id.get_or_insert_with(VersionId::random);
        let mut own = Resolution::default();
        let mut validated = None;
        let mut warnings = Vec::new();
        if !matches!(subject, Subject::Consumers(_)) {
            own = self.resolve(node, &definition, &NewReferences::default()).await?;
            let (program, found) = self.compile_composed(&definition, &own.composition).await?;
            warnings = found;
            validated = Some(self.starts_of(program).await?);
            new.references = own.references.clone();
        }
        let mut consumers = Vec::new();
        let mut becomes = None;
        let updates_consumers = definition.is_usable_as_activity() && definition.updates_consumers();
        if updates_consumers {
            consumers = store::consumers(pool, tenant, &definition.definition_id, MOST_CONSUMERS + 1).await?;
            if consumers.len() > MOST_CONSUMERS {
                return Err(too_many(&definition.definition_id));
            }
            if !consumers.is_empty() {
                becomes = match subject {
                    Subject::Consumers(_) => Some((definition.id.clone(), definition.version)),
                    Subject::Save(..) | Subject::Draft(_) => store::probe(pool, class, &new).await?,
                };
                if let Some((version, _)) = &becomes {
                    // The id of a file may be another version's: the write has to take the same one instead as the probe.
                    new.version_id = Some(version.clone());
                }
            }
        }
        let mut updated = Vec::new();
        if let Some((version, number)) = &becomes {
            definition.id = version.clone();
            definition.version = *number;
            updated = self.update_consumers(node, &definition, &mut own, &consumers).await?;
        }
        let schedules = validated
            .as_ref()
            .map(|validated| PublishedSchedules(&validated.schedules));
        let planned: Vec<_> = updated
            .iter()
            .map(|updated| {
                updated
                    .validated
                    .as_ref()
                    .map(|validated| PublishedSchedules(&validated.schedules))
            })
            .collect();
        let mut writes = Vec::with_capacity(1 + updated.len());
        if let (Some(validated), Some(schedules)) = (&validated, &schedules) {
            writes.push(PlannedWrite {
                new: &new,
                becomes: becomes.clone(),
                starts: Some(validated.starts(schedules)),
            });
        }
        for (updated, schedules) in updated.iter().zip(&planned) {
            let starts = updated.validated.as_ref().zip(schedules.as_ref());
            writes.push(PlannedWrite {
                new: &updated.new,
                becomes: Some(updated.becomes.clone()),
                starts: starts.map(|(validated, schedules)| validated.starts(schedules)),
            });
        }
        let all = || std::iter::once(&own).chain(updated.iter().map(|updated| &updated.resolution));
        let resolved: Vec<_> = all().flat_map(|it| it.resolved.iter().cloned()).collect();
        let drafts = distinct(all().flat_map(|it| it.drafts.iter().cloned()));
        let plan = Plan {
            tenant,
            head: head.as_ref().map(|(id, head)| (*id, Some(head))),
            resolved: &resolved,
            drafts: &drafts,
            // Also none: the first consumer may be published meanwhile.
            consumers: updates_consumers.then_some((&definition.definition_id, &consumers)),
            writes,
        };
        let saved = store::write(pool, class, &plan).await?;
        Ok(saved.map(|saved| (saved, warnings)))
    }

    /// Rewrites the newest versions of the definitions that use `definition`, which is being published, through all levels.
    async fn update_consumers(
        &self,
        node: &NodeContext,
        definition: &WorkflowDefinition,
        own: &mut Resolution,
        consumers: &[ConsumerRow],
    ) -> Result<Vec<Updated>> {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let mut written = NewReferences::default();
        let (id, version) = (definition.definition_id.clone(), definition.id.clone());
        written.versions.insert(id, (version.clone(), definition.version));
        if own.references.is_empty() {
            // Only the consumers of a published version are updated: it has its references.
            let rows = store::used_versions(pool, tenant, &[version.as_str()]).await?;
            if let Some((_, composition)) = composed(rows, &version)? {
                written.composition = composition;
            }
        } else {
            written.composition = own.composition.clone();
        }
        let part = UsedVersion {
            definition: definition.clone(),
            references: std::mem::take(&mut written.composition.references),
        };
        written.composition.used.insert(version, part);
        let ids: Vec<&str> = consumers.iter().map(|consumer| consumer.version_id.as_str()).collect();
        let mut bodies = HashMap::new();
        for row in read::find_many(pool, tenant, &ids, MOST_BYTES).await? {
            bodies.insert(row.version_id.clone(), model(&row)?);
        }
        let meanings = self.meanings(node, bodies.values()).await?;
        let mut waiting: Vec<(&ConsumerRow, WorkflowDefinition, BTreeSet<DefinitionId>)> = Vec::new();
        // A client changes nothing of the system, also not by what that uses.
        let stays = |consumer: &ConsumerRow| consumer.is_readonly || (consumer.is_system && self.guards_readonly);
        for consumer in consumers.iter().filter(|consumer| !stays(consumer)) {
            let Some(model) = bodies.remove(&consumer.version_id) else {
                continue;
            };
            let used = self.inner.interpreter.references(&model).into_iter();
            let used = used.map(|(reference, _)| meaning(&meanings, &reference)).collect();
            waiting.push((consumer, model, used));
        }
        let mut updated = Vec::new();
        while !waiting.is_empty() {
            let left: BTreeSet<DefinitionId> = waiting.iter().map(|(row, ..)| row.definition_id.clone()).collect();
            // One whose own consumers are all that is left uses nothing that is still to be updated.
            let next = waiting.iter().position(|(_, _, used)| used.is_disjoint(&left));
            let Some(next) = next else {
                let names: Vec<&str> = left.iter().map(DefinitionId::as_str).collect();
                return Err(cycle(&names.join(", "), ""));
            };
            let (consumer, model, _) = waiting.swap_remove(next);
            if let Some(update) = self
                .update_consumer(node, consumer, model, &meanings, &mut written)
                .await?
            {
                updated.push(update);
            }
        }
        Ok(updated)
    }

    /// The definition that each of these references means: files of another server name it only by its activity type.
    async fn meanings<'a>(
        &self,
        node: &NodeContext,
        models: impl Iterator<Item = &'a WorkflowDefinition>,
    ) -> Result<Meanings> {
        let references = models.flat_map(|model| self.inner.interpreter.references(model));
        let keys: BTreeSet<ReferenceKey> = references.map(|(reference, _)| key_of(&reference)).collect();
        let keys: Vec<ReferenceKey> = keys.into_iter().collect();
        let versions = store::resolve(&node.database.pool, &self.tenant, &keys).await?;
        let known = keys.into_iter().zip(versions);
        Ok(known
            .filter_map(|(key, version)| Some((key, version?.definition_id)))
            .collect())
    }

    async fn update_consumer(
        &self,
        node: &NodeContext,
        consumer: &ConsumerRow,
        mut model: WorkflowDefinition,
        meanings: &Meanings,
        written: &mut NewReferences,
    ) -> Result<Option<Updated>> {
        let interpreter = &self.inner.interpreter;
        let mut targets = Targets::new();
        for (reference, _) in interpreter.references(&model) {
            let used = meaning(meanings, &reference);
            if let Some((version, number)) = written.versions.get(&used)
                && reference.version_id != *version
            {
                let target = (used, version.clone(), *number);
                targets.insert(reference, target);
            }
        }
        let is_changed = model
            .root
            .as_mut()
            .is_some_and(|root| interpreter.update_references(root, &targets));
        if !is_changed {
            return Ok(None);
        }
        let is_replaced = consumer.is_published || consumer.was_started;
        model.id = if is_replaced {
            VersionId::random()
        } else {
            consumer.version_id.clone()
        };
        model.version = if consumer.is_published {
            consumer.max_version.saturating_add(1)
        } else {
            consumer.version
        };
        let becomes = (model.id.clone(), model.version);
        let mut new = new_definition(self.tenant.clone(), interpreter, model.clone())?;
        new.version = 0;
        if !consumer.is_published {
            return Ok(Some(Updated {
                new,
                becomes,
                validated: None,
                resolution: Resolution::default(),
            }));
        }
        let refused = |error: Error| {
            let message = format!(
                "the consumer {} cannot be updated: {}; repair it, or turn autoUpdateConsumingWorkflows off",
                consumer.definition_id,
                error.message()
            );
            let fields = error.fields().to_vec();
            fields.into_iter().fold(
                Error::conflict("consumer-invalid", message),
                |error, (activity, problem)| error.field(format!("{}.{activity}", consumer.definition_id), problem),
            )
        };
        let resolution = self.resolve(node, &model, written).await;
        let resolution = resolution.map_err(|error| if error.is_invalid() { refused(error) } else { error })?;
        let program = self.compile_composed(&model, &resolution.composition).await;
        let (program, _) = program.map_err(|error| if error.is_invalid() { refused(error) } else { error })?;
        let validated = self.starts_of(program).await;
        let validated = validated.map_err(|error| if error.is_invalid() { refused(error) } else { error })?;
        new.references = resolution.references.clone();
        let part = UsedVersion {
            definition: model,
            references: resolution.composition.references.clone(),
        };
        written.versions.insert(consumer.definition_id.clone(), becomes.clone());
        written.composition.extend(resolution.composition.clone());
        written.composition.used.insert(becomes.0.clone(), part);
        Ok(Some(Updated {
            new,
            becomes,
            validated: Some(validated),
            resolution,
        }))
    }

    /// The ids of the definitions whose newest versions use a definition as an activity, through all levels; at most 1,000.
    pub async fn consumers(&self, id: &DefinitionId) -> Result<Vec<DefinitionId>> {
        let rows = store::consumers(self.node()?.database.reads.by_key(), &self.tenant, id, 1_000).await?;
        Ok(rows.into_iter().map(|row| row.definition_id).collect())
    }

    /// The ids of the newest versions that use a definition as an activity, through all levels; at most 1,000.
    pub async fn consumer_versions(&self, id: &DefinitionId) -> Result<Vec<VersionId>> {
        let rows = store::consumers(self.node()?.database.reads.by_key(), &self.tenant, id, 1_000).await?;
        Ok(rows.into_iter().map(|row| row.version_id).collect())
    }

    /// Makes the newest versions of the definitions that use a published one name its published version, if its options ask
    /// for that; returns their names, none if no version is published.
    pub async fn update_references(&self, id: &DefinitionId) -> Result<Vec<String>> {
        let node = self.node()?;
        let (saved, _) = self.publish_composed(&node, &Subject::Consumers(id.clone())).await?;
        let name = |saved: Saved| {
            saved
                .row
                .name
                .unwrap_or_else(|| saved.row.definition_id.as_str().to_owned())
        };
        Ok(saved.into_iter().map(name).collect())
    }
}

fn too_many(id: &DefinitionId) -> Error {
    Error::conflict(
        "too-many-consumers",
        format!(
            "more than {MOST_CONSUMERS} definitions use {id}, and its publish updates them; turn autoUpdateConsumingWorkflows \
             off, and publish it again"
        ),
    )
}
