//! Definitions: save, publish, read.
//!
//! `composition`: definitions that use others as activities; `consumers`: publishes of one with those that use it.
//! `read`, `list`: what the API shows; `designers`: the form that designers can draw. `withdrawal`: retracts and deletes.
//! `refresh`: triggers and schedules are computed again.
//! `version`: the version that a start runs, and reverts.

mod composition;
mod consumers;
mod designers;
mod list;
mod read;
mod refresh;
mod version;
mod withdrawal;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use self::consumers::Subject;
#[cfg(feature = "http")]
pub(crate) use self::designers::KnownWorkflows;
use super::Engine;
use crate::activity::describe;
#[cfg(feature = "http")]
use crate::activity::{EndpointRoute, HTTP_ENDPOINT};
use crate::definition::{Trigger, ValidationError, WorkflowDefinition};
use crate::execution::{Composition, Interpreter, Program, ScheduledTrigger, UsingActivity, WorkflowReference};
use crate::id::{DefinitionId, LONGEST_DEFINITION_ID, TenantId};
use crate::runtime::context::composition::key_of;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Published, VersionOptions, is_plain};
use crate::runtime::scheduler::decide::PublishedSchedules;
use crate::signal::DefinitionChange;
use crate::store::definition::composition::{ReferenceRow, head};
use crate::store::definition::{
    self, DefinitionRow, NewDefinition, PublishOutcome, Saved, StartSources, TriggerRow, VersionSelector,
};
#[cfg(feature = "http")]
use crate::store::route::outline_key;
use crate::{Error, Result, compute};

/// A definition that can be saved as a draft.
pub(crate) struct PreparedDraft(NewDefinition);

#[cfg(feature = "http")]
impl PreparedDraft {
    /// The definition that it is a version of.
    pub(crate) fn definition_id(&self) -> &DefinitionId {
        &self.0.definition_id
    }

    /// Its save does not make the definition read-only.
    pub(crate) fn stay_writable(&mut self) {
        self.0.is_readonly = false;
        if let Some(fields) = Arc::make_mut(&mut self.0.body).as_object_mut() {
            fields.insert("isReadonly".to_owned(), false.into());
        }
    }
}

/// How often a publish is tried while the draft keeps changing.
const PUBLISH_ATTEMPTS: usize = 5;

impl Engine {
    /// Saves a definition as a draft, whether or not it is marked as published; returns the saved version. A draft may be
    /// unfinished: only a publish validates. If the newest version is published and equal (except for its id, number and
    /// time), no draft is created, and that version is returned. The first version has the number 1, or its own one if it
    /// has an id, too.
    ///
    /// A program may also change definitions that are read-only or belong to the system, here and in every other method;
    /// clients of the REST API may not.
    pub async fn import(&self, definition: WorkflowDefinition) -> Result<Value> {
        Ok(self.save_draft(definition).await?.definition)
    }

    async fn save_draft(&self, definition: WorkflowDefinition) -> Result<Published> {
        let draft = self.prepare_draft(definition).await?;
        self.save_new(&self.node()?, draft.0).await
    }

    /// Checks a definition for a save as draft: whatever fails after this concerns the database.
    pub(crate) async fn prepare_draft(&self, definition: WorkflowDefinition) -> Result<PreparedDraft> {
        let tenant = self.tenant.clone();
        let interpreter = self.inner.interpreter.clone();
        let preparing = compute::run(is_large(&definition), move || {
            new_definition(tenant, &interpreter, definition).map(PreparedDraft)
        });
        preparing.await?
    }

    /// Saves a draft that was checked.
    #[cfg(feature = "http")]
    pub(crate) async fn save_prepared(&self, draft: PreparedDraft) -> Result<Published> {
        self.save_new(&self.node()?, draft.0).await
    }

    /// Whether the newest version is what the save of this draft would leave, so that it is not needed; if not, a version that
    /// is read-only or belongs to the system is refused.
    #[cfg(feature = "http")]
    pub(crate) async fn is_saved(&self, draft: &PreparedDraft) -> Result<bool> {
        let new = &draft.0;
        let wanted = VersionSelector {
            definition_id: Some(new.definition_id.clone()),
            ..wanted(VersionOptions::Latest)
        };
        let found = definition::find(&self.node()?.database.pool, &self.tenant, &wanted).await?;
        let Some(row) = found else { return Ok(false) };
        let (stored, body) = (row.body, Arc::clone(&new.body));
        let comparing = compute::run(compute::is_large(&stored), move || {
            definition::is_equivalent(&stored, &body)
        });
        if !row.is_system && comparing.await? {
            return Ok(true);
        }
        definition::refuse_readonly(&new.definition_id, row.is_readonly, row.is_system)?;
        Ok(false)
    }

