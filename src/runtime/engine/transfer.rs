//! Exports and imports of instances.
//!
//! A file has what Elsa shows of an instance, and also what this engine needs to continue it: the state, the due times of
//! its timers, and its history as one record. An import is the first commit of a new instance, written like that of a burst:
//! with its bookmarks, under their stimulus keys, and its timers, or not at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Engine;
use super::activity_executions::ActivityExecutionFilter;
use super::alter::{program, refuse_while_paused, unwritten};
use super::instances::no_instance;
use super::journal::JournalFilter;
use super::start::checked_instance_id;

use crate::compute;
use crate::elsa_json::{timestamp_text, without_nulls};
use crate::execution::{InstanceState, InstanceTimestamps, Status};
use crate::failpoint;
use crate::id::{BurstId, InstanceId};
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::plain_correlation_id;
use crate::runtime::worker::effects;
use crate::store::commit::{CommitOutcome, CommitReply, CommitRequest, DefinitionRef, DueRow};
use crate::store::definition::import;
use crate::store::instance;
use crate::store::instance::transfer::{self, ExportRow};
use crate::store::record::merge::{self, History};
use crate::{Error, Result};

/// The form of what this engine adds to a file.
const FORMAT: u32 = 1;

/// The most instances of one export or import.
pub(crate) const MAX_INSTANCES: usize = 100;

/// The most journal entries that an export shows in Elsa's form; the history has all.
const MAX_ENTRIES: usize = 10_000;
const ENTRIES_OF_ONE_READ: u32 = 1_000;

/// The years of times in a file.
const YEARS: std::ops::RangeInclusive<i32> = 1900..=9999;

/// What an export contains besides the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportParts {
    /// The bookmarks, in Elsa's form. An import does not need them.
    pub bookmarks: bool,
    /// The executions of activities; with them, the history.
    pub activity_executions: bool,
    /// The journal; with it, the history.
    pub journal: bool,
}

/// What this engine adds to a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceFile {
    format: u32,
    state: Value,
    #[serde(default)]
    timers: Vec<FileTimer>,
    #[serde(default)]
    history: Option<History>,
}

/// When a bookmark ends by itself.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileTimer {
    bookmark_id: String,
    due: DateTime<Utc>,
}

/// An import that was checked.
struct Import {
    request: Box<CommitRequest>,
    /// From now on, until its first timer is due.
    due_in: Option<Duration>,
}

impl Engine {
    /// Exports an instance as of its last commit: Elsa's `ExportedWorkflowState`, with the field `mainspring`, from which
    /// [`Engine::import_instances`] recreates it. `instance-busy` if the start has not run yet.
    pub async fn export_instance(&self, id: &InstanceId, parts: ExportParts) -> Result<Value> {
        let node = self.node()?;
        let (pool, tenant) = (node.database.reads.by_key(), &self.tenant);
        let Some(row) = transfer::export(pool, tenant, id).await? else {
            return match instance::pending(pool, tenant, id).await? {
                Some(_) => {
                    let message = "the instance has not run yet: there is nothing to export; try again";
                    Err(Error::conflict("instance-busy", message).instance(id.as_str()))
                }
                None => Err(no_instance(id)),
            };
        };
        let history = if parts.activity_executions || parts.journal {
            merge::read(node.database.reads.lists(), tenant, id, row.version.0).await?
        } else {
            None
        };
        let state = InstanceState::from_bytes(&row.state)?;
        if state.holds_secret() {
            let message = "the instance continues with a value made from a secret, which a file would show; export \
                           it when that activity has ended";
            return Err(Error::conflict("instance-holds-secret", message).instance(id.as_str()));
        }
        let mut file = Map::new();
        let meta = InstanceTimestamps {
            created_at: row.instance.created_at,
            updated_at: row.instance.updated_at,
            finished_at: row.instance.finished_at,
        };
        file.insert("workflowState".to_owned(), state.workflow_state(meta));
        if parts.bookmarks {
            file.insert("bookmarks".to_owned(), bookmarks(&row, &state));
        }
        if parts.activity_executions {
            let all = ActivityExecutionFilter {
                instance_id: id.clone(),
                ..ActivityExecutionFilter::default()
            };
            let executions = self.activity_executions(&all).await?.items;
            file.insert("activityExecutionRecords".to_owned(), json!(executions));
        }
        if parts.journal {
            let entries = self.exported_journal(id).await?;
            file.insert("workflowExecutionLogRecords".to_owned(), entries);
        }
        let timers = row.timers.into_iter();
        let own = InstanceFile {
            format: FORMAT,
            state: serde_json::from_slice(&row.state)
                .map_err(|error| Error::internal("the state of the instance cannot be read").caused_by(error))?,
            timers: timers
                .map(|(bookmark_id, due)| FileTimer { bookmark_id, due })
                .collect(),
            history,
        };
        let own =
            serde_json::to_value(own).map_err(|error| Error::internal("a file cannot be written").caused_by(error))?;
        file.insert("mainspring".to_owned(), own);
        Ok(Value::Object(file))
    }

