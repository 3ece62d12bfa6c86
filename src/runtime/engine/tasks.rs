//! Tasks: activities of the type `Elsa.RunTask` that wait for a program to report a result.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Engine;
use super::start::{request_key, to_body};
use crate::activity::TASK_RESULT_INPUT;
use crate::elsa_json;
use crate::execution::InstanceState;
use crate::id::{ActivityExecutionId, InstanceId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Executed, Idempotency, Page};
use crate::runtime::worker::instruction::ResumeBody;
use crate::store::instance;
use crate::store::request::{IdempotencyKey, find_request};
use crate::store::task::{self, TaskRow};
use crate::store::work::{self, AcceptedResume};
use crate::{Error, Result};

/// A task that waits for its result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    /// Its id, under which it is completed.
    pub task_id: String,
    /// Its name.
    pub task_name: String,
    /// The data needed to perform it.
    pub payload: Value,
    /// The instance that waits.
    pub workflow_instance_id: InstanceId,
    /// The correlation id of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The activity that waits.
    pub activity_id: String,
    /// When it began to wait, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
}

/// A page of tasks.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskList {
    /// In the order in which they began to wait.
    pub items: Vec<TaskSummary>,
    /// Where the next page begins; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Engine {
    /// Lists the waiting tasks, oldest first, from a cursor on. It fails as unavailable (code `read-timeout`) if it takes
    /// too long.
    pub async fn tasks(&self, cursor: Option<&str>, page_size: u32) -> Result<TaskList> {
        let after = cursor.map(read_cursor).transpose()?.unwrap_or(0);
        let size = page_size.clamp(1, Page::MAX_SIZE);
        let node = self.node()?;
        let limit = i64::from(size) + 1;
        let mut rows = task::list(node.database.reads.lists(), &self.tenant, after, limit).await?;
        let has_more = rows.len() > size as usize;
        rows.truncate(size as usize);
        let last = rows.last().filter(|_| has_more).map(|row| row.number);
        Ok(TaskList {
            items: rows.into_iter().map(summary).collect(),
            next_cursor: last.map(|number| URL_SAFE_NO_PAD.encode(number.to_string())),
        })
    }

    /// Reports the result of a task, and runs its instance until it waits again or ends. [`Error::is_conflict`] if the task
    /// no longer waits, code `task-completed`, or `instance-faulted` if its instance has faulted. The same idempotency key
    /// waits for the same outcome.
    pub async fn complete_task(&self, id: &str, result: Value, idempotency: Option<Idempotency>) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        self.checked("result", &result)?;
        let execution = ActivityExecutionId::new(id);
        let (instance, number) = execution.parts().ok_or_else(|| no_task(id))?;
        let instance = InstanceId::new(instance);
        let key = idempotency.map(|given| request_key("complete-task", given));
        let accepted = self.accept_result(&node, id, &instance, number, result, key).await?;
        match self.await_resume(&node, &instance, accepted, deadline).await? {
            Some(executed) => Ok(executed),
            None => Err(self.no_longer_waits(id, &instance, number).await?),
        }
    }

    async fn accept_result(
        &self,
        node: &NodeContext,
        id: &str,
        instance: &InstanceId,
        number: u64,
        result: Value,
        key: Option<IdempotencyKey>,
    ) -> Result<AcceptedResume> {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        if let Some(key) = &key
            && let Some(before) = find_request(pool, tenant, key).await?
        {
            return Ok(AcceptedResume::Existing(before.work));
        }
        let Some(waiting) = task::find(pool, tenant, id).await? else {
            return Err(self.no_longer_waits(id, instance, number).await?);
        };
        let accept = self.begin_accept(node, Some(instance));
        let body = to_body(&ResumeBody {
            bookmark_id: waiting.bookmark,
            generation: Some(waiting.generation),
            input: Map::from_iter([(TASK_RESULT_INPUT.to_owned(), result)]),
            payload: None,
            request: None,
            trace: accept.context,
        })?;
        let pool = &self.changes_of(node, &waiting.instance);
        work::accept_resume(pool, tenant, &waiting.instance, &body, key.as_ref(), None).await
    }

    /// Why a task does not wait.
    async fn no_longer_waits(&self, id: &str, instance: &InstanceId, number: u64) -> Result<Error> {
        let node = self.node()?;
        let found = instance::find(node.database.reads.by_key(), &self.tenant, instance).await?;
        let Some((_, state, _)) = found else {
            return Ok(no_task(id));
        };
        if !InstanceState::from_bytes(&state)?.has_begun(number) {
            return Ok(no_task(id));
        }
        let why = self.not_waiting(instance).await?;
        if why.code() == "instance-faulted" {
            return Ok(why);
        }
        let message = format!("the task {id:?} is not waiting: it was completed, or its workflow continued without it");
        Ok(Error::conflict("task-completed", message))
    }
}

fn no_task(id: &str) -> Error {
    Error::not_found("task-not-found", format!("there is no task {id:?}"))
}

fn summary(row: TaskRow) -> TaskSummary {
    let mut payload = row.payload;
    let mut take = |field: &str| payload.get_mut(field).map(Value::take).unwrap_or_default();
    let name = take("taskName");
    TaskSummary {
        task_id: row.id,
        task_name: name.as_str().unwrap_or_default().to_owned(),
        payload: take("payload"),
        workflow_instance_id: InstanceId::new(row.instance),
        correlation_id: row.correlation_id,
        activity_id: row.activity_id,
        created_at: row.created_at,
    }
}

fn read_cursor(text: &str) -> Result<i64> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let number = bytes.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<i64>().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| {
        Error::invalid("invalid-field", "the cursor cannot be read")
            .field("cursor", "it must be the nextCursor of a page")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_number() {
        assert_eq!(read_cursor(&URL_SAFE_NO_PAD.encode("7")).unwrap(), 7);
        for bad in ["", "%", &URL_SAFE_NO_PAD.encode("-1"), &URL_SAFE_NO_PAD.encode("x")] {
            assert_eq!(read_cursor(bad).unwrap_err().code(), "invalid-field", "{bad}");
        }
    }
}