    /// Saves a draft that is prepared.
    async fn save_new(&self, node: &Arc<NodeContext>, mut new: NewDefinition) -> Result<Published> {
        new.guards_readonly = self.guards_readonly;
        let saved = definition::save(&self.changes(node), node.database.lock_class(), &new, None).await?;
        if !saved.is_unchanged {
            announce_change(node, &new.tenant, &new.definition_id);
        }
        Ok(Published {
            already_published: saved.is_unchanged && saved.row.is_published,
            definition: self.shown(saved.row).await?,
            warnings: Vec::new(),
            consumers_updated: Vec::new(),
        })
    }

    /// Saves a draft and, with `publish`, publishes it in the same transaction; an invalid definition is then not saved. If
    /// the newest version is published and equal (except for its id, number and time), nothing is written, and
    /// [`Published::already_published`] is true, so a program may save its definitions at each start.
    pub async fn save(&self, definition: WorkflowDefinition, publish: bool) -> Result<Published> {
        if !publish {
            return self.save_draft(definition).await;
        }
        self.save_published(definition).await
    }

    async fn save_published(&self, definition: WorkflowDefinition) -> Result<Published> {
        let node = self.node()?;
        let (tenant, interpreter) = (self.tenant.clone(), self.inner.interpreter.clone());
        if is_composed(&interpreter, &definition) {
            let preparing = compute::run(is_large(&definition), move || {
                let new = new_definition(tenant, &interpreter, definition.clone())?;
                Ok::<_, Error>(Subject::Save(Box::new(new), Box::new(definition)))
            });
            let subject = preparing.await??;
            let (saved, warnings) = self.publish_composed(&node, &subject).await?;
            return self.published(saved, warnings).await;
        }
        let preparing = compute::check(is_large(&definition), move || {
            let (program, warnings) = compiled(&interpreter, &definition, &Composition::default())?;
            Ok::<_, Error>((new_definition(tenant, &interpreter, definition)?, program, warnings))
        });
        let (mut new, program, mut warnings) = preparing.await??;
        new.guards_readonly = self.guards_readonly;
        let validated = self.starts_of(program).await?;
        let schedules = PublishedSchedules(&validated.schedules);
        let starts = validated.starts(&schedules);
        let saved = definition::save(&self.changes(&node), node.database.lock_class(), &new, Some(starts)).await?;
        if !saved.is_unchanged {
            announce_change(&node, &new.tenant, &new.definition_id);
            // Its triggers may match events in the inbox.
            node.inbox_matches.notify_one();
            log_warnings(&new.definition_id, &warnings);
        } else {
            warnings.clear();
        }
        Ok(Published {
            definition: self.shown(saved.row).await?,
            already_published: saved.is_unchanged,
            warnings,
            consumers_updated: Vec::new(),
        })
    }

    /// Publishes the newest version: the next start on any node runs it; running instances keep theirs. An invalid
    /// definition is refused with code `invalid-definition`, and [`Error::fields`] names activities and problems.
    pub async fn publish(&self, id: &DefinitionId) -> Result<Published> {
        for _ in 0..PUBLISH_ATTEMPTS {
            let node = self.node()?;
            let wanted = VersionSelector {
                definition_id: Some(id.clone()),
                ..wanted(VersionOptions::Latest)
            };
            let row = definition::find(&node.database.pool, &self.tenant, &wanted)
                .await?
                .ok_or_else(|| not_found(id))?;
            if self.guards_readonly && (row.is_readonly || row.is_system) {
                // Both are part of the body, which the transaction compares, and no earlier version is published meanwhile.
                let head = head(&node.database.pool, &self.tenant, id).await?;
                head.map_or(Ok(()), |head| head.refuse_publish(id))?;
            }
            if row.is_published {
                return Ok(Published {
                    definition: self.shown(row).await?,
                    already_published: true,
                    warnings: Vec::new(),
                    consumers_updated: Vec::new(),
                });
            }
            if is_composed(&self.inner.interpreter, &model(&row)?) {
                let (saved, warnings) = self.publish_composed(&node, &Subject::Draft(id.clone())).await?;
                return self.published(saved, warnings).await;
            }
            let (draft, interpreter) = (row.clone(), self.inner.interpreter.clone());
            let compiling = compute::check(compute::is_large(&row.body), move || {
                compiled(&interpreter, &model(&draft)?, &Composition::default())
            });
            let (program, warnings) = compiling.await??;
            let validated = self.starts_of(program).await?;
            let schedules = PublishedSchedules(&validated.schedules);
            let starts = validated.starts(&schedules);
            let (pool, class) = (&self.changes(&node), node.database.lock_class());
            let outcome = definition::publish(pool, class, &self.tenant, &row, starts).await?;
            if outcome == PublishOutcome::Published {
                announce_change(&node, &self.tenant, id);
                // Its triggers may match events in the inbox.
                node.inbox_matches.notify_one();
                log_warnings(id, &warnings);
                let row = DefinitionRow {
                    is_published: true,
                    ..row
                };
                return Ok(Published {
                    definition: self.shown(row).await?,
                    already_published: false,
                    warnings,
                    consumers_updated: Vec::new(),
                });
            }
        }
        Err(Error::conflict(
            "definition-changing",
            "the draft keeps changing while it is published; try again",
        ))
    }

