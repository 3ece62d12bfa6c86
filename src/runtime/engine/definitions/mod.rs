//! Definitions: save, publish, read.
//!
//! `read` and `list` read them, `retract` and `delete` take them back, `revert` makes an earlier version the newest one, and
//! `draft` finds the version of a start.

mod delete;
mod draft;
mod list;
mod read;
mod retract;
mod revert;

use std::sync::Arc;

use serde_json::Value;

use super::Engine;
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::execution::{Interpreter, Program, ScheduledTrigger};
use crate::id::{DefinitionId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Published, VersionOptions, is_plain};
use crate::runtime::scheduler::decide::PublishedSchedules;
use crate::signal::DefinitionChange;
use crate::store::definition::{
    self, DefinitionRow, NewDefinition, PublishOutcome, StartSources, TriggerRow, VersionSelector,
};
use crate::{Error, Result, compute};

/// How often a publish is tried while the draft keeps changing.
const PUBLISH_ATTEMPTS: usize = 5;

/// The most validation errors in one error.
const MOST_ERRORS: usize = 100;

impl Engine {
    /// Saves a definition as a draft, whether or not it is marked as published; returns the saved version. A draft may be
    /// unfinished: only a publish validates. Where the newest version is published and equal (except for its id, number and
    /// time), no draft is created, and that version is returned.
    pub async fn import(&self, definition: WorkflowDefinition) -> Result<Value> {
        Ok(self.save_draft(definition).await?.definition)
    }

    async fn save_draft(&self, definition: WorkflowDefinition) -> Result<Published> {
        let node = self.node()?;
        let tenant = self.inner.tenant.clone();
        let interpreter = self.inner.interpreter.clone();
        let preparing = compute::run(is_large(&definition), move || {
            new_definition(tenant, &interpreter, definition)
        });
        let new = preparing.await??;
        self.save_new(&node, new).await
    }

    /// Saves a draft that is prepared.
    async fn save_new(&self, node: &Arc<NodeContext>, new: NewDefinition) -> Result<Published> {
        let saved = definition::save(&node.database.pool, node.database.lock_class(), &new, None).await?;
        if !saved.is_unchanged {
            announce_change(node, &new.tenant, &new.definition_id);
        }
        Ok(Published {
            definition: self.shown(saved.row).await?,
            already_published: saved.is_unchanged,
        })
    }