    async fn exported_journal(&self, id: &InstanceId) -> Result<Value> {
        let mut entries = Vec::new();
        loop {
            let skip = entries.len() as u64;
            let read = self.journal_range(id, JournalFilter::default(), skip, ENTRIES_OF_ONE_READ);
            let mut read = Box::pin(read).await?;
            let is_last = read.items.is_empty();
            entries.append(&mut read.items);
            if is_last || entries.len() >= MAX_ENTRIES {
                return Ok(json!(entries));
            }
        }
    }

    /// Imports instances from files of [`Engine::export_instance`], each under its name, and returns how many. All files are
    /// checked before the first instance is written; each instance is written as a whole or not at all. Imported instances
    /// are new rows: they are created now, and their timers keep their due times.
    pub async fn import_instances(&self, files: Vec<(String, Value)>) -> Result<u64> {
        let node = self.accepting()?;
        if files.is_empty() || files.len() > MAX_INSTANCES {
            let message = format!("an import has 1 to {MAX_INSTANCES} instances");
            return Err(Error::invalid("invalid-field", message.clone()).field("files", message));
        }
        refuse_while_paused(&node).await?;
        let (mut imports, mut ids) = (Vec::new(), Vec::new());
        for (name, file) in files {
            let import = Box::pin(self.prepare(&node, &name, file)).await?;
            let id = import.request.instance.clone();
            if ids.contains(&id) {
                return Err(refused(&name, &format!("the instance {id} is in two files")));
            }
            ids.push(id);
            imports.push(import);
        }
        let taken = transfer::taken(node.database.reads.by_key(), &self.tenant, &ids).await?;
        if let Some(first) = taken.first() {
            let error = Error::conflict("instance-exists", exists(first)).instance(first.as_str());
            let each = taken.iter();
            return Err(each.fold(error, |error, id| error.field("files", exists(id))));
        }
        let owned = Arc::clone(&node);
        // A task of its own: a client that disconnects does not leave a part of its files out.
        let writing = node.lifecycle.tasks.spawn(async move { write(&owned, imports).await });
        writing.await.map_err(|_| Error::internal("the import failed"))?
    }

    /// Checks one file, and makes the commit for it.
    async fn prepare(&self, node: &NodeContext, name: &str, file: Value) -> Result<Import> {
        let own = match file {
            Value::Object(mut fields) => fields.shift_remove("mainspring"),
            _ => None,
        };
        let own = own.ok_or_else(|| {
            let why = "it has no field mainspring: only instances that this engine exported can be imported, \
                       because the state of another engine cannot be continued here";
            refused(name, why)
        })?;
        let file: InstanceFile = serde_json::from_value(own)
            .map_err(|error| refused(name, &format!("its field mainspring cannot be read: {error}")))?;
        if file.format > FORMAT {
            return Err(refused(name, "it was exported by a newer version of this engine"));
        }
        let mut state = InstanceState::from_file(&file.state).map_err(|why| refused(name, &why))?;
        let id = checked_instance_id(state.instance_id().clone())?;
        plain_correlation_id(state.correlation_id())?;
        let tenant = &self.tenant;
        let wanted = (state.version_id(), state.version());
        let found = import::importable(node.database.reads.by_key(), tenant, state.definition_id(), wanted).await?;
        let version = found.filter(|version| version.is_final).ok_or_else(|| {
            let message = format!(
                "{name}: version {} of the definition {:?} ({:?}) does not exist here, or is a draft that may still change",
                state.version(),
                state.definition_id().as_str(),
                state.version_id().as_str()
            );
            Error::invalid("version-not-found", message.clone()).field("files", message)
        })?;
        let program = program(node, tenant, &version.version_id).await?;
        state.adopt(&program).map_err(|why| refused(name, &why))?;
        let waits = state.status() == Status::Running;
        if waits && !version.allows_any {
            let message =
                format!("{name}: the activation strategy of the workflow allows no unfinished instance to be added");
            return Err(Error::conflict("cannot-start", message).instance(id.as_str()));
        }
        let dues = dues(&state, file.timers).map_err(|why| refused(name, &why))?;
        let first = dues.iter().map(|due| due.due).min();
        let (sequence, counter) = state.counts();
        let (mut elapsed, mut record) = (Duration::ZERO, None);
        if let Some(history) = file.history {
            if !YEARS.contains(&history.began_at.year()) {
                return Err(refused(name, "its history begins at an invalid time"));
            }
            elapsed = history.age(version.at);
            let row = compute::run(true, move || history.into_row(counter, sequence));
            record = Some(
                row.await?
                    .map_err(|why| refused(name, &format!("its history cannot be used: {why}")))?,
            );
        }
        let request = Box::new(CommitRequest {
            tenant: tenant.clone(),
            instance: id,
            expected: None,
            burst: BurstId::random(),
            definition: DefinitionRef {
                definition_id: state.definition_id().clone(),
                version_id: version.version_id,
                version: version.version,
            },
            claims: Vec::new(),
            nested: None,
            effects: effects::of_state(&state, dues, record, elapsed)?,
            holds: false,
        });
        let due_in = first.map(|due| (due - version.at).to_std().unwrap_or_default());
        Ok(Import { request, due_in })
    }
}