    /// The response to a publish that may have updated consumers.
    async fn published(&self, saved: Vec<Saved>, warnings: Vec<ValidationError>) -> Result<Published> {
        let mut saved = saved.into_iter();
        let first = saved
            .next()
            .ok_or_else(|| Error::internal("a publish has saved nothing"))?;
        Ok(Published {
            definition: self.shown(first.row).await?,
            already_published: first.is_unchanged,
            consumers_updated: saved.map(|consumer| consumer.row.definition_id).collect(),
            warnings,
        })
    }

    /// The triggers and schedules of a definition that can be published.
    async fn starts_of(&self, program: Program) -> Result<Validated> {
        let starts = self.inner.interpreter.triggers(&program).await?;
        let triggers = starts
            .triggers
            .into_iter()
            .map(|trigger| {
                let (pattern_bytes, outline) = of_route(&trigger);
                TriggerRow {
                    activity_id: trigger.activity_id.into(),
                    hash: trigger.hash,
                    name: trigger.activity_type,
                    payload: trigger.payload,
                    pattern_bytes,
                    outline,
                }
            })
            .collect();
        Ok(Validated {
            triggers,
            schedules: starts.schedules,
        })
    }
}

/// What the compiled regular expressions of the route of an endpoint take, and the key of its outline.
#[cfg(feature = "http")]
fn of_route(trigger: &Trigger) -> (i32, Option<Vec<u8>>) {
    let is_endpoint = trigger.activity_type == HTTP_ENDPOINT;
    let Some(route) = EndpointRoute::of_options(&trigger.payload).filter(|_| is_endpoint) else {
        return (0, None);
    };
    let bytes = i32::try_from(route.template().pattern_bytes()).unwrap_or(i32::MAX);
    (bytes, route.outline().map(|outline| outline_key(&outline)))
}

/// Without endpoints there are no routes.
#[cfg(not(feature = "http"))]
fn of_route(_: &Trigger) -> (i32, Option<Vec<u8>>) {
    (0, None)
}

fn new_definition(
    tenant: TenantId,
    interpreter: &Interpreter,
    mut definition: WorkflowDefinition,
) -> Result<NewDefinition> {
    if let Some(root) = &mut definition.root {
        interpreter.remove_node_ids(root);
        interpreter.check_ids(root)?;
    }
    let given = &definition.definition_id;
    let definition_id = if given.as_str().is_empty() {
        DefinitionId::random()
    } else {
        given.clone()
    };
    for (field, id) in [("definitionId", definition_id.as_str()), ("id", definition.id.as_str())] {
        if id.len() > LONGEST_DEFINITION_ID {
            return Err(too_long(field, field, id));
        }
        if !is_plain(id) {
            let message = format!("{field} has control characters");
            return Err(Error::invalid("invalid-definition-id", message.clone()).field(field, message));
        }
    }
    let activity_type = definition
        .is_usable_as_activity()
        .then(|| describe(&definition).type_name)
        .filter(|name| !name.is_empty());
    let found = interpreter.references(&definition);
    // Indexes hold all of these.
    for (reference, activity) in &found {
        for (what, text) in [
            ("workflowDefinitionId", reference.definition_id.as_str()),
            ("type", &reference.type_name),
            ("workflowDefinitionVersionId", reference.version_id.as_str()),
        ] {
            if text.len() > LONGEST_DEFINITION_ID {
                let what = format!("the property {what} of the activity {}", activity.title);
                return Err(too_long("root", &what, text));
            }
        }
    }
    if let Some(name) = activity_type.as_ref().filter(|name| name.len() > LONGEST_DEFINITION_ID) {
        let what = "the activity type of the workflow, made of its name,";
        return Err(too_long("name", what, name));
    }
    let references = undecided(found);
    Ok(NewDefinition {
        tenant,
        version_id: Some(definition.id.clone()).filter(|id| !id.as_str().is_empty()),
        definition_id,
        version: definition.version,
        // Instances and consumers may name a version of a file by its number.
        first_version: if definition.id.as_str().is_empty() {
            1
        } else {
            definition.version.max(1)
        },
        name: definition.name.clone(),
        description: definition.description.clone(),
        is_readonly: definition.is_readonly,
        is_system: definition.is_system,
        activity_type,
        references,
        adds_version: false,
        guards_readonly: false,
        body: Arc::new(definition.to_value()),
    })
}