    /// Saves a draft and, with `publish`, publishes it in the same transaction; an invalid one is then not saved. Where the
    /// newest version is published and equal (except for its id, number and time), nothing is written, and
    /// [`Published::already_published`] is true: a program may save its definitions at each start.
    pub async fn save(&self, definition: WorkflowDefinition, publish: bool) -> Result<Published> {
        if !publish {
            return self.save_draft(definition).await;
        }
        let node = self.node()?;
        let (tenant, interpreter) = (self.inner.tenant.clone(), self.inner.interpreter.clone());
        let preparing = compute::run(is_large(&definition), move || {
            let program = compiled(&interpreter, &definition)?;
            Ok::<_, Error>((new_definition(tenant, &interpreter, definition)?, program))
        });
        let (new, program) = preparing.await??;
        let validated = self.starts_of(program).await?;
        let schedules = PublishedSchedules(&validated.schedules);
        let starts = validated.starts(&schedules);
        let saved = definition::save(&node.database.pool, node.database.lock_class(), &new, Some(starts)).await?;
        if !saved.is_unchanged {
            announce_change(&node, &new.tenant, &new.definition_id);
            // Its triggers may match events in the inbox.
            node.inbox_matches.notify_one();
        }
        Ok(Published {
            definition: self.shown(saved.row).await?,
            already_published: saved.is_unchanged,
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
            let row = definition::find(&node.database.pool, &self.inner.tenant, &wanted)
                .await?
                .ok_or_else(|| not_found(id))?;
            if row.is_published {
                return Ok(Published {
                    definition: self.shown(row).await?,
                    already_published: true,
                });
            }
            let (draft, interpreter) = (row.clone(), self.inner.interpreter.clone());
            let compiling = compute::run(compute::is_large(&row.body), move || {
                compiled(&interpreter, &model(&draft)?)
            });
            let validated = self.starts_of(compiling.await??).await?;
            let schedules = PublishedSchedules(&validated.schedules);
            let starts = validated.starts(&schedules);
            let (pool, class) = (&node.database.pool, node.database.lock_class());
            let outcome = definition::publish(pool, class, &self.inner.tenant, &row, starts).await?;
            if outcome == PublishOutcome::Published {
                announce_change(&node, &self.inner.tenant, id);
                // Its triggers may match events in the inbox.
                node.inbox_matches.notify_one();
                let row = DefinitionRow {
                    is_published: true,
                    ..row
                };
                return Ok(Published {
                    definition: self.shown(row).await?,
                    already_published: false,
                });
            }
        }
        Err(Error::conflict(
            "definition-changing",
            "the draft keeps changing while it is published; try again",
        ))
    }

    /// The triggers and schedules of a definition that can be published.
    async fn starts_of(&self, program: Program) -> Result<Validated> {
        let starts = self.inner.interpreter.triggers(&program).await?;
        let triggers = starts
            .triggers
            .into_iter()
            .map(|trigger| TriggerRow {
                activity_id: trigger.activity_id.into(),
                hash: trigger.hash,
                name: trigger.activity_type,
                payload: trigger.payload,
            })
            .collect();
        Ok(Validated {
            triggers,
            schedules: starts.schedules,
        })
    }
}

fn new_definition(
    tenant: TenantId,
    interpreter: &Interpreter,
    mut definition: WorkflowDefinition,
) -> Result<NewDefinition> {
    if let Some(root) = &mut definition.root {
        interpreter.remove_node_ids(root);
    }
    let given = &definition.definition_id;
    let definition_id = if given.as_str().is_empty() {
        DefinitionId::random()
    } else {
        given.clone()
    };
    for (field, id) in [("definitionId", definition_id.as_str()), ("id", definition.id.as_str())] {
        if id.len() > 255 || !is_plain(id) {
            return Err(Error::invalid(
                "invalid-definition-id",
                format!("{field} has at most 255 plain characters"),
            )
            .field(field, "must have at most 255 bytes and no control characters"));
        }
    }
    Ok(NewDefinition {
        tenant,
        version_id: Some(definition.id.clone()).filter(|id| !id.as_str().is_empty()),
        definition_id,
        version: definition.version,
        name: definition.name.clone(),
        description: definition.description.clone(),
        is_readonly: definition.is_readonly,
        is_system: definition.is_system,
        adds_version: false,
        body: Arc::new(definition.to_value()),
    })
}

/// Validates and compiles a definition for a publish.
fn compiled(interpreter: &Interpreter, definition: &WorkflowDefinition) -> Result<Program> {
    if definition.root.is_none() {
        let message = "the workflow definition has no root activity";
        return Err(Error::invalid("missing-root", message).field("root", "must hold an activity"));
    }
    let problems = interpreter.validate(definition);
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    interpreter.compile(definition)
}

/// Whether it is processed on the compute threads.
fn is_large(definition: &WorkflowDefinition) -> bool {
    definition.root.as_ref().is_some_and(compute::is_large)
        || definition.variables.len() + definition.inputs.len() + definition.extra.len() > 100
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
    problems.into_iter().take(MOST_ERRORS).fold(error, |error, problem| {
        error.field(problem.activity_id, problem.message)
    })
}

/// This node has committed a change of a definition: its own cache is invalidated at once.
fn announce_change(node: &NodeContext, tenant: &TenantId, definition: &DefinitionId) {
    let key = (tenant.clone(), definition.clone());
    node.caches.definitions.changed_here(&key);
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
    let mut model = WorkflowDefinition::from_value(Value::clone(&row.body))?;
    model.id = row.version_id.clone();
    model.definition_id = row.definition_id.clone();
    model.version = row.version;
    model.is_latest = row.is_latest;
    model.is_published = row.is_published;
    model.created_at = Some(row.created_at);
    Ok(model)
}