fn exists(id: &InstanceId) -> String {
    format!("an instance with the id {:?} exists, or is being created", id.as_str())
}

fn refused(name: &str, why: &str) -> Error {
    let message = format!("{name} cannot be imported: {why}");
    Error::invalid("instance-not-importable", message.clone()).field("files", message)
}

/// Elsa's stored bookmarks.
fn bookmarks(row: &ExportRow, state: &InstanceState) -> Value {
    let created_at = timestamp_text(row.instance.updated_at);
    let shown = state.bookmarks().iter().map(|bookmark| {
        without_nulls(json!({
            "id": bookmark.id,
            "activityTypeName": bookmark.name,
            "workflowInstanceId": row.instance.id,
            "activityInstanceId": bookmark.activity_execution_id,
            "hash": bookmark.hash,
            "correlationId": row.instance.correlation_id,
            "createdAt": created_at,
            "payload": bookmark.payload,
        }))
    });
    shown.collect()
}

/// The due times of the bookmarks that end by themselves.
fn dues(state: &InstanceState, timers: Vec<FileTimer>) -> Result<Vec<DueRow>, String> {
    let given = timers.len();
    let mut by_id: HashMap<String, DateTime<Utc>> = HashMap::with_capacity(given);
    by_id.extend(timers.into_iter().map(|timer| (timer.bookmark_id, timer.due)));
    if by_id.len() < given {
        return Err("a bookmark has two timers".to_owned());
    }
    let mut dues = Vec::new();
    for bookmark in state.bookmarks() {
        if bookmark.delay.is_none() && bookmark.due.is_none() {
            continue;
        }
        let due = by_id.remove(bookmark.id.as_str());
        let due = due.ok_or_else(|| format!("the bookmark {} has no timer (a dead letter, perhaps)", bookmark.id))?;
        if !YEARS.contains(&due.year()) {
            return Err("a timer is due at an invalid time".to_owned());
        }
        dues.push(DueRow {
            no: 0,
            id: bookmark.id.as_str().to_owned(),
            due,
        });
    }
    match by_id.keys().next() {
        None => Ok(dues),
        Some(id) => Err(format!("the timer of {id:?} has no bookmark that waits for a time")),
    }
}

/// Writes instances one after another.
async fn write(node: &NodeContext, imports: Vec<Import>) -> Result<u64> {
    let mut done = 0;
    for Import { request, due_in } in imports {
        failpoint::hit("import.before").await?;
        let (tenant, id, read) = (request.tenant.clone(), request.instance.clone(), Instant::now());
        let guard = InstanceLock::not_needed(&id);
        let CommitReply { outcome, .. } = node.commits.writer.commit(request, guard).await?;
        failpoint::hit("import.committed").await?;
        match outcome {
            CommitOutcome::Committed(_) => {}
            CommitOutcome::VersionConflict => {
                let message = format!("{}; {done} instances before it were imported", exists(&id));
                return Err(Error::conflict("instance-exists", message).instance(id.as_str()));
            }
            outcome => {
                tracing::warn!(instance = %id, ?outcome, done, "an import ended early");
                return Err(unwritten(node, &id, outcome));
            }
        }
        done += 1;
        node.committed(&tenant, &id);
        // The inbox may have kept events for it.
        node.work_accepted(Some(&id), None, 1);
        if let Some(due_in) = due_in {
            node.row_due(read + due_in);
        }
    }
    Ok(done)
}