fn too_long(field: &str, what: &str, text: &str) -> Error {
    let message = format!(
        "{what} has {} bytes; it has at most {LONGEST_DEFINITION_ID} bytes",
        text.len()
    );
    Error::invalid("invalid-definition-id", message.clone()).field(field, message)
}

/// The references of a draft; its publish decides what they mean.
fn undecided(found: Vec<(WorkflowReference, UsingActivity)>) -> Vec<ReferenceRow> {
    let found: BTreeSet<WorkflowReference> = found.into_iter().map(|(reference, _)| reference).collect();
    let row = |reference: &WorkflowReference| ReferenceRow {
        key: key_of(reference),
        used_definition: reference.definition_id.clone(),
        used_version: None,
    };
    found.iter().map(row).collect()
}

/// Whether a publish also concerns other definitions.
fn is_composed(interpreter: &Interpreter, definition: &WorkflowDefinition) -> bool {
    definition.is_usable_as_activity() || !interpreter.references(definition).is_empty()
}

/// Validates and compiles a definition for a publish, with the definitions that it uses as activities; also returns the
/// warnings.
fn compiled(
    interpreter: &Interpreter,
    definition: &WorkflowDefinition,
    composition: &Composition,
) -> Result<(Program, Vec<ValidationError>)> {
    let Some(root) = &definition.root else {
        let message = "the workflow definition has no root activity";
        return Err(Error::invalid("missing-root", message).field("root", "must hold an activity"));
    };
    interpreter.check_ids(root)?;
    let program = interpreter.compile_composed(definition, composition);
    let program = program.map_err(|error| invalid(vec![ValidationError::of("", error.message())]))?;
    let problems = interpreter.validate_compiled(definition, &program);
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    let warnings = interpreter.warnings(&program, definition);
    Ok((program, warnings))
}

fn log_warnings(definition: &DefinitionId, warnings: &[ValidationError]) {
    for warning in warnings {
        tracing::warn!(%definition, activity = warning.activity_id, "a published definition: {}", warning.message);
    }
}

/// Whether it is processed on the compute threads.
fn is_large(definition: &WorkflowDefinition) -> bool {
    let lists = [&definition.variables, &definition.inputs, &definition.outputs];
    definition.root.as_ref().is_some_and(compute::is_large)
        || lists
            .iter()
            .any(|list| list.len() > 100 || list.iter().any(compute::is_large))
        || definition.extra.len() > 100
}

/// The triggers and schedules of a version that may be published.
struct Validated {
    triggers: Vec<TriggerRow>,
    schedules: Vec<ScheduledTrigger>,
}

impl Validated {
    fn starts<'a>(&'a self, schedules: &'a PublishedSchedules<'a>) -> StartSources<'a> {
        StartSources {
            triggers: &self.triggers,
            schedules,
        }
    }
}

fn invalid(problems: Vec<ValidationError>) -> Error {
    let error = Error::invalid("invalid-definition", "the workflow definition cannot be published");
    problems
        .into_iter()
        .fold(error, |error, problem| error.field(problem.key(), problem.message))
}

/// This node has committed a change of a definition: its own cache is invalidated at once.
fn announce_change(node: &NodeContext, tenant: &TenantId, definition: &DefinitionId) {
    let key = (tenant.clone(), definition.clone());
    node.caches.definitions.changed_here(&key);
    #[cfg(feature = "http")]
    node.caches.routes.expire();
    // Its schedules may be due before the time of the timer.
    node.schedules.timer.wake_now();
    if !node.notifications.cache.sent_in_commit() {
        let (tenant, definition) = key;
        node.notifications.cache.notify(DefinitionChange {
            revision: None,
            tenant,
            definition,
        });
    }
}

fn not_found(id: &DefinitionId) -> Error {
    Error::not_found(
        "definition-not-found",
        format!("no workflow definition has the id {:?}", id.as_str()),
    )
}

fn wanted(which: VersionOptions) -> VersionSelector {
    let mut wanted = VersionSelector::default();
    match which {
        VersionOptions::Latest => wanted.latest = true,
        VersionOptions::Published => wanted.published = true,
        VersionOptions::Draft => wanted.draft = true,
        VersionOptions::Specific(version) => wanted.version = Some(version),
        VersionOptions::LatestAndPublished => (wanted.latest, wanted.published) = (true, true),
        VersionOptions::LatestOrPublished | VersionOptions::All => {}
    }
    wanted
}

/// The model of a row: the body with the values of the other columns.
fn model(row: &DefinitionRow) -> Result<WorkflowDefinition> {
    let mut model = WorkflowDefinition::from_stored(Value::clone(&row.body))?;
    model.id = row.version_id.clone();
    model.definition_id = row.definition_id.clone();
    model.version = row.version;
    model.is_latest = row.is_latest;
    model.is_published = row.is_published;
    model.created_at = Some(row.created_at);
    Ok(model)
}
